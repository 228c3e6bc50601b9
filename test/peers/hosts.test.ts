/**
 * Boot hosts that share a store on real members of etcd: one acts, the others stand by. Processes
 * of `muster serve` in one network namespace, each with its own state directory and ports.
 */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Io } from '../../src/cli/io.ts';
import { copy as copyStore } from '../../src/cli/store/copy.files.ts';
import { callApi } from './etcd/api.ts';
import { type StoreMembers, startMembers } from './etcd-members.ts';
import { freePort, READY, type ServerProcess, STANDS_BY, startServer } from './server-process.ts';

const home = fs.mkdtempSync(join(tmpdir(), 'muster-hosts-'));
const running: ServerProcess[] = [];
let members: StoreMembers;

beforeAll(async () => {
  members = await startMembers(3);
});
afterAll(async () => {
  for (const server of running) {
    server.child.kill('SIGCONT');
    await server.end('SIGKILL');
  }
  await members?.end();
  fs.rmSync(home, { recursive: true });
});

const stateOf = (name: string): string => join(home, name);
const socketOf = (name: string): string => join(home, `${name}.sock`);

/** Starts a host; resolves when it acts, or stands by. */
async function host(name: string, store: readonly string[] = [], until = READY): Promise<ServerProcess> {
  fs.mkdirSync(stateOf(name), { recursive: true });
  // Every host has the vault's key, which an operator copies.
  const key = join(home, 'vault.key');
  if (fs.existsSync(key)) fs.copyFileSync(key, join(stateOf(name), 'vault.key'));
  const server = await startServer(
    [
      ...['--state', stateOf(name), '--socket', socketOf(name), '--host-name', name],
      ...['--http-port', `${freePort()}`, '--agent-port', `${freePort()}`],
      ...['--sibling-port', `${freePort()}`, ...store],
    ],
    undefined,
    until,
  );
  running.push(server);
  if (!fs.existsSync(key)) fs.copyFileSync(join(stateOf(name), 'vault.key'), key);
  return server;
}

async function apply(at: string, name: string, n: number): Promise<void> {
  const macs = [`52:54:00:00:00:${n.toString(16).padStart(2, '0')}`];
  const document = { apiVersion: 'muster/v1', kind: 'Machine', metadata: { name }, spec: { macs } };
  const { status, text } = await callApi(socketOf(at), 'POST', '/v1/apply', JSON.stringify(document));
  if (status !== 200) throw new Error(text);
}
async function machines(at: string): Promise<string[]> {
  const { text } = await callApi(socketOf(at), 'GET', '/v1/machines');
  const { items } = JSON.parse(text) as { items: { metadata: { name: string } }[] };
  return items.map(({ metadata }) => metadata.name).toSorted();
}

interface Host {
  readonly name: string;
  readonly state: string;
  readonly behind: number;
  readonly skewMs?: number;
}
const ask = async <T>(at: string, method: string, path: string): Promise<T> =>
  JSON.parse((await callApi(socketOf(at), method, path)).text) as T;
const hosts = async (at: string): Promise<readonly Host[]> =>
  (await ask<{ items: readonly Host[] }>(at, 'GET', '/v1/hosts')).items;
const states = async (at: string): Promise<string> =>
  (await hosts(at)).map(({ name, state }) => `${name} ${state}`).join(', ');
/** Why this host acts after another one. */
async function takeOver(at: string): Promise<string> {
  const { items } = await ask<{
    items: { kind: string; reason?: { code: string }; fields: { from: string } }[];
  }>(at, 'GET', '/v1/events');
  const event = items.find(({ kind }) => kind === 'host.take-over');
  return `${event?.fields.from} ${event?.reason?.code}`;
}

test('a host that is killed or paused is followed by another one, which has all that was acknowledged', async () => {
  const store = ['--store', members.url('hosts'), ...members.options];
  const first = await host('host1', store);
  expect(await ask(`host1`, 'POST', '/v1/hosts/hand-over')).toMatchObject({ code: 'E_NO_STANDBY' });
  const second = await host('host2', store, STANDS_BY);
  await apply('host1', 'm1', 1);
  await expect(machines('host2')).rejects.toThrow();
  await expect.poll(() => states('host1'), { timeout: 5000 }).toBe('host1 acting, host2 standby');
  const [, other] = await hosts('host1');
  expect(Math.abs(other!.skewMs!)).toBeLessThan(2000);

  let began = performance.now();
  await first.end('SIGKILL');
  await second.wrote(READY);
  const killed = performance.now() - began;
  expect(await machines('host2')).toEqual(['m1']);
  expect(await takeOver('host2')).toBe('host1 lease_ended');
  await apply('host2', 'm2', 2);

  const third = await host('host3', store, STANDS_BY);
  began = performance.now();
  second.child.kill('SIGSTOP');
  await third.wrote(READY);
  const paused = performance.now() - began;
  await apply('host3', 'm3', 3);
  // It finds that another host acts before it answers, and ends.
  const ended = new Promise((resolve) => second.child.once('exit', resolve));
  const late = apply('host2', 'm4', 4).then(
    () => 'answered',
    () => 'refused',
  );
  second.child.kill('SIGCONT');
  expect(await late).toBe('refused');
  expect(await ended).toBe(1);
  expect(second.log()).toMatch(/E_HOST_NOT_ACTING|ended/);

  expect(await machines('host3')).toEqual(['m1', 'm2', 'm3']);
  expect(await takeOver('host3')).toBe('host2 lease_ended');
  console.log(`take-over after a kill: ${killed.toFixed(0)} ms, after a pause: ${paused.toFixed(0)} ms`);
}, 240_000);

test('a store moves from a file to etcd and back, and nothing is missing', async () => {
  const one = await host('solo');
  for (let n = 1; n <= 3; n++) await apply('solo', `s${n}`, n);
  const file = join(stateOf('solo'), 'muster.db');
  const etcd = members.url('moved');
  const [ca, cert, key] = [members.files.ca, members.files.cert, members.files.key];
  // In this process: a command of its own takes as long to start as a server.
  const copy = async (from: string, to: string): Promise<string> => {
    let said = '';
    const io = { out: (text: string) => (said += text) } as unknown as Io;
    await copyStore(from, to, { storeCa: ca, storeCert: cert, storeKey: key }, io);
    return said;
  };
  await expect(copy(file, etcd)).rejects.toMatchObject({ code: 'E_STORE_IN_USE' });
  await one.end();

  const there = await copy(file, etcd);
  await expect(copy(file, etcd)).rejects.toThrow(/not empty/);
  const shared = await host('solo', ['--store', etcd, ...members.options]);
  expect(await machines('solo')).toEqual(['s1', 's2', 's3']);
  await apply('solo', 's4', 4);
  await expect(copy(etcd, join(home, 'back.db'))).rejects.toThrow(/solo acts/);
  await shared.end();

  const back = await copy(etcd, join(home, 'back.db'));
  expect(Number(/all (\d+) records/.exec(back)![1])).toBeGreaterThan(
    Number(/all (\d+) records/.exec(there)![1]),
  );
  fs.renameSync(file, `${file}.old`);
  fs.renameSync(join(home, 'back.db'), file);
  await host('solo');
  expect(await machines('solo')).toEqual(['s1', 's2', 's3', 's4']);
}, 240_000);
