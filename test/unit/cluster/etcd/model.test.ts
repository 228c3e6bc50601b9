/**
 * Random histories of up to five machines and a boot host: in every order of events etcd is founded
 * once.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Model } from './model.ts';

type Step = (model: Model) => void;
const machine = fc.integer({ min: 0, max: 4 });

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

const one = (act: (model: Model, n: number) => void) =>
  machine.map(
    (n): Step =>
      (model) =>
        act(model, n),
  );
/** Operators' orders on a founded cluster. */
const orders = [
  {
    weight: 2,
    arbitrary: fc.tuple(machine, machine).map(
      ([a, b]): Step =>
        (model) =>
          model.grow(a, b),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.uniqueArray(machine, { minLength: 1, maxLength: 2 }), fc.boolean()).map(
      ([ns, clear]): Step =>
        (model) =>
          model.remove(ns, clear),
    ),
  },
  { weight: 4, arbitrary: one((model, n) => model.pass(n)) },
  { weight: 4, arbitrary: fc.constant<Step>((model) => model.work()) },
  { weight: 1, arbitrary: one((model, n) => model.callOff(n)) },
  { weight: 1, arbitrary: one((model, n) => model.adopt(n)) },
  { weight: 2, arbitrary: fc.constant<Step>((model) => model.wait()) },
  {
    weight: 3,
    arbitrary: fc.tuple(machine, fc.uniqueArray(machine, { maxLength: 3 })).map(
      ([n, without]): Step =>
        (model) =>
          model.restore(n, without),
    ),
  },
  { weight: 1, arbitrary: fc.constant<Step>((model) => model.reset()) },
  {
    weight: 2,
    arbitrary: fc.uniqueArray(machine, { maxLength: 3 }).map(
      (without): Step =>
        (model) =>
          model.restoreSnapshot(without),
    ),
  },
];

/**
 * In two of three histories the founding succeeds first, so that later states are reached.
 */
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

test('nor when the store is lost and an operator orders the opening repeatedly', () => {
  runs([...usual, ...faults, lost, person], 8000);
});

test('nor when machines are ordered in and out, replacements called off, disks adopted, data restored and clusters reset', () => {
  runs([...usual, ...orders, person], 6000);
});

