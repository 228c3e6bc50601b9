/**
 * Starts the DHCP servers that are compared, each in its own pair of namespaces, with perfdhcp as
 * their load. Needs scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { unpacked } from '../test/peers/unpacked.ts';

const SERVER = '10.90.0.1';
const CLIENT = '10.90.0.2';
export const CLIENTS = 20_000;
export const KNOWN = 10_000;
/** The address of perfdhcp's first client; the others follow it. */
const FIRST_MAC = 0x02_00_5e_00_00_00;
const VENDOR_CLASS = Buffer.from('PXEClient:Arch:00007:UNDI:003016').toString('hex');

const ip = (...words: string[]) => execFileSync('ip', words, { encoding: 'utf8' });

function macOf(n: number): string {
  return (FIRST_MAC + n).toString(16).padStart(12, '0').match(/../g)!.join(':');
}

export type Kind = 'muster' | 'kea' | 'dnsmasq';

export interface DhcpServer {
  readonly kind: Kind;
  /** Unique: made of the kind and of the place of its files. */
  readonly name: string;
  readonly home: string;
  readonly server: ChildProcess;
  readonly output: () => string;
  /** The process id of `ip netns exec`, which runs the server. */
  pid(): number;
}

/**
 * Starts `command` in a server's namespace, linked to a client's; resolves when it prints `ready`.
 */
