/**
 * The seam between a machine's plan and the founding of etcd: the founding decides, the plan
 * carries it out.
 */
import type { AgentFacts } from '../../agent/facts.ts';
import type { PlanLine } from '../../agent/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import type { Founding } from './manifests.ts';

/** What the plan of a member takes from the founding. */
export interface EtcdPart {
  /**
   * After the data filesystem is mounted and before any file: the marker, the guard, what is set
   * aside.
   */
  readonly lines: readonly PlanLine[];
  /** What etcd starts with. Absent: nothing of etcd is started; what runs already goes on. */
  readonly founding?: Founding;
  /**
   * Why etcd does not start. `stop`: nothing else is done either, and no keys are made for the
   * cluster (foreign data, a lost or rolled-back store). Otherwise everything but etcd is prepared
   * first.
   */
  readonly hold?: { readonly code: string; readonly text: string; readonly stop: boolean };
  /**
   * With a hold that stops: the restore of a static pod's data, done when the runtime runs, by the
   * programs of etcd's image.
   */
  readonly restore?: Extract<PlanLine, { do: 'restore-etcd' }>;
  /** How soon the machine asks again; the planner's choice when absent. */
  readonly pollSeconds?: number;
}

/** Asked when a member's data filesystem is mounted, or when it keeps its data elsewhere. */
export type EtcdPlanner = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  facts: AgentFacts,
) => Promise<EtcdPart>;
