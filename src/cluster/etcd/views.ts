/**
 * Caches what the etcd of one cluster reports about its members; etcd is asked at most once a
 * second.
 */
import type { Clock } from '../../base/clock.ts';
import { millis } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import type { Alarm, EtcdCondition } from './condition.ts';
import type { EtcdView, MemberAddress } from './founding.ts';

/** The etcd of one cluster, which the boot host reaches with a client certificate of its own. */
export interface EtcdGateway {
  /** Resolves with undefined when no member answers a linearizable read. */
  view(members: readonly MemberAddress[]): Promise<EtcdView | undefined>;
  /** Whether this member answers a linearizable read. */
  reads(member: MemberAddress): Promise<boolean>;
  /**
   * These three functions try one member after the other; they throw etcd's message when it
   * refuses.
   */
  remove(members: readonly MemberAddress[], id: string): Promise<void>;
  addLearner(members: readonly MemberAddress[], peerUrl: string): Promise<void>;
  promote(members: readonly MemberAddress[], id: string): Promise<void>;
}

/** What keeps an etcd in order, and what shows its condition. */
export interface EtcdMaintenance {
  /** Asks every member for its condition; no quorum is needed. Never rejects. */
  condition(members: readonly MemberAddress[], quota: number): Promise<EtcdCondition>;
  /** Removes the history of all keys before a revision, and resolves when a member has done it. */
  compact(members: readonly MemberAddress[], revision: string): Promise<void>;
  /** Gives the free pages of one member's database back; the member answers nothing meanwhile. */
  defragment(member: MemberAddress): Promise<void>;
  disarm(members: readonly MemberAddress[], alarm: Alarm): Promise<void>;
  /** Writes a key of Muster's own and deletes it; rejects with etcd's message. */
  write(members: readonly MemberAddress[]): Promise<void>;
}

/** What lets members of an older minor version read the data again (etcd 3.6 and later). */
export interface EtcdDowngrade {
  /**
   * Member → the minor version whose data it has, like 3.6. Members that do not say are left out:
   * they did not answer, or are of a version before 3.6.
   */
  storage(members: readonly MemberAddress[]): Promise<Readonly<Record<string, string>>>;
  /** Lets etcd lower its data to an older minor version; nothing where it does so already. */
  lower(members: readonly MemberAddress[], minor: string): Promise<void>;
}

/** A view is reused for this long. */
const VIEW_KEPT = millis(1000);

interface EtcdViewsDeps {
  readonly cluster: string;
  readonly gateway: (cluster: string) => Pick<EtcdGateway, 'view'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** etcd's views of one cluster, recent or fresh. */
export class EtcdViews {
  readonly #deps: EtcdViewsDeps;
  #last: { readonly at: number; readonly view: EtcdView | undefined } | undefined;
  #asking: Promise<EtcdView | undefined> | undefined;

  constructor(deps: EtcdViewsDeps) {
    this.#deps = deps;
  }

  /**
   * A view that is at most a second old; undefined when no member answers. Callers that come while
   * etcd is being asked get the same answer.
   */
  recent(members: readonly MemberAddress[]): Promise<EtcdView | undefined> {
    const { clock } = this.#deps;
    if (this.#last && clock.monotonic() - this.#last.at < VIEW_KEPT) return Promise.resolve(this.#last.view);
    this.#asking ??= this.#ask(members);
    return this.#asking;
  }

  /** The present view, however recent the last one is. */
  fresh(members: readonly MemberAddress[]): Promise<EtcdView | undefined> {
    this.#last = undefined;
    return this.recent(members);
  }

  async #ask(members: readonly MemberAddress[]): Promise<EtcdView | undefined> {
    const { cluster, gateway, clock, log } = this.#deps;
    let view: EtcdView | undefined;
    try {
      view = await gateway(cluster).view(members);
    } catch (error) {
      log.debug({ err: error, cluster }, 'etcd does not answer');
    }
    this.#last = { at: clock.monotonic(), view };
    this.#asking = undefined;
    return view;
  }
}
