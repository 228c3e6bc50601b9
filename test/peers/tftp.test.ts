/**
 * TFTP with other projects' clients: the shipped command, a bad network, and many concurrent
 * clients.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { nodeDatagrams } from '../../src/base/node-datagrams.socket.ts';
import { type OpenedDatagrams, openDatagrams } from '../../src/base/open-datagrams.socket.ts';
import type { NewEvent } from '../../src/events/event.ts';
import { openAssets } from '../../src/pxe/assets/assets.files.ts';
import { startTftp } from '../../src/pxe/tftp/tftp.socket.ts';
import { attach, bridge, type Muster, remove, run, startMuster } from './dhcp-segment.ts';
import { badNetwork } from './tftp-proxy.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-tftp-peers-'));
const LOADERS = join(HOME, 'loaders');
mkdirSync(LOADERS);

/** Octets that do not repeat, so that a block in the wrong place is noticed. */
function content(size: number): Buffer {
  const octets = Buffer.alloc(size);
  for (let at = 0; at + 4 <= size; at += 4) octets.writeUInt32LE((at * 2_654_435_761) >>> 0, at);
  return octets;
}

const SIZES = {
  empty: 0,
  'block-less': 511,
  block: 512,
  'block-more': 513,
  'blocks-of-1468': 1468 * 40,
  'one-mib': 1024 * 1024,
  // More than 65,535 blocks of 512 octets.
  'rolls-over': 512 * 65_535 + 4096,
};
for (const [name, size] of Object.entries(SIZES)) writeFileSync(join(LOADERS, name), content(size));

const hash = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex');
const expected = Object.fromEntries(Object.keys(SIZES).map((name) => [name, hash(join(LOADERS, name))]));

type Command = (name: string, to: string, host: string, port: number) => readonly string[];
const atftp =
  (...options: string[]): Command =>
  (name, to, host, port) => [
    'atftp',
    ...options.flatMap((option) => ['--option', option]),
    ...['-g', '-r', name, '-l', to, host, String(port)],
  ];
const curl =
  (...options: string[]): Command =>
  (name, to, host, port) => [
    'curl',
    '--silent',
    '--show-error',
    ...options,
    '-o',
    to,
    `tftp://${host}:${port}/${name}`,
  ];
const tftp: Command = (name, to, host, port) => [
  'tftp',
  '-m',
  'binary',
  host,
  String(port),
  '-c',
  'get',
  name,
  to,
];

const CLIENTS: Readonly<Record<string, Command>> = {
  'tftp-hpa': tftp,
  atftp: atftp(),
  'atftp, blksize 1468': atftp('blksize 1468', 'tsize 0'),
  'atftp, windowsize 8': atftp('blksize 1468', 'windowsize 8'),
  'atftp, windowsize 64': atftp('blksize 1468', 'windowsize 64'),
  'atftp, timeout 2': atftp('timeout 2'),
  curl: curl(),
  'curl, blksize 1468': curl('--tftp-blksize', '1468'),
  'curl, blksize 8': curl('--tftp-blksize', '8'),
  'curl without options': curl('--tftp-no-options'),
};

/**
 * Fetches file $ARGV[1] in blocks of 512. After 500 and after 1,000 blocks it waits until the next
 * file of its arguments exists.
 */
const UNHURRIED = `
  use Socket; use IO::Select; use Digest::SHA;
  my ($host, $name, @go) = @ARGV;
  socket(my $s, PF_INET, SOCK_DGRAM, 0);
  my ($to, $next, $hash) = (pack_sockaddr_in(69, inet_aton($host)), 1, Digest::SHA->new(256));
  my $say = "\\0\\1$name\\0octet\\0";
  while (1) {
    send($s, $say, 0, $to);
    IO::Select->new($s)->can_read(10) or die "silent\\n";
    my $from = recv($s, my $packet, 2000, 0);
    my ($kind, $block, $data) = unpack('nna*', $packet);
    die "error $block: $data\\n" if $kind == 5;
    next if $kind != 3 || $block != $next;
    ($to, $say) = ($from, pack('nn', 4, $next++));
    $hash->add($data);
    if (length $data < 512) { send($s, $say, 0, $to); last }
    if ($block % 500 == 0 && @go) {
      my $file = shift @go;
      open my $asked, '>', "$file.asked";
      for (1 .. 100) { last if -e $file; select undef, undef, undef, 0.1 }
    }
  }
  print $hash->hexdigest, "\\n";`;

