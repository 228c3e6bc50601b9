/** Versions and settings that are specific to each minor version of Kubernetes and of etcd. */

export const MINORS = ['1.34', '1.35', '1.36', '1.37'] as const;
export type Minor = (typeof MINORS)[number];

export interface Release {
  /**
   * How its tables are known. `run`: from its programs, and its values were judged by them.
   * `documents`: from what is published of it; a Cluster has to accept that.
   */
  readonly known: 'run' | 'documents';
  /** The last day on which Kubernetes publishes fixes for it (kubernetes.io/releases). */
  readonly endOfLife: string;
  /** The image tags that kubeadm uses at that minor version. */
  readonly etcd: string;
  readonly coredns: string;
  readonly pause: string;
  /** The patch version for a Cluster that names only the minor version. */
  readonly patch: number;
  /** The oldest version of etcd that kubeadm accepts. */
  readonly oldestEtcd: string;
}

export const RELEASES: Readonly<Record<Minor, Release>> = {
  '1.34': {
    known: 'run',
    endOfLife: '2026-10-27',
    etcd: '3.6.5-0',
    coredns: 'v1.12.1',
    pause: '3.10.1',
    patch: 9,
    oldestEtcd: '3.5.24',
  },
  '1.35': {
    known: 'run',
    endOfLife: '2027-02-28',
    etcd: '3.6.6-0',
    coredns: 'v1.13.1',
    pause: '3.10.1',
    patch: 6,
    oldestEtcd: '3.5.24',
  },
  '1.36': {
    known: 'run',
    endOfLife: '2027-06-28',
    etcd: '3.6.8-0',
    coredns: 'v1.14.2',
    pause: '3.10.2',
    patch: 3,
    oldestEtcd: '3.5.24',
  },
  '1.37': {
    known: 'documents',
    endOfLife: '2027-10-28',
    etcd: '3.7.0-0',
    coredns: 'v1.14.6',
    pause: '3.10.2',
    patch: 1,
    oldestEtcd: '3.5.24',
  },
};

/**
 * Versions of other programs on the machines: what their publishers had released when that minor
 * version of Kubernetes came out.
 */
export const TOOLS: Readonly<
  Record<Minor, Readonly<Record<'cri-o' | 'runc' | 'crictl' | 'nerdctl' | 'cni-plugins', string>>>
> = {
  '1.34': { 'cri-o': '1.34.11', runc: '1.3.6', crictl: '1.34.0', nerdctl: '2.2.2', 'cni-plugins': '1.9.1' },
  '1.35': { 'cri-o': '1.35.6', runc: '1.3.6', crictl: '1.35.0', nerdctl: '2.2.2', 'cni-plugins': '1.9.1' },
  '1.36': { 'cri-o': '1.36.3', runc: '1.3.6', crictl: '1.36.0', nerdctl: '2.2.2', 'cni-plugins': '1.9.1' },
  '1.37': { 'cri-o': '1.37.0', runc: '1.3.6', crictl: '1.37.0', nerdctl: '2.2.2', 'cni-plugins': '1.9.1' },
};

export const ETCD_MINORS = ['3.4', '3.5', '3.6', '3.7'] as const;
export type EtcdMinor = (typeof ETCD_MINORS)[number];

interface EtcdRelease {
  /** Flags whose name depends on the version of etcd. */
  readonly flags: Readonly<Record<string, string>>;
  /**
   * HTTP paths on the metrics port. The startup probe asks whether etcd is alive, not whether it
   * has a quorum; deviations.ts says why.
   */
  readonly probes: { readonly liveness: string; readonly readiness: string; readonly startup: string };
  /** The program that restores a snapshot, with its first arguments. */
  readonly restore: readonly ['etcdctl' | 'etcdutl', ...string[]];
  /**
   * By how much a restore raises the revisions (`--bump-revision`, with `--mark-compacted`); 0
   * where this version of etcd cannot raise them.
   */
  readonly bump: number;
}

