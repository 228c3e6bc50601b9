/**
 * Runs `bin/muster serve` as it is shipped, on a separate segment with the documents of one
 * cluster, and that cluster's machines in a namespace behind it. Needs scripts/in-namespace.sh.
 */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { projectRoot } from '../../base/paths.ts';
import { RELEASES } from '../../cluster/model/versions.ts';
import { MACHINE_ADDRESSES, MEMBERS, orderOf, SERVER, writeDocuments } from './documents.files.ts';
import type { FleetOrder, FleetResult } from './fleet.files.ts';
import type { MachineOrder } from './machine.socket.ts';

/** A process that takes longer to start has failed. */
const PATIENCE_MS = 60_000;

const ip = (...words: string[]): void =>
  void execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] });

let segments = 0;

/** The address of the namespace that all machines are in. */
const MACHINES = '10.92.0.2';

export interface Segment {
  readonly link: string;
  readonly namespace: string;
  close(): void;
}

/**
 * A pair of interfaces: the server's, and the machines' in a namespace where all their addresses
 * are local.
 */
export function openSegment(): Segment {
  const number = ++segments;
  const [link, namespace] = [`sim-s${number}`, `sim-m${number}`];
  ip('netns', 'add', namespace);
  ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
  ip('addr', 'add', `${SERVER}/16`, 'dev', link);
  ip('link', 'set', link, 'up');
  // All machines are one neighbour, because the kernel keeps 1,024 by default, over all namespaces.
  ip('route', 'add', MACHINE_ADDRESSES, 'via', MACHINES, 'dev', link);
  const inside = (...words: string[]) => ip('-n', namespace, ...words);
  inside('addr', 'add', `${MACHINES}/16`, 'dev', 'eth0');
  for (const name of ['eth0', 'lo']) inside('link', 'set', name, 'up');
  inside('route', 'add', 'local', MACHINE_ADDRESSES, 'dev', 'lo');
  inside('route', 'add', '255.255.255.255', 'dev', 'eth0');
  // As a router does, it asks for the server's hardware address from its own address alone.
  ip('netns', 'exec', namespace, 'sysctl', '-qw', 'net.ipv4.conf.all.arp_announce=2');
  return {
    link,
    namespace,
    close() {
      ip('netns', 'del', namespace);
    },
  };
}

export interface BootHost {
  readonly pid: number;
  readonly namespace: string;
  readonly state: string;
  readonly socket: string;
  /** In the order of the documents, control planes first. */
  readonly machines: readonly MachineOrder[];
  /** The machine without a document. */
  readonly stranger?: MachineOrder;
  /** Runs `bin/muster` with these arguments and returns its output. */
  muster(...words: readonly string[]): string;
  /** Powers machines on, `perSecond` of them a second. Rejects when one did not settle. */
  powerOn(order: Omit<FleetOrder, 'members'>): Promise<FleetResult>;
  /** Powers machines on that keep polling; resolves when all have settled. */
  keepOn(order: Omit<FleetOrder, 'members' | 'stay'>): Promise<StandingFleet>;
  log(): string;
  close(): Promise<void>;
}

/** Machines that keep polling. */
export interface StandingFleet {
  readonly result: FleetResult;
  /** Switches them off; resolves with what those said that had lost the boot host. */
  end(): Promise<readonly string[]>;
}

export interface BootHostOptions {
  /** Flags of Node, e.g. for a profile. */
  readonly nodeFlags?: string;
  readonly loaders?: string;
  /** Whether there is one more machine, which has no document. */
  readonly stranger?: boolean;
  /** More flags of the server. */
  readonly flags?: readonly string[];
  /** Command line in front of the server's, e.g. `taskset`. */
  readonly wrapper?: readonly string[];
  /** Called with the state directory before the server starts, e.g. to write into its store. */
  readonly before?: (state: string) => Promise<void>;
}

const program = (): string => join(projectRoot(), 'bin/muster');

