import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { countBoots } from '../../../src/diagnosis/boot-metrics.ts';
import { createEventLog } from '../../../src/events/log.ts';

test('boots are counted by how they end, and those that become ready with their time', async () => {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const events = createEventLog({
    metrics: createMetrics(),
    clock,
    log: silentLog,
    perSubject: 100,
    subjects: 100,
  });
  const stop = countBoots(events, metrics);
  const report = (session: string, step: string): void =>
    events.record({ kind: 'report.believed', subject: 'node-1', session, fields: { step } });
  for (const session of ['session-a', 'session-b', 'session-c'])
    events.record({ kind: 'boot.session', subject: 'node-1', session });
  clock.advance(millis(42_000));
  report('session-a', 'kernel');
  report('session-a', 'ready');
  report('session-b', 'failed');
  events.record({
    kind: 'machine.phase',
    subject: 'node-1',
    session: 'session-c',
    reason: { code: 'timed_out', text: 'It sent no report.' },
    fields: { from: 'booting', to: 'failed' },
  });
  // A session that began before this process: its end counts, its time is not known.
  report('earlier', 'ready');
  stop();
  report('session-b', 'failed');
  const text = await metrics.text();
  expect(text).toContain('muster_boots_total{outcome="ready"} 2');
  expect(text).toContain('muster_boots_total{outcome="failed"} 1');
  expect(text).toContain('muster_boots_total{outcome="silent"} 1');
  expect(text).toContain('muster_boot_seconds_sum 42');
  expect(text).toContain('muster_boot_seconds_count 1');
});