const SERIALIZABLE = '/health?exclude=NOSPACE&serializable=true';
export const ETCD_RELEASES: Readonly<Record<EtcdMinor, EtcdRelease>> = {
  '3.4': {
    flags: { 'experimental-initial-corrupt-check': 'true', logger: 'zap' },
    probes: { liveness: SERIALIZABLE, readiness: '/health', startup: SERIALIZABLE },
    restore: ['etcdctl', 'snapshot', 'restore'],
    bump: 0,
  },
  '3.5': {
    flags: {
      'experimental-initial-corrupt-check': 'true',
      'experimental-watch-progress-notify-interval': '5s',
    },
    probes: { liveness: '/livez', readiness: '/readyz', startup: '/livez' },
    restore: ['etcdutl', 'snapshot', 'restore'],
    bump: 0,
  },
  '3.6': {
    flags: { 'feature-gates': 'InitialCorruptCheck=true', 'watch-progress-notify-interval': '5s' },
    probes: { liveness: '/livez', readiness: '/readyz', startup: '/livez' },
    restore: ['etcdutl', 'snapshot', 'restore'],
    // More writes than any cluster makes between a backup and its restore.
    bump: 1_000_000_000,
  },
  '3.7': {
    flags: { 'feature-gates': 'InitialCorruptCheck=true', 'watch-progress-notify-interval': '5s' },
    probes: { liveness: '/livez', readiness: '/readyz', startup: '/livez' },
    restore: ['etcdutl', 'snapshot', 'restore'],
    bump: 1_000_000_000,
  },
};

/** The numbers of `1.36.3`, `v1.36.3` or `3.6.8-0`; undefined when it is not a version. */
export function parseVersion(text: string): readonly [number, number, number] | undefined {
  const found = /^v?(\d{1,3})\.(\d{1,3})\.(\d{1,4})(?:-\d+)?$/.exec(text);
  return found ? [Number(found[1]), Number(found[2]), Number(found[3])] : undefined;
}

/**
 * Negative when `a` is older than `b`, positive when `a` is newer. Both have to be valid versions.
 */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parseVersion(a)!, parseVersion(b)!];
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/** `1.35` for `1.36`. */
export const minorBefore = (minor: string): string => `1.${Number(minor.split('.')[1]) - 1}`;

/** `1.36` for `1.36.3`. The text has to be a valid version. */
export function minorOf(version: string): string {
  const [major, minor] = parseVersion(version)!;
  return `${major}.${minor}`;
}

/** This long before the last day of a minor version its clusters are told to move. */
const MOVES_WITHIN_DAYS = 60;
const DAY_MS = 86_400_000;

/** What to say of the support of a version; undefined while it lasts longer, or is not known. */
export function endOfSupport(version: string, now: number): string | undefined {
  const minor = MINORS.find((one) => new RegExp(`^v?${one.replace('.', '\\.')}(\\.|$)`).test(version));
  if (minor === undefined) return undefined;
  const { endOfLife } = RELEASES[minor];
  const days = Math.ceil((Date.parse(endOfLife) + DAY_MS - now) / DAY_MS);
  if (days > MOVES_WITHIN_DAYS) return undefined;
  return days > 0
    ? `Kubernetes ${minor} gets fixes until ${endOfLife}, ${days === 1 ? 'which is today' : `for ${days} more days`}`
    : `Kubernetes ${minor} gets no fixes any more since ${endOfLife}`;
}

/**
 * The feature gates without which a kubelet of this version refuses Muster's configuration:
 * `crashLoopBackOff.maxContainerRestartPeriod` is alpha before 1.35.
 */
export const kubeletGates = (kubelet: string): Readonly<Record<string, true>> =>
  parseVersion(kubelet) && compareVersions(kubelet, '1.35.0') < 0 ? { KubeletCrashLoopBackOffMax: true } : {};
