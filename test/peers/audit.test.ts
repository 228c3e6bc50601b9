/**
 * The security log of a real server: it names the users that asked, survives floods and kills, and
 * shows when it was changed.
 */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { connectApi } from '../../src/cli/client.socket.ts';
import type { AuditEntry } from '../../src/events/audit-chain.ts';
import { run } from '../unit/cli/run.ts';
import { freePort, type ServerProcess, startServer } from './server-process.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-audit-'));
const socket = path.join(dir, 'run', 'muster.sock');
const audit = path.join(dir, 'state', 'audit');
const client = connectApi(socket);
const NETWORK = `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 192.0.2.0/24, dhcp: {mode: "off"}}
`;

let server: ServerProcess;
let port: number;

async function start(): Promise<void> {
  server = await startServer([
    ...['--config', path.join(dir, 'config'), '--state', path.join(dir, 'state')],
    ...['--socket', socket, '--http-port', String(port)],
  ]);
}

const muster = (...args: string[]) => run(args, { socket });
const entries = async (query: Record<string, string> = {}): Promise<readonly AuditEntry[]> =>
  (await client.call<{ items: AuditEntry[] }>('GET', '/v1/audit/entries', { query })).items;

/** Calls the API as another user of the group that owns the socket. */
const callAs = async (uid: number, method: string, route: string): Promise<string> =>
  (
    await promisify(execFile)('setpriv', [
      ...['--reuid', String(uid), '--regid', '0', '--clear-groups'],
      ...['curl', '-sS', '--unix-socket', socket, '-X', method, `http://muster${route}`],
    ])
  ).stdout;

beforeAll(async () => {
  // Another user has to reach the socket.
  fs.chmodSync(dir, 0o755);
  fs.mkdirSync(path.join(dir, 'config'));
  fs.writeFileSync(path.join(dir, 'config', 'lan.yaml'), NETWORK);
  port = freePort();
});
afterEach(() => server.end('SIGKILL'));
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

it('names root and nobody by uid and name', async () => {
  await start();
  await callAs(0, 'POST', '/v1/reload');
  await callAs(65534, 'POST', '/v1/reload');
  await callAs(65534, 'POST', '/v1/clusters/blue/kubeconfig?user=eve');
  const actions = (await entries()).filter(({ kind }) => kind === 'operator.action');
  expect(actions).toMatchObject([
    { actor: { uid: 0, user: 'root' }, subject: 'reload', reason: { code: 'done' } },
    { actor: { uid: 65534, user: 'nobody' }, subject: 'reload' },
    { actor: { uid: 65534, user: 'nobody' }, subject: 'Cluster/blue', reason: { code: 'E_NOT_FOUND' } },
  ]);
  const { out } = await muster('events', '--security');
  expect(out).toMatch(/root \(0\) +reload .*\n.*nobody \(65534\) +reload/);
  await server.end('SIGTERM');
});

/**
 * Sends requests in the name of machines that do not exist, until so many events have come of them.
 */
async function flood(events: number): Promise<void> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
  let n = 0;
  const ask = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const mac = `02:00:${(++n + 0x1000000 * 2).toString(16).padStart(8, '0').match(/../g)!.join(':')}`;
      http
        .get({ host: '127.0.0.1', port, path: `/script.ipxe?mac=${mac}&arch=x86_64`, agent }, (response) =>
          response.resume().once('end', resolve),
        )
        .once('error', reject);
    });
  const recorded = async (): Promise<number> => {
    const metrics = await client.call<string>('GET', '/metrics');
    return [...metrics.matchAll(/^muster_events_total\{[^}]*\} (\d+)/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  };
  while ((await recorded()) < events)
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        for (let again = 0; again < 40; again++) await ask();
      }),
    );
  agent.destroy();
}

it('50,000 events that hosts of the segment cause displace nothing of it', async () => {
  await start();
  await callAs(65534, 'POST', '/v1/machines/lost/rearm');
  // What is signed already gets no further signature after a minute.
  await muster('audit', 'checkpoint');
  const before = await entries();
  const size = fs.readdirSync(audit).reduce((sum, name) => sum + fs.statSync(path.join(audit, name)).size, 0);
  await flood(50_000);
  expect(await entries()).toEqual(before);
  const after = fs
    .readdirSync(audit)
    .reduce((sum, name) => sum + fs.statSync(path.join(audit, name)).size, 0);
  expect(after).toBe(size);
  expect(await muster('audit', 'verify')).toMatchObject({ code: 0, err: '' });
  await server.end('SIGTERM');
}, 300_000);

it('a server that is killed while it writes has every action that it answered, and an unbroken chain', async () => {
  const answered: string[] = [];
  for (let round = 0; round < 4; round++) {
    await start();
    const names = Array.from({ length: 400 }, (_, n) => `r${round}-${n}`);
    const writers = Array.from({ length: 8 }, async () => {
      for (let name = names.pop(); name !== undefined; name = names.pop()) {
        const tried = name;
        const there = await client
          .call('POST', `/v1/machines/${tried}/rearm`)
          .catch((error: { code?: string }) => error.code === 'E_NOT_FOUND');
        if (there) answered.push(tried);
      }
    });
    await vi.waitFor(() => expect(answered.length).toBeGreaterThan(round * 50 + 40), {
      timeout: 60_000,
      interval: 2,
    });
    await server.end('SIGKILL');
    await Promise.all(writers);
  }
  // What a kill leaves at the worst: a line that was written in part.
  const newest = fs.readdirSync(audit).sort().at(-1)!;
  const lines = fs.readFileSync(path.join(audit, newest), 'utf8').split('\n');
  fs.appendFileSync(path.join(audit, newest), lines.at(-2)!.slice(0, 50));
  await start();
  const key = path.join(dir, 'audit.pub');
  fs.writeFileSync(key, (await muster('audit', 'key')).out);
  expect(await muster('audit', 'verify')).toMatchObject({ code: 0, err: '' });
  const all = await entries();
  const subjects = new Set(all.map(({ subject }) => subject));
  expect(answered.filter((name) => !subjects.has(name))).toEqual([]);
  expect(all.filter(({ kind }) => kind === 'audit.torn')).toMatchObject([{ fields: { octets: 50 } }]);

  const exported = path.join(dir, 'log.jsonl');
  fs.writeFileSync(exported, (await muster('audit', 'export')).out);
  expect(await muster('audit', 'verify', exported, '--key', key)).toMatchObject({ code: 0 });
  await server.end('SIGTERM');
  expect(await muster('audit', 'verify', audit, '--key', key)).toMatchObject({ code: 0 });
}, 300_000);

it('a log from which entries were cut while the server was down raises an alarm', async () => {
  const name = fs.readdirSync(audit).sort().at(-1)!;
  const file = path.join(audit, name);
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  fs.writeFileSync(file, `${lines.slice(0, -30).join('\n')}\n`);
  await start();
  expect((await entries()).findLast(({ kind }) => kind === 'audit.alarm')).toMatchObject({
    reason: { code: 'log_cut' },
  });
  expect(server.log()).toContain('E_AUDIT_LOG');
  const { code, out } = await muster('audit', 'verify');
  expect(code).toBe(1);
  expect(out).toMatch(/^missing: entries \d+ to \d+: missing, and no entry says why\n/);
});
