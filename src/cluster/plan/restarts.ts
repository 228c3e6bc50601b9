/**
 * The interface between a machine's plan and the rolling restarts of its cluster: the plan says
 * what it would restart, and `src/cluster/change` answers whether the machine may do so now.
 */
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';

/**
 * Programs that are restarted in turns: on one control plane or member of etcd after the other, and
 * on few workers at a time. They run as static pods or as services of the host. haproxy is only
 * reloaded, but a configuration that it refuses must not reach every machine.
 */
export const ROLLED = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'haproxy',
  'kubelet',
] as const;
export type Rolled = (typeof ROLLED)[number];

/**
 * A digest of what each program starts with: its flags, and the files that it reads only at its
 * start.
 */
export type Revisions = Partial<Readonly<Record<Rolled, string>>>;

export type Turn =
  /** `changes`: programs that may be restarted now. */
  | { readonly do: 'go'; readonly changes: readonly Rolled[] }
  /**
   * `changes`: programs that may not be restarted yet. `text` says which machine comes first, and
   * why.
   */
  | {
      readonly do: 'wait';
      readonly changes: readonly Rolled[];
      readonly text: string;
      /** Whether the others serve has to be asked now, before it is decided. */
      readonly asks?: true;
    };

export interface RestartDecision {
  readonly turn: Turn;
  /**
   * Whether the machine should poll again soon: it waits for its turn, or had its turn and is not
   * back yet.
   */
  readonly soon: boolean;
}

/** Decides when a machine may restart programs that a change of its plan affects. */
export interface Restarts {
  /**
   * Notes what the machine reports, and decides whether it may now restart the programs that do not
   * run with the wanted revisions. Only one machine at a time has its turn.
   */
  ask(
    resolved: ResolvedCluster,
    machine: ClusterMachine,
    facts: AgentFacts,
    wanted: Revisions,
  ): RestartDecision;
  /**
   * What the last decision for the machine needs. `ask`: the others were asked now whether they
   * serve, and the decision has to be made again. `keep`: what was decided is in the store, and may
   * have its effect.
   *
   * @throws {MusterError} the store's error; the machine gets no plan then
   */
  follow(resolved: ResolvedCluster, machine: ClusterMachine): Promise<'ask' | 'keep'>;
}
