/** A server whose log cannot be written continues. */
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type LogSinkOptions, openLogSink } from '../../../src/base/log-sink.files.ts';
import { createLog } from '../../../src/base/pino.files.ts';

type Write = NonNullable<LogSinkOptions['write']>;

/**
 * A sink on a descriptor whose writes behave as the steps say: an error's code, or octets written.
 */
function scripted(...steps: (string | number)[]) {
  let text = '';
  let dropped = 0;
  const write: Write = (_fd, octets, done) => {
    const step = steps.shift() ?? octets.length;
    setImmediate(() => {
      if (typeof step === 'string') done(Object.assign(new Error(step), { code: step }), 0);
      else {
        const written = Math.min(step, octets.length);
        text += octets.subarray(0, written).toString();
        done(null, written);
      }
    });
  };
  const sink = openLogSink({
    fd: 1,
    write,
    dropped: (lines) => {
      dropped += lines;
    },
    report: (lines, error) => `dropped ${lines} ${error}\n`,
  });
  return { sink, text: () => text, dropped: () => dropped };
}

test('lines are written in order, also those that are logged during a write', async () => {
  const { sink, text } = scripted();
  for (const line of ['one\n', 'two\n', 'three\n']) sink.write(line);
  await sink.flush();
  expect(text()).toBe('one\ntwo\nthree\n');
});

test('lines of one turn of the event loop are one write', async () => {
  const writes: string[] = [];
  const sink = openLogSink({
    fd: 1,
    write: (_fd, octets, done) => {
      writes.push(octets.toString());
      done(null, octets.length);
    },
    dropped: () => {},
    report: () => '',
  });
  for (const line of ['one\n', 'two\n']) sink.write(line);
  await sink.flush();
  sink.write('three\n');
  await sink.flush();
  expect(writes).toEqual(['one\ntwo\n', 'three\n']);
});

test('the rest of an incomplete write is written next', async () => {
  const { sink, text } = scripted(2, 3);
  sink.write('one line\n');
  await sink.flush();
  expect(text()).toBe('one line\n');
});

test('lines that cannot be written are dropped, counted, and reported once when writing works', async () => {
  const { sink, text, dropped } = scripted('ENOSPC', 'ENOSPC');
  sink.write('lost\n');
  await sink.flush();
  sink.write('lost too\nand this\n');
  await sink.flush();
  expect(dropped()).toBe(3);
  sink.write('written\n');
  await sink.flush();
  sink.write('later\n');
  await sink.flush();
  expect(text()).toBe('written\ndropped 3 ENOSPC\nlater\n');
});

test('a line that was cut by a full disk does not spoil the next one', async () => {
  const { sink, text } = scripted(3, 'ENOSPC', 'ENOSPC');
  sink.write('a line that is cut\n');
  await sink.flush();
  sink.write('lost\n');
  await sink.flush();
  sink.write('whole\n');
  await sink.flush();
  expect(text().split('\n').slice(0, 2)).toEqual(['a l', 'whole']);
});

test('a reader that is busy for a moment gets the lines later', async () => {
  const { sink, text, dropped } = scripted('EAGAIN');
  sink.write('one\n');
  await sink.flush();
  expect([text(), dropped()]).toEqual(['one\n', 0]);
});

test('when a reader does not read, lines are dropped and the log’s memory is bounded', () => {
  let dropped = 0;
  const sink = openLogSink({
    fd: 1,
    write: () => {},
    dropped: (lines) => {
      dropped += lines;
    },
    report: () => '',
  });
  const line = `${'x'.repeat(1024 * 1024 - 1)}\n`;
  for (let n = 0; n < 20; n++) sink.write(line);
  expect(dropped).toBe(11);
});

test('on a full device lines of the log are dropped and the event loop continues', async () => {
  const fd = fs.openSync('/dev/full', 'w');
  let dropped = 0;
  const log = createLog({
    level: 'info',
    pretty: false,
    fd,
    dropped: (lines) => {
      dropped += lines;
    },
  });
  for (let n = 0; n < 5; n++) {
    log.info({ n }, 'hello');
    await sleep(1);
  }
  await log.flush();
  fs.closeSync(fd);
  expect(dropped).toBe(5);
});

/** A process that logs, waits until its standard input ends, logs again and exits. */
const SCRIPT = `
  import { createLog } from ${JSON.stringify(path.resolve('src/base/pino.files.ts'))};
  const log = createLog({ level: 'info', pretty: false });
  log.info({}, 'first');
  process.stdin.resume().once('end', async () => {
    for (let n = 0; n < 100; n++) log.info({ n }, 'more');
    await log.flush();
    log.info({}, 'last');
    console.error('done');
  });`;
const WORDS = ['--input-type=module', '-e', SCRIPT];

test('a process whose reader is gone exits normally', async () => {
  const child = spawn(process.execPath, WORDS, { stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (text) => (said += text));
  await new Promise((resolve) => child.stdout.once('data', resolve));
  child.stdout.destroy();
  child.stdin.end();
  expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(0);
  expect(said).toContain('done');
});

test('a process whose log is on a full device exits normally', async () => {
  const command = `exec "$0" "$@" > /dev/full < /dev/null`;
  const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((resolve) =>
    execFile('sh', ['-c', command, process.execPath, ...WORDS], { timeout: 60_000 }, (error, _out, stderr) =>
      resolve({ code: error?.code ?? error?.signal ?? 0, stderr }),
    ),
  );
  expect([code, stderr]).toEqual([0, expect.stringContaining('done')]);
});
