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
}

/** The change of a cluster that is under way; undefined when there is none. From memory. */
export type RunningChangeOf = (cluster: string) => RunningChange | undefined;
