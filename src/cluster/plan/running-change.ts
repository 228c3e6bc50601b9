/**
 * The interface between a machine's plan and the change of its cluster that is under way: the plan
 * asks what the machine may have now, and `src/cluster/change` answers from the change's record.
 */
export interface RunningChange {
  /** The kind of change, for example `rotation`. */
  readonly kind: string;
  /** What was ordered; its form depends on the kind. */
  readonly order: unknown;
  readonly step: string;
  /** Whether the change is being taken back. */
  readonly back: boolean;
  /** Whether the boot host has done its part of the step. */
  readonly acted: boolean;
  /** Whether it waits for an operator, so that machines need not poll often. */
  readonly held: boolean;
  /** While it is paused, no machine gets a turn. */
  readonly paused: boolean;
  /** Whether the machine may do the step now. */
  readonly hasTurn: (machine: string) => boolean;
  /** What the machine has of the rehearsal of a rotation; undefined for all others. */
  readonly rehearsal: (machine: string) => Rehearsal | undefined;
}

/** How a machine differs from the others while its API server rehearses the end of old keys. */
export interface Rehearsal {
  /** Keyset → the only generation that the machine trusts. Empty: it trusts what all others do. */
  readonly trusts: ReadonlyMap<string, string>;
  /**
   * The machine asks none of its listeners with probe certificates: those that are refused would
   * count among the clients that its API server refuses.
   */
  readonly quiet: boolean;
}

/** The change of a cluster that is under way; undefined when there is none. From memory. */
export type RunningChangeOf = (cluster: string) => RunningChange | undefined;
