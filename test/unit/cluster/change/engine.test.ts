/**
 * The engine of changes: a small table of steps under any order of reports, kills, pauses and
 * machines that come and go.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import {
  advance,
  hasTurn,
  type Observed,
  SILENT_AFTER,
  STALLED_AFTER,
  stepOf,
} from '../../../../src/cluster/change/engine.ts';
import {
  begin,
  leaveOut,
  pauseChange,
  resumeChange,
  rollBack,
} from '../../../../src/cluster/change/orders.ts';
import { type ChangeRecord, decodeChange, encodeChange } from '../../../../src/cluster/change/record.ts';
import {
  type ChangeTable,
  done,
  held,
  type MachineSeen,
  type Step,
  waiting,
} from '../../../../src/cluster/change/step.ts';

interface Order {
  readonly to: string;
}
/** Machine → what it runs; the cluster is `ready` or not. */
interface Seen {
  readonly ready: boolean;
  readonly runs: Readonly<Record<string, string>>;
}
type TestStep = Step<Order, Seen>;

const ALL = { on: 'machines', roles: ['control-plane', 'worker'], atOnce: 'all' } as const;
const runsIt =
  (wanted: (order: Order) => string): NonNullable<TestStep['machine']> =>
  ({ name }, { order, cluster }) =>
    cluster.runs[name] === 'broken'
      ? held('broken', `${name} is broken.`, 'Repair it.')
      : cluster.runs[name] === wanted(order)
        ? done(`it runs ${wanted(order)}`)
        : waiting(`it runs ${cluster.runs[name]}`);

const STEPS: readonly TestStep[] = [
  { name: 'prepare', sentence: 'Something is made.', scope: { on: 'boot-host' }, acts: true, takes: {} },
  { name: 'spread', sentence: 'It is everywhere.', scope: ALL, takes: {}, machine: runsIt(({ to }) => to) },
  {
    name: 'turns',
    sentence: 'One after the other restarts.',
    scope: { on: 'machines', roles: ['control-plane'], atOnce: 1 },
    takes: {},
    machine: runsIt(({ to }) => `${to}!`),
  },
  {
    name: 'end',
    sentence: 'The old one is gone.',
    scope: { on: 'boot-host' },
    acts: true,
    noReturn: true,
    takes: {},
    whole: ({ cluster }) => (cluster.ready ? done('it is ready') : waiting('it is not ready')),
  },
];
const BACK: readonly TestStep[] = [
  { name: 'undo', sentence: 'The old one is used again.', scope: ALL, acts: true, takes: {} },
];
const TABLE: ChangeTable<Order, Seen> = { forward: () => STEPS, back: () => BACK };

const NAMES = ['cp1', 'cp2', 'cp3', 'w1'];
const machineOf = (name: string, changes: Partial<MachineSeen> = {}): MachineSeen => ({
  name,
  roles: [name.startsWith('cp') ? 'control-plane' : 'worker'],
  facts: {} as AgentFacts,
  applied: true,
  silentFor: 0 as Millis,
  ...changes,
});
const seen = (
  runs: Readonly<Record<string, string>>,
  changes: Partial<Observed<Seen>> & { readonly ready?: boolean } = {},
): Observed<Seen> => ({
  machines: NAMES.map((name) => machineOf(name)),
  cluster: { ready: changes.ready ?? false, runs },
  age: 0 as Millis,
  ...changes,
});
const everywhere = (what: string) => Object.fromEntries(NAMES.map((name) => [name, what]));

const OCCASION = { by: 'root', now: 1000 };
const begun = (pauseBefore: readonly string[] = []): ChangeRecord<Order> =>
  begin(
    { cluster: 'blue', id: 'c1', kind: 'test', order: { to: 'new' }, pauseBefore, without: [] },
    TABLE,
    undefined,
    OCCASION,
  ).record;

/** Advances until nothing is new; the boot host does its part whenever it is due. */
function run(record: ChangeRecord<Order>, observed: Observed<Seen>) {
  const codes: string[] = [];
  let now = record;
  for (let n = 0; n < 100; n++) {
    const move = advance(now, TABLE, observed, 2000);
    if (move.do === 'wait') return { record: now, waiting: move.waiting, codes };
    if (move.do === 'act') now = { ...now, acted: true };
    else {
      codes.push(...move.notes.map(({ code, machine }) => (machine ? `${code} ${machine}` : code)));
      now = move.record;
    }
  }
  throw new Error('it does not settle');
}

