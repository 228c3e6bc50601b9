/** Native documents of operators: read as their consumer reads them, before a machine does. */
import fc from 'fast-check';
import { load } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { foreignKeys } from '../../../src/ignition/extra.ts';
import { validateIgnition } from '../../../src/ignition/ignition-validate.ts';
import { DEBIAN_12, DEBIAN_13, FEDORA, FLATCAR, rendered, renderOne } from './kit.ts';

const faults = (extra: object, image: typeof DEBIAN_12 | typeof DEBIAN_13 | typeof FLATCAR): string => {
  const result = renderOne({ extra }, image);
  return result.ok ? '' : result.faults.map(({ message }) => message).join('\n');
};
const cloudInit = (text: string, image: typeof DEBIAN_12 | typeof DEBIAN_13 = DEBIAN_13) =>
  faults({ cloudInit: text }, image);
const ignition = (text: string) => faults({ ignition: text }, FLATCAR);

/** The configuration that an extra document is merged as. */
const merged = (text: string) => {
  const config = JSON.parse(rendered({ extra: { ignition: text } }, FLATCAR).files.ignition!);
  const source: string = config.ignition.config.merge[0].source;
  const [head, body] = [source.slice(0, source.indexOf(',')), source.slice(source.indexOf(',') + 1)];
  const json = head.endsWith('base64') ? Buffer.from(body, 'base64').toString() : decodeURIComponent(body);
  return JSON.parse(json);
};

test('sizes of partitions are taken as Butane writes them', () => {
  const disk = {
    device: '/dev/vda',
    partitions: [{ label: 'data', number: 1, size_mib: 512, start_mib: 1 }],
  };
  const text = `variant: flatcar\nversion: 1.1.0\nstorage: {disks: [${JSON.stringify(disk)}]}`;
  expect(ignition(text)).toBe('');
  expect(merged(text).storage.disks[0].partitions[0]).toMatchObject({ sizeMiB: 512, startMiB: 1 });
  expect(ignition(text.replace('512', '"512"'))).toContain('partitions[0].size_mib');
});

test('octets with !!binary stay what they are', () => {
  const octets = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0xff]).toString('base64');
  const text = `#cloud-config\nwrite_files:\n- path: /usr/bin/arch\n  content: !!binary |\n    ${octets}\nruncmd:\n- !!binary bHM=\n`;
  expect(cloudInit(text)).toBe('');
  const { files } = rendered({ extra: { cloudInit: text } }, DEBIAN_13);
  const { write_files, runcmd } = load(files['user-data']!) as {
    write_files: { path: string }[];
    runcmd: unknown[];
  };
  expect(write_files).toContainEqual({ path: '/usr/bin/arch', content: octets, encoding: 'b64' });
  expect(runcmd).toContainEqual('ls');
  expect(cloudInit(text.replace(octets, 'no octets!'))).toContain('line 4');
});

test.each([
  ['ansible: {pull: [{url: "https://git.example/a.git", playbook_names: [a.yml]}]}', '25.2'],
  ['rh_subscription: {activation_key: a, org: 1, enable_repo: [a]}', '25.3'],
  ['rpi: {interfaces: {spi: true}}', '25.2'],
])('%s is taken from the version on that brought it', (text, version) => {
  const at = (cloudInitVersion: string) =>
    cloudInit(`#cloud-config\n${text}`, { ...DEBIAN_13, cloudInitVersion: cloudInitVersion as '25.1.4' });
  expect(at(version)).toBe('');
  expect(at('26.1')).toBe('');
  if (!text.startsWith('rpi')) expect(at('25.1.4')).not.toBe('');
});

