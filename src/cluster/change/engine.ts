/**
 * Advances a change of a cluster: from its record, its table of steps and what was observed to the
 * next record, or to work that the boot host has to do. Pure, so that it can be run against any
 * order of kills, losses and reports.
 *
 * A step ends only on evidence. Evidence that a machine has shown is kept for the rest of the step.
 * Machines that join meanwhile have to show it too.
 */
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { HookTime } from '../../resources/hook-spec.ts';
import type { Down } from './down.ts';
import { nextTurns, whyGroupIsFull } from './groups.ts';
import type { ChangeRecord, Evidence } from './record.ts';
import {
  type ChangeTable,
  CLUSTER,
  done,
  type Gate,
  type Hold,
  isFor,
  type MachineSeen,
  type Route,
  type Step,
  type StepInput,
  type Verdict,
} from './step.ts';

/** What is known of a cluster while a step is under way. */
export interface Observed<Seen> {
  /** All machines of the cluster, in the order in which they take turns. */
  readonly machines: readonly MachineSeen[];
  readonly cluster: Seen;
  /** See {@link StepInput.age}. */
  readonly age: Millis;
  /**
   * Why no further machine may get its turn now; absent: one may. A machine that has its turn
   * finishes it, unless its verdict gives it back. Steps that all machines do at once do not ask.
   */
  readonly closed?: string | undefined;
  /** Workers that count as down in their groups, besides those that have their turn, and why. */
  readonly down?: Down | undefined;
  /** Whether the hooks of a machine let its turn begin, or end; absent: there are none. */
  readonly gate?: (machine: MachineSeen, when: HookTime) => Gate;
}

/** A machine that waits for its hooks, which are to be asked. */
export interface Ask {
  readonly machine: MachineSeen;
  /** `again`: it gives its turn back, so that what they have answered is void. */
  readonly when: HookTime | 'again';
}

/** What happened, for events. */
export interface Note {
  readonly code: NoteCode;
  readonly text: string;
  /** The machine that it is about; absent when it is about the cluster. */
  readonly machine?: string;
}

export const NOTES = {
  began: 'A step begins.',
  evidence: 'A machine has shown the evidence of the step.',
  turn: 'A machine has its turn in the step.',
  paused: 'The change pauses.',
  resumed: 'The change continues after a pause.',
  held: 'The change cannot go further until an operator does something.',
  released: 'What held the change is over.',
  'rolling-back': 'The change is taken back.',
  without: 'Machines are no longer waited for.',
  done: 'The change is complete.',
  'rolled-back': 'The change was taken back.',
} as const;
export type NoteCode = keyof typeof NOTES;

export type Move<Order> =
  /** The boot host's part of the step is due. */
  | { readonly do: 'act' }
  | Write<Order>
  /** `waiting`: machine → what it is waited for; `` is the cluster as a whole. */
  | {
      readonly do: 'wait';
      readonly waiting: Readonly<Record<string, string>>;
      readonly asks?: readonly Ask[];
    };

interface Write<Order> {
  readonly do: 'write';
  readonly asks?: readonly Ask[];
  readonly record: ChangeRecord<Order>;
  readonly notes: readonly Note[];
  /** The evidence of the step that has just ended, to be stored with the record. */
  readonly finished?: {
    readonly route: ChangeRecord['route'];
    readonly step: string;
    readonly evidence: Readonly<Record<string, Evidence>>;
  };
}

/** After this time without a report, a machine that is waited for holds the change. */
export const SILENT_AFTER: Millis = duration('5m');

/**
 * After this time without new evidence in a step, a machine that reports and is waited for holds
 * the change, so that operators hear of it.
 */
export const STALLED_AFTER: Millis = duration('15m');

export const routeOf = <Order, Seen>(
  { route, order }: ChangeRecord<Order>,
  table: ChangeTable<Order, Seen>,
): Route<Order, Seen> => (route === 'forward' ? table.forward(order) : table.back(order));

/**
 * The step that a change is at.
 *
 * @throws {MusterError} E_CHANGE when the table has no such step, because another version of Muster
 *   stored the record
 */
export function stepOf<Order, Seen>(
  record: ChangeRecord<Order>,
  table: ChangeTable<Order, Seen>,
): Step<Order, Seen> {
  const found = routeOf(record, table).find(({ name }) => name === record.step);
  if (found) return found;
  throw new MusterError('E_CHANGE', `this version does not know the step ${record.step} of a ${record.kind}`);
}

