/**
 * How etcd is founded once (architecture, rule 3; cluster-bootstrap, section 4;
 * docs/decisions/0024). All facts here are stored or came over mTLS from the machine that they are
 * about.
 *
 * A founding begins with nothing written. It opens in one commit when every member was asked and
 * none has data, or when a person typed the cluster's name. The commit binds each asked member to
 * the filesystem it named. From then on `state=new` is said only for these same four (cluster,
 * founding, member, filesystem), and never after the first evidence of quorum.
 */
import type { EtcdFacts, Marker } from '../../agent/facts.ts';
import type { Millis } from '../../base/duration.ts';
import type { Founding } from '../plan/manifests.ts';

/** A member as etcd knows it: `https://ADDRESS:2380`. */
export interface MemberAddress {
  readonly name: string;
  readonly address: string;
}

/** `founding/CLUSTER` in the store; outlives the Cluster's document. */
export interface FoundingRecord {
  readonly v: 1;
  readonly cluster: string;
  /** Random; the token comes from it. */
  readonly id: string;
  readonly openedAt: number;
  readonly openedBy: 'all-asked' | 'person';
  /** Members at founding, with the addresses in `--initial-cluster`. */
  readonly members: readonly MemberAddress[];
  /**
   * Member → the only filesystem that may found. Absent: not asked before the opening; bound when
   * it first asks.
   */
  readonly grants: Readonly<Record<string, string>>;
  /** The first evidence of quorum ends founding for all. */
  readonly founded?: { readonly at: number; readonly by: string };
  /**
   * Member → the filesystem that is its own: data were seen there, so that it never gets `new`
   * again.
   */
  readonly joined: Readonly<Record<string, string>>;
  /**
   * Member that was added later → etcd's list of members at that moment: what it starts with, the
   * same at every start.
   */
  readonly lists: Readonly<Record<string, readonly MemberAddress[]>>;
  /** A replacement under way; one at a time. */
  readonly replacing?: Replacing;
  /** Members that were taken out of etcd and have not come back. */
  readonly former?: readonly string[];
  /** Machines that a person ordered out, members of etcd or not. */
  readonly leaving?: Readonly<Record<string, Leaving>>;
  /** A person ordered all machines to be cleared; nothing is founded until a person says so. */
  readonly reset?: { readonly at: number; readonly cleared: readonly string[] };
  /** A person ordered a restore from one member's data, its quorum being lost. */
  readonly restoring?: Restoring;
}

export const LEAVING_STAGES = ['drain', 'etcd', 'node', 'down'] as const;

/**
 * A machine on its way out. Its stages follow one another; those that it does not need are passed
 * over.
 */
export interface Leaving {
  readonly stage: (typeof LEAVING_STAGES)[number];
  /** When it was ordered: the name of this order. */
  readonly since: number;
  /** Its address as a member of etcd. */
  readonly member?: string;
  /** Whether it has a Node. */
  readonly node: boolean;
  /** Whether what is on its data filesystem goes too. */
  readonly clear: boolean;
  /** The node is drained for no longer than this. */
  readonly drainUntil: number;
}

export interface Restoring {
  readonly member: string;
  readonly address: string;
  readonly filesystem: string;
  /** Of the founding that the restored copy is of. */
  readonly id: string;
  readonly at: number;
}

export const STAGES = ['remove', 'add', 'start', 'promote', 'off'] as const;
/**
 * What is to be done next; the executor goes on from there, whoever is killed. `off`: a person
 * called it off.
 */
export type Stage = (typeof STAGES)[number];

export interface Replacing {
  readonly member: string;
  readonly address: string;
  readonly filesystem: string;
  readonly stage: Stage;
  /** From stage `start` on: etcd's id of the learner, and its list of members. */
  readonly added?: { readonly id: string; readonly members: readonly MemberAddress[] };
}

/** What is known of one member when it asks. */
export interface MemberFacts {
  readonly member: string;
  readonly machine: string;
  /** The mounted data filesystem. */
  readonly filesystem: string;
  readonly marker?: Marker;
  readonly etcd: EtcdFacts;
  /** The highest revision of the store that the machine was ever told. */
  readonly seenRevision?: number;
  /**
   * The machine has done what a replacement begins with: its etcd is stopped, and what could start
   * it is gone.
   */
  readonly fenced: boolean;
}

