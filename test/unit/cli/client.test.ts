/** The command's side of a call: how long it waits, and what ends it. */
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { connectApi } from '../../../src/cli/client.socket.ts';
import { run } from './run.ts';

let directory: string;
let socket: string;
let server: http.Server;
/** What the server does with a request; by default nothing, as one that hangs. */
let answer: http.RequestListener;
/** Ends when a request has arrived. */
let asked: PromiseWithResolvers<void>;
let left: PromiseWithResolvers<void>;

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-client-'));
  socket = path.join(directory, 's');
  asked = Promise.withResolvers();
  left = Promise.withResolvers();
  answer = () => {};
  server = http.createServer((request, response) => {
    response.on('close', () => left.resolve());
    answer(request, response);
    asked.resolve();
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  fs.rmSync(directory, { recursive: true });
});

it.for([
  ['status'],
  ['get', 'machines'],
  ['events', '--follow'],
  ['cluster', 'verify', 'blue'],
  ['image', 'ls'],
])('%s ends when the server does not answer in time', async (words) => {
  const { code, err } = await run([...words, '--timeout', '50ms'], { socket });
  expect(code).toBe(1);
  expect(err).toContain(`the server on ${socket} did not answer within 0s`);
  expect(err).toContain('(E_UNREACHABLE)');
  await left.promise;
});

it('waits as long as it takes for the rest of an answer that has begun', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.write('a');
    setTimeout(() => response.end('b'), 120);
  };
  const client = connectApi(socket, { timeout: 50 as never });
  expect(await client.call('GET', '/slow')).toBe('ab');
});

it('counts the limit from the last piece of a file that is being sent', async () => {
  answer = (request, response) => {
    request.resume().on('end', () => response.end('{}'));
  };
  async function* pieces() {
    for (let n = 0; n < 4; n++) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      yield Buffer.from('piece');
    }
  }
  const client = connectApi(socket, { timeout: 1400 as never });
  expect(await client.call('PUT', '/file', { body: pieces() })).toBe('{}');
});

it.for([
  ['status'],
  ['delete', 'machine', 'x'],
  ['events', '--follow'],
  ['cluster', 'status', 'blue'],
  ['kubeconfig', 'blue'],
  ['pki', 'status'],
])('%s is aborted by the first signal, without a word', async (words) => {
  const stop = new AbortController();
  const running = run(words, { socket, signal: stop.signal });
  await asked.promise;
  stop.abort();
  expect(await running).toMatchObject({ code: 1, out: '', err: '' });
  await left.promise;
});

it.each(['https://127.0.0.1:9', 'https://[::1]:9'])(
  'that %s refuses speaks of the address, not of a socket',
  async (url) => {
    const { code, err } = await run(['login', url, '--site-ca', '--operator', 'ada', '--sso']);
    expect(code).toBe(1);
    expect(err).toContain(`no server answers on ${url}`);
    expect(err).not.toMatch(/socket/i);
  },
);