/** The machines that have to show evidence of a step. */
export function participants<Order, Seen>(
  { scope }: Step<Order, Seen>,
  machines: readonly MachineSeen[],
  without: readonly string[],
): readonly MachineSeen[] {
  return machines.filter((machine) => !without.includes(machine.name) && isFor(scope, machine));
}

/**
 * The next move of a change.
 *
 * @param now Wall-clock time, only for the record.
 * @throws {MusterError} E_CHANGE when the table does not know the record's step
 */
export function advance<Order, Seen>(
  record: ChangeRecord<Order>,
  table: ChangeTable<Order, Seen>,
  observed: Observed<Seen>,
  now: number,
): Move<Order> {
  if (record.ended || record.paused) return { do: 'wait', waiting: {} };
  const step = stepOf(record, table);
  // A window that is closed also keeps a change from passing its point of no return.
  if (!record.acted)
    return observed.closed !== undefined && givesTurns(step)
      ? { do: 'wait', waiting: { '': observed.closed } }
      : { do: 'act' };
  const machines = participants(step, observed.machines, record.without);
  const input = { order: record.order, machines, cluster: observed.cluster, age: observed.age };
  const looked = lookAtMachines(record, step, input, observed, now);
  if (looked.lacking.length > 0) return settle(record, looked, now);
  const whole = step.whole?.(input);
  if (whole === undefined || whole.is === 'done') return ended(record, table, looked, whole?.evidence, now);
  if (whole.is === 'held') return settle(record, { ...looked, held: whole.hold }, now);
  return settle(record, { ...looked, waiting: { '': whole.text } }, now);
}

/** What the machines of a step show. */
interface Looked {
  readonly evidence: Readonly<Record<string, Evidence>>;
  readonly turns: readonly string[];
  /** Machines without evidence. */
  readonly lacking: readonly string[];
  readonly waiting: Readonly<Record<string, string>>;
  readonly held?: Hold;
  readonly notes: readonly Note[];
  /** The machines whose hooks are to be asked. */
  readonly asks: readonly Ask[];
}

function lookAtMachines<Order, Seen>(
  record: ChangeRecord<Order>,
  step: Step<Order, Seen>,
  input: StepInput<Order, Seen>,
  { closed, gate, down = new Map() }: Pick<Observed<Seen>, 'closed' | 'gate' | 'down'>,
  now: number,
): Looked {
  const evidence: Record<string, Evidence> = {};
  const waiting: Record<string, string> = {};
  const notes: Note[] = [];
  const yields: string[] = [];
  const asks: Ask[] = [];
  let hold: Hold | undefined;
  const gates = givesTurns(step) ? gate : undefined;
  const stillFor = stillSince(record, input, gates, now);
  for (const machine of input.machines) {
    const { name } = machine;
    const known = record.evidence[name];
    if (known) {
      evidence[name] = known;
      continue;
    }
    if (!hasTurn(record, step, name)) {
      waiting[name] = closed ?? 'other machines come first';
      continue;
    }
    const verdict = verdictOf(step, machine, input, stillFor, (judged) => {
      const shut = gates && atGate(gates, machine, judged, closed);
      if (shut) asks.push({ machine, when: shut.when });
      return shut?.verdict ?? judged;
    });
    if (verdict.is === 'done') {
      evidence[name] = { at: now, text: verdict.evidence };
      notes.push({ code: 'evidence', text: verdict.evidence, machine: name });
    } else if (verdict.is === 'held') {
      hold ??= verdict.hold;
      waiting[name] = verdict.hold.text;
    } else {
      waiting[name] = verdict.text;
      if (verdict.yields) yields.push(name);
    }
  }
  const lacking = input.machines.flatMap(({ name }) => (evidence[name] ? [] : [name]));
  // What holds one machine could hold the next one as well.
  const had = record.turns.filter((name) => !yields.includes(name));
  const whyNot = (name: string, turns: readonly string[]): string | undefined =>
    whyGroupIsFull(name, groupsIn(step), countedDown(record, name, turns, down));
  const turns = turnsOf(had, step, lacking, {
    more: closed === undefined && hold === undefined,
    whyNot,
  });
  if (closed === undefined)
    for (const name of lacking)
      if (!turns.includes(name)) waiting[name] = whyNot(name, turns) ?? waiting[name] ?? '';
  const first = lacking.find((name) => whyNot(name, turns) !== undefined);
  if (first !== undefined && turns.length === 0 && closed === undefined && stillFor >= SILENT_AFTER)
    hold ??= fullGroup(first, waiting[first]!);
  for (const name of turns)
    if (!record.turns.includes(name)) notes.push({ code: 'turn', text: step.sentence, machine: name });
  return { evidence, turns, lacking, waiting, notes, asks, ...(hold && { held: hold }) };
}

