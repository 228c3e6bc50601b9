/**
 * What operators order of a change: to begin, pause, continue, take back, or leave machines out.
 * Pure: each returns the new record and what events say, or throws why it is refused.
 */
import { MusterError } from '../../base/errors.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { enter, NOTES, type Note, routeOf } from './engine.ts';
import type { ChangeRecord } from './record.ts';
import type { ChangeTable } from './step.ts';

/** A new record, and what happened. */
export interface Ordered<Order> {
  readonly record: ChangeRecord<Order>;
  readonly notes: readonly Note[];
}

/** Who orders something, and when (wall clock). */
export interface Occasion {
  readonly by: string;
  readonly now: number;
}

export interface NewChange<Order> {
  readonly cluster: string;
  readonly id: string;
  readonly kind: string;
  readonly order: Order;
  readonly pauseBefore: readonly string[];
  readonly without: readonly string[];
}

/** Muster's own keys are of no cluster. */
export const shownScope = (cluster: string): string => (cluster === MUSTER_SCOPE ? 'muster' : cluster);

const refuse = (text: string): never => {
  throw new MusterError('E_CHANGE', text);
};

/** Why no change can begin while the one that a cluster had last is under way; else undefined. */
export const whySecond = (cluster: string, before: ChangeRecord | undefined): string | undefined =>
  before && !before.ended
    ? `${shownScope(cluster)}: the ${before.kind} that ${before.by} ordered is under way, at the step ${before.step}`
    : undefined;

/**
 * Begins a change.
 *
 * @throws {MusterError} E_CHANGE while another change of the cluster is under way, E_USAGE when
 *   `pauseBefore` names a step that this change does not have
 */
export function begin<Order, Seen>(
  { cluster, id, kind, order, pauseBefore, without }: NewChange<Order>,
  table: ChangeTable<Order, Seen>,
  before: ChangeRecord | undefined,
  { by, now }: Occasion,
): Ordered<Order> {
  const second = whySecond(cluster, before);
  if (second !== undefined) refuse(second);
  const route = table.forward(order);
  const names = route.map(({ name }) => name);
  const unknown = pauseBefore.find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw new MusterError('E_USAGE', `there is no step ${unknown}; its steps are ${names.join(', ')}`);
  return enter(
    {
      v: 1,
      cluster,
      id,
      kind,
      order,
      by,
      at: now,
      route: 'forward',
      step: names[0]!,
      since: now,
      acted: false,
      evidence: {},
      turns: [],
      past: [],
      pauseBefore: [...pauseBefore],
      without: [...without],
    },
    route[0]!,
    now,
  );
}

const underWay = <Order>(record: ChangeRecord<Order>): ChangeRecord<Order> =>
  record.ended ? refuse(`${shownScope(record.cluster)}: the ${record.kind} has ended already`) : record;

/** @throws {MusterError} E_CHANGE when the change has ended */
export function pauseChange<Order>(record: ChangeRecord<Order>, { by, now }: Occasion): Ordered<Order> {
  if (underWay(record).paused) return { record, notes: [] };
  return {
    record: { ...record, paused: { at: now, by } },
    notes: [{ code: 'paused', text: `${by} paused it at the step ${record.step}.` }],
  };
}

/** @throws {MusterError} E_CHANGE when the change has ended */
export function resumeChange<Order>(record: ChangeRecord<Order>, { by }: Occasion): Ordered<Order> {
  const { paused, ...rest } = underWay(record);
  if (!paused) return { record, notes: [] };
  return { record: rest, notes: [{ code: 'resumed', text: `${by} resumed it at the step ${record.step}.` }] };
}

/** Why a change cannot be taken back; undefined when it can. */
export function whyNotBack<Order, Seen>(
  record: ChangeRecord<Order>,
  table: ChangeTable<Order, Seen>,
): string | undefined {
  if (record.ended) return 'it has ended';
  if (record.route === 'back') return 'it is being taken back already';
  const route = routeOf(record, table);
  const at = route.findIndex(({ name }) => name === record.step);
  const last = route.findIndex(({ noReturn }) => noReturn);
  if (last < 0 || at < last || (at === last && !record.acted)) return undefined;
  return `the step ${route[last]!.name} has begun, and what it ended cannot be brought back`;
}

/**
 * Takes a change back. A change that was paused continues, backwards.
 *
 * @throws {MusterError} E_CHANGE when the change has ended or has passed its point of no return
 */
export function rollBack<Order, Seen>(
  record: ChangeRecord<Order>,
  table: ChangeTable<Order, Seen>,
  { by, now }: Occasion,
): Ordered<Order> {
  const why = whyNotBack(record, table);
  if (why !== undefined)
    refuse(`${shownScope(record.cluster)}: the ${record.kind} cannot be rolled back: ${why}`);
  const { paused: _, holding: __, ...rest } = record;
  const interrupted = { step: record.step, route: record.route, since: record.since, until: now };
  const past = [
    ...record.past,
    { ...interrupted, machines: Object.keys(record.evidence).length, text: `${by} rolled it back here` },
  ];
  const first = table.back(record.order)[0]!;
  const entered = enter({ ...rest, route: 'back', past, pauseBefore: [] }, first, now);
  return {
    record: entered.record,
    notes: [
      { code: 'rolling-back', text: `${by} rolls it back. ${NOTES['rolling-back']}` },
      ...entered.notes,
    ],
  };
}

/**
 * Leaves machines out: nothing waits for them any more.
 *
 * @param record with the order that counts from now on
 * @throws {MusterError} E_CHANGE when the change has ended
 */
export function leaveOut<Order>(
  record: ChangeRecord<Order>,
  machines: readonly string[],
  { by }: Occasion,
): Ordered<Order> {
  const added = machines.filter((name) => !underWay(record).without.includes(name));
  return {
    record: { ...record, without: [...record.without, ...added] },
    notes: added.map((machine) => ({ code: 'without', text: `${by} left it out.`, machine })),
  };
}
