/**
 * A segment for DHCP peers: a bridge, client namespaces on it, and the shipped `bin/muster serve`.
 * Needs scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { millis } from '../../src/base/duration.ts';
import type { MusterEvent } from '../../src/events/event.ts';

export function ip(...words: string[]): string {
  return execFileSync('ip', words, { encoding: 'utf8' });
}

/** Makes a namespace with one interface `eth0` on the bridge `bridge`. */
export function attach(name: string, bridge: string, mac?: string): void {
  ip('netns', 'add', name);
  ip('link', 'add', `p-${name}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
  if (mac) ip('-n', name, 'link', 'set', 'eth0', 'address', mac);
  ip('link', 'set', `p-${name}`, 'master', bridge, 'up');
  ip('-n', name, 'link', 'set', 'eth0', 'up');
  ip('-n', name, 'link', 'set', 'lo', 'up');
}

export function bridge(name: string, ...addresses: string[]): void {
  ip('link', 'add', name, 'type', 'bridge', 'forward_delay', '0');
  ip('link', 'set', name, 'up');
  for (const address of addresses) ip('addr', 'add', address, 'dev', name);
}

export function remove(namespaces: readonly string[], links: readonly string[]): void {
  for (const name of links) ip('link', 'del', name);
  for (const name of namespaces) {
    // The kernel removes a namespace's interfaces some time after it, and the next test may use the
    // name again. Not every namespace has this one.
    spawnSync('ip', ['link', 'del', `p-${name}`]);
    ip('netns', 'del', name);
  }
}

export interface Finished {
  readonly code: number | null;
  readonly output: string;
}

/**
 * Runs a program in a namespace until it ends. Kills it after `seconds` and notes that in the
 * output.
 */
export function run(
  namespace: string,
  command: readonly string[],
  // The limit is for programs that hang; it is long because a busy host may be slow.
  seconds = 100,
  env = process.env,
): Promise<Finished> {
  const child = spawn('ip', ['netns', 'exec', namespace, ...command], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const cancel = systemClock.after(millis(seconds * 1000), () => {
    output += `killed: ${command[0]} was not done after ${seconds} s`;
    child.kill('SIGKILL');
  });
  return new Promise((done) =>
    child.on('close', (code) => {
      cancel();
      done({ code, output });
    }),
  );
}

/**
 * Starts a program in a namespace; resolves when its output matches `ready`. It runs until it is
 * stopped.
 */
export async function daemon(
  namespace: string | undefined,
  command: readonly string[],
  ready: RegExp,
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ stop(): Promise<void>; output(): string; pid: number }> {
  const words = namespace === undefined ? command : ['ip', 'netns', 'exec', namespace, ...command];
  const child: ChildProcess = spawn(words[0]!, words.slice(1), { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const ended = new Promise<void>((done) => child.on('close', () => done()));
  await new Promise<void>((done, fail) => {
    // A server starts in a second, and in 18 s on two processors that sixteen programs want.
    const cancel = systemClock.after(millis(90_000), () =>
      fail(new Error(`${words.join(' ')}: not ready:\n${output}`)),
    );
    const look = (text: Buffer) => {
      output += text;
      if (!ready.test(output)) return;
      cancel();
      done();
    };
    child.stdout!.on('data', look);
    child.stderr!.on('data', look);
    child.on('close', () => fail(new Error(`${words.join(' ')}: ended:\n${output}`)));
  });
  return {
    output: () => output,
    pid: child.pid!,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

export interface Muster {
  /** The operators' socket, and the directory with store and assets. */
  readonly socket: string;
  readonly state: string;
  get<T>(path: string): Promise<T>;
  events(): Promise<readonly MusterEvent[]>;
  /** Waits for an event; fails after 40 s with the events so far. */
  event(what: string, wanted: (event: MusterEvent) => boolean): Promise<MusterEvent>;
  leases(): Promise<readonly { address: string; mac: string; state: string; network: string }[]>;
  signal(name: NodeJS.Signals): void;
  /** Stops it and, unless `keep`, deletes its state. */
  stop(): Promise<void>;
  restart(): Promise<void>;
  readonly log: () => string;
}

/**
 * Starts the shipped command on these interfaces with these documents. `more` are further
 * arguments; with `namespace` it runs in that namespace, with its /sys.
 */
export async function startMuster(
  interfaces: readonly string[],
  documents: string,
  more: readonly string[] = [],
  namespace?: string,
): Promise<Muster> {
  const home = mkdtempSync(join(tmpdir(), 'muster-dhcp-'));
  const config = join(home, 'config');
  mkdirSync(config);
  writeFileSync(join(config, 'all.yaml'), documents);
  const socket = join(home, 'm.sock');
  const command = [
    resolve('bin/muster'),
    'serve',
    ...interfaces.flatMap((name) => ['--interface', name]),
    ...['--config', config, '--state', join(home, 'state'), '--socket', socket, '--loaders', '/usr/lib/ipxe'],
    ...more,
  ];
  let running = await daemon(namespace, command, /ready: [1-9]/);
  const get = <T>(path: string): Promise<T> =>
    new Promise((done, fail) => {
      const asking = request({ socketPath: socket, path }, (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (part) => (text += part));
        answer.on('end', () => done(JSON.parse(text) as T));
      });
      asking.on('error', fail);
      asking.end();
    });
  const events = async () => (await get<{ items: MusterEvent[] }>('/v1/events')).items;
  return {
    socket,
    state: join(home, 'state'),
    get,
    events,
    log: () => running.output(),
    async event(what, wanted) {
      const until = systemClock.monotonic() + 40_000;
      for (;;) {
        const all = await events();
        const found = all.find(wanted);
        if (found) return found;
        if (systemClock.monotonic() > until)
          throw new Error(
            `no event: ${what}; there were:\n${JSON.stringify(all, null, 1)}\n${running.output()}`,
          );
        await new Promise<void>((next) => systemClock.after(millis(100), next));
      }
    },
    leases: async () => (await get<{ items: never[] }>('/v1/leases')).items,
    signal: (name) => void process.kill(running.pid, name),
    async stop() {
      await running.stop();
      rmSync(home, { recursive: true });
    },
    async restart() {
      await running.stop();
      running = await daemon(namespace, command, /ready: [1-9]/);
    },
  };
}
