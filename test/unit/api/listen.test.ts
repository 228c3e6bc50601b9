import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listenOnSocket } from '../../../src/api/listen.socket.ts';
import { silentLog } from '../../../src/base/log.ts';

let directory: string;
let file: string;
const servers: http.Server[] = [];
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-listen-'));
  file = path.join(directory, 'run', 'muster.sock');
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
  fs.rmSync(directory, { recursive: true, force: true });
});

function listen(where = file): Promise<() => Promise<void>> {
  const server = http.createServer((_request, response) => response.end('ours'));
  servers.push(server);
  return listenOnSocket(server, where, silentLog);
}

const connects = (): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = net.connect(file, () => resolve(true));
    probe.once('error', () => resolve(false)).once('connect', () => probe.destroy());
  });

/** Leaves a socket file that no process listens on, as a killed server does. */
async function leftover(): Promise<void> {
  fs.mkdirSync(path.dirname(file));
  const dead = net.createServer();
  const aside = path.join(directory, 'aside');
  await new Promise<void>((resolve) => dead.listen(aside, resolve));
  fs.renameSync(aside, file);
  await new Promise<void>((resolve) => dead.close(() => resolve()));
}

describe("the operators' socket", () => {
  it('has mode 0660 and leaves nothing else in its directory', async () => {
    await listen();
    expect(fs.statSync(file).mode & 0o777).toBe(0o660);
    expect(fs.readdirSync(path.dirname(file))).toEqual(['muster.sock']);
    expect(await connects()).toBe(true);
  });

  it('replaces a socket that a killed server left', async () => {
    await leftover();
    expect(await connects()).toBe(false);
    await listen();
    expect(await connects()).toBe(true);
  });

  it('is not taken from a running server', async () => {
    await listen();
    await expect(listen()).rejects.toMatchObject({ code: 'E_SOCKET_IN_USE' });
    expect(await connects()).toBe(true);
  });

  it('does not replace a file that is not a socket', async () => {
    fs.mkdirSync(path.dirname(file));
    fs.writeFileSync(file, 'precious');
    await expect(listen()).rejects.toMatchObject({ code: 'E_SOCKET_IN_USE' });
    expect(fs.readFileSync(file, 'utf8')).toBe('precious');
  });

  it('must have a path that fits into a socket address', async () => {
    await expect(listen(path.join(directory, 'x'.repeat(120)))).rejects.toMatchObject({ code: 'E_USAGE' });
    expect(fs.readdirSync(directory)).toEqual([]);
  });

  it('is removed at the end, unless another socket has replaced it', async () => {
    const remove = await listen();
    await remove();
    expect(fs.existsSync(file)).toBe(false);
    const removeAgain = await listen();
    fs.unlinkSync(file);
    fs.writeFileSync(file, 'of somebody else');
    await removeAgain();
    expect(fs.existsSync(file)).toBe(true);
  });
});