test('nor with all of that and every fault', () => {
  runs([...usual, ...faults, ...orders, lost, person], 10_000);
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

/** Lets all machines and the executor do what is due, for some rounds. */
function settleDown(model: Model, rounds = 30): void {
  for (let round = 0; round < rounds; round++)
    for (let n = 0; n < 5; n++) {
      turn(model, n);
      model.pass(n);
      model.work();
    }
}

const voters = (model: Model): string[] =>
  [...model.clusters.get(model.record!.id)!.members.values()]
    .filter(({ learner }) => !learner)
    .map(({ machine: name }) => name)
    .sort();

test('the model grows from three to five members and shrinks again, and a machine that left may come back', () => {
  const model = history([], 1);
  model.grow(3, 4);
  settleDown(model);
  expect(voters(model)).toEqual(['m1', 'm2', 'm3', 'm4', 'm5']);
  model.remove([0, 1], true);
  settleDown(model);
  expect(voters(model)).toEqual(['m3', 'm4', 'm5']);
  expect(model.record!.leaving).toBeUndefined();
  expect(model.machines[0]!.disk.marker).toBeUndefined();
  model.grow(0, 1);
  settleDown(model);
  expect(voters(model)).toEqual(['m1', 'm2', 'm3', 'm4', 'm5']);
  expect(model.record!.former).toBeUndefined();
  expect(model.violations).toEqual([]);
});

test('a dead member is taken out and another machine takes its place', () => {
  const model = history([], 1);
  model.powerOff(2);
  model.grow(3, 3);
  model.remove([2], false);
  settleDown(model);
  expect(voters(model)).toEqual(['m1', 'm2', 'm4']);
  // It comes back later, and stops what it runs.
  model.powerOn(2);
  settleDown(model);
  expect(model.record!.leaving).toBeUndefined();
  expect(model.machines[2]!.disk.wal).toBeDefined();
  expect(model.violations).toEqual([]);
});

test('no member is taken out when etcd would lose its quorum', () => {
  const model = history([], 1);
  model.powerOff(2);
  model.remove([0], false);
  expect(model.trace.at(-1)).toContain('without m1 etcd would have no quorum');
  expect(model.record!.leaving).toBeUndefined();
});

test('with two of three wiped, a restore of the third is a new founding that the others join', () => {
  const model = history([], 1);
  const before = model.record!.id;
  model.wipe(0);
  model.wipe(2);
  settleDown(model, 3);
  model.restore(1);
  settleDown(model);
  expect(model.record!.id).not.toBe(before);
  expect(voters(model)).toEqual(['m1', 'm2', 'm3']);
  expect(model.violations).toEqual([]);
});

test('with two of three off for good, a restore that abandons them is a new founding, and their disks never merge with it', () => {
  const model = history([], 1);
  model.powerOff(0);
  model.powerOff(2);
  turn(model, 1);
  model.restore(1, [0, 2]);
  expect(model.trace.at(-1)).toContain('a member that is heard is not abandoned');
  model.wait();
  turn(model, 1);
  model.restore(1);
  expect(model.trace.at(-1)).toContain('--without m1 m3');
  model.restore(1, [0, 2]);
  settleDown(model);
  expect(voters(model)).toEqual(['m2']);
  const { id } = model.record!;
  for (const n of [0, 2]) {
    model.powerOn(n);
    turn(model, n);
    expect(model.trace.at(-1)).toContain('hold foreign-marker');
  }
  settleDown(model);
  expect([model.record!.id, voters(model)]).toEqual([id, ['m2']]);
  // Other machines take their places.
  model.grow(3, 4);
  model.remove([0, 2], false);
  settleDown(model);
  expect(voters(model)).toEqual(['m2', 'm4', 'm5']);
  expect(model.violations).toEqual([]);
});

test('a reset clears all machines, and only an operator can found again', () => {
  const model = history([], 1);
  const before = model.record!.id;
  model.reset();
  settleDown(model);
  expect(model.machines.slice(0, 3).map(({ disk }) => disk.wal ?? disk.marker)).toEqual(
    Array(3).fill(undefined),
  );
  expect([...model.record!.reset!.cleared].sort()).toEqual(['m1', 'm2', 'm3']);
  model.order();
  settleDown(model);
  expect(model.record!.id).not.toBe(before);
  expect(voters(model)).toEqual(['m1', 'm2', 'm3']);
  expect(model.violations).toEqual([]);
});

test('a replacement that never starts is called off, and another member is replaced', () => {
  const model = history([], 1);
  model.grow(3, 4);
  settleDown(model);
  model.wipe(3);
  for (let round = 0; round < 4; round++) {
    turn(model, 3);
    model.work();
  }
  model.work();
  model.powerOff(3);
  expect(model.record!.replacing).toMatchObject({ member: 'm4', stage: 'start' });
  model.wipe(4);
  for (let round = 0; round < 8; round++) {
    turn(model, 4);
    model.work();
  }
  expect(model.record!.replacing!.member).toBe('m4');
  model.callOff(3);
  settleDown(model);
  expect(voters(model)).toEqual(['m1', 'm2', 'm3', 'm5']);
  expect(model.violations).toEqual([]);
});

test('a member that was replaced since the backup is adopted, and starts', () => {
  const model = history([], 1);
  model.wipe(1);
  settleDown(model);
  const own = model.record!.joined.m2;
  model.rollBack(6);
  expect(model.record!.joined.m2).not.toBe(own);
  turn(model, 1);
  expect(model.trace.at(-1)).toMatch(/hold (store-rolled-back|removed-disk)/);
  model.adopt(1);
  expect(model.record!.joined.m2).toBe(own);
  turn(model, 1);
  expect(model.trace.at(-1)).toContain('does start');
  expect(model.violations).toEqual([]);
});

test('two wiped members are held however often they ask, and the survivor keeps its data', () => {
  const model = history([], 1);
  model.wipe(0);
  model.wipe(2);
  for (let round = 0; round < 5; round++) {
    for (const n of [0, 1, 2]) turn(model, n);
    model.work();
  }
  expect(model.machines.slice(0, 3).map(({ disk }) => disk.wal !== undefined)).toEqual([false, true, false]);
  expect(model.trace.slice(-3).some((line) => line.includes('does hold no-quorum'))).toBe(true);
});
