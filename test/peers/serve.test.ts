/**
 * The daemon as a process: documents change, it reloads and stops, and clients are served without
 * interruption. Files that change while it is down harm no running cluster.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Readiness } from '../../src/api/daemon.ts';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { type ApiClient, connectApi } from '../../src/cli/client.socket.ts';
import { openReleases } from '../../src/cluster/change/releases.ts';
import { resolveCluster } from '../../src/cluster/resolve/resolve.ts';
import { openSqliteStore } from '../../src/store/sqlite.files.ts';
import { freePort, type ServerProcess, startServer } from './server-process.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-serve-'));
const config = path.join(dir, 'config');
const loaders = path.join(dir, 'loaders');
const state = path.join(dir, 'state');
const socket = path.join(dir, 'run', 'muster.sock');
const SIZE = 48 * 1024 * 1024;
let server: ServerProcess;
let port: number;
let client: ApiClient;

const profile = (name: string): string =>
  `apiVersion: muster/v1\nkind: Profile\nmetadata: {name: ${name}}\nspec: {boot: hold}\n`;

/** Starts a server, and waits until it is ready. */
async function serve(): Promise<void> {
  port = freePort();
  server = await startServer([
    ...['--config', config, '--state', state, '--socket', socket],
    ...['--http-port', String(port), '--loaders', loaders],
  ]);
  client = connectApi(socket);
}

beforeAll(async () => {
  fs.mkdirSync(config);
  fs.mkdirSync(loaders);
  fs.writeFileSync(path.join(config, 'a.yaml'), profile('first'));
  fs.writeFileSync(path.join(loaders, 'big.efi'), Buffer.alloc(SIZE, 'muster'));
  await serve();
});

afterAll(() => {
  server.child.kill('SIGKILL');
  fs.rmSync(dir, { recursive: true, force: true });
});

/** Begins a download and pauses it; the file is larger than all buffers on the way. */
async function begin(): Promise<{ finish: () => Promise<string> }> {
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    http
      .get({ host: '127.0.0.1', port, path: '/loaders/big.efi', agent: false }, resolve)
      .once('error', reject);
  });
  expect(response.statusCode).toBe(200);
  const hash = createHash('sha256');
  await new Promise<void>((resolve) => {
    response.once('data', (first) => {
      hash.update(first);
      response.pause();
      resolve();
    });
  });
  return {
    async finish() {
      response.on('data', (piece) => hash.update(piece));
      const ended = new Promise<void>((resolve, reject) => {
        response
          .once('end', resolve)
          .once('error', reject)
          .once('aborted', () => reject(new Error('cut off')));
      });
      response.resume();
      await ended;
      return hash.digest('hex');
    },
  };
}

const WHOLE = createHash('sha256').update(Buffer.alloc(SIZE, 'muster')).digest('hex');

const profiles = async (): Promise<string[]> => {
  const { items } = await client.call<{ items: { metadata: { name: string } }[] }>('GET', '/v1/profiles');
  return items.map((item) => item.metadata.name);
};

describe('muster serve', () => {
  it('muster serve takes changed files by itself and on SIGHUP, without dropping a transfer', async () => {
    const transfer = await begin();
    fs.writeFileSync(path.join(config, 'b.yaml'), profile('second'));
    await expect.poll(profiles, { timeout: 10_000 }).toEqual(['first', 'second']);
    fs.writeFileSync(path.join(config, 'c.yaml'), profile('third'));
    server.child.kill('SIGHUP');
    await expect.poll(profiles, { timeout: 10_000 }).toEqual(['first', 'second', 'third']);
    expect(await transfer.finish()).toBe(WHOLE);
  });

  it('muster serve keeps the last valid version of a file that becomes invalid, and says so', async () => {
    fs.writeFileSync(path.join(config, 'b.yaml'), 'kind: [');
    const answer = await client.call<{ faults: { at: { file: string } }[] }>('POST', '/v1/reload');
    expect(answer.faults).toMatchObject([
      { code: 'E_YAML', at: { file: path.join(config, 'b.yaml'), line: 1 } },
    ]);
    expect(await profiles()).toContain('second');
    const { items } = await client.call<{ items: { kind: string }[] }>('GET', '/v1/events');
    expect(items.map((event) => event.kind)).toContain('document.invalid');
  });

  it('muster serve reports a missing loader, and finds a loader that was installed meanwhile at a reload', async () => {
    const status = async () => (await fetch(`http://127.0.0.1:${port}/loaders/ipxe.efi`)).status;
    const said = async () => {
      const { ready, checks } = await client.call<Readiness>('GET', '/v1/status');
      return { ready, ...checks.find(({ name }) => name === 'loaders')! };
    };
    fs.writeFileSync(path.join(loaders, 'ipxe.efi'), 'new');
    expect(await status()).toBe(404);
    expect(await said()).toMatchObject({
      ready: true,
      ok: false,
      detail: expect.stringContaining('install the package ipxe'),
    });
    await client.call('POST', '/v1/reload');
    expect(await status()).toBe(200);
    expect(await said()).toMatchObject({ ok: true, detail: 'x64 UEFI' });
  });

  it('muster serve stops on SIGTERM when current transfers have ended, and accepts no new request meanwhile', async () => {
    const transfer = await begin();
    const ended = new Promise<number | null>((resolve) => server.child.once('exit', resolve));
    server.child.kill('SIGTERM');
    await expect.poll(server.log, { timeout: 10_000 }).toContain('stopping');
    const refused = await fetch(`http://127.0.0.1:${port}/boot.ipxe`).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Error);
    expect(await transfer.finish()).toBe(WHOLE);
    expect(await ended).toBe(0);
    expect(fs.existsSync(socket)).toBe(false);
  });
});

