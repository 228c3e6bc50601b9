/** Turns that a server gave, as the server after it finds them. */
import { expect, test } from 'vitest';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { openGivenTurns } from '../../../../src/cluster/change/given-turns.ts';
import { openRollouts } from '../../../../src/cluster/change/rollouts.ts';
import { STALLED_AFTER } from '../../../../src/cluster/change/turn.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { resolved } from '../kit.ts';
import { QUIET_ROLLOUTS } from '../quiet.ts';
import { asked, decided } from '../turns-kit.ts';

const ONE = { maxUnavailable: 1 };

test('a reboot and a turn that a server allowed are in the store before they begin, until the machine is back', async () => {
  const store = openMemoryStore();
  const clock = new ManualClock();
  const open = async () =>
    openRollouts({
      ...QUIET_ROLLOUTS,
      ...{ clock, events: { record: () => undefined }, askNow: asked(clock) },
      givenTurns: await openGivenTurns({ store, log: silentLog, clock }),
    });
  const spec = resolved();
  const [cp1, cp2] = [spec.machines[0]!, spec.machines[1]!];
  const before = await open();
  expect(await before.reboots(spec, cp1, 'boot-1', ONE)).toBe(true);
  expect((await store.list('turn/')).records).toHaveLength(1);
  const after = await open();
  expect(await after.whyStays(spec, cp2, ONE)).toBe(`${cp1.name} reboots first.`);
  expect(await after.reboots(spec, cp2, 'boot-1', ONE)).toBe(false);
  clock.advance(duration('15m'));
  expect(await (await open()).whyStays(spec, cp2, ONE)).toBeUndefined();
});

test('a machine that has its turn is known with its programs, for five minutes and until it is back', async () => {
  const clock = new ManualClock();
  const givenTurns = await openGivenTurns({ store: openMemoryStore(), log: silentLog, clock });
  const spec = resolved();
  const rollouts = openRollouts({
    ...QUIET_ROLLOUTS,
    ...{ clock, events: { record: () => undefined }, askNow: asked(clock), givenTurns },
  });
  const reports = async (name: string, revision: string, wanted: string, health = 'ready') => {
    const facts = {
      ...{ agent: '1', bootId: 'boot-1', etcd: { health: 'serving', revision: 'e' } },
      apiserver: { health, revision },
    } as unknown as AgentFacts;
    const machine = spec.machines.find((one) => one.name === name)!;
    await decided(rollouts, spec, machine, facts, { etcd: 'e', 'kube-apiserver': wanted });
  };
  const turns = () => ['cp1', 'cp2', 'cp3'].map((name) => rollouts.turns('golden', name));
  for (const name of ['cp1', 'cp2', 'cp3']) await reports(name, 'a', 'a');
  expect(turns()).toEqual([[], [], []]);
  await reports('cp1', 'a', 'b');
  await reports('cp2', 'a', 'b');
  // The second one waits, and what fails there is a fault.
  expect(turns()).toEqual([['etcd', 'kube-apiserver'], [], []]);
  await reports('cp1', 'b', 'b', 'down');
  expect(turns()[0]).toHaveLength(2);
  clock.advance(STALLED_AFTER);
  await reports('cp1', 'b', 'b', 'down');
  expect(turns()[0]).toEqual([]);
  await reports('cp1', 'b', 'b');
  expect(turns()[0]).toEqual([]);
});
