/** The server keeps working when its log cannot be written, and ends on request. */
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { connectApi } from '../../src/cli/client.socket.ts';
import { freePort, MUSTER } from './server-process.ts';

const WAIT = { timeout: 20_000, interval: 100 };

let dir: string;
let port: number;
let started: ChildProcess | undefined;

beforeEach(() => {
  port = freePort();
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-log-'));
});
afterEach(() => {
  started?.kill('SIGKILL');
  const server = serverPid();
  if (server !== undefined && isRunning(server)) process.kill(server, 'SIGKILL');
  fs.rmSync(dir, { recursive: true, force: true });
});

/** The server as a shell command; its process id is in `DIR/pid`. */
const command = (): string => {
  const words = [
    process.execPath,
    MUSTER,
    'serve',
    ...['--state', path.join(dir, 'state'), '--socket', path.join(dir, 'muster.sock')],
    ...['--http-port', String(port)],
  ];
  return `echo $$ > ${dir}/pid; exec ${words.map((word) => `'${word}'`).join(' ')}`;
};

function serverPid(): number | undefined {
  try {
    return Number(fs.readFileSync(path.join(dir, 'pid'), 'utf8'));
  } catch {
    return undefined;
  }
}

/** Whether the process is there and has not ended; a zombie has. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

const client = () => connectApi(path.join(dir, 'muster.sock'));

/** Applies a document, which logs, and reads the status: the server answers. */
async function isServing(name: string): Promise<void> {
  const text = JSON.stringify({
    apiVersion: 'muster/v1',
    kind: 'Profile',
    metadata: { name },
    spec: { boot: 'hold' },
  });
  await vi.waitFor(() => client().call('POST', '/v1/apply', { body: Buffer.from(text) }), WAIT);
  expect(await client().call('GET', '/v1/status')).toMatchObject({ version: expect.any(String) });
}

const ended = (pid: number) => vi.waitFor(() => expect(isRunning(pid)).toBe(false), WAIT);

test('a full disk drops the lines of the log, counts them, and SIGTERM ends the server', async () => {
  started = spawn('sh', ['-c', `${command()} > /dev/full`], { stdio: 'ignore' });
  await isServing('one');
  await isServing('two');
  const metrics = await client().call<string>('GET', '/metrics');
  expect(Number(/^muster_log_lines_dropped_total (\d+)/m.exec(metrics)?.[1])).toBeGreaterThan(0);
  process.kill(serverPid()!, 'SIGTERM');
  await ended(serverPid()!);
});

test('the server survives that the reader of its log goes away, and SIGTERM ends it', async () => {
  started = spawn('sh', ['-c', command()], { stdio: ['ignore', 'pipe', 'ignore'] });
  await isServing('one');
  started.stdout!.destroy();
  await isServing('two');
  await isServing('three');
  process.kill(serverPid()!, 'SIGTERM');
  await ended(serverPid()!);
});

test('a server in the foreground shuts down cleanly when its terminal is closed', async () => {
  started = spawn('script', ['-qec', command(), '/dev/null'], { stdio: ['pipe', 'ignore', 'ignore'] });
  await isServing('one');
  const pid = serverPid()!;
  // The terminal goes away with the program that holds it.
  started.kill('SIGKILL');
  await ended(pid);
  // The socket was removed: the server closed what it had opened.
  expect(fs.existsSync(path.join(dir, 'muster.sock'))).toBe(false);
});

test('without a terminal, SIGHUP reloads the documents', async () => {
  started = spawn('sh', ['-c', command()], { stdio: 'ignore' });
  await isServing('one');
  process.kill(serverPid()!, 'SIGHUP');
  await isServing('two');
  process.kill(serverPid()!, 'SIGTERM');
  await ended(serverPid()!);
});
