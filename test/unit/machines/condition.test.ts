/** One word says what is so of a machine now, and green is only what was heard within its time. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration } from '../../../src/base/duration.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import type { Reason } from '../../../src/events/event.ts';
import {
  CONDITIONS,
  type ConditionStatus,
  type ConditionWord,
  conditionOf,
} from '../../../src/machines/condition.ts';
import { watchConditions } from '../../../src/machines/condition-watch.ts';
import { createHeartbeats, type Heard } from '../../../src/machines/heartbeats.ts';
import { PHASES } from '../../../src/machines/machine.ts';

const WHY: Reason = { code: 'why', text: 'Because.' };
const RUNS: Heard = { is: 'running' };

test.each<[ConditionWord, ConditionStatus, Heard?, Reason?]>([
  ['unknown', { phase: 'discovered' }],
  ['registered', { phase: 'registered' }, { is: 'silent' }],
  ['booting', { phase: 'starting', agent: {} }, { is: 'silent' }],
  ['booted', { phase: 'ready' }, { is: 'silent' }],
  ['ready', { phase: 'ready', agent: {} }],
  ['silent', { phase: 'ready', agent: {} }, { is: 'silent' }],
  ['silent', { phase: 'ready', agent: { hold: WHY, ended: { etcd: 'x' } } }, { is: 'silent' }],
  ['off', { phase: 'ready', agent: {} }, { is: 'left' }],
  ['off', { phase: 'ready', agent: {} }, { is: 'silent', off: 'ordered' }],
  ['silent', { phase: 'ready', agent: {} }, { is: 'silent', off: 'unasked' }],
  ['off', { phase: 'ready' }, { is: 'silent', off: 'unasked' }],
  ['off', { phase: 'starting' }, { is: 'silent', off: 'unasked' }],
  ['registered', { phase: 'registered' }, { is: 'silent', off: 'unasked' }],
  ['held', { phase: 'held', reason: WHY }],
  ['held', { phase: 'ready', agent: { hold: WHY } }],
  ['held', { phase: 'configured' }, RUNS, WHY],
  ['failing', { phase: 'failed', reason: WHY }],
  ['failing', { phase: 'ready', agent: { ended: { 'kube-apiserver': 'no space left' } } }],
  ['refused', { phase: 'ready', agent: {}, quarantine: WHY }],
  ['refused', { phase: 'ready', agent: {}, alarm: WHY }, { is: 'silent' }],
])('%s: %j, heard %j', (word, status, heard = RUNS, waits = undefined) => {
  expect(conditionOf(status, { heard, waits }).word).toBe(word);
});

test('no machine is ready that has an agent which was not heard', () => {
  const reason = fc.option(fc.constant(WHY), { nil: undefined });
  const status = fc.record({
    phase: fc.constantFrom(...PHASES),
    reason,
    agent: fc.option(fc.record({ hold: reason, ended: fc.constantFrom({}, { etcd: 'x' }) }), {
      nil: undefined,
    }),
    alarm: reason,
    quarantine: reason,
  });
  const heard = fc.constantFrom<Heard>(
    { is: 'running' },
    { is: 'left' },
    { is: 'silent' },
    { is: 'silent', off: 'unasked' },
  );
  fc.assert(
    fc.property(status, heard, reason, (one, how, waits) => {
      const { word } = conditionOf(one, { heard: how, waits });
      if (CONDITIONS[word].tone !== 'good') return;
      expect([one.phase, how.is, one.agent?.hold, one.alarm, one.quarantine, waits]).toEqual([
        'ready',
        'running',
        ...Array.from({ length: 4 }, () => undefined),
      ]);
    }),
  );
});

test('a machine that falls silent, and one that comes back, are events and counts, without any message of theirs', async () => {
  const clock = new ManualClock();
  const heartbeats = createHeartbeats({ clock });
  const recorded: string[] = [];
  const metrics = createMetrics();
  const roster = {
    heartbeats,
    list: () => [{ name: 'n1', status: { phase: 'ready', agent: {} } }] as never,
  };
  const beat = () => heartbeats.beat('n1', { bootId: 'b', address: '10.0.0.1' });
  beat();
  const end = watchConditions({
    ...{ roster, metrics, clock, waits: () => undefined },
    events: { record: ({ fields }) => void recorded.push(`${fields?.from} ${fields?.to}`) },
  });
  clock.advance(duration('30s'));
  expect(recorded).toEqual([]);
  clock.advance(duration('20s'));
  expect(recorded).toEqual(['ready silent']);
  expect(await metrics.text()).toContain('muster_machine_conditions{condition="silent"} 1');
  expect(heartbeats.heard('n1')).toEqual({ is: 'silent', at: clock.now() - duration('50s') });
  beat();
  clock.advance(duration('10s'));
  expect(recorded).toEqual(['ready silent', 'silent ready']);
  end();
});
