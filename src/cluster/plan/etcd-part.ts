/**
 * The interface between a machine's plan and the founding of etcd: the founding decides what a
 * member may do, and the plan carries the decision out.
 */
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import type { Founding } from './manifests.ts';

/** What the founding contributes to the plan of a member. */
export interface EtcdPart {
  /**
   * Lines that come after the data filesystem is mounted and before any file is written: the
   * marker, the guard, and moving old data aside.
   */
  readonly lines: readonly PlanLine[];
  /** How etcd starts. When absent, etcd is not started, but an etcd that runs keeps running. */
  readonly founding?: Founding;
  /**
   * Why etcd does not start. `stop`: nothing else is done either, and no keys are made for the
   * cluster (foreign data, a lost or rolled-back store). Without `stop` everything except etcd is
   * prepared first.
   */
  readonly hold?: { readonly code: string; readonly text: string; readonly stop: boolean };
  /**
   * Set together with a hold that stops: restores the data of a static pod with the programs in
   * etcd's image, once the container runtime runs.
   */
  readonly restore?: Extract<PlanLine, { do: 'restore-etcd' | 'restore-snapshot' }>;
  /** Seconds until the next poll; when absent, the planner chooses them. */
  readonly pollSeconds?: number;
}

/** Decides for a member whose data filesystem is mounted, or which keeps its data elsewhere. */
export type EtcdPlanner = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  facts: AgentFacts,
) => Promise<EtcdPart>;

/**
 * The marker for the data filesystem of a machine that is not a member of etcd, so that its disk is
 * not mistaken for another machine's.
 */
export function markerOf({
  resolved,
  machine,
  facts,
}: {
  readonly resolved: ResolvedCluster;
  readonly machine: ClusterMachine;
  readonly facts: AgentFacts;
}): EtcdPart | undefined {
  if (facts.disk.state !== 'ours') return undefined;
  // Every value begins with a letter or digit: the agent refuses a value that a command could read
  // as an option.
  const marker = { cluster: resolved.name, founding: 'none', member: 'none', machine: machine.name };
  const onDisk = facts.marker;
  const foreign =
    onDisk !== undefined &&
    Object.entries(marker).some(([key, value]) => onDisk[key as keyof typeof marker] !== value);
  if (foreign)
    return {
      lines: [],
      hold: {
        code: 'foreign-marker',
        text: `The data disk belongs to ${onDisk.machine} in cluster ${onDisk.cluster}.`,
        stop: true,
      },
    };
  return { lines: [{ do: 'marker', ...marker }] };
}
