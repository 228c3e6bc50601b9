/** The status and the orders of foundings, each by the cluster's name, as the API calls them. */
import { MusterError } from '../../base/errors.ts';
import { KEYS } from '../../store/keys.ts';
import type { Write } from '../../store/store.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import { adoptedFounding } from './adopting.ts';
import { membersOf } from './etcd-plan.ts';
import type { Founder } from './founder.ts';
import type { FoundingRecord, MemberAddress } from './founding.ts';
import { newFoundingId } from './order.ts';
import { encodeFounding } from './record.ts';
import type { SnapshotOrder } from './restoring.ts';
import type { FoundingStatus } from './status.ts';

export interface FoundingOrders {
  readonly status: (cluster: string) => Promise<FoundingStatus>;
  /** The stored record of a cluster's founding; etcd is not asked. */
  readonly record: (cluster: string) => FoundingRecord | undefined;
  /** Whether the Cluster document and the documents of its machines are complete. */
  readonly isComplete: (cluster: string) => boolean;
  readonly order: (cluster: string) => Promise<FoundingRecord>;
  /**
   * Records that another tool founded the cluster, whether or not it has a document. `commit`
   * stores the write together with its own, or not at all.
   */
  readonly adoptForeign: (
    cluster: string,
    commit: (write: Write) => Promise<void>,
  ) => Promise<FoundingRecord>;
  readonly reset: (cluster: string) => Promise<FoundingRecord>;
  readonly callOff: (cluster: string, member: string) => Promise<FoundingRecord>;
  readonly adopt: (cluster: string, member: string) => Promise<FoundingRecord>;
  readonly restore: (cluster: string, member: string, without: readonly string[]) => Promise<FoundingRecord>;
  /** As restore, from a snapshot; see {@link SnapshotOrder}. */
  readonly restoreSnapshot: (cluster: string, order: Omit<SnapshotOrder, 'etcd'>) => Promise<FoundingRecord>;
}

/**
 * Makes the orders that the API calls. They throw E_NOT_FOUND when the cluster has no complete
 * document and the order needs one. `waits` says why etcd may not be restored now.
 *
 * @throws {MusterError} E_CHANGE (the restores) while `waits` gives a reason
 */
export function foundingOrders(
  clusters: Pick<ResolvedClusters, 'get'>,
  founder: Founder,
  now: () => number,
  waits: (cluster: string) => string | undefined = () => undefined,
): FoundingOrders {
  const checkMayRestore = (cluster: string): void => {
    const why = waits(cluster);
    if (why !== undefined) throw new MusterError('E_CHANGE', `${cluster}: ${why}`);
  };
  const members = (cluster: string): readonly MemberAddress[] | undefined => {
    const resolved = clusters.get(cluster)?.resolved;
    return resolved && membersOf(resolved);
  };
  const known = (cluster: string): readonly MemberAddress[] => {
    const found = members(cluster);
    if (found === undefined) throw missing(cluster);
    return found;
  };
  return {
    async status(cluster) {
      const status = await founder.status(cluster, members(cluster) ?? []);
      // A record can outlive the document, and its status is still shown.
      if (!status.record && members(cluster) === undefined) throw missing(cluster);
      return status;
    },
    record: (cluster) => founder.records().find((record) => record.cluster === cluster),
    isComplete: (cluster) => members(cluster) !== undefined,
    order: async (cluster) => founder.open(cluster, known(cluster)),
    async adoptForeign(cluster, commit) {
      const record = adoptedFounding(cluster, newFoundingId(), now());
      await commit({ key: KEYS.founding.key(cluster), put: encodeFounding(record), expect: 'absent' });
      // Reads the record into memory.
      await founder.status(cluster, members(cluster) ?? []);
      return record;
    },
    // A cluster can be reset even when its document is already deleted.
    reset: async (cluster) => founder.reset(cluster, members(cluster) ?? []),
    callOff: async (cluster, member) => founder.callOff(cluster, known(cluster), member),
    adopt: async (cluster, member) => founder.adopt(cluster, known(cluster), member),
    async restore(cluster, member, without) {
      checkMayRestore(cluster);
      return founder.restore(cluster, known(cluster), member, without);
    },
    async restoreSnapshot(cluster, order) {
      checkMayRestore(cluster);
      const listed = known(cluster);
      const { etcd } = clusters.get(cluster)!.resolved!.versions;
      return founder.restoreSnapshot(cluster, listed, { ...order, etcd });
    },
  };
}

const missing = (cluster: string): MusterError =>
  new MusterError(
    'E_NOT_FOUND',
    `there is no Cluster "${cluster}", or it is incomplete; \`muster get clusters\` lists them, \`muster cluster status ${cluster}\` says what is missing`,
  );
