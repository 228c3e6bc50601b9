/**
 * The seam between a machine's plan and the founding of etcd: the founding decides what a member
 * may do, and the plan carries it out.
 */
import type { AgentFacts } from '../../agent/facts.ts';
import type { PlanLine } from '../../agent/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import type { Founding } from './manifests.ts';

/** What the founding contributes to the plan of a member. */
export interface EtcdPart {
  /**
   * Lines to do after the data filesystem is mounted and before any file is written: the marker,
   * the guard, data to set aside.
   */
  readonly lines: readonly PlanLine[];
  /** How etcd starts. Absent: etcd is not started; one that runs keeps running. */
  readonly founding?: Founding;
  /**
   * Why etcd does not start. `stop`: nothing else is done either, and no keys are made for the
   * cluster (foreign data, a lost or rolled-back store). Without `stop` everything except etcd is
   * prepared first.
   */
  readonly hold?: { readonly code: string; readonly text: string; readonly stop: boolean };
  /**
   * Comes with a hold that stops: restores the data of a static pod, with the programs in etcd's
   * image, once the container runtime runs.
   */
  readonly restore?: Extract<PlanLine, { do: 'restore-etcd' }>;
  /** Seconds until the next poll; the planner chooses when absent. */
  readonly pollSeconds?: number;
}

/** Asked for a member whose data filesystem is mounted, or which keeps its data elsewhere. */
export type EtcdPlanner = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  facts: AgentFacts,
) => Promise<EtcdPart>;