test('a change goes from step to step on the evidence of each machine', () => {
  const first = run(begun(), seen({ ...everywhere('new'), w1: 'old' }));
  expect(first.record.step).toBe('spread');
  expect(first.waiting).toEqual({ w1: 'it runs old' });
  expect(Object.keys(first.record.evidence)).toEqual(['cp1', 'cp2', 'cp3']);
  const second = run(first.record, seen(everywhere('new')));
  expect(second.record.step).toBe('turns');
  expect(second.record.past.map(({ step, machines }) => [step, machines])).toEqual([
    ['prepare', 0],
    ['spread', 4],
  ]);
});

test('machines take turns, and the next one comes only after the evidence of the one before', () => {
  const atTurns = run(begun(), seen(everywhere('new'))).record;
  const step = stepOf(atTurns, TABLE);
  expect(NAMES.filter((name) => hasTurn(atTurns, step, name))).toEqual(['cp1']);
  const next = run(atTurns, seen({ ...everywhere('new'), cp1: 'new!', cp3: 'new!' }));
  expect(next.record.turns).toEqual(['cp2']);
  expect(next.waiting.cp3).toBe('other machines come first');
});

test('a change ends with the evidence of the whole, and says so', () => {
  const last = run(begun(), seen(everywhere('new')));
  const all = { cp1: 'new!', cp2: 'new!', cp3: 'new!' };
  const waits = run(last.record, seen({ ...everywhere('new'), ...all }));
  expect(waits.record.step).toBe('end');
  expect(waits.waiting).toEqual({ '': 'it is not ready' });
  const over = run(waits.record, seen({}, { ready: true }));
  expect(over.record.ended).toEqual({ at: 2000, as: 'done' });
  expect(over.codes).toEqual(['done']);
});

test('a machine that holds the change is named with the remedy, until it no longer holds it', () => {
  const holds = run(begun(), seen({ ...everywhere('new'), cp2: 'broken' }));
  expect(holds.record.holding).toEqual({
    at: 2000,
    code: 'broken',
    text: 'cp2 is broken.',
    remedy: 'Repair it.',
  });
  expect(holds.codes).toContain('held');
  const free = run(holds.record, seen({ ...everywhere('new'), cp2: 'old' }));
  expect(free.record.holding).toBeUndefined();
  expect(free.codes).toContain('released');
});

test('a machine that does not report holds the change until it is left out', () => {
  const machines = NAMES.map((name) =>
    machineOf(name, name === 'w1' ? { silentFor: SILENT_AFTER, facts: {} as AgentFacts } : {}),
  );
  const observed = seen({ ...everywhere('new'), w1: 'old' }, { machines });
  const holds = run(begun(), observed);
  expect(holds.record.holding?.code).toBe('machine-silent');
  const { record } = leaveOut(holds.record, ['w1'], OCCASION);
  expect(run(record, observed).record.step).toBe('turns');
});

test('a machine that reports and shows nothing for long holds the change with what it waits for', () => {
  const runs = { ...everywhere('new'), cp1: 'new!' };
  const spread = run(begun(), seen(everywhere('new'))).record;
  const turned = run(spread, seen(runs)).record;
  expect(turned).toMatchObject({ step: 'turns', turns: ['cp2'] });
  const at = (now: number, age: Millis) => advance(turned, TABLE, seen(runs, { age }), now);
  const later = 2000 + STALLED_AFTER;
  expect(at(later - 1, STALLED_AFTER).do).toBe('wait');
  // A server that has just started, or whose clock jumped, does not know for how long.
  expect(at(later, (STALLED_AFTER - 1) as Millis).do).toBe('wait');
  const move = at(later, STALLED_AFTER);
  expect(move).toMatchObject({
    do: 'write',
    record: {
      turns: ['cp2'],
      holding: {
        code: 'machine-stalled',
        text: 'cp2 has shown nothing new for 15 minutes: it runs new.',
        remedy: expect.stringContaining('muster explain cp2'),
      },
    },
  });
  // It goes further by itself when the machine is repaired.
  const held = (move as Extract<typeof move, { do: 'write' }>).record;
  expect(run(held, seen({ ...runs, cp2: 'new!' })).codes).toContain('evidence cp2');
});

test('it pauses before a step as ordered, nothing moves until it is resumed', () => {
  const paused = run(begun(['end']), seen({ ...everywhere('new') })).record;
  const all = { ...everywhere('new'), cp1: 'new!', cp2: 'new!', cp3: 'new!' };
  // spread is over; the turns need the other revision.
  const stopped = run(paused, seen(all, { ready: true })).record;
  expect(stopped).toMatchObject({ step: 'end', acted: false, paused: { by: '--pause-before' } });
  expect(advance(stopped, TABLE, seen(all, { ready: true }), 3000)).toEqual({ do: 'wait', waiting: {} });
  const { record } = resumeChange(stopped, OCCASION);
  expect(run(record, seen(all, { ready: true })).record.ended?.as).toBe('done');
});

