/**
 * The types of founding: etcd of a cluster is founded once (docs/decisions/0024-founded-once.md).
 * All facts here are stored, or came over mTLS from the machine that they are about.
 *
 * A founding begins without a record. It opens in one commit when every member has asked and none
 * has data, or when an operator typed the cluster's name. The commit binds each member that has
 * asked to the filesystem that it named. Later `state=new` is granted only for the same combination
 * of cluster, founding, member and filesystem, and never after the first evidence of a quorum.
 */
import type { EtcdFacts, Marker } from '../../agent/wire/facts.ts';
import type { Millis } from '../../base/duration.ts';
import type { Founding } from '../plan/manifests.ts';
import type { HoldCode } from './holds.ts';
import type { FoundingRecord, MemberAddress, Restoring } from './record.ts';

export type { FoundingRecord, Leaving, MemberAddress, Replacing, Restoring } from './record.ts';

/** What a member reports when it asks. */
export interface MemberFacts {
  readonly member: string;
  readonly machine: string;
  /** The mounted data filesystem. */
  readonly filesystem: string;
  readonly marker?: Marker;
  readonly etcd: EtcdFacts;
  /** The highest revision of the store that any server has sent to the machine. */
  readonly seenRevision?: number;
  /** Whether the machine has stopped its etcd and removed whatever could start it. */
  readonly fenced: boolean;
}

/** etcd's own list of members, read through a member that answers. */
export interface EtcdView {
  readonly clusterId: string;
  readonly members: readonly EtcdMember[];
}

export interface EtcdMember {
  readonly id: string;
  /** Empty until the member has started for the first time. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly learner: boolean;
  /** Whether it has just answered a linearizable read; a learner, a request for its status. */
  readonly healthy: boolean;
}

/** What this process has seen since it started; nothing of it is stored. */
export interface ServerLife {
  /** The last facts of each member. */
  readonly asked: ReadonlyMap<string, MemberFacts>;
  /** When each member reported its facts, monotonic. */
  readonly heard: ReadonlyMap<string, Millis>;
  /** The present time of the same monotonic clock. */
  readonly now: Millis;
  /**
   * Whether the founding was opened since this server started, so that a member without a grant
   * never had one.
   */
  readonly opened: boolean;
  /** A machine that has seen a revision that this store has not reached. */
  readonly rolledBack?: string;
}

/** Everything that is known when a member asks: the input of all decisions. */
export interface Known {
  readonly cluster: string;
  /** The members in the Cluster's document. */
  readonly members: readonly MemberAddress[];
  readonly record?: FoundingRecord;
  readonly life: ServerLife;
  readonly view?: EtcdView;
}

export type EtcdDecision =
  /** The grant: etcd may start with `state=new` on this filesystem. */
  | { readonly do: 'found'; readonly founding: Founding; readonly filesystem: string }
  /** The member was added as a learner: etcd may start with `state=existing`. */
  | { readonly do: 'join'; readonly founding: Founding; readonly filesystem: string }
  /** The member has its data: etcd starts, and ignores the flags for founding. */
  | { readonly do: 'start'; readonly founding: Founding }
  /**
   * The member's data are lost and the others have a quorum: the executor removes the member and
   * adds it again. Its etcd is stopped meanwhile. `why` is for operators alone.
   */
  | { readonly do: 'replace'; readonly why: string }
  /**
   * A copy of the member's data becomes the only member of a new founding; the original is kept.
   */
  | { readonly do: 'restore'; readonly restoring: Restoring & { readonly from: string } }
  | {
      readonly do: 'hold';
      readonly code: HoldCode;
      /** Also sent to the machine. It must not say what a machine would have to claim. */
      readonly text: string;
      /** More, for operators alone. */
      readonly operators?: string;
    };
