/** Turns that a server gave, as the server after it finds them. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { openGivenTurns } from '../../../../src/cluster/change/given-turns.ts';
import { openRollouts } from '../../../../src/cluster/change/rollouts.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { resolved } from '../kit.ts';
import { asked } from '../turns-kit.ts';

const ONE = { maxUnavailable: 1 };

test('a reboot and a turn that a server allowed are in the store before they begin, until the machine is back', async () => {
  const store = openMemoryStore();
  const clock = new ManualClock();
  const open = async () =>
    openRollouts({
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
