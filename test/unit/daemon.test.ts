import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ManualClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { connectServiceManager } from '../../src/base/notify.files.ts';
import { createLog, prettyLine } from '../../src/base/pino.files.ts';

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-daemon-'));
afterAll(() => fs.rmSync(directory, { recursive: true, force: true }));

/** Returns the log of `level` after `write` has written to it. */
async function logged(
  options: { level: string; pretty: boolean },
  write: (log: ReturnType<typeof createLog>) => void,
): Promise<string> {
  const file = path.join(directory, `log-${Math.random()}`);
  const fd = fs.openSync(file, 'w');
  const log = createLog({ ...options, fd });
  write(log);
  await log.flush();
  return fs.readFileSync(file, 'utf8');
}

describe("the daemon's log", () => {
  it('a log line is JSON with a readable time and level', async () => {
    const text = await logged({ level: 'info', pretty: false }, (log) =>
      log.child({ room: 'dhcp' }).info({ mac: 'x' }, 'hello'),
    );
    expect(JSON.parse(text)).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      room: 'dhcp',
      mac: 'x',
      msg: 'hello',
    });
  });

  it('the log leaves out lines below its level', async () => {
    const text = await logged({ level: 'warn', pretty: false }, (log) => {
      log.info({}, 'no');
      log.error({}, 'yes');
      expect(log.isLevelEnabled('info')).toBe(false);
    });
    expect(text).toContain('yes');
    expect(text).not.toContain('"no"');
  });

  it('the log never shows secrets', async () => {
    const text = await logged({ level: 'info', pretty: false }, (log) =>
      log.info({ passwordHash: 'hunter2', user: { token: 'hunter2', name: 'core' } }, 'applied'),
    );
    expect(text).not.toContain('hunter2');
    expect(text).toContain('core');
  });

  it('the log shows the stack of an error', async () => {
    const text = await logged({ level: 'info', pretty: false }, (log) =>
      log.error({ err: new TypeError('oops') }, 'failed'),
    );
    expect(JSON.parse(text).err).toMatchObject({ type: 'TypeError', message: 'oops' });
  });

  it('on a terminal a log entry is one readable line, whatever a machine sent', async () => {
    const line = prettyLine(
      '{"level":"info","time":"2026-11-20T10:15:02.123Z","mac":"52:54:00:aa:00:01","class":"a\\u001b[31m b","n":5,"msg":"two\\nlines"}',
    );
    expect(line).toBe('10:15:02 INFO  two\\nlines mac=52:54:00:aa:00:01 class="a\\u001b[31m b" n=5\n');
    const text = await logged({ level: 'info', pretty: true }, (log) => log.info({ a: 1 }, 'hello'));
    expect(text).toMatch(/^\d\d:\d\d:\d\d INFO {2}hello a=1\n$/);
  });
});

describe('the service manager', () => {
  it('without a service manager no notification is sent', async () => {
    const manager = connectServiceManager({ env: {}, clock: new ManualClock(), log: silentLog });
    await manager.ready('x');
    await manager.stopping();
    manager.close();
  });

  it('a service manager that has gone does not stop the server', async () => {
    const lines: string[] = [];
    const log = { ...silentLog, warn: (_fields: object, message: string) => void lines.push(message) };
    const env = { NOTIFY_SOCKET: path.join(directory, 'nobody') };
    const manager = connectServiceManager({ env, clock: new ManualClock(), log });
    await manager.ready('x');
    expect(lines).toEqual(['the service manager could not be notified']);
    manager.close();
  });
});