let copies = 0;
const copy = () => join(HOME, `copy-${copies++}`);

/** curl writes no file when it receives no octets. */
const fetched = (file: string) => (existsSync(file) ? hash(file) : expected.empty);

afterAll(() => rmSync(HOME, { recursive: true, force: true }));

describe('the shipped command', () => {
  let muster: Muster;
  beforeAll(async () => {
    bridge('br-tftp', '10.79.0.1/24');
    attach('tftpclient', 'br-tftp');
    await run('tftpclient', ['ip', 'addr', 'add', '10.79.0.9/24', 'dev', 'eth0']);
    const documents = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: 10.79.0.0/24, dhcp: {mode: server}}
`;
    muster = await startMuster(['br-tftp'], documents, ['--loaders', LOADERS]);
  });
  afterAll(async () => {
    await muster.stop();
    remove(['tftpclient'], ['br-tftp']);
  });

  const small = Object.keys(SIZES).filter((name) => name !== 'rolls-over');
  it.each(Object.entries(CLIENTS))('serves %s', async (_client, command) => {
    for (const name of small) {
      const to = copy();
      const { output } = await run('tftpclient', command(name, to, '10.79.0.1', 69));
      expect(fetched(to), `${name}: ${output}`).toBe(expected[name]);
    }
  });

  it.each(['tftp-hpa', 'curl', 'atftp, windowsize 8'])(
    'block numbers roll over after 65,535 for %s',
    async (client) => {
      const to = copy();
      const { output } = await run('tftpclient', CLIENTS[client]!('rolls-over', to, '10.79.0.1', 69));
      expect(fetched(to), output).toBe(expected['rolls-over']);
    },
  );

  it('TFTP answers from the address that the request was sent to, and records which machine got which file', async () => {
    const served = await muster.event(
      'served',
      ({ kind, fields }) => kind === 'tftp.served' && fields?.file === 'one-mib',
    );
    expect(served).toMatchObject({
      network: 'rack',
      fields: { address: '10.79.0.9', octets: SIZES['one-mib'] },
    });
  });

  it('TFTP refuses to write and to leave its directory', async () => {
    writeFileSync(join(HOME, 'up'), 'x');
    const put = await run('tftpclient', ['tftp', '10.79.0.1', '69', '-c', 'put', join(HOME, 'up'), 'up']);
    expect(put.output).toMatch(/read-only/);
    for (const name of ['../config/all.yaml', '/etc/passwd', '..\\..\\etc\\passwd']) {
      const got = await run('tftpclient', ['tftp', '10.79.0.1', '69', '-c', 'get', name, copy()]);
      expect(got.output).toMatch(/no such loader/);
    }
  });

  it('TFTP ignores a request that was broadcast (RFC 1123 §4.2.3.5)', async () => {
    const script = `
      use Socket; use IO::Select;
      socket(my $s, PF_INET, SOCK_DGRAM, 0); setsockopt($s, SOL_SOCKET, SO_BROADCAST, 1);
      for my $to (@ARGV) {
        send($s, "\\0\\1one-mib\\0octet\\0", 0, pack_sockaddr_in(69, inet_aton($to)));
        print "$to ", (IO::Select->new($s)->can_read(1) ? "answered" : "silent"), "\\n";
        while (IO::Select->new($s)->can_read(0)) { recv($s, my $x, 2000, 0) }
      }`;
    const { output } = await run('tftpclient', [
      'perl',
      '-e',
      script,
      '10.79.0.255',
      '255.255.255.255',
      '10.79.0.1',
    ]);
    expect(output).toBe('10.79.0.255 silent\n255.255.255.255 silent\n10.79.0.1 answered\n');
  });

  // This test stops the command, so it is the last one.
  it('a slow client gets its whole file across a reload and while the server stops, which accepts no other request', async () => {
    const [first, second] = [join(HOME, 'go-1'), join(HOME, 'go-2')];
    const asked = (go: string) =>
      expect.poll(() => existsSync(`${go}.asked`), { timeout: 20_000 }).toBe(true);
    const slow = run('tftpclient', ['perl', '-e', UNHURRIED, '10.79.0.1', 'one-mib', first, second]);

    await asked(first);
    writeFileSync(join(LOADERS, 'new'), 'new');
    const fetchNew = () => run('tftpclient', CLIENTS.curl!('new', join(HOME, 'got'), '10.79.0.1', 69));
    expect((await fetchNew()).code).not.toBe(0);
    muster.signal('SIGHUP');
    await expect.poll(async () => (await fetchNew()).code, { timeout: 20_000 }).toBe(0);
    writeFileSync(first, '');

    await asked(second);
    muster.signal('SIGTERM');
    await expect.poll(muster.log, { timeout: 20_000 }).toContain('"stopping"');
    const late = ['--connect-timeout', '2', '--max-time', '2'];
    expect(
      (await run('tftpclient', curl(...late)('new', join(HOME, 'late'), '10.79.0.1', 69))).code,
    ).not.toBe(0);
    writeFileSync(second, '');
    expect((await slow).output).toBe(`${expected['one-mib']}\n`);
  });
});

const system = openDatagrams({ env: {}, log: silentLog, metrics: createMetrics() });
const WAYS: readonly { readonly name: string; readonly datagrams: OpenedDatagrams }[] = [
  { name: 'system calls', datagrams: system },
  { name: 'node:dgram', datagrams: { datagrams: nodeDatagrams, kernel: undefined } },
];

describe.each(WAYS)('in one process, by $name', ({ name, datagrams }) => {
  it('is what the name says', () => expect(datagrams.datagrams.native).toBe(name === 'system calls'));

  let port: number;
  const events: NewEvent[] = [];
  const metrics = createMetrics();
  const stopping = new AbortController();
  beforeAll(async () => {
    const assets = await openAssets({
      directory: join(HOME, 'assets'),
      loaderDirectories: [LOADERS],
      log: silentLog,
    });
    const server = await startTftp({
      sockets: [{ address: '127.0.0.1', port: 0 }],
      datagrams,
      assets,
      networks: () => [],
      subjectOf: () => undefined,
      admits: () => true,
      events: { record: (event) => events.push(event) },
      metrics,
      log: silentLog,
      clock: systemClock,
      limits: { transfers: 300, perClient: 300 },
      signal: stopping.signal,
    });
    port = server.addresses[0]!.port;
  });
  afterAll(() => stopping.abort());

  const here = (command: readonly string[]) =>
    new Promise<string>((resolve) =>
      execFile(command[0]!, command.slice(1), { timeout: 100_000 }, (error, stdout, stderr) =>
        resolve(`${stdout}${stderr}${error ?? ''}`),
      ),
    );

  it.each([
    ['tftp-hpa', { loss: 2, doubling: 5, reorder: 0, seed: 1 }],
    ['curl, blksize 1468', { loss: 3, doubling: 5, reorder: 2, seed: 2 }],
    ['atftp, blksize 1468', { loss: 2, doubling: 5, reorder: 2, seed: 3 }],
    ['atftp, windowsize 8', { loss: 2, doubling: 2, reorder: 2, seed: 4 }],
    ['atftp, windowsize 64', { loss: 1, doubling: 1, reorder: 1, seed: 5 }],
  ] as const)('a bad network does not keep the file from %s', async (client, how) => {
    const network = await badNetwork(port, how);
    const to = copy();
    // curl asks for a time-out of six seconds, which is used at every loss.
    const name = client.startsWith('curl') || client === 'tftp-hpa' ? 'blocks-of-1468' : 'one-mib';
    const output = await here(CLIENTS[client]!(name, to, '127.0.0.1', network.port));
    expect(network.dropped()).toBeGreaterThan(0);
    network.close();
    expect(fetched(to), output).toBe(expected[name]);
  });

  it('two hundred concurrent clients each fetch their own file', async () => {
    const began = events.length;
    const clients = Array.from({ length: 200 }, (_, n) => {
      const to = copy();
      const client = n % 2 === 0 ? 'curl, blksize 1468' : 'atftp, windowsize 8';
      return { to, command: CLIENTS[client]!('one-mib', to, '127.0.0.1', port) };
    });
    // A shell starts them: while this program starts another, the server in it does not run.
    const lines = clients.map(({ command }) => `${command.map((word) => `'${word}'`).join(' ')} &`);
    const output = await here(['sh', '-c', [...lines, 'wait'].join('\n')]);
    expect(
      clients.filter(({ to }) => fetched(to) !== expected['one-mib']),
      output,
    ).toEqual([]);
    const ended = events.slice(began);
    expect(ended.filter(({ kind }) => kind === 'tftp.failed')).toEqual([]);
  });
});
