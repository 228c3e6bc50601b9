/**
 * The daemon as a process: documents change, it reloads and stops, and clients are served without
 * interruption.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Readiness } from '../../src/api/deps.ts';
import { type ApiClient, connectApi } from '../../src/cli/client.socket.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-serve-'));
const config = path.join(dir, 'config');
const loaders = path.join(dir, 'loaders');
const socket = path.join(dir, 'run', 'muster.sock');
const SIZE = 48 * 1024 * 1024;
let child: ChildProcess;
let port: number;
let client: ApiClient;
let log = '';

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port: free } = probe.address() as net.AddressInfo;
      probe.close(() => resolve(free));
    });
  });

const profile = (name: string): string =>
  `apiVersion: muster/v1\nkind: Profile\nmetadata: {name: ${name}}\nspec: {boot: hold}\n`;

beforeAll(async () => {
  fs.mkdirSync(config);
  fs.mkdirSync(loaders);
  fs.writeFileSync(path.join(config, 'a.yaml'), profile('first'));
  fs.writeFileSync(path.join(loaders, 'big.efi'), Buffer.alloc(SIZE, 'muster'));
  port = await freePort();
  child = spawn(
    process.execPath,
    [
      path.join(ROOT, 'src/cli/main.ts'),
      'serve',
      ...['--config', config, '--state', path.join(dir, 'state'), '--socket', socket],
      ...['--http-port', String(port), '--loaders', loaders],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (text) => (log += text));
  client = connectApi(socket);
  await vi.waitFor(() => expect(log).toContain('"ready:'), { timeout: 50_000 });
}, 60_000);

afterAll(() => {
  child.kill('SIGKILL');
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
    child.kill('SIGHUP');
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
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await expect.poll(() => log, { timeout: 10_000 }).toContain('stopping');
    const refused = await fetch(`http://127.0.0.1:${port}/boot.ipxe`).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Error);
    expect(await transfer.finish()).toBe(WHOLE);
    expect(await ended).toBe(0);
    expect(fs.existsSync(socket)).toBe(false);
  });
});
