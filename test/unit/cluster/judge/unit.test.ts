/** The server's end of the unit that runs programs of clusters. */
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { runByUnit } from '../../../../src/cluster/judge/unit.socket.ts';

let directory: string;
let socket: string;
let server: net.Server | undefined;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-unit-'));
  socket = path.join(directory, 'judge.sock');
});
afterEach(() => {
  server?.close();
  server = undefined;
  fs.rmSync(directory, { recursive: true });
});

/** A unit that answers so, with the requests that it got. */
async function unit(answer: (connection: net.Socket) => void): Promise<string[]> {
  const asked: string[] = [];
  server = net.createServer((connection) =>
    connection.setEncoding('utf8').once('data', (text: string) => {
      asked.push(text);
      answer(connection);
    }),
  );
  await new Promise<void>((resolve) => server!.listen(socket, resolve));
  return asked;
}

const FILES = new Map([
  ['/etc/a', 'b'],
  ['/var/lib/c', undefined],
]);
const run = (signal: AbortSignal = AbortSignal.timeout(10_000)) =>
  runByUnit(socket)('/var/lib/muster/judged/etcd-1', ['--name=a'], FILES, signal);

test('the unit gets the name of the program, its flags and its files in one line', async () => {
  const asked = await unit((connection) => connection.end('{"did":"wait"}\n'));
  expect(await run()).toEqual({ did: 'wait' });
  expect(asked).toEqual([
    '{"program":"etcd-1","flags":["--name=a"],"files":[["/etc/a","b"],["/var/lib/c",null]]}\n',
  ]);
});

test('a unit that ends without an answer, and no unit, do not end the judging', async () => {
  expect(await run()).toEqual({ did: 'not-start', why: expect.stringContaining('ENOENT') });
  await unit((connection) => connection.end());
  expect(await run()).toMatchObject({ did: 'not-start', why: expect.stringContaining('no answer') });
});

test('when the time is over the connection ends, and with it the program', async () => {
  const over = new AbortController();
  const gone = Promise.withResolvers<void>();
  await unit((connection) => {
    connection.once('close', () => gone.resolve());
    over.abort();
  });
  expect(await run(over.signal)).toEqual({ did: 'hang' });
  await gone.promise;
});