describe('cloud-config', () => {
  test.each([
    ['runcmdd: [x]', /runcmdd: .*did you mean "runcmd"/],
    ['packages: htop', /packages must be a list/],
    ['network: {version: 2}', /network: .*config\.network/],
    ['write_files: [{pth: /a}]', /write_files\[0\]\.pth: .*"path"/],
    ['write_files: [{path: etc/x, content: a}]', /write_files\[0\]\.path: not an absolute path/],
    ['write_files: [{path: /etc/../x, content: a}]', /write_files\[0\]\.path: not an absolute path/],
    ['write_files: [{path: /etc/x/, content: a}]', /write_files\[0\]\.path: .*is a directory/],
    ['write_files: [{path: /a, permissions: "9"}]', /write_files\[0\]\.permissions: not a file mode/],
    ['growpart: {mode: grow}', /growpart\.mode: cloud-init has no "grow" here; it takes auto, .*off/],
    ['power_state: {mode: restart}', /power_state\.mode: cloud-init has no "restart" here.*reboot/],
    ['users: [{name: a, lock_passwd: true, shell: 5}]', /shell: must be text/],
    ['write_files: [{path: 5}]', /write_files\[0\]\.path: must be text, found a number; put it in quotes/],
    ['write_files: [{path: /a, permissions: 0644}]', /permissions: must be text, .*quotes/],
    ['package_update: yes', /package_update: must be true or false, found text; write true/],
    ['package_upgrade: Off', /package_upgrade: .*; write false/],
    ['ntp: {servers: pool.example}', /ntp\.servers: must be a list/],
    ['package_update: maybe', /package_update: must be true or false/],
    ['users: [{name: ops, sshAuthorizedKeys: [a]}]', /sshAuthorizedKeys/],
    ['ignition: {version: 3.3.0}', /this is Ignition/],
    ['{variant: flatcar, version: 1.0.0}', /this is Butane/],
    ['', /is empty/],
    ['#!/bin/sh\necho a', /this is a script/],
    ['Content-Type: multipart/mixed; boundary="x"\n', /MIME/],
    ['## template: jinja\n#cloud-config\nhostname: a', /Jinja/],
    ['- a', /one document, a mapping/],
    ['timezone: Mars/Base', /timezone: there is no time zone/],
    ['hostname: a_b', /hostname: not a domain name/],
    ['ssh_authorized_keys: ["ssh-rsa AAAA..."]', /ssh_authorized_keys\[0\]: not an OpenSSH public key/],
    ['users: [{name: a, ssh_authorized_keys: [key]}]', /users\[0\]\.ssh_authorized_keys\[0\]: not an Open/],
    ['users: [{name: a, passwd: hunter2}]', /users\[0\]\.passwd: this is not a password hash/],
    ['ca_certs: {trusted: [x]}', /ca_certs\.trusted\[0\]: /],
    ['power_state: {mode: reboot}', /power_state: mode: reboot would restart/],
    ['power_state: {mode: halt, condition: "test -e /x"}', /power_state: mode: halt/],
    ['package_reboot_if_required: true', /package_reboot_if_required: .*never be ready/],
    ['cloud_final_modules: [runcmd]', /cloud_final_modules: this replaces/],
    ['runcmd: [a, [systemctl, --no-block, poweroff]]', /runcmd\[1\]: "systemctl --no-block poweroff"/],
    ['bootcmd: ["apt-get update; /sbin/reboot"]', /bootcmd\[0\]: .*at each of its boots/],
    ['runcmd: ["echo a\\nshutdown -r now"]', /runcmd\[0\]: /],
    ['runcmd: ["sudo init 6"]', /runcmd\[0\]: /],
    ['a: 1\n---\nb: 2', /one document/],
  ])('%s is refused', (text, message) => {
    expect(cloudInit(text)).toMatch(message);
  });

  test('all faults of a document are named at once, each once', () => {
    expect(cloudInit('runcmdd: [x]\npackages: htop\nnetwork: {version: 2}').split('\n')).toEqual([
      expect.stringContaining('packages must be a list'),
      expect.stringContaining('runcmdd: '),
      expect.stringContaining('network: '),
    ]);
  });

  test('a key is judged by the version of the image', () => {
    const text = 'ubuntu_pro: {token: a}';
    expect(cloudInit(text, DEBIAN_13)).toBe('');
    expect(cloudInit(text, DEBIAN_12)).toMatch(/22\.4\.2 has no such key/);
  });

  test('a key that nobody knows is only named, because an image may have modules of its own', () => {
    expect(cloudInit('zzz_company_inventory: {a: 1}')).toBe('');
    expect(foreignKeys('zzz_company_inventory: {a: 1}\nruncmd: [x]')).toEqual(['zzz_company_inventory']);
  });

  test.each([
    'packages: [htop, [vim, "9"]]',
    'snap: {commands: {a: [x]}}',
    'growpart: {mode: off}',
    'growpart: {mode: growpart}',
    'write_files: [{path: /etc/x, content: a, permissions: "0644"}]',
    'swap: {size: 1G}',
    'power_state: {mode: reboot, condition: false}',
    '{timezone: Europe/Berlin, users: [{name: a, passwd: "*"}, {name: b, hashed_passwd: "!"}]}',
    'package_reboot_if_required: false',
    'runcmd: ["[ -e /run/x ] && reboot", "if test -e /x; then reboot; fi", "shutdown -c", [echo, reboot]]',
    'runcmd: ["systemctl enable reboot-notifier", "reboot-guard install", "/opt/halt.sh"]',
  ])('%s is taken', (text) => expect(cloudInit(text)).toBe(''));
});

