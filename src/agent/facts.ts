/**
 * What an agent says of its machine with every poll, as form fields. It is believed only of the
 * machine that its certificate names, and only about that machine.
 */
import type { LeafName } from '../pki/hierarchy.ts';

/** The disk that the machine's data selector matches. */
export type DataDisk =
  /** No selector was given: this machine keeps nothing. */
  | { readonly state: 'unused' }
  | { readonly state: 'none' | 'several'; readonly detail: string }
  /** No partition table, no signature; or we were making it and were cut off. */
  | { readonly state: 'blank'; readonly device: string }
  /** Somebody's data: never touched. */
  | { readonly state: 'foreign'; readonly device: string; readonly detail: string }
  /**
   * Made by us, not mounted yet, or mounted. A partition, where the machine starts from the same
   * disk.
   */
  | {
      readonly state: 'ours';
      readonly device: string;
      readonly filesystem: string;
      readonly mounted: boolean;
    };

export interface Marker {
  readonly cluster: string;
  readonly founding: string;
  readonly member: string;
  readonly machine: string;
}

export interface EtcdFacts {
  /**
   * Whether a WAL lies in etcd's data directory; `unknown` while the data filesystem is not
   * mounted.
   */
  readonly wal: 'present' | 'absent' | 'unknown';
  /** The local member's own word: `serving` is a linearizable read, so there is a quorum. */
  readonly health: 'serving' | 'alive' | 'down';
  /** What its process was started with, see {@link ApiserverFacts}. */
  readonly revision?: string;
}

/** A kube-apiserver that runs on the machine. */
export interface ApiserverFacts {
  /** `ready`: it says so itself. */
  readonly health: 'ready' | 'alive';
  /** `MUSTER_REVISION` of its process: what it was started with. `-`: it has none. */
  readonly revision: string;
}

/**
 * How the disk fares from which the machine starts by itself. kept: it holds what this boot used.
 * started: this boot is from it. failed: it could not be brought up to date. The others as in
 * {@link DataDisk}.
 */
export const BOOT_DISK_STATES = ['kept', 'started', 'failed', 'none', 'several', 'foreign'] as const;

export interface BootDiskFacts {
  readonly state: (typeof BOOT_DISK_STATES)[number];
  readonly text: string;
}

export interface AgentFacts {
  /** Version of the agent script. */
  readonly agent: string;
  /** Of the kernel: changes with every boot. */
  readonly bootId: string;
  readonly machineId: string;
  /** The machine's clock, ms since 1970. */
  readonly clock: number;
  readonly disk: DataDisk;
  /** Absent: none is named, or it is not known yet. */
  readonly bootDisk?: BootDiskFacts;
  /** Of a mounted data filesystem. */
  readonly marker?: Marker;
  readonly etcd: EtcdFacts;
  /** Absent: none runs here. */
  readonly apiserver?: ApiserverFacts;
  /** kubelet has a client certificate, whoever gave it. */
  readonly joined?: true;
  /** Digest of the plan that was last applied to its end. */
  readonly applied?: string;
  readonly step?: string;
  /** Why the last plan was not applied to its end. */
  readonly hold?: { readonly code: string; readonly text: string };
  /** Why in-cluster objects that this machine applies are not in place, in kubectl's words. */
  readonly objects?: string;
  /** SHA-256 of the public key of each leaf's key, hex. */
  readonly pins: ReadonlyMap<LeafName, string>;
  /** Certificate requests, PEM, as the last plan asked. */
  readonly requests: ReadonlyMap<LeafName, string>;
  /**
   * The highest revision of Muster's store that this machine was ever told: a store behind it was
   * rolled back.
   */
  readonly seenRevision?: number;
}
