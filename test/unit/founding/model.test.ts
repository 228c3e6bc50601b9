/** Random histories of three machines and a boot host: whatever happens in whatever order, etcd is founded once. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Model } from './model.ts';

type Step = (model: Model) => void;
const machine = fc.integer({ min: 0, max: 2 });

const usual = [
  {
    weight: 12,
    arbitrary: machine.map(
      (n): Step =>
        (model) =>
          model.poll(n),
    ),
  },
  {
    weight: 12,
    arbitrary: machine.map(
      (n): Step =>
        (model) =>
          model.apply(n),
    ),
  },
  { weight: 4, arbitrary: fc.constant<Step>((model) => model.work()) },
  {
    weight: 1,
    arbitrary: machine.map(
      (n): Step =>
        (model) =>
          model.powerOff(n),
    ),
  },
  {
    weight: 2,
    arbitrary: machine.map(
      (n): Step =>
        (model) =>
          model.powerOn(n),
    ),
  },
  { weight: 1, arbitrary: fc.constant<Step>((model) => model.restartServer()) },
  { weight: 1, arbitrary: fc.constant<Step>((model) => model.otherWrites()) },
];
const faults = [
  {
    weight: 1,
    arbitrary: machine.map(
      (n): Step =>
        (model) =>
          model.wipe(n),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(machine, fc.boolean()).map(
      ([n, old]): Step =>
        (model) =>
          model.changeDisk(n, old),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(machine, machine).map(
      ([a, b]): Step =>
        (model) =>
          model.swap(a, b),
    ),
  },
  {
    weight: 1,
    arbitrary: machine.map(
      (n): Step =>
        (model) =>
          model.removeData(n),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.nat({ max: 6 }).map(
      (back): Step =>
        (model) =>
          model.rollBack(back),
    ),
  },
];
const lost = { weight: 1, arbitrary: fc.constant<Step>((model) => model.loseStore()) };
const person = { weight: 1, arbitrary: fc.constant<Step>((model) => model.order()) };

/** Begins with a founding that goes well in two of three histories, so that what comes after is reached. */
function history(steps: readonly Step[], begun: number): Model {
  const model = new Model();
  if (begun > 0) for (let round = 0; round < 3; round++) together(model);
  for (const step of steps) step(model);
  return model;
}

const ALL = [0, 1, 2];

function together(model: Model): void {
  for (const n of ALL) model.poll(n);
  for (const n of ALL) model.apply(n);
}

function turn(model: Model, n: number): void {
  model.poll(n);
  model.apply(n);
}

const runs = (kinds: readonly fc.WeightedArbitrary<Step>[], numRuns: number): void =>
  fc.assert(
    fc.property(
      fc.array(fc.oneof({ withCrossShrink: true }, ...kinds), { maxLength: 60, size: 'max' }),
      fc.nat({ max: 2 }),
      (steps, begun) => {
        const { violations } = history(steps, begun);
        if (violations.length > 0) throw new Error(violations[0]);
      },
    ),
    { numRuns },
  );

test('in no history of polls, plans, power cuts and restarts is anything founded twice or a quorum taken away', () => {
  runs(usual, 4000);
});

test('nor with disks wiped, changed and swapped, data deleted, and the store rolled back', () => {
  runs([...usual, ...faults], 8000);
});

test('nor when the store is lost and a person orders the opening again and again', () => {
  runs([...usual, ...faults, lost, person], 8000);
});

test('the model founds, loses a member and replaces it', () => {
  const model = history([], 1);
  const [id] = model.clusters.keys();
  expect(model.record?.founded).toBeDefined();
  expect(Object.keys(model.record!.joined).sort()).toEqual(['m1', 'm2', 'm3']);
  model.wipe(1);
  for (let round = 0; round < 6; round++) {
    turn(model, 1);
    model.work();
    model.work();
  }
  expect(model.record!.replacing).toBeUndefined();
  expect([...model.clusters.get(id!)!.members.values()]).toEqual([
    { name: 'm1', machine: 'm1', learner: false },
    { name: 'm3', machine: 'm3', learner: false },
    { name: 'm2', machine: 'm2', learner: false },
  ]);
  expect(model.violations).toEqual([]);
});

test('two wiped members are held, whatever is asked how often, and the survivor keeps its data', () => {
  const model = history([], 1);
  model.wipe(0);
  model.wipe(2);
  for (let round = 0; round < 5; round++) {
    for (const n of [0, 1, 2]) turn(model, n);
    model.work();
  }
  expect(model.machines.map(({ disk }) => disk.wal !== undefined)).toEqual([false, true, false]);
  expect(model.trace.slice(-3).some((line) => line.includes('does hold no-quorum'))).toBe(true);
});