describe('files that change while the server is down', () => {
  const NAMES = ['m1', 'm2', 'm3'];
  const UUID = '4c4c4544-0042-3510-8051-b7c04f4d353';
  const kubernetes = { version: '1.36.3', endpoint: 'api.blue.test', controlPlanes: NAMES };
  const file = (kind: string) => path.join(config, `${kind}.yaml`);
  const document = (kind: string, name: string, spec: object) =>
    `---\n${JSON.stringify({ apiVersion: 'muster/v1', kind, metadata: { name }, spec })}\n`;
  const specOf = (n: number) => ({
    macs: [`52:54:00:00:00:0${n}`],
    profile: 'first',
    addresses: [`10.77.0.1${n}`],
    ...{ uuid: `${UUID}${n}`, serial: `SN-${n}` },
  });
  type Named = readonly [name: string, spec: object];
  const ALL: readonly Named[] = NAMES.map((name, n) => [name, specOf(n + 1)]);
  const writeMachines = (machines: readonly Named[]) =>
    fs.writeFileSync(
      file('machines'),
      machines.map(([name, spec]) => document('Machine', name, spec)).join(''),
    );
  const changed = (name: string, more: object): readonly Named[] =>
    ALL.map(([one, spec]) => [one, one === name ? { ...spec, ...more } : spec]);

  /** Notes what agents of the founded cluster reported; no server may have the store open. */
  async function found(): Promise<void> {
    const store = await openSqliteStore({
      path: path.join(state, 'muster.db'),
      log: silentLog,
      metrics: createMetrics(),
    });
    const releases = await openReleases({ store, log: silentLog });
    const facts = NAMES.map((name, n) => ({ name, addresses: specOf(n + 1).addresses }));
    const { resolved } = resolveCluster('blue', kubernetes, facts);
    for (const [n, machine] of resolved!.machines.entries())
      await releases.heard(resolved!, machine, {
        ...{ agent: '2', bootId: 'b', machineId: 'm', clock: 0, pins: new Map(), requests: new Map() },
        ...{ disk: { state: 'unused' }, etcd: { wal: 'present', health: 'serving' } },
        runs: { kubelet: '1.36.3' },
        inventory: { cards: [{ mac: specOf(n + 1).macs[0]! }] } as never,
      });
    await store.close();
  }

  beforeAll(async () => {
    await server.end();
    fs.writeFileSync(file('b'), profile('second'));
    fs.writeFileSync(
      file('network'),
      document('Network', 'rack', { subnet: '10.77.0.0/24', dhcp: { mode: 'proxy' } }),
    );
    fs.writeFileSync(file('cluster'), document('Cluster', 'blue', { trust: 'segment', kubernetes }));
    writeMachines(ALL);
    await serve();
    await server.end();
    await found();
  }, 60_000);

  afterEach(() => server.end());

  it.each([
    ['the address of a member of etcd', changed('m2', { addresses: ['10.77.0.22'] }), 'Put 10.77.0.12 back'],
    [
      'its name',
      changed('m2', {}).map(([name, spec]) => [name === 'm2' ? 'm9' : name, spec]),
      'keeps its name',
    ],
    ['its network card', changed('m2', { macs: ['52:54:00:00:00:0a'] }), 'lists none of them'],
    ['a file that is no YAML', undefined, 'machines.yaml'],
  ] as const)('%s: all documents stay as they were, and the fault is told', async (_, machines, why) => {
    if (machines === undefined) fs.writeFileSync(file('machines'), 'kind: [');
    else writeMachines(machines as readonly Named[]);
    await serve();
    const { faults } = await client.call<{ faults: { message: string }[] }>('POST', '/v1/reload');
    expect(JSON.stringify(faults)).toContain(why);
    expect(server.log()).toContain(why);
    const list = async (kind: string) =>
      (
        await client.call<{ items: { metadata: { name: string }; spec: object }[] }>('GET', `/v1/${kind}`)
      ).items.map(({ metadata, spec }) => [metadata.name, spec]);
    expect(await list('machines')).toMatchObject(ALL);
    expect(await list('clusters')).toMatchObject([['blue', { kubernetes }]]);
  });

  it('a change that needs the name of the cluster is taken by a reload that repeats it', async () => {
    const spec = { ...specOf(2), macs: ['52:54:00:00:00:0a'] };
    writeMachines(changed('m2', spec));
    await serve();
    const reload = async (query: Record<string, string>) =>
      (await client.call<{ faults: object[] }>('POST', '/v1/reload', { query })).faults.length;
    const m2 = async () => (await client.call<{ spec: object }>('GET', '/v1/machines/m2')).spec;
    expect([await reload({}), await m2()]).toMatchObject([1, specOf(2)]);
    expect([await reload({ confirm: 'blue' }), await m2()]).toMatchObject([0, spec]);
    await reload({});
    expect(await m2()).toMatchObject(spec);
    writeMachines(ALL);
    expect([await reload({}), await m2()]).toMatchObject([0, specOf(2)]);
  });

  it('a UUID and a serial number that both contradict the machine hold it at its boot, and say what to correct', async () => {
    const asks = (n: number) =>
      fetch(
        `http://127.0.0.1:${port}/script.ipxe?mac=${specOf(n).macs[0]}&uuid=${UUID}${n}&serial=SN-${n}&arch=x86_64&platform=efi`,
      ).then((answer) => answer.text());
    writeMachines(changed('m2', { uuid: `${UUID}9`, serial: 'SN-9' }));
    await serve();
    const told = await asks(2);
    expect(told).toContain('UUID and serial number are both not');
    expect(told).toContain('if the board was replaced, correct uuid and serial in the Machine document');
    expect(await asks(1)).not.toContain('UUID');
  });
});
