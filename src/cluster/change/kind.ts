/**
 * A kind of change: how it is ordered, its pure table, and the functions with which the boot host
 * does its part of the steps and looks at the cluster as a whole. Nothing else differs between
 * kinds.
 */
import type { z } from 'zod';
import type { Millis } from '../../base/duration.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import type { HookTime } from '../../resources/hook-spec.ts';
import type { ClusterMachine } from '../model/resolved-cluster.ts';
import type { Rehearsal } from '../plan/running-change.ts';
import type { Down } from './down.ts';
import { advance, hasTurn, type Move, stepOf } from './engine.ts';
import type { Hooks } from './hooks/hooks.ts';
import { begin, type NewChange, type Occasion, type Ordered, rollBack, whyNotBack } from './orders.ts';
import type { ChangeRecord } from './record.ts';
import type { ChangeRequest } from './request.ts';
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

/** A machine as steps and orders take it. */
export type ChangedMachine = Pick<ClusterMachine, 'name' | 'roles'>;

/** What becomes of a request. */
export interface Prepared<Order> {
  readonly order: Order;
  /** What prevents it; with one of them it does not begin. */
  readonly faults: readonly Fault[];
  /** The machines of the preview; absent: those that the cluster has now. */
  readonly machines?: readonly ChangedMachine[];
  /** The machines that are not waited for; absent: those of the request. */
  readonly without?: readonly string[];
  /** What it is about, for the preview: machine or cluster → a sentence. */
  readonly about?: Readonly<Record<string, string>>;
  /** For what it would have to wait now, as a sentence. */
  readonly waits?: string | undefined;
  /** The hooks that it would ask. */
  readonly hooks?: readonly string[];
  /** What has to be done before it begins, for example an edit of the document. */
  readonly commit?: () => Promise<void>;
}

/** How a kind of change is ordered. */
export interface ChangeOrdered<Order, Request extends ChangeRequest> {
  /** The body that orders one. */
  readonly request: z.ZodType<Request>;
  /** What it changes: Muster itself (`_muster`), the agents of a cluster; absent: a cluster. */
  readonly changes?: 'muster' | 'agents';
  /**
   * Makes an order of a request; changes nothing.
   *
   * @throws {MusterError} where there is no order to show, for example for an unknown keyset
   */
  readonly prepare: (cluster: string, request: Request) => Promise<Prepared<Order>>;
  /** Why a machine cannot be left out; absent: each can. */
  readonly mustStay?: (cluster: string, machine: ChangedMachine) => string | undefined;
  /** The order that leaves these things behind; absent: nothing of it can be left behind. */
  readonly leave?: (order: Order, things: readonly string[]) => Order;
  /** What has to be done when it is rolled back, besides the steps. */
  readonly tookBack?: (cluster: string, order: Order) => Promise<void>;
}

export interface ChangeKind<Order, Seen, Request extends ChangeRequest>
  extends ChangeWork<Order, Seen>,
    ChangeOrdered<Order, Request> {}

/** How a kind of change is carried out. */
export interface ChangeWork<Order, Seen> extends ChangeTable<Order, Seen> {
  readonly name: string;
  /** A new one takes the place of one that is under way. */
  readonly replaces?: true;
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
  readonly changes: 'cluster' | 'muster' | 'agents';
  readonly replaces: boolean;
  /** @throws {MusterError} what the kind's `prepare` throws */
  prepare(cluster: string, request: ChangeRequest): Promise<Prepared<unknown>>;
  mustStay(cluster: string, machine: ChangedMachine): string | undefined;
  /** @throws {MusterError} E_USAGE when nothing of this kind can be left behind */
  leave(record: ChangeRecord, things: readonly string[]): unknown;
  tookBack(record: ChangeRecord): Promise<void>;
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
export function anyKind<Order, Seen, Request extends ChangeRequest>(
  kind: ChangeKind<Order, Seen, Request>,
  hooks?: Hooks,
): AnyKind {
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
    changes: kind.changes ?? 'cluster',
    replaces: kind.replaces === true,
    prepare: (cluster, request) => kind.prepare(cluster, kind.request.parse(request)),
    mustStay: (cluster, machine) => kind.mustStay?.(cluster, machine),
    leave(record, things) {
      if (kind.leave) return kind.leave(read(record).order, things);
      throw new MusterError('E_USAGE', `nothing is left behind by changes of the kind ${kind.name}`);
    },
    tookBack: async (record) => kind.tookBack?.(record.cluster, read(record).order),
    begin: (change, before, occasion) =>
      begin(
        { ...change, order: kind.schema.parse(change.order) },
        kind,
        kind.replaces ? undefined : before,
        occasion,
      ),
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
