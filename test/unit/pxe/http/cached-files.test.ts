/** Files that the kernel sends from its memory, and the same files copied through the process. */
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../../../src/base/log.ts';
import { openSystemCalls } from '../../../../src/base/system-calls.socket.ts';
import { type Rig, rig } from './rig.ts';

const calls = openSystemCalls({ env: {}, log: silentLog })!;
const SIZE = 3_000_017;

/** The body of `path`, asked for over `agent`'s connection. */
function fetched(port: number, target: string, range: string, agent: http.Agent): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const request = http.get({ port, path: target, agent, headers: { range } }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('end', () => resolve(Buffer.concat(parts)));
    });
    request.on('error', reject);
  });
}

describe.each([
  ['by the kernel', calls],
  ['through the process', undefined],
])('files that are sent %s', (_, cached) => {
  let served: Rig;
  let byKernel = 0;
  beforeAll(async () => {
    served = await rig({
      size: SIZE,
      cached: cached && {
        isCached: cached.isCached,
        sendCached(...words) {
          const octets = cached.sendCached(...words);
          byKernel += octets;
          return octets;
        },
      },
    });
  });
  afterAll(() => served.close());

  it('have the octets that were asked for, in any ranges over one connection', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const place = fc.integer({ min: 0, max: SIZE - 1 });
    const range = fc.tuple(place, place).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
    await fc.assert(
      fc.asyncProperty(range, async ([first, last]) => {
        const body = await fetched(
          served.port,
          `/assets/${served.sha256}/k`,
          `bytes=${first}-${last}`,
          agent,
        );
        expect(body.equals(served.octets.subarray(first, last + 1))).toBe(true);
      }),
      { numRuns: 40 },
    );
    agent.destroy();
    // Else this test would compare two copies of the same way.
    expect(byKernel > SIZE).toBe(cached !== undefined);
  });

  it('reach a client that reads slowly, whole', async () => {
    const socket = net.connect(served.port, '127.0.0.1');
    socket.write(`GET /assets/${served.sha256}/k HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    const parts: Buffer[] = [];
    for await (const part of socket) {
      parts.push(part as Buffer);
      await new Promise((done) => setImmediate(done));
    }
    const all = Buffer.concat(parts);
    expect(all.subarray(all.indexOf('\r\n\r\n') + 4).equals(served.octets)).toBe(true);
  });

  it('end with the connection of a client that goes away, and the next client gets all of it', async () => {
    const socket = net.connect(served.port, '127.0.0.1');
    socket.write(`GET /assets/${served.sha256}/k HTTP/1.1\r\nHost: x\r\n\r\n`);
    await new Promise((done) => socket.once('data', done));
    socket.destroy();
    const agent = new http.Agent();
    const body = await fetched(served.port, `/assets/${served.sha256}/k`, '', agent);
    expect(body.equals(served.octets)).toBe(true);
  });
});

describe('the kernel sends nothing of a file', () => {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'muster-cached-')), 'file');
  fs.writeFileSync(file, 'octets');
  const fd = fs.openSync(file, 'r');
  afterAll(() => {
    fs.closeSync(fd);
    fs.rmSync(path.dirname(file), { recursive: true });
  });

  it('to a connection that Node encrypts', () => {
    expect(calls.sendCached(new tls.TLSSocket(new net.Socket()), fd, 0, 6)).toBe(0);
  });

  it('to a socket that is closed or was never open', () => {
    expect(calls.sendCached(new net.Socket(), fd, 0, 6)).toBe(0);
  });

  it('behind the end of the file, or of a descriptor that is closed', async () => {
    const server = net.createServer().listen(0, '127.0.0.1');
    await new Promise((done) => server.once('listening', done));
    const socket = net.connect((server.address() as net.AddressInfo).port, '127.0.0.1');
    await new Promise((done) => socket.once('connect', done));
    expect(calls.sendCached(socket, fd, 6, 100)).toBe(0);
    expect(calls.sendCached(socket, 1_000_000, 0, 6)).toBe(0);
    expect(calls.sendCached(socket, fd, 0, 6)).toBe(6);
    socket.write('more');
    if (socket.writableLength > 0) expect(calls.sendCached(socket, fd, 0, 6)).toBe(0);
    socket.destroy();
    server.close();
  });
});
