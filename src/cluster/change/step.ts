/**
 * The words in which a change of a running cluster is written down: a change is a table of steps,
 * and each step says where it works, what the boot host does for it, what evidence ends it, and
 * whether it can be taken back. The engine (engine.ts) knows only these types. Every kind of change
 * brings its own table, for example rotation/table.ts.
 *
 * Tables are pure. `Order` is what was ordered, as the change's record keeps it. `Seen` is what the
 * boot host has observed of the cluster as a whole, for example which Secrets name an old key.
 */
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Millis } from '../../base/duration.ts';
import type { ClusterRole } from '../model/resolved-cluster.ts';
import type { WorkerGroup } from './groups.ts';

/** Why a step cannot go further until an operator does something. */
export interface Hold {
  /** A stable code, for programs. */
  readonly code: string;
  readonly text: string;
  /** What an operator can do about it. */
  readonly remedy: string;
}

/** Stands for the cluster's name in a remedy: tables do not know it, and the engine fills it in. */
export const CLUSTER = '<cluster>';

/** What a machine, or the cluster as a whole, shows about a step. */
export type Verdict =
  /** `evidence`: what was observed; kept in the record and in the report. */
  | { readonly is: 'done'; readonly evidence: string }
  /**
   * It is under way; `text` says what is waited for. `yields`: the machine gives its turn back,
   * because it has changed nothing yet and no machine may begin now. `limited`: the wait has a
   * limit of its own, so that it does not count as stalled. `restarts`: so that it counts neither
   * as stalled nor as silent.
   */
  | {
      readonly is: 'waiting';
      readonly text: string;
      readonly yields?: true;
      readonly limited?: true;
      readonly restarts?: true;
    }
  | { readonly is: 'held'; readonly hold: Hold };

export const done = (evidence: string): Verdict => ({ is: 'done', evidence });
export const waiting = (text: string): Verdict => ({ is: 'waiting', text });
export const held = (code: string, text: string, remedy: string): Verdict => ({
  is: 'held',
  hold: { code, text, remedy },
});

/** Whether the hooks of a machine let its turn begin, or end. */
export type Gate =
  /** `at`: when it was opened, ms since 1970; absent: there is nobody to ask. */
  { readonly is: 'open'; readonly at?: number } | Extract<Verdict, { is: 'waiting' | 'held' }>;

/** Where a step works. */
export type Scope =
  | { readonly on: 'boot-host' }
  | {
      readonly on: 'machines';
      /** The step's machines have one of these roles; `any`: all machines with an agent. */
      readonly roles: readonly ClusterRole[] | 'any';
      /**
       * How many machines do the step at the same time. Machines get their turns in the cluster's
       * order, and a machine keeps its turn until its evidence is there. `all`: every machine at
       * once; programs that must not restart together still take turns (turn.ts).
       */
      readonly atOnce: number | 'all';
      /** How many of each group do it at the same time; machines of a full group are skipped. */
      readonly groups?: readonly WorkerGroup[] | undefined;
      /** Only these of them; absent: all. */
      readonly only?: readonly string[];
    };

/** Whether a step is for a machine with these roles. */
export const isFor = (
  scope: Scope,
  { name, roles }: { readonly name: string; readonly roles: readonly ClusterRole[] },
): boolean =>
  scope.on === 'machines' &&
  (scope.roles === 'any' || roles.some((role) => scope.roles.includes(role))) &&
  (scope.only === undefined || scope.only.includes(name));

/** What is known about a machine while a step is under way. */
export interface MachineSeen {
  readonly name: string;
  readonly roles: readonly ClusterRole[];
  /**
   * The last report since the boot host did its part of the step. Absent: the machine has not
   * reported since.
   */
  readonly facts?: AgentFacts;
  /** Whether the last report says that the plan which follows from this step is carried out. */
  readonly applied: boolean;
  /**
   * Whether every program that restarts in turns is ready and runs as the newest plan wants it.
   * Absent: the machine runs no such program.
   */
  readonly settled?: boolean;
  /**
   * The generation of Muster's transport CA whose certificate the listener showed when the machine
   * last reported; the machine accepted it.
   */
  readonly listener?: string;
  /** How long ago the machine last reported; absent when this server has not heard it. */
  readonly silentFor?: Millis;
}

/** Everything that a verdict is made from. */
export interface StepInput<Order, Seen> {
  readonly order: Order;
  /** The machines of the step, without those that an operator left out. */
  readonly machines: readonly MachineSeen[];
  readonly cluster: Seen;
  /**
   * For how long this server has known that the boot host's part is done. It begins again when the
   * server restarts, so that no wait is cut short by a clock that jumps.
   */
  readonly age: Millis;
}

export interface Step<Order, Seen> {
  /** A stable name: operators write it in `--pause-before`, and records keep it. */
  readonly name: string;
  /** What the step does, as a sentence for the preview. */
  readonly sentence: string;
  readonly scope: Scope;
  /**
   * Whether the boot host has something to do before evidence counts (the `act` of its {@link
   * Kind}). It may be carried out more than once, because the server can die in between.
   */
  readonly acts?: true;
  /** The evidence of one machine; absent when the step needs none from machines. */
  readonly machine?: (machine: MachineSeen, input: StepInput<Order, Seen>) => Verdict;
  /** The evidence about the cluster as a whole, asked for when all machines are done. */
  readonly whole?: (input: StepInput<Order, Seen>) => Verdict;
  /** What restarts on a machine with these roles, for the preview. */
  readonly restarts?: (roles: readonly ClusterRole[]) => readonly string[];
  /**
   * For how long a machine of the step may be silent before it holds the change; absent: 5 minutes.
   */
  readonly patience?: Millis;
  /** The time that the step usually takes: in total, and for each machine that takes a turn. */
  readonly takes: { readonly total?: Millis; readonly eachTurn?: Millis };
  /**
   * From the boot host's part of this step on, the change cannot be rolled back. Such a step has
   * `acts`, so that a change which pauses before it can still be taken back.
   */
  readonly noReturn?: true;
}

/** The steps of one change, in their order. */
export type Route<Order, Seen> = readonly Step<Order, Seen>[];

/** The pure part of a kind of change. */
export interface ChangeTable<Order, Seen> {
  readonly forward: (order: Order) => Route<Order, Seen>;
  /**
   * The steps that take the change back, from whichever step it had reached. Each step finds by its
   * evidence that there is nothing to do for it.
   */
  readonly back: (order: Order) => Route<Order, Seen>;
}