describe('Butane', () => {
  test('becomes Ignition', () => {
    const config = merged(`
variant: flatcar
version: 1.0.0
storage:
  files:
    - {path: /a, mode: 0640, contents: {inline: "hi\\n"}, user: {name: core}}
  filesystems:
    - {device: /dev/vdb, format: ext4, path: /srv/a-b, wipe_filesystem: true, mount_options: [noatime], with_mount_unit: true}
  links: [{path: /b, target: /a}]
passwd:
  users: [{name: core, ssh_authorized_keys: [ssh-ed25519 AAAA], password_hash: x, home_dir: /home/x, no_create_home: true}]
systemd:
  units: [{name: a.service, enabled: true, contents: "[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n"}]
ignition:
  timeouts: {http_total: 5}
  config: {merge: [{inline: '{"ignition": {"version": "3.3.0"}}'}]}
`);
    expect(config).toMatchObject({
      ignition: { version: '3.3.0', timeouts: { httpTotal: 5 } },
      storage: {
        files: [
          { path: '/a', mode: 0o640, contents: { source: 'data:;base64,aGkK' }, user: { name: 'core' } },
        ],
        filesystems: [{ device: '/dev/vdb', wipeFilesystem: true, mountOptions: ['noatime'] }],
      },
      passwd: { users: [{ name: 'core', sshAuthorizedKeys: ['ssh-ed25519 AAAA'], homeDir: '/home/x' }] },
    });
    expect(config.systemd.units.map((unit: { name: string }) => unit.name)).toEqual([
      'a.service',
      'srv-a\\x2db.mount',
    ]);
    expect(config.storage.filesystems[0]).not.toHaveProperty('with_mount_unit');
    expect(validateIgnition(config)).toEqual([]);
  });

  test.each([
    ['{variant: flatcar, version: 9.0.0}', /Butane version: Muster knows 1\.0\.0, 1\.1\.0 of flatcar/],
    ['{variant: openshift, version: 4.14.0}', /Butane variant: openshift makes.*write "variant: fcos"/],
    ['{variant: rhel, version: 1.0.0}', /Butane variant: rhel is none of/],
    ['{variant: fcos, version: 1.5.0, storage: {trees: [{local: a}]}}', /Butane storage\.trees: /],
    ['{variant: fcos, version: 1.5.0, boot_device: {luks: {tpm2: true}}}', /Butane boot_device: /],
    [
      '{variant: fcos, version: 1.5.0, storage: {files: [{path: /a, contents: {local: b}}]}}',
      /files\[0\]\.contents\.local: .*inline/,
    ],
    ['{variant: fcos, version: 1.5.0, storage: {fles: []}}', /Butane storage\.fles: unknown key/],
    [
      '{variant: fcos, version: 1.5.0, storage: {filesystems: [{device: /dev/vdb, wipeFilesystem: true}]}}',
      /wipeFilesystem: unknown key/,
    ],
    [
      '{variant: fcos, version: 1.5.0, storage: {filesystems: [{device: /dev/vdb, wipe_filesystem: 1}]}}',
      /wipe_filesystem: must be true or false/,
    ],
  ])('%s is refused with its place', (text, message) => {
    expect(ignition(text)).toMatch(message);
  });

  test('never throws, whatever it is given', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom('storage', 'passwd', 'systemd', 'ignition'),
        (value, key) => {
          ignition(JSON.stringify({ variant: 'flatcar', version: '1.0.0', [key]: value }));
        },
      ),
    );
  });
});

