/**
 * `make torture`: the members of an etcd lose their disks one after the other. In every round the
 * boot host is killed at one step of the replacement, each step in turn, then the boot host and the
 * machine at random moments. After every round three voters answer. At the end every acknowledged
 * write is there, and the boot host was killed at every step. Settings: TORTURE_ROUNDS,
 * TORTURE_SEED.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, fstatSync, mkdirSync, openSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as after } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Replacing, STAGES } from '../src/cluster/etcd/record.ts';
import { foundingStep, reasonOf } from '../src/cluster/etcd/steps.ts';
import { NAMES, openRack, pause, type Rack, until } from '../test/peers/etcd/rack.ts';

const ROUNDS = Number(process.env.TORTURE_ROUNDS ?? 20);
const SEED = Number(process.env.TORTURE_SEED ?? Date.now() % 1_000_000);

/** The steps of a replacement that is not called off. */
const STEPS = STAGES.filter((stage) => stage !== 'off');

/** Interval between two reads of the boot host's log. */
const LOOK_MS = 2;

const fault = fc.record({
  wiped: fc.constantFrom(...NAMES),
  /** Tenths of a second between two kills of the boot host. */
  kills: fc.array(fc.integer({ min: 2, max: 80 }), { minLength: 1, maxLength: 5 }),
  /**
   * The replaced machine also loses power, this many tenths of a second after it was switched on;
   * 0: it does not.
   */
  cut: fc.integer({ min: 0, max: 200 }),
});

const tenths = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n++) await pause();
};

/** What the boot host logs when this step of the member's replacement is stored and not begun. */
const logged = (member: string, step: Replacing['stage']): string => {
  if (step !== 'remove') return reasonOf(foundingStep('replacing_stage', { member, stage: step })).text;
  return reasonOf(foundingStep('replacing_begun', { member, cause: 'the data on ' })).text.slice(0, -1);
};

/**
 * Whether the boot host reached the step before the replacement was over. Most steps last only an
 * instant, and its log shows them first.
 */
async function comesTo(rack: Rack, step: string, over: Promise<unknown>): Promise<boolean> {
  const log = openSync(join(rack.host.home, 'muster.log'), 'r');
  const ended = new AbortController();
  const end = () => ended.abort();
  over.then(end, end);
  try {
    let { size } = fstatSync(log);
    for (let text = ''; !ended.signal.aborted; await after(LOOK_MS)) {
      const more = Buffer.alloc(fstatSync(log).size - size);
      size += readSync(log, more, 0, more.length, size);
      text = text.slice(-200) + more;
      if (text.includes(step)) return true;
    }
    return false;
  } finally {
    closeSync(log);
  }
}

test('members lose their disks again and again, and no acknowledged write is lost', {
  timeout: 36_000_000,
}, async () => {
  const began = Date.now();
  const rack = await openRack();
  const stages = new Map<string, number>();
  const aimed = new Map<Replacing['stage'], number>(STEPS.map((step) => [step, 0]));
  try {
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    rack.writer.start();
    await rack.healthy();
    for (const [round, { wiped, kills, cut }] of fc
      .sample(fault, { numRuns: ROUNDS, seed: SEED })
      .entries()) {
      const step = STEPS[round % STEPS.length]!;
      const machine = rack.machines[wiped];
      const before = (await rack.founding()).record!.joined[wiped];
      const old = await machine.change(rack.newDisk());
      old.discard();
      const replaced = until(
        `${wiped} is replaced`,
        async () => {
          const { record } = await rack.founding();
          return record && record.joined[wiped] !== before;
        },
        rack.state,
        1200,
      );
      const cutting = machine.powerOn().then(async () => {
        await tenths(cut);
        if (cut > 0) await machine.cycle();
      });
      const killing = (async () => {
        if (await comesTo(rack, logged(wiped, step), replaced)) {
          await rack.host.restart();
          aimed.set(step, aimed.get(step)! + 1);
        }
        for (const span of kills) {
          await tenths(span);
          const { record } = await rack.founding();
          const stage = record?.replacing?.stage ?? 'done';
          stages.set(stage, (stages.get(stage) ?? 0) + 1);
          await rack.host.restart();
        }
      })();
      await Promise.all([cutting, killing, replaced]);
      await rack.healthy();
    }
    await rack.nothingLost();
    expect(rack.writer.acknowledged.size).toBeGreaterThan(ROUNDS);
    // A short run has not come to every step, or only once.
    if (ROUNDS >= 2 * STEPS.length) expect(STEPS.filter((step) => aimed.get(step) === 0)).toEqual([]);
    const result = {
      commit: String(execFileSync('git', ['rev-parse', 'HEAD'])).trim(),
      etcd: '3.4.23',
      seed: SEED,
      rounds: ROUNDS,
      killsOfTheBootHostAtStep: Object.fromEntries(aimed),
      furtherKillsAtRandomByStage: Object.fromEntries(stages),
      acknowledgedWrites: rack.writer.acknowledged.size,
      lostWrites: 0,
      seconds: Math.round((Date.now() - began) / 1000),
    };
    mkdirSync('lab/results', { recursive: true });
    writeFileSync('lab/results/torture-etcd.json', `${JSON.stringify(result, undefined, 2)}\n`);
  } finally {
    await rack.close();
  }
});
