/** Changes that a server continues after its start, and what operators read when that fails. */
import { expect, test, vi } from 'vitest';
import { z } from 'zod';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { UNEXPECTED } from '../../../../src/base/error-text.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { type Changes, openChanges } from '../../../../src/cluster/change/changes.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import type { ChangeRequest } from '../../../../src/cluster/change/request.ts';
import { done, waiting } from '../../../../src/cluster/change/step.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store } from '../../../../src/store/store.ts';
import { QUIET_CHANGES } from '../quiet.ts';
import { NOT_ORDERED } from './not-ordered.ts';

const resolved = { machines: [{ name: 'cp1', roles: ['control-plane'], addresses: ['10.0.0.1'] }] };
const STEP = { name: 'one', sentence: '', scope: { on: 'boot-host' }, takes: {} } as const;

/** A server with a kind of change of two steps; the first one ends when `look` says so. */
async function server(
  store: Store,
  clock: ManualClock,
  look: () => Promise<boolean>,
  act: (step: string) => Promise<object> = async () => ({}),
) {
  const kind = anyKind<object, boolean, ChangeRequest>({
    ...NOT_ORDERED,
    name: 'try',
    schema: z.object({}),
    forward: () => [
      { ...STEP, whole: ({ cluster }) => (cluster ? done('') : waiting('it waits')) },
      { ...STEP, name: 'two', acts: true, whole: () => waiting('it waits again') },
    ],
    back: () => [STEP],
    act: ({ step }) => act(step),
    look,
  });
  const logged: object[] = [];
  const changes = await openChanges({
    ...QUIET_CHANGES,
    ...{ store, clock, log: { ...silentLog, error: (fields: object) => void logged.push(fields) } },
    events: { record: () => undefined },
    clusters: { get: () => ({ resolved, faults: [] }) as never },
    kinds: [kind],
    settled: () => undefined,
  });
  return { changes, logged };
}

const begin = (changes: Changes) =>
  changes.begin({ cluster: 'blue', kind: 'try', order: {}, pauseBefore: [], without: [] }, 'ann');

test('a change that is under way continues when the server has started, and not before', async () => {
  const store = openMemoryStore();
  const clock = new ManualClock();
  const first = await server(store, clock, async () => false);
  await begin(first.changes);
  await first.changes.close();
  // The kind asks for the record, as the kinds of the daemon do.
  const second = await server(store, clock, async () => second.changes.record('blue') === undefined);
  await new Promise((resolve) => setImmediate(resolve));
  expect(second.changes.waiting('blue')).toEqual({});
  second.changes.start();
  await second.changes.look('blue');
  expect(second.changes.waiting('blue')).toEqual({ '': 'it waits' });
  expect(second.logged).toEqual([]);
  await second.changes.close();
});

test('what one step waited for is not said of the next one', async () => {
  let over = false;
  const acted = Promise.withResolvers<object>();
  const { changes } = await server(
    ...([openMemoryStore(), new ManualClock(), async () => over] as const),
    (step) => (step === 'two' ? acted.promise : Promise.resolve({})),
  );
  await begin(changes);
  await changes.look('blue');
  expect(changes.waiting('blue')).toEqual({ '': 'it waits' });
  over = true;
  const looked = changes.look('blue');
  await vi.waitFor(() => expect(changes.record('blue')).toMatchObject({ step: 'two' }), 20_000);
  expect(changes.waiting('blue')).toEqual({});
  acted.resolve({});
  await looked;
  expect(changes.waiting('blue')).toEqual({ '': 'it waits again' });
  await changes.close();
});

test('an error of the program itself is logged once, and operators read its code instead of its text', async () => {
  const clock = new ManualClock();
  const inside = new ReferenceError("Cannot access 'changes' before initialization");
  const { changes, logged } = await server(openMemoryStore(), clock, () => Promise.reject(inside));
  await begin(changes);
  for (let n = 0; n < 3; n++) {
    await changes.look('blue');
    clock.advance(duration('1s'));
  }
  expect(changes.waiting('blue')).toEqual({ '': UNEXPECTED });
  expect(logged).toEqual([{ cluster: 'blue', err: inside, code: 'E_INTERNAL' }]);
  await changes.close();
});
