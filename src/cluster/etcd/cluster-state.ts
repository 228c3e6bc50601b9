/** What this process knows of one cluster's founding since it started; nothing of it is stored. */
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

export class ClusterState {
  readonly cluster: string;
  readonly views: EtcdViews;
  /** The last facts of each member, and when they came, by the monotonic clock. */
  readonly #asked = new Map<string, MemberFacts>();
  readonly #heard = new Map<string, Millis>();
  /** The last decision that each member was given. */
  readonly decisions = new Map<string, EtcdDecision>();
  /** Members of the Cluster's document when it was last seen. */
  members: readonly MemberAddress[] = [];
  /** Whether the founding was opened in this life of the server. */
  opened = false;
  /** A machine that has seen a later revision than the store has. */
  rolledBack: string | undefined;
  /** The executor's loop while it has work. */
  executing: Promise<void> | undefined;
  /** What the executor waits for, for operators. */
  waiting: string | undefined;
  /** Resolves when the last work that was queued is over, whether it succeeded or not. */
  #queue: Promise<void> = Promise.resolve();

  constructor(cluster: string, views: EtcdViews) {
    this.cluster = cluster;
    this.views = views;
  }

  /**
   * Runs `work` when all work that was queued before is over: one change of a record at a time. The
   * result and the error of `work` go to its caller alone; the work queued behind it runs in either
   * case. The store's expectations are the second net.
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

  /** Everything that decisions are made from; `now` is monotonic. */
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
