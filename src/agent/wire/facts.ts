/**
 * What an agent reports about its machine with every poll, as form fields. It is believed only
 * about the machine that its certificate belongs to.
 */
import type { Checkpoint } from '../../events/audit-chain.ts';
import type { Inventory } from '../../machines/inventory.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import type { DataEncryption } from '../../resources/disk-spec.ts';
import type { Evidence } from './evidence.ts';
import type { RevisionClaim } from './revision-claim.ts';

/** The disk that a selector of the machine matches: its data disk, or the disk for etcd alone. */
export type DataDisk =
  /** The machine has no selector for such a disk. */
  | { readonly state: 'unused' }
  | { readonly state: 'none' | 'several'; readonly detail: string }
  /** No partition table and no signature; or the agent was interrupted while it made the disk. */
  | { readonly state: 'blank'; readonly device: string; readonly encrypt?: DataEncryption }
  /** The disk holds other data, which is never touched. */
  | { readonly state: 'foreign'; readonly device: string; readonly detail: string }
  /**
   * Made by the agent; mounted or not. It is a partition where the machine boots from the same
   * disk.
   */
  | {
      readonly state: 'ours';
      readonly device: string;
      readonly filesystem: string;
      readonly mounted: boolean;
      /** How the configuration of this boot wants it encrypted; absent: not at all. */
      readonly encrypt?: DataEncryption;
      /** How it is encrypted; absent: not at all. */
      readonly encrypted?: DataEncryption;
    };

export interface Marker {
  readonly cluster: string;
  readonly founding: string;
  readonly member: string;
  readonly machine: string;
}

/**
 * `member` in the marker of a data filesystem whose machine keeps etcd's data on another disk. No
 * machine has such a name.
 */
export const ON_ETCD_DISK = '_etcd-disk';

/** A filesystem of Muster, and the marker on it if it is mounted and has one. */
interface MarkedDisk {
  readonly disk: DataDisk;
  readonly marker?: Marker;
}

/**
 * Where a member of etcd has its data, or is to receive them: on the etcd disk if the machine has
 * one, unless the marker of the data filesystem says that they are there. find_etcd_home of the
 * agent (muster-etcddisk.sh) says the same.
 */
export const etcdHome = ({ disk, marker, etcdDisk }: Pick<AgentFacts, 'disk' | 'marker' | 'etcdDisk'>) =>
  etcdDisk !== undefined && (marker === undefined || marker.member === ON_ETCD_DISK)
    ? etcdDisk
    : ({ disk, ...(marker && { marker }) } satisfies MarkedDisk as MarkedDisk);

export interface EtcdFacts {
  /**
   * Whether etcd's data directory has a WAL; `unknown` while the data filesystem is not mounted.
   */
  readonly wal: 'present' | 'absent' | 'unknown';
  /** As the local member reports it: `serving` is a linearizable read, so there is a quorum. */
  readonly health: 'serving' | 'alive' | 'down';
  /** `MUSTER_REVISION` of its process, see {@link ApiserverFacts}. */
  readonly revision?: string;
}

/** A kube-apiserver that is running on the machine. */
export interface ApiserverFacts {
  /** `ready`: its own health check says so. */
  readonly health: 'ready' | 'alive';
  /** `MUSTER_REVISION` of its process, the digest of all that it was started with; `-`: none. */
  readonly revision: string;
}

/**
 * The state of the disk from which the machine boots without Muster. kept: it holds what this boot
 * used. started: this boot came from it. damaged: this boot found that the root image on it had
 * changed, and fetched it again. failed: it could not be updated. The others as in
 * {@link DataDisk}.
 */
export const BOOT_DISK_STATES = [
  'kept',
  'started',
  'damaged',
  'failed',
  'none',
  'several',
  'foreign',
] as const;

interface BootDiskFacts {
  readonly state: (typeof BOOT_DISK_STATES)[number];
  readonly text: string;
}

/** Programs whose running version an agent reports. */
export const VERSIONED = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'containerd',
  'crio',
] as const;
export type Versioned = (typeof VERSIONED)[number];

/** Programs of which an agent reports that they have ended. */
export const ENDING = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'haproxy',
  'containerd',
  'crio',
] as const;
export type EndingProgram = (typeof ENDING)[number];

