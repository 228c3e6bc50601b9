/** Values of a configuration that could not work on a machine, and how they are written. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { absolutePath, machineName } from '../../../src/resources/fields.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';
import { SITE_CA } from '../ignition/arbitrary.ts';

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIcNAMZZfRiAAhyBYI15Jz0+Zzx28DEptsF4c2liEcP2';
/** A certificate of ssh-keygen for the user ops. */
const CERTIFICATE =
  'ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIARFSKitt0hwlNiOKY2P2XrLBDADz0KKiF8+FxYhy4qJAAAAII1D7xZSZyeLllc0UOM5TQa1WY0I6+S9HKlb7lDdJDVAAAAAAAAAAAAAAAABAAAAAmlkAAAABwAAAANvcHMAAAAAAAAAAP//////////AAAAAAAAAIIAAAAVcGVybWl0LVgxMS1mb3J3YXJkaW5nAAAAAAAAABdwZXJtaXQtYWdlbnQtZm9yd2FyZGluZwAAAAAAAAAWcGVybWl0LXBvcnQtZm9yd2FyZGluZwAAAAAAAAAKcGVybWl0LXB0eQAAAAAAAAAOcGVybWl0LXVzZXItcmMAAAAAAAAAAAAAADMAAAALc3NoLWVkMjU1MTkAAAAgZF4hemPExYeFAGw7k1iyCFtAcifCqZSCoyDlC8f4ZsoAAABTAAAAC3NzaC1lZDI1NTE5AAAAQOOMn6m/KlpslFvNc/uQzFIjI/FrqHz4tCEqHlj241jW3oWPboqdB5bxCEZMz1Wmtqxa7pHurTCNQKhSudWOlg8=';

/** The first fault of a configuration; undefined when it is taken. */
const faultOf = (config: object): string | undefined =>
  nodeConfig.safeParse(config).error?.issues[0]?.message;

describe('paths', () => {
  test.each([
    ['//etc//x', '/etc/x'],
    ['/etc/./x', '/etc/x'],
    ['/./etc/.x', '/etc/.x'],
  ])('%s is the file %s', (given, clean) => {
    expect(nodeConfig.parse({ files: [{ path: given, content: 'a' }] }).files![0]!.path).toBe(clean);
  });

  test('the same path in two spellings is listed twice', () => {
    const files = ['/etc/y', '//etc//y'].map((path) => ({ path, content: '' }));
    expect(faultOf({ files })).toContain('"/etc/y" is listed twice');
  });

  test('any path is taken in a form without empty and single-dot steps, and that form stays', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('', '.', 'a', '.b', 'c.'), { maxLength: 6 }), (steps) => {
        const clean = absolutePath.parse(`/${steps.join('/')}`);
        expect(clean).toMatch(/^\/$|^(\/(?!\.?(\/|$))[^/]+)+$/);
        expect(absolutePath.parse(clean)).toBe(clean);
      }),
    );
  });

  test.each([
    ['/etc/x/', /ends with "\/" is a directory/],
    ['/', /ends with/],
    ['/proc/sys/net/ipv4/ip_forward', /sysctl\.d/],
    ['//dev/null', /the kernel fills/],
    ['etc/x', /not an absolute path/],
    ['/etc/../x', /without "\.\."/],
  ])('a file cannot be %s', (path, message) => {
    expect(faultOf({ files: [{ path, content: '' }] })).toMatch(message);
  });
});

describe('mounts', () => {
  const mount = (more: object) => ({
    disks: [{ device: '/dev/vdb', partitions: [{ label: 'a', filesystem: 'ext4', ...more }] }],
  });

  test.each(['/', '//', '/usr', '/usr/', '/etc', '/proc', '/run', '/dev/shm', '/lib64'])(
    'nothing is mounted over %s',
    (path) => expect(faultOf(mount({ mount: path }))).toContain('hide the running system'),
  );

  test.each(['/srv', '/var', '/var/lib/x', '/usr/local', '/home/'])('%s can be mounted', (path) =>
    expect(faultOf(mount({ mount: path }))).toBeUndefined(),
  );

  test('a mount point without a file system, or of swap, is refused instead of ignored', () => {
    expect(faultOf(mount({ mount: '/srv', filesystem: undefined }))).toContain('needs a filesystem');
    expect(faultOf(mount({ mount: '/srv', filesystem: 'swap' }))).toContain('leave `mount` out');
  });
});

describe('SSH keys', () => {
  const fault = (key: string) => faultOf({ users: [{ name: 'ops', sshKeys: [key] }] });

  test.each([
    KEY,
    `${KEY} me@host with blanks`,
    `from="10.0.0.0/8,!10.1.*" ${KEY} ops`,
    `restrict,command="/bin/echo \\"hello world\\"",no-pty ${KEY}`,
    `cert-authority,principals="a,b" ${KEY}`,
    'ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAAAIYWJjZGVmZ2g=',
  ])('%s is taken as it is', (key) => {
    expect(fault(key)).toBeUndefined();
    expect(nodeConfig.parse({ users: [{ name: 'ops', sshKeys: [key] }] }).users![0]!.sshKeys).toEqual([key]);
  });

  test('line breaks that pasting adds are taken off', () => {
    const users = [{ name: 'ops', sshKeys: [`  ${KEY} me\r\n`] }];
    expect(nodeConfig.parse({ users }).users![0]!.sshKeys).toEqual([`${KEY} me`]);
  });

  test.each([
    ['-----BEGIN OPENSSH PRIVATE KEY-----\nabc', /private key/],
    ['---- BEGIN SSH2 PUBLIC KEY ----\nabc', /ssh-keygen -i/],
    [`${KEY}\n${KEY}`, /several lines/],
    [KEY.slice(0, -8), /cut off/],
    [KEY.replace('ssh-ed25519', 'ssh-rsa'), /not of type ssh-rsa/],
    [`form="10.0.0.0/8" ${KEY}`, /no option "form".*"from"/],
    ['AAAAC3NzaC1lZDI1NTE5', /not an OpenSSH public key; write a line/],
    ['ssh-ed25519', /comes the key in base64/],
    [`${KEY} a\0b`, /control character/],
    [CERTIFICATE, /certificate.*cert-authority/],
    ['', /not an OpenSSH public key/],
  ])('%s is refused with what is wrong', (key, message) => {
    expect(fault(key)).toMatch(message);
  });
});