test('it can be taken back until the boot host begins the step of no return', () => {
  const atEnd = run(begun(['end']), seen(everywhere('new'))).record;
  const stopped = run(atEnd, seen({ cp1: 'new!', cp2: 'new!', cp3: 'new!' })).record;
  const back = rollBack(stopped, TABLE, OCCASION).record;
  expect(run(back, seen({})).record.ended?.as).toBe('rolled-back');
  const passed = { ...resumeChange(stopped, OCCASION).record, acted: true };
  expect(() => rollBack(passed, TABLE, OCCASION)).toThrow('the step end has begun');
});

test('while no window is open, a step that gives turns does not begin, and what has its turn finishes', () => {
  const closed = 'the window opens on Saturday';
  const steps = STEPS.map((step) => (step.name === 'turns' ? { ...step, acts: true as const } : step));
  const table = { ...TABLE, forward: () => steps };
  const at = (record: ChangeRecord<Order>, runs: Readonly<Record<string, string>>, shut: boolean) =>
    advance(record, table, seen(runs, shut ? { closed } : {}), 2000);
  const turns = { ...begun(), step: 'turns', acted: false };
  expect(at(turns, {}, true)).toEqual({ do: 'wait', waiting: { '': closed } });
  expect(at(turns, {}, false)).toEqual({ do: 'act' });
  const first = at({ ...turns, acted: true }, {}, false) as { record: ChangeRecord<Order> };
  expect(first.record.turns).toEqual(['cp1']);
  const last = at(first.record, { cp1: 'new!' }, true) as { record: ChangeRecord<Order> };
  expect(last.record).toMatchObject({ turns: [], evidence: { cp1: { text: 'it runs new!' } } });
  expect(at(last.record, { cp1: 'new!' }, true)).toEqual({
    do: 'wait',
    waiting: { cp2: closed, cp3: closed },
  });
  // What the boot host does alone interrupts nothing.
  expect(at({ ...begun(), step: 'end', acted: false }, {}, true)).toEqual({ do: 'act' });
});

test('a second change is refused while one is under way, and an unknown step to pause before', () => {
  const again = (before: ChangeRecord | undefined, pauseBefore: readonly string[]) =>
    begin(
      { cluster: 'blue', id: 'c2', kind: 'test', order: { to: 'x' }, pauseBefore, without: [] },
      TABLE,
      before,
      OCCASION,
    );
  expect(() => again(begun(), [])).toThrow(
    'blue: the test that root ordered is under way, at the step prepare',
  );
  expect(() => again(undefined, ['nowhere'])).toThrow('its steps are prepare, spread, turns, end');
});

test('whatever machines report and operators order, turns and steps keep their order', () => {
  const state = fc.constantFrom('old', 'new', 'new!', 'broken');
  const look = fc.record({
    runs: fc.record({ cp1: state, cp2: state, cp3: state, w1: state }),
    silent: fc.subarray(NAMES),
    present: fc.subarray(NAMES, { minLength: 1 }),
    ready: fc.boolean(),
    order: fc.constantFrom('none', 'pause', 'resume', 'back', 'without', 'restart'),
  });
  fc.assert(
    fc.property(fc.array(look, { maxLength: 40 }), (looks) => {
      let record = begun();
      const order = (make: () => { readonly record: ChangeRecord<Order> }): void => {
        try {
          record = make().record;
        } catch (error) {
          expect((error as { code?: string }).code).toBe('E_CHANGE');
        }
      };
      for (const { runs, silent, present, ready, order: what } of looks) {
        if (what === 'pause') order(() => pauseChange(record, OCCASION));
        if (what === 'resume') order(() => resumeChange(record, OCCASION));
        if (what === 'back') order(() => rollBack(record, TABLE, OCCASION));
        if (what === 'without') order(() => leaveOut(record, ['w1'], OCCASION));
        // A server that restarts reads exactly what it had stored.
        if (what === 'restart')
          record = decodeChange('change/blue', encodeChange(record)) as ChangeRecord<Order>;
        const machines = present.map((name) =>
          machineOf(name, silent.includes(name) ? { silentFor: duration('1h') } : {}),
        );
        const before = record;
        record = run(record, { machines, cluster: { ready, runs }, age: 0 as Millis }).record;
        expect(record.turns.length).toBeLessThanOrEqual(1);
        // Nobody keeps evidence that he has not shown in this step or a moment ago.
        if (record.step === 'spread')
          for (const name of Object.keys(record.evidence))
            expect(before.evidence[name] !== undefined || runs[name as keyof typeof runs] === 'new').toBe(
              true,
            );
        const steps = [...STEPS, ...BACK].map(({ name }) => name);
        const walked = record.past.map(({ step }) => steps.indexOf(step));
        expect(walked).toEqual([...walked].sort((a, b) => a - b));
      }
    }),
  );
});
