import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { publicName } from '../../../src/base/ids.ts';
import { type Log, silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { logEvents } from '../../../src/events/to-log.ts';

type Line = readonly [level: string, fields: object, message: string];

function collecting(enabled: readonly string[]): { log: Log; lines: Line[] } {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) => {
    lines.push([level, fields, message]);
  };
  const log: Log = {
    ...silentLog,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    isLevelEnabled: (level) => enabled.includes(level),
  };
  return { log, lines };
}

test('a decision is logged with its machine, session and reason', () => {
  const events = createEventLog({
    metrics: createMetrics(),
    clock: new ManualClock(),
    log: silentLog,
    perSubject: 10,
    subjects: 10,
  });
  const { log, lines } = collecting(['info', 'warn']);
  const stop = logEvents(events, log);
  const reason = { code: 'unknown_machine', text: 'No document knows this machine.' };
  events.record({ kind: 'boot.script', subject: 'm-1', session: 's1', reason, fields: { boots: 1 } });
  events.record({ kind: 'boot.decision', subject: 'm-1', session: 's1', reason });
  events.record({ kind: 'machine.held', subject: 'm-1', reason });
  events.record({ kind: 'dhcp.ack', subject: 'm-1' });
  stop();
  events.record({ kind: 'machine.held', subject: 'm-1', reason });
  expect(lines).toMatchObject([
    [
      'info',
      {
        event: 'boot.script',
        subject: 'm-1',
        session: publicName('s1'),
        reason: 'unknown_machine',
        boots: 1,
      },
      reason.text,
    ],
    ['warn', { event: 'machine.held', reason: 'unknown_machine' }, reason.text],
  ]);
});

test('every packet is logged at level debug', () => {
  const events = createEventLog({
    metrics: createMetrics(),
    clock: new ManualClock(),
    log: silentLog,
    perSubject: 10,
    subjects: 10,
  });
  const { log, lines } = collecting(['debug', 'info', 'warn']);
  logEvents(events, log);
  events.record({ kind: 'dhcp.ack', subject: 'm-1', network: 'rack' });
  expect(lines).toMatchObject([
    [
      'debug',
      { event: 'dhcp.ack', subject: 'm-1', network: 'rack' },
      'A lease was confirmed and is durable, or the store cannot write and nobody else can get the address.',
    ],
  ]);
});
