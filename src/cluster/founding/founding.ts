/**
 * How etcd is founded once (architecture, rule 3; cluster-bootstrap, section 4). All facts here are stored or came over mTLS from
 * the machine that they are about.
 *
 * A founding begins with nothing written. It opens in one commit when every member was asked and none has data, or when a person
 * typed the cluster's name. The commit binds each asked member to the filesystem it named. From then on `state=new` is said only
 * for these same four (cluster, founding, member, filesystem), and never after the first evidence of quorum.
 */
import type { EtcdFacts, Marker } from '../../agent/facts.ts';
import type { Founding } from '../manifests.ts';

/** `founding/CLUSTER` in the store; outlives the Cluster's document. */
export interface FoundingRecord {
  readonly v: 1;
  readonly cluster: string;
  /** Random; the token comes from it. */
  readonly id: string;
  readonly openedAt: number;
  readonly openedBy: 'all-asked' | 'person';
  /** Members at founding, with the addresses in `--initial-cluster`. */
  readonly members: readonly { readonly name: string; readonly address: string }[];
  /** Member → the only filesystem that may found. Absent: not asked before the opening; bound when it first asks. */
  readonly grants: Readonly<Record<string, string>>;
  /** The first evidence of quorum ends founding for all. */
  readonly founded?: { readonly at: number; readonly by: string };
  /** Members (or their replacements) that have joined: the filesystem that now is that member's. */
  readonly joined: Readonly<Record<string, string>>;
  /** A replacement under way; one at a time. */
  readonly replacing?: {
    readonly member: string;
    readonly filesystem: string;
    /** What was last done; the executor goes on from there, whoever is killed. */
    readonly stage: 'remove' | 'add' | 'start' | 'promote';
    readonly memberId?: string;
  };
}

/** What is known of one member when it asks. */
export interface MemberFacts {
  readonly member: string;
  readonly machine: string;
  /** The mounted data filesystem. */
  readonly filesystem?: string;
  readonly marker?: Marker;
  readonly etcd: EtcdFacts;
}

/** etcd's own word through any member that serves; `undefined` when none answers. */
export interface EtcdView {
  readonly clusterId: string;
  readonly members: readonly {
    readonly id: string;
    readonly name: string;
    readonly peerUrls: readonly string[];
    readonly learner: boolean;
    readonly started: boolean;
    readonly healthy: boolean;
  }[];
}

export type EtcdDecision =
  /** The grant: etcd may start with `state=new`. */
  | { readonly do: 'found'; readonly founding: Founding }
  /** It was added as a learner: etcd may start with `state=existing`. */
  | { readonly do: 'join'; readonly founding: Founding }
  /** It has its data: etcd starts, flags of founding do not matter to it. */
  | { readonly do: 'start'; readonly founding: Founding }
  /** Its data are gone and a quorum of the others stands: the executor removes and re-adds it. */
  | { readonly do: 'replace'; readonly filesystem: string; readonly why: string }
  | { readonly do: 'hold'; readonly code: HoldCode; readonly text: string };

/** Stable; each has a page entry with its fix. */
export const HOLDS = {
  'waiting-for-members':
    'Not all members were asked yet; a person may open the founding with those that are there.',
  'foreign-marker': 'The data disk belongs to another cluster, founding, member or machine.',
  'data-without-record': 'A member has data, but this store knows of no founding: it was lost or restored.',
  'store-rolled-back': 'A machine has seen a later state of this store: it was restored from a backup.',
  'other-filesystem': 'The founding was granted to another filesystem of this member.',
  'no-quorum': 'The member has no data and the others have no quorum: a person orders a restore.',
  'replacing-other': 'Another member is being replaced; one at a time.',
  'no-data-disk': 'No disk, or more than one, fits the selector for the data filesystem.',
  'foreign-disk': 'The disk that fits the selector carries data that Muster did not make.',
  'not-accepted': 'The machine is not accepted: nothing is written to its disks.',
} as const;
export type HoldCode = keyof typeof HOLDS;
