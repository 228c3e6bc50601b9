import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { timelineView } from '../../../src/api/operations/timeline.ts';
import { millis } from '../../../src/base/duration.ts';
import { timelineText } from '../../../src/cli/machine/timeline.ts';
import { timelineOf } from '../../../src/diagnosis/timeline.ts';
import type { MusterEvent } from '../../../src/events/event.ts';
import { readEvent } from '../../../src/events/journal.files.ts';

const golden = path.join(import.meta.dirname, '../../golden');
const events = readFileSync(path.join(golden, 'one-boot/events.jsonl'), 'utf8')
  .split('\n')
  .flatMap(readEvent);
const machine = 'node-2';
const now = millis(events.at(-1)!.at + 1000);

const zone = process.env.TZ;
beforeAll(() => {
  process.env.TZ = 'UTC';
});
afterAll(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

const next = (kind: MusterEvent['kind'], ms: number, more: Partial<MusterEvent> = {}): MusterEvent => ({
  sequence: 100 + ms,
  at: millis(events.at(-1)!.at + ms),
  kind,
  subject: machine,
  ...more,
});

test('the recorded boot of a real machine reads like this', async () => {
  const text = timelineText(timelineView(timelineOf({ machine, events, now })!), false);
  await expect(text).toMatchFileSnapshot(path.join(golden, 'diagnosis-timeline.txt'));
});

test('every event of the boot has an entry, in order, with the time that it took', () => {
  const { entries, stages, boot } = timelineOf({ machine, events, now })!;
  expect(entries.map(({ sequence }) => sequence)).toEqual(events.map(({ sequence }) => sequence));
  expect(entries.find(({ kind }) => kind === 'tftp.served')).toMatchObject({
    duration: 202,
    bytesPerSecond: 4_210_535,
    gap: 64,
    stage: 'firmware',
  });
  expect(stages.map(({ stage }) => stage)).toEqual(['firmware', 'loader', 'kernel', 'system']);
  expect(stages[0]!.from).toBe(boot!.at);
  for (const [n, stage] of stages.entries()) if (n > 0) expect(stage.from).toBe(stages[n - 1]!.to);
  expect(stages.at(-1)!.to).toBe(boot!.until);
});

test('a session begins a boot, and a boot that is ready has that outcome', () => {
  const later = next('boot.session', 5000, {
    session: 'second',
    fields: { mac: '52:54:00:aa:00:02', stage: 'pxe' },
  });
  const lease = next('dhcp.offer', 6000, { session: 'second', fields: { stage: 'pxe' } });
  const timeline = timelineOf({ machine, events: [...events, later, lease], now })!;
  expect(timeline.boots.map(({ id, outcome }) => [id, outcome])).toEqual([
    ['second', 'underway'],
    ['nVdQXnChLKyuQVhTEliElw', 'ready'],
  ]);
  expect(timeline.boot?.id).toBe('second');
  const before = timelineOf({ machine, events: [...events, later, lease], now, boot: '-1' })!;
  expect(before.entries).toHaveLength(events.length);
});

test('an agent that reports another boot of the kernel without a session booted from its own disk', () => {
  const session = 'nVdQXnChLKyuQVhTEliElw';
  const first = next('agent.alive', 1000, { session, fields: { boot: 'aaaa' } });
  const again = next('agent.alive', 9000, { session, fields: { boot: 'bbbb' } });
  const step = next('agent.step', 9500, { session, fields: { step: 'system' } });
  const { boots, boot, entries } = timelineOf({ machine, events: [...events, first, again, step], now })!;
  expect(boots).toMatchObject([{ id: 'kernel-bbbb', from: 'own-disk', outcome: 'ready' }, { id: session }]);
  expect(boot?.id).toBe('kernel-bbbb');
  expect(entries.map(({ kind }) => kind)).toEqual(['agent.alive', 'agent.step']);
});

test('the timeline of a machine that was never seen booting is empty, and an unknown boot has none', () => {
  expect(timelineOf({ machine, events: [], now })).toMatchObject({ boots: [], entries: [], verdicts: [] });
  expect(timelineOf({ machine, events, now, boot: 'elsewhere' })).toBeUndefined();
  expect(timelineOf({ machine, events, now, boot: '-1' })).toBeUndefined();
});

test('what only the machine says is marked as its claim', () => {
  const { entries } = timelineOf({ machine, events, now })!;
  expect(entries.filter(({ claim }) => claim).map(({ kind }) => kind)).toEqual(
    events.filter(({ kind }) => kind === 'report.believed').map(({ kind }) => kind),
  );
});

test.each(['constructor', '__proto__', 'toString'])(
  'an event that names %s is described by its text',
  (name) => {
    const odd = [
      next('dhcp.offer', 1, { fields: { stage: name } }),
      next('boot.decision', 2, { fields: { stage: name } }),
      next(name as MusterEvent['kind'], 3),
    ];
    const timeline = timelineOf({ machine, events: [...events, ...odd], now })!;
    for (const { stage, text } of timeline.entries.slice(-3))
      expect([typeof stage, typeof text]).toEqual(['string', 'string']);
    expect(timelineText(timelineView(timeline), false)).toContain('DHCP of a client → OFFER');
  },
);
