import { expect, test } from 'vitest';
import { createWitness } from '../../../../src/agent/serve/witness.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { type Checkpoint, checkpointText } from '../../../../src/events/audit-chain.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import { SecurityChain } from '../../../../src/events/security-chain.ts';
import { type TestKey, testKey } from '../../events/audit-kit.ts';

/** A log with `count` entries about `subject` and a checkpoint after each tenth. */
function made(count: number, key: TestKey, subject = 'm') {
  const chain = new SecurityChain({ key, clock: { now: () => 0 as never }, write: () => {} });
  for (let n = 1; n <= count; n++) {
    chain.add({ at: '2026-11-26T00:00:00.000Z', kind: 'agent.step', subject });
    if (n % 10 === 0) chain.sign();
  }
  const events: NewEvent[] = [];
  const witness = createWitness({
    security: {
      status: () => ({ key: { id: key.id, pem: key.pem }, octets: 0, segments: 1, failing: false }),
      kept: () => chain.checkpointed,
      compare: (place) => chain.compare(place),
    },
    events: { record: (event) => void events.push(event) },
    log: silentLog,
  });
  return { chain, witness, events, newest: chain.checkpointed! };
}

const key = testKey();
const header = (checkpoint: Checkpoint) => ({ 'muster-checkpoint': checkpointText(checkpoint) });

test('a machine gets the newest checkpoint, and nothing when it has it', () => {
  const { witness, newest, events } = made(20, key);
  expect(witness.hear('m', undefined)).toEqual(header(newest));
  expect(witness.hear('m', newest)).toEqual({});
  expect(witness.hear('m', made(10, key).newest)).toEqual(header(newest));
  expect(events).toEqual([]);
});

test('a log that was rolled back is noticed by a machine that remembers more, once', () => {
  const { witness, events } = made(10, key);
  const later = made(30, key).newest;
  expect([witness.hear('m', later), witness.hear('m', later)]).toEqual([{}, {}]);
  expect(events).toMatchObject([{ kind: 'audit.alarm', subject: 'm', reason: { code: 'later' } }]);
});

test('a log that was rewritten, or is signed by another key, is noticed', () => {
  const { witness, events } = made(20, key);
  witness.hear('a', made(20, key, 'other').newest);
  witness.hear('b', made(20, testKey(), 'other').newest);
  witness.hear('c', { ...made(20, key, 'other').newest, signature: 'A'.repeat(86) });
  expect(events.map(({ subject, reason }) => [subject, reason!.code])).toEqual([
    ['a', 'other'],
    ['b', 'other_key'],
    ['c', 'other_key'],
  ]);
});

test('a checkpoint that is too old to be remembered raises no alarm', () => {
  const { chain, newest } = made(10, key);
  for (let n = 0; n < 6_000; n++)
    chain.add({ at: '2026-11-26T00:00:00.000Z', kind: 'agent.step', subject: 'm' });
  const fresh = new SecurityChain({ key, clock: { now: () => 0 as never }, write: () => {} });
  fresh.resume(chain.head, chain.list({ limit: 100 }));
  expect(fresh.compare(newest)).toBe('unknown');
});
