/**
 * Certificates and keys change as one: the real agent in a directory, and readers that look all the
 * time, as etcd does with every handshake, where a static pod sees the files. Needs root and
 * scripts/in-namespace.sh.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { Machine, Planner, put, SHELLS } from './agent-kit.ts';

const DIRECTORY = '/etc/kubernetes/pki/etcd';
const CERTIFICATE = `${DIRECTORY}/server.crt`;
const KEY = `${DIRECTORY}/server.key`;
const OWN_KEY = '/var/lib/muster/agent/keys/etcd-server.key';

let planner: Planner;
let machine: Machine;
let readers: Readers | undefined;

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
});

afterEach(async () => {
  await readers?.stop();
  readers = undefined;
  await machine.stop();
  machine.close();
  planner.close();
});

/** A pair whose files say to which generation they belong. */
const given = (generation: string): PlanLine => ({
  do: 'put-pair',
  mode: 0o644,
  path: CERTIFICATE,
  content: { text: `generation ${generation}\n` },
  key: { content: { text: `generation ${generation}\n`, secret: true } },
});

async function apply(lines: readonly PlanLine[], shell = SHELLS[0] as readonly string[]): Promise<void> {
  planner.plan(lines);
  expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
}

/**
 * Reads certificate, key and certificate: if the certificate is the same before and after, the key
 * in between has to belong to it. Prints how often it read, and what was wrong.
 */
const READER = `
  const fs = require('node:fs');
  const [certificate, key] = process.argv.slice(1);
  const wrong = new Set();
  const seen = new Set();
  let reads = 0;
  const read = () => {
    for (let n = 0; n < 100; n++) {
      try {
        const before = fs.readFileSync(certificate, 'utf8');
        const between = fs.readFileSync(key, 'utf8');
        const after = fs.readFileSync(certificate, 'utf8');
        if (before === after && before !== between) wrong.add(before + between);
        seen.add(after);
      } catch (error) { wrong.add(error.message); }
      reads++;
    }
    setImmediate(read);
  };
  process.on('SIGTERM', () => {
    console.log(JSON.stringify({ reads, wrong: [...wrong], seen: [...seen] }));
    process.exit();
  });
  console.log('reading');
  read();
`;

interface Read {
  readonly reads: number;
  readonly wrong: readonly string[];
  readonly seen: readonly string[];
}

/** One reader on the machine, and one that has mounted the directory as a container does. */
class Readers {
  readonly #running: readonly ChildProcess[];
  readonly #said: string[];