async function start(
  kind: Kind,
  place: string,
  home: string,
  command: readonly string[],
  ready: RegExp,
  env: NodeJS.ProcessEnv,
): Promise<DhcpServer> {
  const name = `${kind}-${place}`;
  ip('netns', 'add', `s-${name}`);
  ip('netns', 'add', `c-${name}`);
  ip('-n', `s-${name}`, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', `c-${name}`);
  for (const [side, address] of [
    ['s', SERVER],
    ['c', CLIENT],
  ]) {
    ip('-n', `${side}-${name}`, 'addr', 'add', `${address}/16`, 'dev', 'eth0');
    for (const link of ['eth0', 'lo']) ip('-n', `${side}-${name}`, 'link', 'set', link, 'up');
  }
  const server = spawn('ip', ['netns', 'exec', `s-${name}`, ...command], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  await new Promise<void>((done, fail) => {
    const timer = setTimeout(() => fail(new Error(`${name} did not start:\n${output}`)), 30_000);
    const look = (text: Buffer) => {
      output = (output + text).slice(-65_536);
      if (!ready.test(output)) return;
      clearTimeout(timer);
      done();
    };
    server.stdout.on('data', look);
    server.stderr.on('data', look);
    server.on('close', (code) => fail(new Error(`${name} ended with ${code}:\n${output}`)));
  });
  return { kind, name, home, server, output: () => output, pid: () => server.pid! };
}

export async function stop(dhcpServer: DhcpServer): Promise<void> {
  const ended = new Promise((done) => dhcpServer.server.on('close', done));
  dhcpServer.server.kill('SIGTERM');
  await ended;
  for (const side of ['s', 'c']) ip('netns', 'del', `${side}-${dhcpServer.name}`);
}

/** Writes documents: half of the clients are machines with a profile and an image, half unknown. */
function documents(directory: string): void {
  mkdirSync(directory, { recursive: true });
  const hash = 'a'.repeat(64);
  writeFileSync(
    join(directory, 'base.yaml'),
    `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec:
  subnet: 10.90.0.0/16
  gateway: 10.90.0.254
  dns: [${SERVER}]
  dhcp: {mode: server, relays: [${CLIENT}], probe: off, leaseTime: 1h, bootLeaseTime: 1h, pools: [{start: 10.90.1.1, end: 10.90.200.254}]}
---
apiVersion: muster/v1
kind: Image
metadata: {name: linux}
spec:
  os: probe
  arch: x86_64
  kernel: {sha256: ${hash}}
  configFormat: none
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {image: linux}
`,
  );
  const machines = Array.from(
    { length: KNOWN },
    (_, n) =>
      `apiVersion: muster/v1\nkind: Machine\nmetadata: {name: node-${n}}\nspec: {macs: ["${macOf(n)}"], profile: node}\n`,
  );
  writeFileSync(join(directory, 'machines.yaml'), machines.join('---\n'));
}

/** Starts the shipped `bin/muster serve`. `nodeFlags` go to Node, for example to profile it. */
export function startOurs(home: string, place: string, nodeFlags = ''): Promise<DhcpServer> {
  documents(join(home, 'config'));
  const command = [
    resolve('bin/muster'),
    ...['serve', '--interface', 'eth0', '--config', join(home, 'config'), '--state', join(home, 'state')],
    ...['--socket', join(home, 'm.sock'), '--loaders', '/usr/lib/ipxe'],
  ];
  return start('muster', place, home, command, /ready: [1-9]/, {
    ...process.env,
    ...(nodeFlags ? { NODE_OPTIONS: nodeFlags } : {}),
  });
}

/**
 * Starts Kea with its lease file and several threads. Option 43 is left out, because with it Kea
 * 2.2 crashes under load (signal 11).
 */
export function startKea(home: string, place: string): Promise<DhcpServer> {
  const { command, env } = unpacked('kea-dhcp4-server', 'usr/sbin/kea-dhcp4');
  mkdirSync(home, { recursive: true });
  const option = (name: string, data: string) => ({ name, data, 'always-send': true });
  const config = {
    Dhcp4: {
      'interfaces-config': { interfaces: ['eth0'], 'dhcp-socket-type': 'udp' },
      'lease-database': { type: 'memfile', persist: true, name: join(home, 'leases.csv'), 'lfc-interval': 0 },
      'multi-threading': { 'enable-multi-threading': true, 'thread-pool-size': 2, 'packet-queue-size': 64 },
      'valid-lifetime': 3600,
      'next-server': SERVER,
      'boot-file-name': 'ipxe.efi',
      'option-data': [
        option('vendor-class-identifier', 'PXEClient'),
        option('tftp-server-name', SERVER),
        option('boot-file-name', 'ipxe.efi'),
        option('routers', '10.90.0.254'),
        option('domain-name-servers', SERVER),
      ],
      subnet4: [{ subnet: '10.90.0.0/16', pools: [{ pool: '10.90.1.1 - 10.90.200.254' }] }],
      // INFO prints when Kea is ready; WARN avoids a line for each lease.
      loggers: [
        { name: 'kea-dhcp4', output_options: [{ output: 'stdout' }], severity: 'INFO' },
        { name: 'kea-dhcp4.leases', output_options: [{ output: 'stdout' }], severity: 'WARN' },
      ],
    },
  };
  const file = join(home, 'kea.json');
  writeFileSync(file, JSON.stringify(config));
  for (const variable of ['/run/kea', '/var/run/kea']) mkdirSync(variable, { recursive: true });
  const own = { ...env, KEA_PIDFILE_DIR: home, KEA_LOCKFILE_DIR: home };
  return start('kea', place, home, [command, '-c', file], /DHCP4_STARTED/, own);
}

/** Starts dnsmasq with its lease file and without its ping before an offer. */
export function startDnsmasq(home: string, place: string): Promise<DhcpServer> {
  const { command, env } = unpacked('dnsmasq-base', 'usr/sbin/dnsmasq');
  mkdirSync(home, { recursive: true });
  const flags = [
    ...[
      '--keep-in-foreground',
      '--port=0',
      '--conf-file=/dev/null',
      '--log-facility=-',
      '--user=root',
      '--no-ping',
    ],
    ...[
      '--dhcp-range=10.90.1.1,10.90.200.254,1h',
      `--dhcp-lease-max=100000`,
      `--dhcp-leasefile=${join(home, 'leases')}`,
    ],
    ...[
      `--dhcp-boot=ipxe.efi,,${SERVER}`,
      '--dhcp-option-force=60,PXEClient',
      '--dhcp-option-force=43,06:01:08:ff',
    ],
    '--quiet-dhcp',
  ];
  return start('dnsmasq', place, home, [command, ...flags], /DHCP, IP range/, env);
}

export interface Load {
  /** Completed four-message exchanges a second of sending. */
  readonly rate: number;
  readonly sent: number;
  readonly completed: number;
  /** Milliseconds from DISCOVER to OFFER and from REQUEST to ACK; only with `timers`. */
  readonly delays: readonly number[];
}

/**
 * Runs perfdhcp as a relay: `rate` exchanges a second for `seconds`, for {@link CLIENTS} clients.
 */
export async function load(
  dhcpServer: DhcpServer,
  rate: number,
  seconds: number,
  timers = false,
): Promise<Load> {
  const words = [
    ...['-4', '-r', String(rate), '-R', String(CLIENTS), '-p', String(seconds), '-W', '500000'],
    ...['-l', CLIENT, '-b', `mac=${macOf(0)}`, '-o', `60,${VENDOR_CLASS}`, '-o', '93,0007'],
    ...(timers ? ['-x', 't'] : []),
    SERVER,
  ];
  const child = spawn('ip', ['netns', 'exec', `c-${dhcpServer.name}`, 'perfdhcp', ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const limit = setTimeout(() => child.kill('SIGKILL'), (seconds + 20) * 1000);
  await new Promise((done) => child.on('close', done));
  clearTimeout(limit);
  const sent = [...output.matchAll(/^sent packets: ([0-9]+)/gm)].map((found) => Number(found[1]));
  const received = [...output.matchAll(/^received packets: ([0-9]+)/gm)].map((found) => Number(found[1]));
  if (sent.length !== 2 || received.length !== 2) throw new Error(`perfdhcp: ${output}`);
  // Lines with timers: when it was sent, when received, and the seconds between.
  const delays = [...output.matchAll(/^sent \/ received: ([0-9.]+) \/ ([0-9.]+)$/gm)].map(
    ([, from, to]) => (Number(to) - Number(from)) * 1000,
  );
  return {
    rate: received[1]! / seconds,
    sent: sent[0]!,
    completed: received[1]!,
    delays,
  };
}

/**
 * Searches for the highest rate of completed exchanges. It begins at `from` and raises the offered
 * rate by a seventh until, twice in a row, less than 85 % of it is completed or no more than
 * before. One bad span of two seconds does not end the search, since the host may have been busy.
 */
export async function saturation(dhcpServer: DhcpServer, from: number): Promise<number> {
  let best = 0;
  for (let offered = from, step = 0, misses = 0; step < 10 && misses < 2; step++) {
    const { rate } = await load(dhcpServer, offered, 2);
    misses = rate <= best || rate < 0.85 * offered ? misses + 1 : 0;
    best = Math.max(best, rate);
    offered = Math.round((offered * 8) / 7);
    await pause(200);
  }
  if (best === 0) throw new Error(`${dhcpServer.name} completed no exchange:\n${dhcpServer.output()}`);
  return best;
}

/**
 * Resident memory of the serving process in MiB: the largest process below `ip netns exec`.
 */
export function residentMiB(dhcpServer: DhcpServer): number {
  const ofTree = (pid: number): number[] => [
    pid,
    ...readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8')
        .trim()
        .split(' ')
        .filter(Boolean)
        .flatMap((c) => ofTree(Number(c))),
    ),
  ];
  const sizes = ofTree(dhcpServer.pid()).map((pid) => {
    const found = /^VmRSS:\s+([0-9]+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return found ? Number(found[1]) / 1024 : 0;
  });
  return Math.max(...sizes);
}
