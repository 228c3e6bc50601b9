/**
 * Plans: an ordered list of lines that an agent applies, and the files that they name. The agent
 * decides nothing; the planner decides. A plan is the whole desired state, not a difference:
 * applying it twice changes nothing, and a plan that was interrupted anywhere is finished by
 * applying it again.
 *
 * On the wire: an uncompressed tar (ustar) with `plan`, the lines, first, then `files/SHA256` for
 * each content once.
 */
import type { LeafName } from '../../pki/hierarchy.ts';
import type { KeyAlgorithm } from '../../pki/keys.ts';
import type { DataEncryption } from '../../resources/disk-spec.ts';
import type { ListenerName, ProbeName } from './evidence.ts';

/**
 * Paths on a machine; the agent prefixes all of them with MUSTER_ROOT, so that tests can run
 * several agents on one host.
 */
export const AGENT_PATHS = {
  /** Muster's own directory, where the data filesystem is mounted if the machine has one. */
  state: '/var/lib/muster',
  /**
   * `CLUSTER FOUNDING MEMBER MACHINE`, one line, at the root of the data filesystem. Written once.
   */
  marker: '/var/lib/muster/marker',
  /** etcd's data, on the data filesystem. */
  etcd: '/var/lib/muster/etcd',
  /** Where the filesystem of a disk for etcd's data alone is mounted. */
  etcdDisk: '/var/lib/muster-etcd',
  /** Certificate and key of the agent itself. */
  certificate: '/var/lib/muster/agent/agent.crt',
  key: '/var/lib/muster/agent/agent.key',
  /** Keys that the machine made: `LEAF.key`. */
  keys: '/var/lib/muster/agent/keys',
  /** Muster's CA, from the first configuration. */
  authority: '/etc/muster/ca.crt',
  /** `NAME=value` lines, from the first configuration: see src/agent/serve/layer.ts. */
  settings: '/etc/muster/agent.conf',
  /** Lost at a reboot: the plan that is being applied, digests of units. */
  run: '/run/muster',
} as const;

/** Where a machine keeps a probe certificate with its key; lost at a reboot. */
export const probePath = (probe: ProbeName): string => `${AGENT_PATHS.run}/probes/${probe}.pem`;

/** Checks that a machine runs on itself. One that fails holds the plan, with the check's name. */
export const CHECKS = {
  memory: 'MIB: at least this much memory',
  cpus: 'N: at least this many processors',
  cgroup2: 'unified control groups',
  swapless: 'no swap is in use',
  module: 'NAME: the kernel has it, built in or loaded',
  port: 'N [COMMAND…]: no process but these listens on that port',
  mtu: 'ADDRESS OCTETS: packets as large as the device sends (OCTETS if that is not known) reach that member, if it answers at all',
  fsync: 'DIRECTORY MS: 99 of 100 calls of fdatasync end within this many milliseconds',
  skew: 'VERSION PORT ADDRESS…: an API server of this version may run next to those that answer there',
  'machine-id': '[ID…]: the machine has one, and it is none of these, which images carry',
} as const;
export type CheckName = keyof typeof CHECKS;

/** Words of the line `restore-etcd`; see {@link PlanLine}. */
export interface RestoreLine {
  readonly do: 'restore-etcd';
  readonly cluster: string;
  readonly from: string;
  readonly to: string;
  readonly member: string;
  readonly machine: string;
  /** The address in its peer URL, without brackets. */
  readonly address: string;
  /** The program that restores a snapshot: `etcdctl`, or `etcdutl` from 3.5 on. */
  readonly program: 'etcdctl' | 'etcdutl';
  /**
   * How far revisions are advanced, so that no watcher mistakes a new one for one that it has
   * seen; 0 where this version of etcd cannot do it.
   */
  readonly bump: number;
  /**
   * For an etcd that is a static pod: the image that contains its programs, as the runtime
   * names it. The rest of the pod is ended first, even if kubelet does not; kubelet must not be
   * running.
   */
  readonly image?: string;
}

