/**
 * A kind of change: its pure table, and the functions with which the boot host does its part of the
 * steps and looks at the cluster as a whole.
 */
import type { z } from 'zod';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { HookTime } from '../../resources/hook-spec.ts';
import type { Rehearsal } from '../plan/running-change.ts';
import type { Down } from './down.ts';
import { advance, hasTurn, type Move, stepOf } from './engine.ts';
import type { Hooks } from './hooks/hooks.ts';
import { begin, type NewChange, type Occasion, type Ordered, rollBack, whyNotBack } from './orders.ts';
import type { ChangeRecord } from './record.ts';
import type { ChangeTable, Gate, MachineSeen, Step } from './step.ts';

/** A step of a change, as the functions of its kind get it. */
export interface AtStep<Order> {
  readonly cluster: string;
  readonly step: string;
  readonly back: boolean;
  readonly order: Order;
  /** Machines that are not waited for. */
  readonly without: readonly string[];
}

export interface ChangeKind<Order, Seen> extends ChangeTable<Order, Seen> {
  readonly name: string;
  /** The stored form of its order. */
  readonly schema: z.ZodType<Order>;
  /**
   * The boot host's part of a step. It may be called again for the same step, because the server
   * can die before the result is stored. Resolves with the order, and what was found out for it.
   */
  readonly act: (at: AtStep<Order>) => Promise<Order>;
  /** Observes the cluster as a whole. It is called once a second, so it caches what is costly. */
  readonly look: (at: AtStep<Order>, machines: readonly MachineSeen[]) => Promise<Seen>;
  /** Whether a machine has begun its turn, so that hooks before it are not asked; absent: never. */
  readonly begun?: (seen: Seen, machine: string) => boolean;
  /** Why no further machine may get its turn at this wall-clock time; absent: one always may. */
  readonly closed?: (at: AtStep<Order>, now: number) => string | undefined;
  /** The workers that are down in a step with groups; absent: its steps have none. */
  readonly down?: (at: AtStep<Order>, machines: readonly MachineSeen[]) => Promise<Down>;
  /** See {@link RunningChange.rehearsal}; absent: the kind rehearses nothing. */
  readonly rehearsal?: (record: ChangeRecord<Order>, machine: string) => Rehearsal | undefined;
}

/** A step without its evidence: what a preview is made from. */
export type StepOutline = Required<
  Pick<Step<never, never>, 'name' | 'sentence' | 'scope' | 'takes' | 'restarts'>
> & { readonly noReturn: boolean };

/** A kind of change whose types only it knows. */
export interface AnyKind {
  readonly name: string;
  begin(change: NewChange<unknown>, before: ChangeRecord | undefined, occasion: Occasion): Ordered<unknown>;
  rollBack(record: ChangeRecord, occasion: Occasion): Ordered<unknown>;
  whyNotBack(record: ChangeRecord): string | undefined;
  act(record: ChangeRecord): Promise<unknown>;
  move(
    record: ChangeRecord,
    machines: readonly MachineSeen[],
    age: Millis,
    now: number,
  ): Promise<Move<unknown>>;
  hasTurn(record: ChangeRecord, machine: string): boolean;
  rehearsal(record: ChangeRecord, machine: string): Rehearsal | undefined;
  /** The steps of the route that the change takes. */
  steps(record: Pick<ChangeRecord, 'kind' | 'route' | 'order'>): readonly StepOutline[];
}

/**
 * Hides the types of a kind behind functions that read the stored order.
 *
 * @param hooks Those that are asked in its turns; absent: it has none.
 * @throws {MusterError} E_CHANGE (its functions) when the stored order is not of a known version
 */
export function anyKind<Order, Seen>(kind: ChangeKind<Order, Seen>, hooks?: Hooks): AnyKind {
  const read = <R extends Pick<ChangeRecord, 'kind' | 'order'>>(record: R): R & { readonly order: Order } => {
    const order = kind.schema.safeParse(record.order);
    if (!order.success)
      throw new MusterError('E_CHANGE', `the order of the ${record.kind} is not of a version known here`);
    return { ...record, order: order.data };
  };
  const route = ({ kind: of, route: which, order }: Pick<ChangeRecord, 'kind' | 'route' | 'order'>) => {
    const known = read({ kind: of, order });
    return which === 'forward' ? kind.forward(known.order) : kind.back(known.order);
  };
  const at = ({ cluster, step, route, order, without }: ChangeRecord<Order>): AtStep<Order> => ({
    cluster,
    step,
    back: route === 'back',
    order,
    without,
  });
  return {
    name: kind.name,
    begin: (change, before, occasion) =>
      begin({ ...change, order: kind.schema.parse(change.order) }, kind, before, occasion),
    rollBack: (record, occasion) => rollBack(read(record), kind, occasion),
    whyNotBack: (record) => whyNotBack(read(record), kind),
    act: (record) => kind.act(at(read(record))),
    async move(record, machines, age, now) {
      const known = read(record);
      const cluster = await kind.look(at(known), machines);
      const down = await kind.down?.(at(known), machines);
      const gate = (machine: MachineSeen, when: HookTime): Gate => {
        const found = hooks?.gate(known, machine, when) ?? { is: 'open' };
        const isPast = when === 'before' && kind.begun?.(cluster, machine.name) === true;
        return found.is !== 'open' && isPast ? { is: 'open' } : found;
      };
      const closed = kind.closed?.(at(known), now);
      const observed = { machines, cluster, age, closed, down, ...(hooks && { gate }) };
      const move = advance(known, kind, observed, now);
      if (known.paused) hooks?.paused(known);
      if (move.do !== 'act')
        for (const { machine, when } of move.asks ?? [])
          if (when === 'again') hooks?.forget(known, machine.name);
          else hooks?.ask(known, machine, when);
      return move;
    },
    hasTurn: (record, machine) => hasTurn(record, stepOf(read(record), kind), machine),
    rehearsal: (record, machine) => kind.rehearsal?.(read(record), machine),
    steps: (record) =>
      route(record).map(({ name, sentence, scope, takes, restarts, noReturn = false }) => ({
        name,
        sentence,
        scope,
        takes,
        restarts: restarts ?? (() => []),
        noReturn,
      })),
  };
}
