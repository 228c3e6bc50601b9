/**
 * `make torture`: a founded etcd whose members lose their disks one after the other, while boot host and machines are killed at
 * random moments. After every round three voters answer; at the end every write that was acknowledged is there. TORTURE_ROUNDS,
 * TORTURE_SEED.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NAMES, openRack, pause, until } from '../test/peers/etcd/rack.ts';

const ROUNDS = Number(process.env.TORTURE_ROUNDS ?? 20);
const SEED = Number(process.env.TORTURE_SEED ?? Date.now() % 1_000_000);

const fault = fc.record({
  wiped: fc.constantFrom(...NAMES),
  /** Tenths of a second between two kills of the boot host. */
  kills: fc.array(fc.integer({ min: 2, max: 80 }), { minLength: 1, maxLength: 5 }),
  /** The machine that is replaced loses power as well, so many tenths of a second after it was switched on; 0: it does not. */
  cut: fc.integer({ min: 0, max: 200 }),
});

const tenths = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n++) await pause();
};

test('members lose their disks again and again, and no acknowledged write is lost', {
  timeout: 36_000_000,
}, async () => {
  const began = Date.now();
  const rack = await openRack();
  const stages = new Map<string, number>();
  try {
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    rack.writer.start();
    await rack.healthy();
    for (const { wiped, kills, cut } of fc.sample(fault, { numRuns: ROUNDS, seed: SEED })) {
      const machine = rack.machines[wiped];
      const before = (await rack.founding()).record!.joined[wiped];
      const old = await machine.change(rack.newDisk());
      old.discard();
      const cutting = machine.powerOn().then(async () => {
        await tenths(cut);
        if (cut > 0) await machine.cycle();
      });
      const killing = (async () => {
        await until('its replacement begins', async () => {
          const { record } = await rack.founding();
          return record?.replacing !== undefined || record?.joined[wiped] !== before;
        });
        for (const span of kills) {
          await tenths(span);
          const { record } = await rack.founding();
          const stage = record?.replacing?.stage ?? 'done';
          stages.set(stage, (stages.get(stage) ?? 0) + 1);
          await rack.host.restart();
        }
      })();
      await Promise.all([cutting, killing]);
      await until(
        `${wiped} is replaced`,
        async () => (await rack.founding()).record?.joined[wiped] !== before,
        rack.state,
        1200,
      );
      await rack.healthy();
    }
    await rack.nothingLost();
    const result = {
      commit: String(execFileSync('git', ['rev-parse', 'HEAD'])).trim(),
      etcd: '3.4.23',
      seed: SEED,
      rounds: ROUNDS,
      killsOfTheBootHostByStage: Object.fromEntries(stages),
      acknowledgedWrites: rack.writer.acknowledged.size,
      lostWrites: 0,
      seconds: Math.round((Date.now() - began) / 1000),
    };
    mkdirSync('lab/results', { recursive: true });
    writeFileSync('lab/results/torture-etcd.json', `${JSON.stringify(result, undefined, 2)}\n`);
    expect(rack.writer.acknowledged.size).toBeGreaterThan(ROUNDS);
  } finally {
    await rack.close();
  }
});
