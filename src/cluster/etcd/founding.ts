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

/** A member with the address of its peer URL, `https://ADDRESS:2380`. */
export interface MemberAddress {
  readonly name: string;
  readonly address: string;
}

/** The record `founding/CLUSTER` in the store; it outlives the Cluster's document. */
export interface FoundingRecord {
  readonly v: 1;
  readonly cluster: string;
  /** Random; etcd's token is made from it. */
  readonly id: string;
  /** Ms since 1970, like all times of a record. */
  readonly openedAt: number;
  readonly openedBy: 'all-asked' | 'person';
  /** The members at the founding, with the addresses in `--initial-cluster`. */
  readonly members: readonly MemberAddress[];
  /**
   * Member → the only filesystem on which it may found. A member that had not asked before the
   * opening is absent, and is bound when it first asks.
   */
  readonly grants: Readonly<Record<string, string>>;
  /** The first evidence of a quorum, which ends the founding for all members. */
  readonly founded?: {
    readonly at: number;
    readonly by: string;
    /** The snapshot from which it was restored. */
    readonly snapshot?: string | undefined;
  };
  /**
   * Member → its own filesystem. Data were seen there, so the member is never granted `new` again.
   */
  readonly joined: Readonly<Record<string, string>>;
  /**
   * Member that was added later → etcd's list of members at that moment. The member starts with
   * this list every time.
   */
  readonly lists: Readonly<Record<string, readonly MemberAddress[]>>;
  /** The replacement that is being carried out; there is at most one at a time. */
  readonly replacing?: Replacing;
  /** Members that were taken out of etcd and have not come back. */
  readonly former?: readonly string[];
  /** Machines that an operator ordered out, whether or not they are members of etcd. */
  readonly leaving?: Readonly<Record<string, Leaving>>;
  /**
   * Set when an operator ordered that all machines are cleared. Then only an operator can found the
   * cluster again.
   */
  readonly reset?: { readonly at: number; readonly cleared: readonly string[] };
  /**
   * Set when an operator ordered a restore because the quorum is lost, from one member's data or
   * from a snapshot.
   */
  readonly restoring?: Restoring;
}

export const LEAVING_STAGES = ['drain', 'etcd', 'node', 'down'] as const;

/**
 * A machine that leaves. It passes through the stages in their order, and skips those that it does
 * not need.
 */
export interface Leaving {
  readonly stage: (typeof LEAVING_STAGES)[number];
  /** When the order was given; identifies the order. */
  readonly since: number;
  /** Its address as a member of etcd; absent for a machine that is not a member. */
  readonly member?: string;
  /** Whether the machine has a Node. */
  readonly node: boolean;
  /** Whether the machine's data filesystem is cleared. */
  readonly clear: boolean;
  /**
   * How long the drain may take, ms since 1970; a time in the past means that the node is not
   * drained.
   */
  readonly drainUntil: number;
  /** It leaves because it is in quarantine, and comes back when it is released. */
  readonly quarantine?: true;
}

export interface Restoring {
  readonly member: string;
  readonly address: string;
  readonly filesystem: string;
  /** The id of the new founding, to which the restored copy belongs. */
  readonly id: string;
  readonly at: number;
  /** The snapshot that is restored; absent: the member's own data are. */
  readonly snapshot?: string;
}

export const STAGES = ['remove', 'add', 'start', 'promote', 'off'] as const;
/**
 * The next step of a replacement, from which the executor continues after a restart. `off`: an
 * operator cancelled the replacement.
 */
export type Stage = (typeof STAGES)[number];

export interface Replacing {
  readonly member: string;
  readonly address: string;
  readonly filesystem: string;
  readonly stage: Stage;
  /** From stage `start` on: etcd's id of the learner, and etcd's list of members. */
  readonly added?: { readonly id: string; readonly members: readonly MemberAddress[] };
}

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