/** Program → the version that the running executable prints, like 1.36.3. */
export type RunningVersions = Partial<Readonly<Record<Versioned, string>>>;

/** What became of the container images that a plan wanted on the machine ahead of their use. */
interface PrefetchedFacts {
  /** Digest of the list of images. */
  readonly list: string;
  /** Why not all of them are there; absent when they are. */
  readonly fault?: string;
}

/** A bundle of the agent that a machine did not keep. */
export interface RefusedAgent {
  /** SHA-256 of the bundle. */
  readonly digest: string;
  /** The attempt in which it was offered; a later attempt is not refused by this. */
  readonly attempt: number;
  readonly code: string;
  readonly text: string;
}

export interface AgentFacts {
  /** Version of the agent script. */
  readonly agent: string;
  /** SHA-256 of the agent's bundle; absent: its configuration names none. */
  readonly build?: string;
  /** Absent: the machine refused none. */
  readonly refused?: RefusedAgent;
  /** The kernel's boot id, which changes with every boot. */
  readonly bootId: string;
  readonly machineId: string;
  /** The machine's clock, ms since 1970. */
  readonly clock: number;
  /** How far the boot host has moved that clock in this boot, ms; absent: not at all. */
  readonly clockMoved?: number | undefined;
  readonly disk: DataDisk;
  /** Absent: no boot disk is named, or its state is not known yet. */
  readonly bootDisk?: BootDiskFacts;
  /** The marker of a mounted data filesystem. */
  readonly marker?: Marker;
  /** The disk for etcd's data alone; absent: the machine has no selector for one. */
  readonly etcdDisk?: MarkedDisk;
  readonly etcd: EtcdFacts;
  /** Absent: none is running here. */
  readonly apiserver?: ApiserverFacts;
  /** What the machine observes of its programs; absent: none runs. */
  readonly evidence?: Evidence;
  /** The selector by which the machine looks for its data disk; absent: it has none. */
  readonly dataSelector?: string;
  /** Absent: none of them runs, or the agent cannot tell. */
  readonly runs?: RunningVersions;
  /** SHA-256 of the root image that the machine booted; absent: it booted without one. */
  readonly image?: string;
  /** Absent: no plan wanted images ahead of their use since the machine booted. */
  readonly prefetched?: PrefetchedFacts;
  /** What the machine is made of; agents send it once an hour. */
  readonly inventory?: Inventory;
  /** SHA-256 of the CA file by which the agent checks this boot host; absent: it cannot read it. */
  readonly trust?: string;
  /** kubelet has a client certificate, from whichever CA. */
  readonly joined?: true;
  /** Secrets whose values are in place: NAME:KEY → the tag of the value. Absent: none. */
  readonly secrets?: ReadonlyMap<string, string>;
  /** Digest of the plan that was last applied to its end. */
  readonly applied?: string;
  readonly step?: string;
  /** Why the last plan was not applied to its end. */
  readonly hold?: { readonly code: string; readonly text: string };
  /** Mount point of which a tenth or less is free → percent in use. Absent: none is so full. */
  readonly full?: Readonly<Record<string, string>>;
  /** Program that should run and has ended → the last complaint that it wrote. Absent: none has. */
  readonly ended?: Readonly<Partial<Record<EndingProgram, string>>>;
  /** Why in-cluster objects that this machine applies are not in place, in kubectl's words. */
  readonly objects?: string;
  /** SHA-256 of the public key of each leaf's key, hex. */
  readonly pins: ReadonlyMap<LeafName, string>;
  /** The certificate requests, PEM, that the last plan asked for. */
  readonly requests: ReadonlyMap<LeafName, string>;
  /** The revision of Muster's store that this machine says it was sent, with its proof. */
  readonly claim?: RevisionClaim;
  /**
   * The highest revision of Muster's store that this machine was ever sent: its claim, once the
   * proof was checked. A store with a lower revision was rolled back.
   */
  readonly seenRevision?: number;
  /** The newest checkpoint of Muster's security log that this machine was ever sent. */
  readonly seenCheckpoint?: Checkpoint;
}