test.each(['/bin/bash', '/usr/bin/fish', '/usr/sbin/nologin'])('%s can be a shell', (shell) => {
  expect(faultOf({ users: [{ name: 'a', shell }] })).toBeUndefined();
});

test.each(['/x"; id; "', "/x'$(id)'", '/x`id`', '/x y', '/x:0:0'])('%s cannot be a shell', (shell) => {
  expect(faultOf({ users: [{ name: 'a', shell }] })).toMatch(/not the path of a shell/);
});

describe('time zones', () => {
  test.each(['UTC', 'Etc/UTC', 'Europe/Berlin', 'US/Pacific', 'America/Argentina/Buenos_Aires', 'EST5EDT'])(
    '%s is one',
    (timezone) => expect(faultOf({ timezone })).toBeUndefined(),
  );

  test.each([
    ['Berlin', 'there is no time zone "Berlin"; did you mean "Europe/Berlin"?'],
    ['europe/berlin', 'did you mean "Europe/Berlin"?'],
    ['Europe/Berln', 'did you mean "Europe/Berlin"?'],
    ['+01', 'write one like "Europe/Berlin"'],
    ['Nowhere/Atlantis', 'write one like "Europe/Berlin"'],
    ['Factory', 'there is no time zone "Factory"'],
    ['../UTC', 'there is no time zone'],
    ['', 'there is no time zone ""'],
  ])('"%s" is none', (timezone, message) => expect(faultOf({ timezone })).toContain(message));
});

describe('password hashes', () => {
  const hash = (passwordHash: string) => faultOf({ users: [{ name: 'ops', passwordHash }] });
  const printed = (...words: readonly string[]) =>
    execFileSync('openssl', ['passwd', ...words, 'secret'], { encoding: 'utf8' }).trim();

  test('of openssl and mkpasswd are taken, and so is what locks an account', () => {
    for (const words of [['-6'], ['-5'], ['-1'], ['-6', '-salt', 'rounds=9000$abc']])
      expect(hash(printed(...words))).toBeUndefined();
    for (const other of [
      // The examples of crypt(5) and of bcrypt's own tests.
      '$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7',
      '$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW',
      'ab01FAX.bQRSU',
      '!',
      '*',
      '!!',
    ])
      expect(hash(other)).toBeUndefined();
  });

  test('that are cut off, or are passwords, are refused without being repeated', () => {
    const whole = printed('-6');
    expect(hash(whole.slice(0, -1))).toContain('is cut off or changed');
    expect(hash(`${whole}x`)).toContain('is cut off or changed');
    expect(hash('$6$salt$hash')).toContain('is cut off or changed');
    // A shell that expands $6 leaves this of a hash.
    expect(hash(whole.slice(2))).toContain('openssl passwd -6');
    for (const password of ['hunter2', 'correct-horse', 'x'])
      expect(hash(password)).toMatch(/^this is not a password hash(?!.*(hunter2|horse))/);
  });
});

describe('the text of a file authorized_keys', () => {
  const file = (authorizedKeys: string) => faultOf({ users: [{ name: 'ops', authorizedKeys }] });

  test('may have comments, blank lines, options and any line breaks', () => {
    expect(file(`# ops\r\n${KEY} ada\r\n\r\nrestrict ${KEY} bob`)).toBeUndefined();
  });

  test.each([
    ['', /no key in this/],
    ['# nothing\n', /no key in this/],
    [`${KEY}\nssh-rsa AAAA`, /^line 2: the key is cut off/],
    [`\n\nform="x" ${KEY}`, /^line 3: sshd has no option "form" for keys; did you mean "from"\?/],
    [SITE_CA.replaceAll('CERTIFICATE', 'OPENSSH PRIVATE KEY'), /this is a private key/],
  ])('"%s" is refused', (text, message) => expect(file(text)).toMatch(message));
});

test('CA certificates of a site are PEM, and a key is refused', () => {
  expect(faultOf({ caCertificates: [SITE_CA] })).toBeUndefined();
  expect(faultOf({ caCertificates: ['/etc/ssl/ca.pem'] })).toContain('write PEM');
  expect(faultOf({ caCertificates: [SITE_CA.replaceAll('CERTIFICATE', 'PRIVATE KEY')] })).toContain(
    'private key',
  );
  expect(faultOf({ caCertificates: [SITE_CA.replace('MIIB', 'MIIC')] })).toContain('cannot be read');
});

test.each(['http://a.example/x\ty', 'http://a.example/x\ny', ' http://a.example/x', 'http://a.example/x '])(
  'a URL %j is refused, of which a parser would make another one',
  (url) => {
    const source = { url, sha256: '0'.repeat(64) };
    expect(faultOf({ files: [{ path: '/a', source }] })).toMatch(/not an http:\/\/ or https:\/\/ URL/);
  },
);

test.each(['localhost', 'localhost.localdomain', 'n.localhost', '10.77.0.31'])(
  'no machine has the host name %s',
  (hostname) => {
    expect(faultOf({ hostname })).toMatch(/means each machine itself|an address is no host name/);
    expect(machineName.safeParse(hostname).success).toBe(false);
  },
);