/** etcd's own word through a member that serves; there is none when none answers. */
export interface EtcdView {
  readonly clusterId: string;
  readonly members: readonly EtcdMember[];
}

export interface EtcdMember {
  readonly id: string;
  /** Empty until it has started for the first time. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly learner: boolean;
  /** It answered a linearizable read (a learner: its status) just now. */
  readonly healthy: boolean;
}

/** What this process saw since it started; nothing of it is stored. */
export interface ServerLife {
  /** The last word of each member. */
  readonly asked: ReadonlyMap<string, MemberFacts>;
  /** When each of them said it, and what the same clock says now: monotonic. */
  readonly heard: ReadonlyMap<string, Millis>;
  readonly now: Millis;
  /**
   * The founding was opened, or opened to late members, in this life: whoever is not bound was
   * never bound.
   */
  readonly opened: boolean;
  /** A machine that was told a revision which this store has not reached. */
  readonly rolledBack?: string;
}

/** All that is known when a member asks. */
export interface Known {
  readonly cluster: string;
  /** As the Cluster's document has them now. */
  readonly members: readonly MemberAddress[];
  readonly record?: FoundingRecord;
  readonly life: ServerLife;
  readonly view?: EtcdView;
}

export type EtcdDecision =
  /** The grant: etcd may start with `state=new`. */
  | { readonly do: 'found'; readonly founding: Founding; readonly filesystem: string }
  /** It was added as a learner: etcd may start with `state=existing`. */
  | { readonly do: 'join'; readonly founding: Founding; readonly filesystem: string }
  /** It has its data: etcd starts, and what it is told of a founding does not matter to it. */
  | { readonly do: 'start'; readonly founding: Founding }
  /**
   * Its data are gone and a quorum of the others stands: the executor removes and re-adds it. Its
   * etcd stays stopped meanwhile.
   */
  | { readonly do: 'replace'; readonly why: string }
  /** A copy of its data becomes the one member of a new founding; the original is kept. */
  | { readonly do: 'restore'; readonly restoring: Restoring & { readonly from: string } }
  | { readonly do: 'hold'; readonly code: HoldCode; readonly text: string };

/** Stable; each has a page entry with its fix. */
export const HOLDS = {
  'waiting-for-members':
    'Not all members were asked yet; a person may open the founding with those that are there.',
  'foreign-marker': 'The data disk belongs to another cluster, founding, member or machine.',
  'other-role':
    'The data disk is of this machine as no member of etcd: take it out with `remove-node --clear`, then `machine rearm --keep`, and add it again.',
  'data-without-record': 'A member has data, but this store knows of no founding: it was lost or restored.',
  'store-rolled-back': 'A machine has seen a later state of this store: it was restored from a backup.',
  'other-filesystem': 'The founding was granted to another filesystem of this member.',
  'removed-disk': 'The data disk is one that the member had before it was replaced.',
  'data-lost': 'The member had data and has none now, and the founding has not ended.',
  'member-alive': 'etcd still answers as this member, though the machine reports no data.',
  'no-quorum': 'The member has no data and the others have no quorum: a person orders a restore.',
  'replacing-other': 'Another member is being replaced; one at a time.',
  'called-off': 'The replacement of this member was called off, and it is being taken out of etcd again.',
  leaving: 'The machine is being taken out of its cluster.',
  reset: 'The cluster was reset: a person founds it anew, or deletes it.',
  restoring: 'Another member’s data are being restored; this one joins what comes of it.',
  'unexpected-data': 'Data appeared on a disk that was empty when its member began to be replaced.',
  'no-data-disk': 'No disk, or more than one, fits the selector for the data filesystem.',
  'foreign-disk': 'The disk that fits the selector carries data that Muster did not make.',
  'not-accepted': 'The machine is not accepted: nothing is written to its disks.',
} as const;
export type HoldCode = keyof typeof HOLDS;
