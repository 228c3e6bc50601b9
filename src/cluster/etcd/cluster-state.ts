/**
 * What this process has learned about one cluster's founding since it started; nothing of it is
 * stored.
 */
import type { Millis } from '../../base/duration.ts';
import type {
  EtcdDecision,
  EtcdView,
  FoundingRecord,
  Known,
  MemberAddress,
  MemberFacts,
} from './founding.ts';
import { recordedMembers } from './record.ts';
import type { EtcdViews } from './views.ts';

/**
 * The state of one cluster: its members' last facts and decisions, and the queue of changes of its
 * record.
 */
export class ClusterState {
  readonly cluster: string;
  readonly views: EtcdViews;
  /** The last facts of each member, and when they arrived, by the monotonic clock. */
  readonly #asked = new Map<string, MemberFacts>();
  readonly #heard = new Map<string, Millis>();
  /** The last decision that each member was given. */
  readonly decisions = new Map<string, EtcdDecision>();
  /** Members of the Cluster's document when it was last seen. */
  members: readonly MemberAddress[] = [];
  /** Whether the founding was opened since this server started. */
  opened = false;
  /** A machine that has seen a later revision of the store than the store has now. */
  rolledBack: string | undefined;
  /** The executor's loop; undefined while it has no work. */
  executing: Promise<void> | undefined;
  /** What the executor waits for, as a text for operators. */
  waiting: string | undefined;
  /** Resolves when all work that was queued is over, whether it succeeded or not. */
  #queue: Promise<void> = Promise.resolve();

  constructor(cluster: string, views: EtcdViews) {
    this.cluster = cluster;
    this.views = views;
  }

  /**
   * Runs `work` when all work that was queued earlier is over, so that only one change of a record
   * is made at a time. The result and the error of `work` go only to its caller; work that is
   * queued later runs in either case. If two changes met nevertheless, the store's expectations
   * would refuse one of them.
   */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work);
    const over = (): void => {};
    this.#queue = result.then(over, over);
    return result;
  }

  /** Notes what a member reports, at the monotonic time `now`. */
  hear(facts: MemberFacts, now: Millis): void {
    this.#asked.set(facts.member, facts);
    this.#heard.set(facts.member, now);
  }

  /** Everything that decisions are made from. `now` is a monotonic time. */
  known(now: Millis, record: FoundingRecord | undefined, view?: EtcdView): Known {
    const { cluster, members, opened, rolledBack } = this;
    return {
      cluster,
      members,
      life: {
        asked: this.#asked,
        heard: this.#heard,
        now,
        opened,
        ...(rolledBack !== undefined && { rolledBack }),
      },
      ...(record && { record }),
      ...(view && { view }),
    };
  }

  /** Every address at which etcd may answer. */
  addresses(record: FoundingRecord): readonly MemberAddress[] {
    const all = [...recordedMembers(record), ...this.members];
    for (const [name, { member }] of Object.entries(record.leaving ?? {}))
      if (member !== undefined) all.push({ name, address: member });
    if (record.replacing) all.push({ name: record.replacing.member, address: record.replacing.address });
    return all.filter(({ address }, n) => all.findIndex((one) => one.address === address) === n);
  }
}
