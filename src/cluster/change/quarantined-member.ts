/**
 * The member of etcd of a machine in quarantine: it leaves etcd if that keeps the quorum, and comes
 * back when the machine is released. The Cluster's document stays as it is.
 */
import { MusterError } from '../../base/errors.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { Founder } from '../etcd/founder.ts';
import { recordedMembers } from '../etcd/record.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import type { Departures } from './departures.ts';

interface QuarantinedMemberDeps {
  readonly founder: Pick<Founder, 'records' | 'leave' | 'released'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly departures: Pick<Departures, 'go'>;
}

/** What becomes of a machine's member of etcd. */
export interface MemberLeaves {
  readonly cluster: string;
  /** Why it stays in etcd; absent: it leaves. */
  readonly stays?: string;
}

export interface QuarantinedMembers {
  /** Orders the machine's member out of etcd; undefined when it is no member of any etcd. */
  leave(machine: string): Promise<MemberLeaves | undefined>;
  /** Undoes that, as far as it can be undone. */
  release(machine: string): Promise<void>;
}

/** Makes the part that quarantine and release call. */
export function createQuarantinedMembers(deps: QuarantinedMemberDeps): QuarantinedMembers {
  const { founder, clusters, departures } = deps;
  return {
    async leave(machine) {
      const record = founder
        .records()
        .find((one) => recordedMembers(one).some(({ name }) => name === machine) || one.joined[machine]);
      if (record === undefined) return undefined;
      const { cluster } = record;
      const resolved = clusters.get(cluster)?.resolved;
      const departing = { machine, node: false, clear: false, drainUntil: 0, quarantine: true } as const;
      try {
        await founder.leave(cluster, resolved ? membersOf(resolved) : [], [departing]);
      } catch (error) {
        if (!(error instanceof MusterError)) throw error;
        return { cluster, stays: error.message };
      }
      departures.go(cluster);
      return { cluster };
    },
    async release(machine) {
      for (const { cluster, leaving } of founder.records())
        if (leaving?.[machine]?.quarantine) await founder.released(cluster, machine);
    },
  };
}