describe('Ignition', () => {
  test.each([
    ['{storage: {files: [{path: /etc/x/}]}}', /simplest form; write "\/etc\/x"/],
    ['{storage: {directories: [{path: //a/./b}]}}', /write "\/a\/b"/],
    ['{runcmd: [a], write_files: []}', /this is cloud-config/],
    ['{ignition: {version: 2.3.0}}', /2\.3\.0 is another format; translate it/],
    ['{ignition: {version: 3.9.0}}', /3\.9\.0 is none of/],
    ['{ignition: {config: {replace: {source: "http://a/b"}}}}', /config\.replace: .*ignition\.config\.merge/],
    ['{kernelArguments: {shouldExist: [quiet]}}', /kernelArguments: .*Image or Profile/],
    ['{systemd: {units: [{name: muster-ready.service, mask: true}]}}', /units\[0\]: without muster-ready/],
    [
      '{systemd: {units: [{name: a.service, enabled: true, contents: "[Service]\\nExecStart=/sbin/reboot\\n[Install]\\nWantedBy=multi-user.target\\n"}]}}',
      /units\[0\]: "\/sbin\/reboot" would restart/,
    ],
  ])('%s is refused', (text, message) => {
    expect(ignition(text)).toMatch(message);
  });

  test.each(['3.0.0', '3.1.0', '3.2.0'])('spec %s is written as the oldest that Muster writes', (version) => {
    const text = `{ignition: {version: ${version}}, storage: {files: [{path: /a, contents: {source: "data:,"}}]}}`;
    expect(merged(text)).toMatchObject({
      ignition: { version: '3.3.0' },
      storage: { files: [{ path: '/a' }] },
    });
  });

  test('a mode that begins with 0 is octal, as it was meant', () => {
    const text = 'storage: {files: [{path: /a, mode: 0644}]}';
    expect(load(text)).toMatchObject({ storage: { files: [{ mode: 644 }] } });
    const config = rendered({ extra: { ignition: text } }, FLATCAR).files.ignition!;
    expect(decodeURIComponent(config)).toContain(`"mode":${0o644}`);
  });
});

test.each([
  [FLATCAR, '/usr/lib/x', /read-only on flatcar.*below \/opt or \/etc/],
  [FLATCAR, '/usr/local/bin/x', /read-only on flatcar/],
  [FLATCAR, '/bin/x', /read-only on flatcar/],
  [FLATCAR, '/opt/bin/x', /^$/],
  [FEDORA, '/usr/bin/x', /read-only on fedora-coreos.*\/usr\/local/],
  [FEDORA, '/usr/local/bin/x', /^$/],
  [DEBIAN_13, '/usr/bin/x', /^$/],
])('on %j a file %s is judged by where the system can be written', (image, path, message) => {
  const told = (config: object): string => {
    const result = renderOne(config, image);
    return result.ok ? '' : result.faults.map((fault) => fault.message).join('\n');
  };
  expect(told({ files: [{ path, content: '' }] })).toMatch(message);
  if (image.configFormat === 'ignition')
    expect(
      told({
        extra: {
          ignition: JSON.stringify({ storage: { files: [{ path, contents: { source: 'data:,' } }] } }),
        },
      }),
    ).toMatch(message);
});

test('a host name has at most 64 characters, also where a template makes it', () => {
  const long = ['a', 'b'].map((letter) => letter.repeat(40)).join('.');
  for (const hostname of [long, `\${machine.name}.${'c'.repeat(63)}`]) {
    const result = renderOne({ hostname }, DEBIAN_13);
    expect(result.ok ? '' : result.faults[0]!.message).toMatch(/Linux takes 64/);
  }
  expect(renderOne({ hostname: `${'a'.repeat(32)}.${'b'.repeat(31)}` }, DEBIAN_13).ok).toBe(true);
});