/** Whether a machine may do the step now. */
export function hasTurn<Order, Seen>(
  { turns }: Pick<ChangeRecord<Order>, 'turns'>,
  { scope }: Step<Order, Seen>,
  machine: string,
): boolean {
  return !givesTurns({ scope }) || turns.includes(machine);
}

/**
 * What a machine waits for at its hooks; undefined when they let it go on. Those before its turn
 * are not asked where it has done the step already, or gives its turn back.
 */
function atGate(
  gate: NonNullable<Observed<unknown>['gate']>,
  machine: MachineSeen,
  judged: Verdict,
  closed: string | undefined,
): { readonly when: Ask['when']; readonly verdict: Verdict } | undefined {
  if (judged.is === 'waiting' && judged.yields) return { when: 'again', verdict: judged };
  const when = judged.is === 'done' ? 'after' : 'before';
  const found = gate(machine, when);
  if (found.is === 'open') return undefined;
  if (when === 'before' && closed !== undefined)
    return { when: 'again', verdict: { is: 'waiting', text: closed, yields: true } };
  return { when, verdict: found.is === 'waiting' ? { ...found, limited: true } : found };
}

const givesTurns = ({ scope }: Pick<Step<never, never>, 'scope'>): boolean =>
  scope.on === 'machines' && scope.atOnce !== 'all';

function turnsOf<Order, Seen>(
  turns: readonly string[],
  { scope }: Step<Order, Seen>,
  lacking: readonly string[],
  { more, whyNot }: { readonly more: boolean; readonly whyNot: Parameters<typeof nextTurns>[3] },
): readonly string[] {
  if (scope.on === 'boot-host' || scope.atOnce === 'all') return [];
  const kept = turns.filter((name) => lacking.includes(name));
  return more ? nextTurns(kept, lacking, scope.atOnce, whyNot) : kept;
}

const groupsIn = ({ scope }: Pick<Step<never, never>, 'scope'>) =>
  scope.on === 'machines' ? scope.groups : undefined;

/**
 * The workers that count in the groups of a machine. On the way back one that is down itself waits
 * only for turns: two that the change has broken would wait for each other otherwise.
 */
const countedDown = (
  { route }: Pick<ChangeRecord, 'route'>,
  machine: string,
  turns: readonly string[],
  down: Down,
): readonly string[] => (route === 'back' && down.has(machine) ? turns : [...turns, ...down.keys()]);

/** The hold of a step in which nobody gets a turn, because what is down fills the groups. */
const fullGroup = (machine: string, text: string): Hold => ({
  code: 'group-full',
  text: `${machine} gets no turn: ${text}.`,
  remedy:
    'Repair what is down (`muster cluster status` names it) or take it out with `muster cluster remove-node`; the change then continues by itself.',
});

function verdictOf<Order, Seen>(
  step: Step<Order, Seen>,
  machine: MachineSeen,
  input: StepInput<Order, Seen>,
  stillFor: Millis,
  throughGate: (judged: Verdict) => Verdict,
): Verdict {
  const silent = (silentFor: Millis | undefined): boolean =>
    silentFor !== undefined && silentFor >= (step.patience ?? SILENT_AFTER);
  if (machine.facts === undefined)
    return silent(machine.silentFor ?? input.age)
      ? silence(machine)
      : { is: 'waiting', text: 'it has not reported since the step began' };
  const verdict = throughGate(step.machine?.(machine, input) ?? done('nothing is asked of it'));
  if (verdict.is !== 'waiting' || verdict.yields || verdict.restarts) return verdict;
  if (silent(machine.silentFor)) return silence(machine);
  return !verdict.limited && stillFor >= STALLED_AFTER ? stalled(machine, verdict.text) : verdict;
}

/**
 * For how long the step has had neither new evidence nor a new turn, and no hook has let a machine
 * begin. A clock that jumps, or a server that has just started, makes it shorter and never longer.
 */
function stillSince<Order, Seen>(
  { since, evidence, turns, turnedAt = since }: ChangeRecord<Order>,
  { age, machines }: StepInput<Order, Seen>,
  gate: Observed<Seen>['gate'],
  now: number,
): Millis {
  const opened = machines.map((machine) => {
    const found = turns.includes(machine.name) ? gate?.(machine, 'before') : undefined;
    return found?.is === 'open' ? (found.at ?? since) : since;
  });
  const last = Math.max(since, turnedAt, ...opened, ...Object.values(evidence).map(({ at }) => at));
  return Math.min(age, now - last) as Millis;
}