/** Starts the server for a cluster of `size` machines. */
export async function openBootHost(size: number, options: BootHostOptions = {}): Promise<BootHost> {
  const { nodeFlags = '', loaders = '/usr/lib/ipxe', flags = [], wrapper = [] } = options;
  const segment = openSegment();
  const home = mkdtempSync(join(tmpdir(), 'muster-simulated-'));
  const [config, state, socket] = [join(home, 'config'), join(home, 'state'), join(home, 'm.sock')];
  const machines = Array.from({ length: size }, (_, n) => orderOf(n));
  const stranger = options.stranger ? orderOf(size) : undefined;
  writeDocuments(config, machines, state, stranger);
  await options.before?.(state);
  const command = [
    ...wrapper,
    program(),
    ...['serve', '--interface', segment.link, '--config', config, '--state', state, '--socket', socket],
    ...['--loaders', loaders, ...flags],
  ];
  const env = { ...process.env, ...(nodeFlags === '' ? {} : { NODE_OPTIONS: nodeFlags }) };
  const server = spawn(command[0]!, command.slice(1), { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const collect = (text: Buffer): void => {
    output = (output + text).slice(-262_144);
  };
  for (const stream of [server.stdout, server.stderr]) stream.on('data', collect);
  const fleets = new Set<ChildProcess>();
  const ended = new Promise<void>((done) => server.on('close', () => done()));
  await said(server, /ready: 1 network,/, () => output);
  const muster = (...words: readonly string[]): string =>
    execFileSync(program(), [...words, '--socket', socket], {
      encoding: 'utf8',
      maxBuffer: 256 * 1024 * 1024,
    });
  return {
    pid: server.pid!,
    namespace: segment.namespace,
    state,
    socket,
    machines,
    ...(stranger && { stranger }),
    muster,
    powerOn: (order) => runFleet(segment.namespace, home, { ...order, members: MEMBERS }, fleets),
    async keepOn(order) {
      const given = { ...order, members: MEMBERS, stay: true };
      const { child, results, ended } = startFleet(segment.namespace, home, given, fleets);
      const result = await Promise.race([written<FleetResult>(results), ended]);
      return {
        result,
        async end() {
          child.kill('SIGTERM');
          await ended;
          return JSON.parse(readFileSync(`${results}.lost`, 'utf8')) as readonly string[];
        },
      };
    },
    log: () => output,
    async close() {
      // A process that still waits would outlive the test, and the test runner would wait for it.
      for (const fleet of fleets) fleet.kill('SIGKILL');
      server.kill('SIGTERM');
      await ended;
      segment.close();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** The machines' plans name it; they do not run it. */
const KUBELET = `1.36.${RELEASES['1.36'].patch}`;

/** Gives the boot host a kubelet with this content. */
export function importKubelet({ state, muster }: BootHost, content = 'a program\n'): void {
  const file = join(state, 'kubelet');
  writeFileSync(file, content);
  muster('artifacts', 'import', '--binary', `kubelet:${KUBELET}=${file}`);
}

/** Resolves when the process has printed it; rejects when the process ends or takes too long. */
async function said(server: ChildProcess, wanted: RegExp, output: () => string): Promise<void> {
  const { promise, resolve: done, reject } = Promise.withResolvers<void>();
  const look = (): void => {
    if (wanted.test(output())) done();
  };
  const timer = setTimeout(() => reject(new Error(`not ready:\n${output()}`)), PATIENCE_MS);
  const over = (): void => reject(new Error(`ended:\n${output()}`));
  for (const stream of [server.stdout!, server.stderr!]) stream.on('data', look);
  server.on('close', over);
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    for (const stream of [server.stdout!, server.stderr!]) stream.off('data', look);
    server.off('close', over);
  }
}

let orders = 0;

/**
 * Powers machines on in a process of their own, in their namespace. Its files are in `home`; it is
 * in `running` until it ends. Rejects when a machine did not settle, unless the order says
 * `partial`.
 */
export const runFleet = (
  namespace: string,
  home: string,
  order: FleetOrder,
  running: Set<ChildProcess>,
): Promise<FleetResult> => startFleet(namespace, home, order, running).ended;

/** The content of a file as soon as it is there. */
async function written<T>(file: string): Promise<T> {
  while (!existsSync(file)) await pause(100);
  return JSON.parse(readFileSync(file, 'utf8')) as T;
}

/** Starts the process of {@link runFleet}. */
function startFleet(namespace: string, home: string, order: FleetOrder, running: Set<ChildProcess>) {
  const number = ++orders;
  const [told, results] = [join(home, `orders-${number}.json`), join(home, `results-${number}.json`)];
  writeFileSync(told, JSON.stringify(order));
  const program = new URL('fleet.files.ts', import.meta.url).pathname;
  const child = spawn('ip', ['netns', 'exec', namespace, process.execPath, program, told, results], {
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  running.add(child);
  let complaints = '';
  child.stderr.on('data', (text) => (complaints += text));
  const ended = once(child, 'close').then(([code]): FleetResult => {
    running.delete(child);
    if (code !== 0) throw new Error(`the machines ended with ${code}:\n${complaints}`);
    return JSON.parse(readFileSync(results, 'utf8')) as FleetResult;
  });
  return { child, results, ended };
}