/** A line of a plan; `do` says what the agent does. */
export type PlanLine =
  /**
   * Makes the leaf's key if there is none, and sends a request (PKCS #10) with the next poll.
   * `replaces`: the pin of a key instead of which another one is made.
   */
  | {
      readonly do: 'request';
      readonly leaf: LeafName;
      readonly algorithm: KeyAlgorithm;
      readonly replaces?: string;
    }
  /**
   * Makes the data filesystem on `device` with that UUID, but only if the device still has no
   * partition table and no signature, and mounts it at AGENT_PATHS.state. Where the boot disk has
   * the same selector, the filesystem is on a partition of that disk. `encrypt`: inside of LUKS2.
   */
  | {
      readonly do: 'create-data';
      readonly device: string;
      readonly filesystem: string;
      readonly encrypt?: DataEncryption;
    }
  /** Mounts the filesystem of that UUID at AGENT_PATHS.state. */
  | { readonly do: 'mount-data'; readonly filesystem: string }
  /** Like `create-data`, for the disk of etcd alone, mounted at AGENT_PATHS.etcdDisk. */
  | {
      readonly do: 'create-etcd';
      readonly device: string;
      readonly filesystem: string;
      readonly encrypt?: DataEncryption;
    }
  /** Mounts the filesystem of that UUID at AGENT_PATHS.etcdDisk. */
  | { readonly do: 'mount-etcd'; readonly filesystem: string }
  /**
   * Mounts `directory` of the data filesystem, or of the etcd disk's, at `path`, and makes both if
   * necessary.
   */
  | { readonly do: 'bind' | 'bind-etcd'; readonly directory: string; readonly path: string }
  /**
   * Writes the marker, on the data filesystem or the etcd disk, if there is none; a different one
   * ends the plan with hold `foreign-marker`.
   */
  | {
      readonly do: 'marker' | 'marker-etcd';
      readonly cluster: string;
      readonly founding: string;
      readonly member: string;
      readonly machine: string;
    }
  /**
   * Ends the plan with hold `guard` unless this filesystem is mounted and etcd has no WAL there. It
   * precedes a start of etcd with `state=new`.
   */
  | { readonly do: 'guard-new'; readonly filesystem: string }
  /**
   * Ends the plan with hold `guard` if that founding was cleared from this disk: the machine may
   * join it, but never found it again.
   */
  | { readonly do: 'guard-left'; readonly founding: string }
  /**
   * Moves etcd's data into `etcd.removed-MEMBER` next to it, once: nothing happens where that
   * directory exists, so data of a later membership stay. `member` is the id of the membership that
   * ended. Hold `etcd-runs` while etcd answers.
   */
  | { readonly do: 'set-aside-etcd'; readonly member: string }
  /**
   * Ends the static pod `etcd-MACHINE`, including a container that kubelet was about to start.
   * kubelet is stopped meanwhile, because without the API it would end no pod. An earlier line
   * removes the manifest. Hold `etcd-runs` if the pod keeps running.
   */
  | { readonly do: 'end-etcd'; readonly machine: string }
  /**
   * Removes what the cluster of this marker put on the data filesystem, and /etc/kubernetes. The
   * agent's own certificate stays; the marker is removed last. Hold `etcd-runs` while etcd answers,
   * `foreign-marker` for another marker. `clear-etcd` removes everything from the etcd disk.
   */
  | {
      readonly do: 'clear' | 'clear-etcd';
      readonly cluster: string;
      readonly founding: string;
      readonly member: string;
      readonly machine: string;
    }
  /**
   * Restores etcd's data under a new founding: a copy is replayed and restored with the token of
   * `to`, the original is kept next to it (`etcd.before-TO`), and the marker is rewritten last.
   * Hold `etcd-runs` while etcd is running.
   */
  | RestoreLine
  /**
   * Has etcd write a snapshot, sends it to the boot host, opens it with etcd's own tool and says
   * what that found. Hold `snapshot-failed` when any of that fails.
   */
  | { readonly do: 'snapshot-etcd'; readonly id: string }
  /**
   * Like `restore-etcd`, from the snapshot with this id, which the boot host sends. Also where
   * there are no data and no marker.
   */
  | (Omit<RestoreLine, 'do'> & { readonly do: 'restore-snapshot'; readonly snapshot: string })
  /**
   * Reboots the machine if this boot has that id, once. After the reboot the line does nothing,
   * wherever it came from. Hold `reboot-failed`.
   */
  | { readonly do: 'reboot'; readonly id: string }
  | { readonly do: 'check'; readonly check: CheckName; readonly of: readonly string[] }
  | { readonly do: 'directory'; readonly mode: number; readonly path: string }
  | { readonly do: 'put'; readonly mode: number; readonly path: string; readonly content: PlanContent }
  /**
   * Like `put`, with the machine's own key of `leaf` appended to the content: as PEM, or as its
   * base64 and a line break.
   */
  | {
      readonly do: 'put-with-key';
      readonly mode: number;
      readonly path: string;
      readonly content: PlanContent;
      readonly leaf: LeafName;
      readonly append: 'pem' | 'base64';
    }
  /**
   * Puts a certificate at `path`, which ends in `.crt`, and its key next to it (`.key`, mode 0600),
   * so that a program which reads both never finds one that does not belong to the other. The key
   * is the machine's own of `leaf`, or comes along.
   */
  | {
      readonly do: 'put-pair';
      readonly mode: number;
      readonly path: string;
      readonly content: PlanContent;
      readonly key: PairKey;
    }
  /**
   * Like `put`, for a file of a document whose content is in a Secret: it belongs to the owner and
   * group that the document names.
   */
  | {
      readonly do: 'put-owned';
      readonly mode: number;
      readonly path: string;
      readonly content: PlanContent;
      readonly owner: string;
      readonly group: string;
    }
  /** Gives the user the password hash that is the content, unless it has that one. */
  | { readonly do: 'put-password'; readonly user: string; readonly content: PlanContent }
  /**
   * Notes that the value before it is in place: `id` (NAME:KEY) and `tag` are reported until the
   * next plan begins. The tag is keyed and tells nothing about the value.
   */
  | { readonly do: 'secret'; readonly id: string; readonly tag: string }
  /**
   * Fetches a file that Muster serves by hash at the boot server's HTTP port, unless the path has a
   * file with that hash.
   */
  | {
      readonly do: 'fetch';
      readonly mode: number;
      readonly path: string;
      readonly url: string;
      readonly sha256: string;
      /** Octets; the agent reads no more. An agent of version 1 knows no sizes. */
      readonly size?: number;
    }
  /** Like `fetch`, and unpacks the tar (gz, xz, zst) into the directory. */
  | {
      readonly do: 'unpack';
      readonly directory: string;
      readonly url: string;
      readonly sha256: string;
      readonly size?: number;
    }
  | { readonly do: 'link'; readonly to: string; readonly path: string; readonly onlyIfAbsent: boolean }
  /** Removes a file, a link or an empty directory. */
  | { readonly do: 'remove'; readonly path: string }
  /**
   * Runs `sysctl --system`, `modprobe` for /etc/modules-load.d, or sets the hostname of
   * /etc/hostname, once per digest and boot.
   */
  | { readonly do: 'load'; readonly what: 'sysctl' | 'modules' | 'hostname'; readonly digest: string }
  /**
   * Enables and starts the unit, and restarts it when `digest` changed, which covers everything
   * that the unit reads at its start. A oneshot needs RemainAfterExit=yes, or it runs again with
   * every plan.
   */
  | { readonly do: 'run'; readonly unit: string; readonly digest: string }
  /** Like `run`, but reloads the unit instead of restarting it. */
  | { readonly do: 'reload'; readonly unit: string; readonly digest: string }
  | { readonly do: 'stop'; readonly unit: string }
  /**
   * Asks a listener of this machine before every poll, until the next plan begins, and reports what
   * it shows and accepts. `probes` name certificates with their keys, which lines before this one
   * put at {@link probePath}; without any, only the issuer that the listener shows is reported.
   */
  | {
      readonly do: 'probe';
      readonly listener: ListenerName;
      /** Without brackets. */
      readonly address: string;
      readonly port: number;
      readonly probes: readonly ProbeName[];
    }
  /**
   * Asks the API server of this machine before every poll, until the next plan begins, which
   * encryption configuration it has loaded. The probe is a client of the front proxy, whose headers
   * name a group that may read metrics.
   */
  | {
      readonly do: 'read-encryption';
      readonly address: string;
      readonly port: number;
      readonly probe: ProbeName;
    }
  /** Reports this `step` with the next poll, once the lines before it are done. */
  | { readonly do: 'step'; readonly step: string }
  /** Ends the plan; the reason is reported with every poll until another plan comes. */
  | { readonly do: 'hold'; readonly code: string; readonly text: string };

/** The path of the key that belongs to a certificate of `put-pair`. */
export const keyPathOf = (certificate: string): string => certificate.replace(/\.crt$/, '.key');

export type PairKey = { readonly leaf: LeafName } | { readonly content: PlanContent };

export type PlanContent =
  | { readonly text: string; readonly secret?: true }
  | { readonly octets: Uint8Array; readonly secret?: true };

export interface Plan {
  readonly lines: readonly PlanLine[];
  /** After how many seconds the agent polls again; 0: immediately. */
  readonly pollSeconds: number;
}
