/**
 * What a machine's agent is told to do: an ordered list of lines and the files that they name. The
 * agent does not think; every decision was taken here. A plan is the whole of what should hold, not
 * a difference: applied twice it changes nothing, and one that was cut off anywhere is finished by
 * applying it again.
 *
 * On the wire: an uncompressed tar (ustar) with `plan`, the lines, first, then `files/SHA256` for
 * each content once.
 */
import type { LeafName } from '../pki/hierarchy.ts';
import type { KeyAlgorithm } from '../pki/keys.ts';

/**
 * Where things are on a machine; the agent prefixes all paths with MUSTER_ROOT (tests run several
 * agents on one host).
 */
export const AGENT_PATHS = {
  /** Ours; a mount of the data filesystem when the machine has one. */
  state: '/var/lib/muster',
  /**
   * `CLUSTER FOUNDING MEMBER MACHINE`, one line, at the root of the data filesystem. Written once.
   */
  marker: '/var/lib/muster/marker',
  /** etcd's data, on the data filesystem. */
  etcd: '/var/lib/muster/etcd',
  /** Certificate and key of the agent itself. */
  certificate: '/var/lib/muster/agent/agent.crt',
  key: '/var/lib/muster/agent/agent.key',
  /** Keys that the machine made: `LEAF.key`. */
  keys: '/var/lib/muster/agent/keys',
  /** Muster's CA, from the first configuration. */
  authority: '/etc/muster/ca.crt',
  /** `NAME=value` lines, from the first configuration: see src/agent/layer.ts. */
  settings: '/etc/muster/agent.conf',
  /** Lost at reboot: what is being applied, stamps of units. */
  run: '/run/muster',
} as const;

/** Checks that a machine makes of itself; one that fails is a hold with the check's name. */
export const CHECKS = {
  memory: 'MIB: at least so much memory',
  cpus: 'N: at least so many processors',
  cgroup2: 'unified control groups',
  swapless: 'no swap is in use',
  module: 'NAME: the kernel has it, built in or loaded',
  port: 'N [COMMAND…]: nobody but these processes listens there',
  mtu: 'ADDRESS OCTETS: packets as large as the device sends (OCTETS if that is not known) reach that member, if it answers at all',
  fsync: 'DIRECTORY MS: 99 of 100 fdatasync end within so many milliseconds',
  'machine-id': '[ID…]: there is one, and it is none of these (those of images)',
} as const;
export type CheckName = keyof typeof CHECKS;

/**
 * Why the agent itself did not do a plan to its end: codes besides the names of checks and what a
 * plan's own `hold` says.
 */
export const AGENT_HOLDS = {
  'bad-plan':
    'The plan did not arrive whole, or a part of it does not have its hash; nothing was done. It is fetched again.',
  'unknown-line':
    'The plan says something that this agent does not know; nothing was done. Give the machine a newer agent.',
  'write-failed':
    'A file or directory could not be written; the text says which and why (a full disk, a read-only system).',
  'key-failed': 'A key or a request for a certificate could not be made.',
  'no-key': 'A file needs a key that the machine does not have; its certificate has to be asked for again.',
  'create-data':
    'The disk was not made the data disk: looked at again, it is not what the plan takes it for.',
  'data-mount': 'The data filesystem, or a directory of it, could not be mounted.',
  'no-data-filesystem': 'The plan needs the data filesystem, and it is not mounted.',
  'foreign-marker': 'The data disk belongs to another cluster, founding, member or machine.',
  guard: 'etcd was not begun anew: the filesystem is another one, or there are data already.',
  'etcd-runs': 'etcd still answers, or has its data open, so they were not touched.',
  'restore-failed':
    'A copy of etcd’s data could not be replayed or restored; the text says why. The original is as it was.',
  'clear-failed': 'Something of the cluster could not be unmounted or taken away.',
  'fetch-failed': 'A file could not be fetched from the boot server; the text says which and why.',
  'keep-failed':
    'What the machine needs to start while the boot server is away could not be kept on the data filesystem; the text says why.',
  'wrong-hash': 'What the boot server sent is not what the plan names. It was thrown away.',
  'unpack-failed': 'An archive could not be unpacked.',
  'load-failed': 'Kernel settings, modules or the hostname could not be set.',
  'unit-failed':
    'A unit could not be enabled, started, reloaded or stopped; the text says why, with what the unit itself complained of last.',
  failed: 'A line of the plan was not done, and no reason was found.',
} as const;
export type AgentHold = keyof typeof AGENT_HOLDS;

