/** What the members of etcd of all clusters said when they were last asked, and who is mute. */
import type { Fault } from '../../base/errors.ts';
import { type EtcdCondition, quotaOf, troublesIn, whyAlarmed } from '../etcd/condition.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import type { EtcdMaintenance } from '../etcd/views.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';

export interface EtcdLooks {
  /** Asks etcd now. `members`: those to ask. */
  look(cluster: string, members: readonly MemberAddress[]): Promise<EtcdCondition>;
  /** Whether a member answered a read at the last look, and no alarm but NOSPACE was raised. */
  reads(cluster: string, member: string): boolean;
  /**
   * The machines whose member answers nothing, because it is being defragmented; who does that
   * changes the set.
   */
  mute(cluster: string): Set<string>;
  /** The alarm because of which no change of the cluster may begin or go on, by the last look. */
  holds(cluster: string): Fault | undefined;
}

/** Keeps the last look at each cluster. */
export function createEtcdLooks({
  clusters,
  gateway,
}: {
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly gateway: (cluster: string) => Pick<EtcdMaintenance, 'condition'>;
}): EtcdLooks {
  const last = new Map<string, EtcdCondition>();
  const mutes = new Map<string, Set<string>>();
  return {
    async look(cluster, members) {
      const quota = quotaOf(clusters.get(cluster)?.resolved?.flags.etcd['quota-backend-bytes']);
      const condition = await gateway(cluster).condition(members, quota);
      last.set(cluster, condition);
      return condition;
    },
    reads(cluster, member) {
      const condition = last.get(cluster);
      if (condition === undefined || troublesIn(cluster, condition).some(({ code }) => code === 'corrupt'))
        return false;
      return condition.members.some(({ name, reads }) => name === member && reads);
    },
    mute(cluster) {
      const mute = mutes.get(cluster) ?? new Set<string>();
      mutes.set(cluster, mute);
      return mute;
    },
    holds(cluster) {
      const condition = last.get(cluster);
      const why = condition && whyAlarmed(cluster, condition);
      return why === undefined ? undefined : { code: 'E_ETCD_SPACE', message: `${cluster}: ${why}` };
    },
  };
}