const stalled = ({ name }: MachineSeen, text: string): Verdict => ({
  is: 'held',
  hold: {
    code: 'machine-stalled',
    text: `${name} has shown nothing new for 15 minutes: ${text}.`,
    remedy: `\`muster explain ${name}\` and the logs of the program on it say why. The change continues by itself when it is repaired; a worker can be left out: \`muster change ${CLUSTER} leave-out ${name}\`.`,
  },
});

const silence = ({ name }: MachineSeen): Verdict => ({
  is: 'held',
  hold: {
    code: 'machine-silent',
    text: `${name} does not report.`,
    remedy: `Power it on, or leave it out: \`muster change ${CLUSTER} leave-out ${name}\`.`,
  },
});

/** The record with what was seen, or a wait when nothing is new. */
function settle<Order>(record: ChangeRecord<Order>, looked: Looked, now: number): Move<Order> {
  const { evidence, turns, waiting, notes } = looked;
  const asks = looked.asks.length > 0 ? { asks: looked.asks } : {};
  const holding = holdingOf(record, looked.held, now);
  const isHeldAnew = holding !== undefined && record.holding?.text !== holding.text;
  const isReleased = record.holding !== undefined && holding === undefined;
  const same = notes.length === 0 && turns.length === record.turns.length && !isHeldAnew && !isReleased;
  if (same) return { do: 'wait', waiting, ...asks };
  const { holding: _, ...rest } = record;
  return {
    do: 'write',
    ...asks,
    record: {
      ...rest,
      evidence: { ...evidence },
      turns: [...turns],
      ...(turns.some((name) => !record.turns.includes(name)) && { turnedAt: now }),
      ...(holding && { holding }),
    },
    notes: [
      ...notes,
      ...(isHeldAnew ? [{ code: 'held', text: `${holding.text} ${holding.remedy}` } as const] : []),
      ...(isReleased ? [{ code: 'released', text: 'What held the change is over.' } as const] : []),
    ],
  };
}

function holdingOf<Order>(
  { holding, cluster }: ChangeRecord<Order>,
  hold: Hold | undefined,
  now: number,
): ChangeRecord['holding'] {
  if (hold === undefined) return undefined;
  if (holding?.code === hold.code && holding.text === hold.text) return holding;
  return { at: now, ...hold, remedy: hold.remedy.replaceAll(CLUSTER, cluster) };
}

/** The record at the beginning of the next step, or at the end of the change. */
function ended<Order, Seen>(
  record: ChangeRecord<Order>,
  table: ChangeTable<Order, Seen>,
  { evidence, notes }: Looked,
  text: string | undefined,
  now: number,
): Write<Order> {
  const { route, step, since } = record;
  const steps = routeOf(record, table);
  const next = steps[steps.findIndex(({ name }) => name === step) + 1];
  const machines = Object.keys(evidence).length;
  const past = [...record.past, { step, route, since, until: now, machines, ...(text ? { text } : {}) }];
  const { holding: _, ...rest } = { ...record, past };
  const finished = { route, step, evidence };
  if (next) {
    const entered = enter(rest, next, now);
    return { do: 'write', record: entered.record, notes: [...notes, ...entered.notes], finished };
  }
  const as = route === 'forward' ? 'done' : 'rolled-back';
  return {
    do: 'write',
    record: { ...rest, evidence: {}, turns: [], ended: { at: now, as } },
    notes: [...notes, { code: as, text: NOTES[as] }],
    finished,
  };
}

/** The record of a change that has just come to a step; it pauses there if that was ordered. */
export function enter<Order, Seen>(
  record: ChangeRecord<Order>,
  { name, acts, sentence }: Step<Order, Seen>,
  now: number,
): { readonly record: ChangeRecord<Order>; readonly notes: readonly Note[] } {
  const pauses = record.pauseBefore.includes(name);
  return {
    record: {
      ...record,
      step: name,
      since: now,
      acted: acts !== true,
      evidence: {},
      turns: [],
      ...(pauses && { paused: { at: now, by: '--pause-before' } }),
    },
    notes: pauses
      ? [{ code: 'paused', text: `It pauses before the step ${name}, as ordered.` }]
      : [{ code: 'began', text: `${name}: ${sentence}` }],
  };
}
