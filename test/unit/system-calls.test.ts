/** System calls through node:ffi, with the real kernel. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, expect, test } from 'vitest';
import type { Log } from '../../src/base/log.ts';
import { openSystemCalls } from '../../src/base/system-calls.socket.ts';

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-system-calls-'));
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

function logged(): { log: Log; lines: string[] } {
  const lines: string[] = [];
  const write = (_fields: object, message: string): void => void lines.push(message);
  const log = { debug: write, info: write, warn: write, error: write } as unknown as Log;
  return { log, lines };
}

/** A server that listens at `where`, and the server's side of one connection of this process. */
async function accepted(where: string | number): Promise<net.Socket> {
  const server = net.createServer();
  if (typeof where === 'string') server.listen(where);
  else server.listen(where);
  await once(server, 'listening');
  const arrived = once(server, 'connection') as Promise<[net.Socket]>;
  const client = net.connect(
    (typeof where === 'string' ? where : (server.address() as net.AddressInfo).port) as string,
  );
  const [socket] = await arrived;
  closing.push(() => {
    client.destroy();
    socket.destroy();
    server.close();
  });
  return socket;
}

const calls = openSystemCalls({ env: {}, log: logged().log })!;

test('the process at the other end of a unix socket is named with its uid and gid', async () => {
  const socket = await accepted(path.join(directory, 'own'));
  expect(calls.peerCredentials(socket)).toEqual({
    pid: process.pid,
    uid: process.getuid!(),
    gid: process.getgid!(),
  });
});

test('the uid is the one of the client, as the kernel knows it', async () => {
  const at = path.join(directory, 'other');
  const server = net.createServer();
  server.listen(at);
  await once(server, 'listening');
  fs.chmodSync(directory, 0o755);
  fs.chmodSync(at, 0o666);
  const arrived = once(server, 'connection') as Promise<[net.Socket]>;
  // Only root may change its user; without root this is a child process of the same user.
  const script = `setTimeout(() => process.exit(), 10_000);
    ${process.getuid!() === 0 ? 'process.setgid(65534); process.setuid(65534);' : ''}
    require('node:net').connect(${JSON.stringify(at)}).on('close', () => process.exit())`;
  const { spawn } = await import('node:child_process');
  const child = spawn(process.execPath, ['-e', script]);
  const [socket] = await arrived;
  closing.push(() => {
    socket.destroy();
    server.close();
  });
  const uid = process.getuid!() === 0 ? 65534 : process.getuid!();
  expect(calls.peerCredentials(socket)).toMatchObject({ pid: child.pid, uid });
});

test('a TCP socket and a closed socket have no peer process', async () => {
  expect(calls.peerCredentials(await accepted(0))).toBeUndefined();
  const socket = await accepted(path.join(directory, 'closed'));
  socket.destroy();
  expect(calls.peerCredentials(socket)).toBeUndefined();
});

test('memory that was freed between other memory goes back to the kernel', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // malloc takes pieces of this size from its arena, 128 MiB in all; every sixteenth stays.
  let pieces: Buffer[] = Array.from({ length: 8192 }, () => Buffer.allocUnsafeSlow(16_384).fill(1));
  pieces = pieces.filter((_, n) => n % 16 === 0);
  collect();
  const before = process.memoryUsage.rss();
  // The collector frees them in another thread, soon.
  const returned = (): number => {
    calls.returnMemory();
    return before - process.memoryUsage.rss();
  };
  await expect.poll(returned, { timeout: 10_000 }).toBeGreaterThan(32 * 1024 * 1024);
  expect(pieces).toHaveLength(512);
});

test('MUSTER_NATIVE=0 turns system calls off, and the log says so', () => {
  const { log, lines } = logged();
  expect(openSystemCalls({ env: { MUSTER_NATIVE: '0' }, log })).toBeUndefined();
  expect(lines).toEqual([
    'system calls are not used (MUSTER_NATIVE=0): the uid of operators is not known, and files cost more processor time',
  ]);
});

test('a Node without node:ffi does without system calls, and the log says so', () => {
  const script = `
    const { openSystemCalls } = await import('./src/base/system-calls.socket.ts');
    const log = { info() {}, warn: (fields, message) => console.log(message) };
    console.log(openSystemCalls({ env: {}, log }) === undefined);`;
  const printed = execFileSync(
    process.execPath,
    ['--no-experimental-ffi', '--input-type=module', '-e', script],
    { encoding: 'utf8', cwd: path.join(import.meta.dirname, '../..') },
  );
  expect(printed).toBe(
    'system calls cannot be used: the uid of operators is not known, and files cost more processor time\ntrue\n',
  );
});
