import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { publicName } from '../../../src/base/ids.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import type { MusterEvent, NewEvent } from '../../../src/events/event.ts';
import { createEventLog } from '../../../src/events/log.ts';

/** An id of a boot session. */
const ID = 'CAN4ShlgCEdgO8MxqYSpHQ';
const about = (subject: string): NewEvent => ({ kind: 'boot.decision', subject });
const make = (sizes: { perSubject?: number; subjects?: number; recent?: number; total?: number } = {}) =>
  createEventLog({
    metrics: createMetrics(),
    clock: new ManualClock(),
    log: silentLog,
    perSubject: 100,
    subjects: 100,
    ...sizes,
  });
const sequences = (events: readonly MusterEvent[]) => events.map((event) => event.sequence);

describe('the log of events', () => {
  test('gives events a number and a time, lists them oldest first, and hides the id of their boot session', () => {
    const clock = new ManualClock();
    const log = createEventLog({
      metrics: createMetrics(),
      clock,
      log: silentLog,
      perSubject: 10,
      subjects: 10,
    });
    log.record({
      kind: 'dhcp.offer',
      subject: 'm1',
      session: ID,
      fields: { address: '10.0.0.2', url: `/boot/${ID}` },
    });
    clock.advance(millis(5));
    log.record(about('m2'));
    expect(log.list({})).toEqual([
      {
        sequence: 1,
        at: Date.UTC(2026, 0, 1),
        kind: 'dhcp.offer',
        subject: 'm1',
        session: publicName(ID),
        fields: { address: '10.0.0.2', url: `/boot/${publicName(ID)}` },
      },
      { sequence: 2, at: Date.UTC(2026, 0, 1) + 5, kind: 'boot.decision', subject: 'm2' },
    ]);
    expect(sequences(log.list({ subject: 'm2' }))).toEqual([2]);
    expect(log.list({ subject: 'nobody' })).toEqual([]);
  });

  test('returns the last events up to a limit, or the first ones after a sequence number', () => {
    const log = make();
    for (let i = 0; i < 10; i++) log.record(about('m'));
    expect(sequences(log.list({ limit: 3 }))).toEqual([8, 9, 10]);
    expect(sequences(log.list({ after: 4, limit: 3 }))).toEqual([5, 6, 7]);
    expect(sequences(log.list({ after: 8 }))).toEqual([9, 10]);
    expect(log.list({ after: 10 })).toEqual([]);
    expect(log.list({ limit: 0 })).toEqual([]);
  });

  test('keeps the events of other subjects when one subject has many', () => {
    const log = make({ perSubject: 5, recent: 20 });
    log.record(about('quiet'));
    for (let i = 0; i < 1000; i++) log.record(about('busy'));
    expect(sequences(log.list({ subject: 'quiet' }))).toEqual([1]);
    expect(sequences(log.list({ subject: 'busy' }))).toEqual([997, 998, 999, 1000, 1001]);
    expect(log.list({})).toHaveLength(20);
  });

  test('drops the subject with the oldest last event when there are too many subjects', () => {
    const log = make({ subjects: 3 });
    for (const subject of ['a', 'b', 'c', 'a', 'd']) log.record(about(subject));
    expect(log.list({ subject: 'b' })).toEqual([]);
    expect(sequences(log.list({ subject: 'a' }))).toEqual([1, 4]);
  });

  test('keeps at most its total: the subjects with the oldest last events lose their older events', () => {
    const log = make({ total: 10 });
    for (const subject of ['a', 'b', 'c']) for (let i = 0; i < 3; i++) log.record(about(subject));
    for (let i = 0; i < 2; i++) log.record(about('d'));
    expect(sequences(log.list({ subject: 'a' }))).toEqual([3]);
    expect(sequences(log.list({ subject: 'b' }))).toEqual([4, 5, 6]);
    for (let i = 0; i < 6; i++) log.record(about('d'));
    expect(['a', 'b', 'c', 'd'].map((subject) => log.list({ subject }).length)).toEqual([0, 0, 1, 8]);
    for (let i = 0; i < 50; i++) log.record(about('a'));
    expect(log.list({ subject: 'a' })).toHaveLength(50);
    expect(log.list({ subject: 'd' })).toEqual([]);
  });

  test('returns the same as a list that is cut to size, for any sequence of events', () => {
    const subject = fc.constantFrom('a', 'b', 'c');
    const after = fc.option(fc.nat(60), { nil: undefined });
    fc.assert(
      fc.property(
        fc.array(subject, { maxLength: 50 }),
        fc.integer({ min: 1, max: 7 }),
        after,
        fc.nat(10),
        (subjects, perSubject, after, limit) => {
          const log = make({ perSubject, recent: 13 });
          const all: { sequence: number; subject: string }[] = [];
          for (const subject of subjects) {
            log.record(about(subject));
            all.push({ sequence: all.length + 1, subject });
          }
          for (const [subject, size] of [['a', perSubject] as const, [undefined, 13] as const]) {
            const kept = all
              .filter((event) => subject === undefined || event.subject === subject)
              .slice(-size)
              .map((event) => event.sequence);
            const expected =
              after === undefined
                ? kept.slice(Math.max(0, kept.length - limit))
                : kept.filter((sequence) => sequence > after).slice(0, limit);
            const filter = {
              limit,
              ...(subject !== undefined && { subject }),
              ...(after !== undefined && { after }),
            };
            expect(sequences(log.list(filter))).toEqual(expected);
          }
        },
      ),
      { seed: 20261120, numRuns: 500 },
    );
  });

  test('calls listeners until they end their subscription', () => {
    const log = make();
    const seen: number[] = [];
    const listener = (event: MusterEvent) => void seen.push(event.sequence);
    const ends = [log.subscribe(listener), log.subscribe(listener)];
    log.record(about('m'));
    ends[0]!();
    log.record(about('m'));
    ends[1]!();
    log.record(about('m'));
    expect(seen).toEqual([1, 1, 2]);
  });

  test('protects other listeners and the caller of record from a listener that throws', () => {
    const errors: object[] = [];
    const log = createEventLog({
      metrics: createMetrics(),
      clock: new ManualClock(),
      log: { ...silentLog, error: (fields) => void errors.push(fields) },
      perSubject: 10,
      subjects: 10,
    });
    let calls = 0;
    log.subscribe(() => {
      throw new Error('broken page');
    });
    log.subscribe(() => calls++);
    log.record(about('m'));
    expect(calls).toBe(1);
    expect(errors).toEqual([{ code: 'E_INTERNAL', kind: 'boot.decision', cause: 'Error: broken page' }]);
  });

  test('counts events by kind', async () => {
    const metrics = createMetrics();
    const log = createEventLog({
      clock: new ManualClock(),
      log: silentLog,
      metrics,
      perSubject: 1,
      subjects: 1,
    });
    log.record(about('m'));
    log.record(about('n'));
    expect(await metrics.text()).toContain('muster_events_total{kind="boot.decision"} 2');
  });

  test('keeps a bounded number of events in a flood of subjects', () => {
    const log = make({ perSubject: 50, subjects: 100, recent: 100 });
    for (let i = 0; i < 200_000; i++) log.record(about(`invented ${i}`));
    const kept = Array.from({ length: 200_000 }, (_, i) => log.list({ subject: `invented ${i}` }).length);
    expect(kept.reduce((sum, n) => sum + n, 0)).toBe(100);
    expect(log.list({})).toHaveLength(100);
  });
});