export type PlanLine =
  /** Makes the leaf's key if there is none, and sends a request (PKCS #10) with the next poll. */
  | { readonly do: 'request'; readonly leaf: LeafName; readonly algorithm: KeyAlgorithm }
  /**
   * The data filesystem: makes it on `device` with that UUID, but only if the device carries no
   * partition table and no signature when looked at again, and mounts it at AGENT_PATHS.state. On a
   * machine whose boot disk has the same selector it is a partition, beside one to start from.
   */
  | { readonly do: 'create-data'; readonly device: string; readonly filesystem: string }
  /** Mounts the filesystem of that UUID at AGENT_PATHS.state. */
  | { readonly do: 'mount-data'; readonly filesystem: string }
  /** Mounts `directory` of the data filesystem at `path` as well, making both. */
  | { readonly do: 'bind'; readonly directory: string; readonly path: string }
  /** Writes the marker if there is none; another one ends the plan with hold `foreign-marker`. */
  | {
      readonly do: 'marker';
      readonly cluster: string;
      readonly founding: string;
      readonly member: string;
      readonly machine: string;
    }
  /**
   * Ends the plan with hold `guard` unless this filesystem is mounted and etcd has no WAL there:
   * before `state=new`.
   */
  | { readonly do: 'guard-new'; readonly filesystem: string }
  /**
   * Ends the plan with hold `guard` if this disk was cleared of that founding: it may join it, and
   * never begin it again.
   */
  | { readonly do: 'guard-left'; readonly founding: string }
  /**
   * Takes etcd's data away, into `etcd.removed-MEMBER` beside it, once: where that directory is,
   * nothing is done, so the data of the membership that follows stay. `member` is the id of the
   * membership that ended. Not while etcd answers (hold `etcd-runs`).
   */
  | { readonly do: 'set-aside-etcd'; readonly member: string }
  /**
   * What runs of static pod `etcd-MACHINE` ends, also what kubelet was about to start; kubelet,
   * which would end none without the API, is stopped meanwhile. Its manifest is gone before. Hold
   * `etcd-runs` if it goes on.
   */
  | { readonly do: 'end-etcd'; readonly machine: string }
  /**
   * Takes away what the cluster of this marker put on the data filesystem, and /etc/kubernetes; the
   * agent's own certificate stays, and the marker goes last. Not while etcd answers (hold
   * `etcd-runs`), and not for another marker (hold `foreign-marker`).
   */
  | {
      readonly do: 'clear';
      readonly cluster: string;
      readonly founding: string;
      readonly member: string;
      readonly machine: string;
    }
  /**
   * etcd's data become those of a new founding: a copy is replayed and restored with the token of
   * `to`, the original is kept beside it (`etcd.before-TO`), and the marker is rewritten last. Not
   * while etcd runs (hold `etcd-runs`).
   */
  | {
      readonly do: 'restore-etcd';
      readonly cluster: string;
      readonly from: string;
      readonly to: string;
      readonly member: string;
      readonly machine: string;
      /** Of its peer URL, as in a URL but without brackets. */
      readonly address: string;
      /** Restores a snapshot: `etcdctl`, or `etcdutl` from 3.5 on. */
      readonly program: 'etcdctl' | 'etcdutl';
      /**
       * How far revisions are set forward, so that no watcher takes an old one for a new one; 0
       * where this etcd cannot.
       */
      readonly bump: number;
      /**
       * Of a static pod: the image that has its programs, as the runtime names it. What is left of
       * the pod is ended first, also if kubelet does not do so; kubelet must not run.
       */
      readonly image?: string;
    }
  | { readonly do: 'check'; readonly check: CheckName; readonly of: readonly string[] }
  | { readonly do: 'directory'; readonly mode: number; readonly path: string }
  | { readonly do: 'put'; readonly mode: number; readonly path: string; readonly content: PlanContent }
  /**
   * As `put`, with the machine's own key of `leaf` after the content: as PEM, or base64 of it and a
   * line break.
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
   * A file that Muster serves by hash at the boot server's HTTP port; fetched if it is not there
   * with that hash.
   */
  | {
      readonly do: 'fetch';
      readonly mode: number;
      readonly path: string;
      readonly url: string;
      readonly sha256: string;
    }
  /** As `fetch`, and unpacks the tar (gz, xz, zst) into the directory. */
  | {
      readonly do: 'unpack';
      readonly directory: string;
      readonly url: string;
      readonly sha256: string;
    }
  | { readonly do: 'link'; readonly to: string; readonly path: string; readonly onlyIfAbsent: boolean }
  /** A file or link, or an empty directory. */
  | { readonly do: 'remove'; readonly path: string }
  /**
   * `sysctl --system`, `modprobe` for /etc/modules-load.d, or the hostname of /etc/hostname: once
   * for each digest and boot.
   */
  | { readonly do: 'load'; readonly what: 'sysctl' | 'modules' | 'hostname'; readonly digest: string }
  /**
   * The unit runs, enabled, and was (re)started since `digest`, which covers everything it reads at
   * start, changed. A oneshot needs RemainAfterExit=yes, or it runs again with every plan.
   */
  | { readonly do: 'run'; readonly unit: string; readonly digest: string }
  /** As `run`, but reloaded instead of restarted when it runs already. */
  | { readonly do: 'reload'; readonly unit: string; readonly digest: string }
  | { readonly do: 'stop'; readonly unit: string }
  /** Said with the next poll as `step`, once what stands before is done. */
  | { readonly do: 'step'; readonly step: string }
  /** Nothing more is done until another plan comes; said with every poll. */
  | { readonly do: 'hold'; readonly code: string; readonly text: string };

export type PlanContent =
  | { readonly text: string; readonly secret?: true }
  | { readonly octets: Uint8Array; readonly secret?: true };

export interface Plan {
  readonly lines: readonly PlanLine[];
  /** The agent polls again after so long, 0 for at once. */
  readonly pollSeconds: number;
}
