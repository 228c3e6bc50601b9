/** Files that a plan has the agent fetch from the boot server by hash. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { Machine, Planner } from './agent-kit.ts';

let planner: Planner;
let machine: Machine;
let server: http.Server;
let base: string;
let answer: http.RequestListener;

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
  server = http.createServer((request, response) => answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  machine.close();
  planner.close();
  server.closeAllConnections();
  server.close();
});

const sha256Of = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex');

test('a file is fetched by its hash, an interrupted download is resumed, and a wrong file is deleted', async () => {
  const content = Buffer.alloc(300_000, 'tool');
  const sha256 = sha256Of(content);
  const ranges: (string | undefined)[] = [];
  let served = content;
  let cut = 100_000;
  answer = (request, response) => {
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    ranges.push(request.headers.range);
    const range = { 'Content-Range': `bytes ${from}-${served.length - 1}/${served.length}` };
    const headers = { 'Content-Length': served.length - from, ...(from > 0 && range) };
    response.writeHead(from > 0 ? 206 : 200, headers);
    const part = served.subarray(from);
    if (part.length > cut) response.write(part.subarray(0, cut), () => response.destroy());
    else response.end(part);
  };
  const url = `${base}/assets/${sha256}/tool`;
  const lines: readonly PlanLine[] = [{ do: 'fetch', mode: 0o755, path: '/opt/bin/tool', url, sha256 }];
  const poll = async (): Promise<string | undefined> => {
    planner.plan(lines);
    const { said } = await machine.poll();
    return /^muster-agent: ([a-z-]+):/m.exec(said)?.[1];
  };
  expect(await poll()).toBe('fetch-failed');
  expect(machine.exists('/opt/bin/tool')).toBe(false);
  cut = Number.POSITIVE_INFINITY;
  expect(await poll()).toBeUndefined();
  expect(ranges).toEqual([undefined, expect.stringMatching(/^bytes=[1-9]/)]);
  expect(fs.readFileSync(machine.path('/opt/bin/tool')).equals(content)).toBe(true);
  expect(machine.mode('/opt/bin/tool')).toBe('755');
  await poll();
  expect(ranges).toHaveLength(2);

  fs.rmSync(machine.path('/opt/bin/tool'));
  served = Buffer.alloc(300_000, 'evil');
  expect(await poll()).toBe('wrong-hash');
  expect(fs.readdirSync(machine.path('/opt/bin'))).toEqual([]);
  served = content;
  expect(await poll()).toBeUndefined();
  expect(fs.readdirSync(machine.path('/opt/bin'))).toEqual(['tool']);
});

test('an archive is unpacked once, and again when a later archive may have overwritten its files', async () => {
  const archives = new Map<string, Buffer>();
  const pack = (text: string): string => {
    machine.write('/pack/tool', text);
    const octets = execFileSync('tar', ['-czf', '-', '-C', machine.path('/pack'), 'tool']);
    archives.set(`/${sha256Of(octets)}`, octets);
    return sha256Of(octets);
  };
  let asked = 0;
  answer = (request, response) => {
    asked += 1;
    response.end(archives.get(request.url!));
  };
  const unpack = async (sha256: string): Promise<string> => {
    planner.plan([{ do: 'unpack', directory: '/opt/tools', url: `${base}/${sha256}`, sha256 }]);
    expect(await machine.poll()).toEqual({ status: 0, said: '' });
    return machine.read('/opt/tools/tool');
  };
  const [old, next] = [pack('old'), pack('next')];
  expect([await unpack(old), await unpack(old)]).toEqual(['old', 'old']);
  expect(asked).toBe(1);
  expect([await unpack(next), await unpack(old)]).toEqual(['next', 'old']);
  expect(asked).toBe(3);
  expect(fs.readdirSync(machine.path('/opt/tools')).sort()).toEqual([`.muster-unpacked.${old}`, 'tool']);
});