  private constructor(commands: readonly (readonly string[])[]) {
    this.#said = commands.map(() => '');
    this.#running = commands.map(([program, ...words]) =>
      spawn(program!, words, { stdio: ['ignore', 'pipe', 'inherit'] }),
    );
    for (const [n, child] of this.#running.entries())
      child.stdout!.on('data', (text: Buffer) => (this.#said[n] += String(text)));
  }

  static async start(): Promise<Readers> {
    const at = machine.path(DIRECTORY);
    const node = (directory: string) => [
      ...[process.execPath, '-e', READER, `${directory}/server.crt`, `${directory}/server.key`],
    ];
    const inPod = machine.path('/pod');
    fs.mkdirSync(inPod, { recursive: true });
    const mounted = `mount --bind "$0" "$1" && shift && exec "$@"`;
    const started = new Readers([
      node(at),
      ['unshare', '--mount', 'sh', '-c', mounted, at, inPod, ...node(inPod)],
    ]);
    await Promise.all(started.#running.map((child) => once(child.stdout!, 'data')));
    return started;
  }

  async stop(): Promise<readonly Read[]> {
    const ended = this.#running.map((child) => (child.exitCode === null ? once(child, 'close') : undefined));
    for (const child of this.#running) child.kill();
    await Promise.all(ended);
    return this.#said.map((text) => JSON.parse(text.replace(/^reading\n/, '')) as Read);
  }
}

/** What is in the directory of the pairs: each file with its mode, each link with its target. */
const laidOut = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(machine.tree())
      .filter(([at]) => at.startsWith(`${DIRECTORY}/`))
      .map(([at, what]) => [at.slice(DIRECTORY.length + 1), what]),
  );

test.for(SHELLS)(
  'with %s a pair lies in a directory that a link inside of the mounted directory names, and is written once',
  async (shell) => {
    const pair: PlanLine = {
      do: 'put-pair',
      mode: 0o644,
      path: CERTIFICATE,
      content: { text: 'certificate\n' },
      key: { leaf: 'etcd-server' },
    };
    const request: PlanLine = { do: 'request', leaf: 'etcd-server', algorithm: 'ECDSA-P256' };
    await apply([request, pair], shell);
    const key = machine.read(OWN_KEY);
    const whole = {
      '.server': '755',
      '.server/1': '755',
      '.server/1/server.crt': '644 certificate\n',
      '.server/1/server.key': `600 ${key}`,
      '.server/current': '-> 1',
      'server.crt': '-> .server/current/server.crt',
      'server.key': '-> .server/current/server.key',
    };
    expect(laidOut()).toEqual(whole);
    const written = fs.statSync(machine.path(`${DIRECTORY}/.server`)).mtimeMs;
    // The same pair in another plan.
    await apply([request, pair, put('/etc/other', '')], shell);
    expect(laidOut()).toEqual(whole);
    expect(fs.statSync(machine.path(`${DIRECTORY}/.server`)).mtimeMs).toBe(written);
    await apply([given('2')], shell);
    expect(laidOut()).toEqual({
      '.server': '755',
      '.server/2': '755',
      '.server/2/server.crt': '644 generation 2\n',
      '.server/2/server.key': '600 generation 2\n',
      '.server/current': '-> 2',
      'server.crt': '-> .server/current/server.crt',
      'server.key': '-> .server/current/server.key',
    });
  },
);

test('programs that read a pair all the time, also where a pod has mounted it, never find half of one, nor nothing', async () => {
  // As agents before pairs and kubeadm leave it.
  await apply([put(CERTIFICATE, 'generation 0\n'), put(KEY, 'generation 0\n', 0o600)]);
  readers = await Readers.start();
  for (let generation = 1; generation <= 8; generation++) await apply([given(String(generation))]);
  for (const { reads, wrong, seen } of await readers.stop()) {
    expect(wrong).toEqual([]);
    expect(reads).toBeGreaterThan(100);
    expect(seen).toContain('generation 0\n');
    expect(seen).toContain('generation 8\n');
  }
});

test('a program that watches the files, as API server and kubelet do, is told of each change', async () => {
  await apply([given('1')]);
  const events: string[] = [];
  // They watch what the path names at the moment, and again whenever that is removed.
  const watch = (): fs.FSWatcher =>
    fs.watch(fs.realpathSync(machine.path(CERTIFICATE)), () => {
      events.push(machine.read(CERTIFICATE));
    });
  const watcher = watch();
  await apply([given('2')]);
  await expect.poll(() => events, { timeout: 60_000 }).toContain('generation 2\n');
  watcher.close();
});

test('plain files that kubeadm wrote over a pair are mended by the next plan', async () => {
  await apply([given('1')]);
  // A plan that puts files over the links.
  await apply([put(CERTIFICATE, 'generation 2\n'), put(KEY, 'generation 2\n', 0o600)]);
  expect(machine.read(CERTIFICATE)).toBe('generation 2\n');
  expect(machine.read(KEY)).toBe('generation 2\n');
  await apply([given('3')]);
  expect(machine.read(KEY)).toBe('generation 3\n');
  expect(laidOut()['server.key']).toBe('-> .server/current/server.key');
  // `kubeadm certs renew` writes through the links.
  machine.write(CERTIFICATE, 'of kubeadm\n');
  await apply([given('3'), put('/etc/other', '')]);
  expect(machine.read(CERTIFICATE)).toBe('generation 3\n');
  fs.rmSync(machine.path(KEY));
  await apply([given('3'), put('/etc/other', '1')]);
  expect(machine.read(KEY)).toBe('generation 3\n');
});

test('a pair without its key is a hold, and a line without .crt is refused', async () => {
  planner.plan([
    { do: 'put-pair', mode: 0o644, path: CERTIFICATE, content: { text: 'x' }, key: { leaf: 'etcd-server' } },
  ]);
  expect((await machine.poll()).status).toBe(1);
  await machine.poll();
  expect(planner.facts().hold).toMatchObject({ code: 'no-key' });
  expect(machine.exists(DIRECTORY)).toBe(false);
});
