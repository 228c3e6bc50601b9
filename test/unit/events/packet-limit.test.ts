import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { PACKET_WINDOW, PacketLimit } from '../../../src/events/packet-limit.ts';

function start() {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const events = createEventLog({
    clock,
    log: silentLog,
    metrics,
    limit: new PacketLimit(),
    perSubject: 200,
    subjects: 50_000,
    recent: 50_000,
  });
  return { clock, metrics, events };
}

test('110,000 packets of invented machines leave the history of a documented one as it was', async () => {
  const { clock, events, metrics } = start();
  events.record({ kind: 'machine.phase', subject: 'cp2' });
  const before = events.list({ subject: 'cp2' });
  for (let n = 0; n < 110_000; n++)
    events.record({
      kind: 'dhcp.offer',
      subject: `52:54:00:${(n + 0x100000).toString(16).replace(/(..)(?=.)/g, '$1:')}`,
    });
  expect(events.list({ subject: 'cp2' })).toEqual(before);
  expect(events.list({})).toHaveLength(1_001);
  clock.advance(PACKET_WINDOW);
  expect(events.list({ limit: 1 })).toMatchObject([
    { kind: 'event.limited', subject: 'dhcp.offer', fields: { count: 109_000 } },
  ]);
  expect(await metrics.text()).toContain('muster_events_total{kind="dhcp.offer"} 110000');
});

test('a machine that boots again and again has its own limit, and others none of its burden', () => {
  const { events } = start();
  for (let n = 0; n < 500; n++) events.record({ kind: 'boot.script', subject: 'w1' });
  events.record({ kind: 'boot.script', subject: 'w2' });
  events.record({ kind: 'document.applied', subject: 'w1' });
  expect(
    events.list({ subject: 'w1' }).filter(({ kind }) => kind === 'boot.script').length,
  ).toBeLessThanOrEqual(200);
  expect(events.list({})).toHaveLength(202);
});

test('what is left out later is summarised later, once its window is over', () => {
  const { clock, events } = start();
  const flood = (kind: 'dhcp.offer' | 'tftp.failed') => {
    for (let n = 0; n < 101; n++) events.record({ kind, subject: '10.0.0.9' });
  };
  flood('dhcp.offer');
  clock.advance((PACKET_WINDOW / 2) as typeof PACKET_WINDOW);
  flood('tftp.failed');
  clock.advance((PACKET_WINDOW * 2) as typeof PACKET_WINDOW);
  const limited = events.list({}).filter(({ kind }) => kind === 'event.limited');
  expect(limited.map(({ subject }) => subject)).toEqual(['dhcp.offer', 'tftp.failed']);
});
