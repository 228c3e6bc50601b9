/**
 * Boot hosts that share a store on real members of etcd: one acts, the others stand by. Processes
 * of `muster serve` in one network namespace, each with its own state directory and ports.
 */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callApi } from './etcd/api.ts';
import { type StoreMembers, startMembers } from './etcd-members.ts';
import { freePort, MUSTER, type ServerProcess, startServer } from './server-process.ts';

const run = promisify(execFile);
const home = fs.mkdtempSync(join(tmpdir(), 'muster-hosts-'));
const running: ServerProcess[] = [];
let members: StoreMembers;

beforeAll(async () => {
  members = await startMembers(3);
}, 60_000);
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

/** Starts a host; resolves when it acts. */
async function host(name: string, store: readonly string[] = []): Promise<ServerProcess> {
  fs.mkdirSync(stateOf(name), { recursive: true });
  // Every host has the vault's key, which an operator copies.
  const key = join(home, 'vault.key');
  if (fs.existsSync(key)) fs.copyFileSync(key, join(stateOf(name), 'vault.key'));
  const server = await startServer([
    ...['--state', stateOf(name), '--socket', socketOf(name), '--host-name', name],
    ...['--http-port', `${freePort()}`, '--agent-port', `${freePort()}`, ...store],
  ]);
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

test('a host that is killed or paused is followed by another one, which has all that was acknowledged', async () => {
  const store = ['--store', members.url('hosts'), ...members.options];
  const first = await host('host1', store);
  await apply('host1', 'm1', 1);
  const second = host('host2', store);
  await wait(2500);
  await expect(machines('host2')).rejects.toThrow();
  await apply('host1', 'm2', 2);

  let began = performance.now();
  await first.end('SIGKILL');
  const acting = await second;
  const killed = performance.now() - began;
  expect(await machines('host2')).toEqual(['m1', 'm2']);
  await apply('host2', 'm3', 3);

  const third = host('host3', store);
  await wait(2500);
  began = performance.now();
  acting.child.kill('SIGSTOP');
  await third;
  const paused = performance.now() - began;
  await apply('host3', 'm4', 4);
  // It finds that another host acts before it answers, and ends.
  const ended = new Promise((resolve) => acting.child.once('exit', resolve));
  const late = apply('host2', 'm5', 5).then(
    () => 'answered',
    () => 'refused',
  );
  acting.child.kill('SIGCONT');
  expect(await late).toBe('refused');
  expect(await ended).toBe(1);
  expect(acting.log()).toMatch(/E_HOST_NOT_ACTING|ended/);
  expect(await machines('host3')).toEqual(['m1', 'm2', 'm3', 'm4']);
  console.log(`take-over after a kill: ${killed.toFixed(0)} ms, after a pause: ${paused.toFixed(0)} ms`);
}, 240_000);

test('a store moves from a file to etcd and back, and nothing is missing', async () => {
  const one = await host('solo');
  for (let n = 1; n <= 3; n++) await apply('solo', `s${n}`, n);
  const file = join(stateOf('solo'), 'muster.db');
  const etcd = members.url('moved');
  const copy = async (from: string, to: string): Promise<string> =>
    (await run(process.execPath, [MUSTER, 'store', 'copy', from, to, ...members.options])).stdout;
  await expect(copy(file, etcd)).rejects.toThrow(/E_STORE_IN_USE/);
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
