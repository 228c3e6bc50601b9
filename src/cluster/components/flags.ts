/**
 * The flags and feature gates of each version, so that an unknown flag or a value that a component
 * does not take is refused when the Cluster is applied, and not by a component that fails to start.
 * The tables come from the components themselves (scripts/component-tables.ts).
 */

import { ETCD_RELEASES, type EtcdMinor, GRADUATED, MINORS, type Minor } from '../model/versions.ts';
import { FLAG_LINES, GATE_LINES } from './component-tables.generated.ts';

export const KUBERNETES_COMPONENTS = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
] as const;
export type KubernetesComponent = (typeof KUBERNETES_COMPONENTS)[number];

/** What is known of a flag in one version. */
export interface FlagInfo {
  /** The type of its value, as flag-values.ts names it. */
  readonly type: string;
  /** The names that the value, or each part of a list, may have; empty: any. */
  readonly choices: readonly string[];
}

/** What is known of a feature gate in one version. */
export interface GateInfo {
  readonly on: boolean;
  /** The stage whose gates AllAlpha or AllBeta set; absent: another one. */
  readonly stage?: 'alpha' | 'beta';
  /** It can be set to nothing but its default. */
  readonly locked: boolean;
}

/** Name → version → what is known. */
export type Known<T = unknown> = ReadonlyMap<string, ReadonlyMap<string, T>>;

function flagsIn(text: string): Known<FlagInfo> {
  const flags = new Map<string, Map<string, FlagInfo>>();
  for (const line of text.trim().split('\n')) {
    const [name = '', type = '', minors = '', choices = ''] = line.trim().split(' ');
    const info = { type, choices: choices === '' ? [] : choices.split(',') };
    const versions = flags.get(name) ?? new Map<string, FlagInfo>();
    for (const minor of minors.split(',')) versions.set(minor, info);
    flags.set(name, versions);
  }
  return flags;
}

export const FLAGS: Readonly<Record<KubernetesComponent, Known<FlagInfo>>> = {
  'kube-apiserver': flagsIn(FLAG_LINES['kube-apiserver']),
  'kube-controller-manager': flagsIn(FLAG_LINES['kube-controller-manager']),
  'kube-scheduler': flagsIn(FLAG_LINES['kube-scheduler']),
  kubelet: flagsIn(FLAG_LINES.kubelet),
};

export const ETCD_FLAGS: Known<FlagInfo> = flagsIn(FLAG_LINES.etcd);

const STAGES: Readonly<Record<string, NonNullable<GateInfo['stage']>>> = { a: 'alpha', b: 'beta' };

export const FEATURE_GATES: Known<GateInfo> = new Map(
  GATE_LINES.trim()
    .split('\n')
    .map((line) => {
      const [name = '', ...states] = line.trim().split(' ');
      const versions = states.map((state): [string, GateInfo] => {
        const [, minor = '', stage = '', on, locked] = /^([0-9.]+)([ab]?)([+-])(!?)$/.exec(state) ?? [];
        const of = STAGES[stage];
        return [minor, { on: on === '+', locked: locked === '!', ...(of !== undefined && { stage: of }) }];
      });
      return [name, new Map(versions)];
    }),
);

/** The names in the table that this minor version has. */
export const known = (table: Known, minor: string): ReadonlySet<string> =>
  new Set([...table].filter(([, versions]) => versions.has(minor)).map(([name]) => name));

/** The minor versions that have this name. */
export const minorsKnowing = (table: Known, name: string): readonly Minor[] =>
  MINORS.filter((minor) => table.get(name)?.has(minor));

/** All flags of etcd 3.6. */
const ETCD_NAMES: readonly string[] = [
  ...GRADUATED,
  ...`advertise-client-urls auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention auto-tls backend-batch-interval
  backend-batch-limit backend-bbolt-freelist-type bcrypt-cost cert-file cipher-suites client-cert-allowed-hostname client-cert-auth
  client-crl-file config-file cors data-dir discovery discovery-srv discovery-srv-name election-timeout enable-grpc-gateway
  enable-log-rotation enable-pprof feature-gates force-new-cluster grpc-keepalive-interval grpc-keepalive-min-time
  grpc-keepalive-timeout heartbeat-interval host-whitelist initial-advertise-peer-urls initial-cluster initial-cluster-state
  initial-cluster-token initial-election-tick-advance key-file listen-client-http-urls listen-client-urls listen-metrics-urls
  listen-peer-urls log-format log-level log-outputs log-rotation-config-json logger max-concurrent-streams max-request-bytes
  max-snapshots max-txn-ops max-wals metrics name peer-auto-tls peer-cert-allowed-cn peer-cert-allowed-hostname peer-cert-file
  peer-client-cert-auth peer-crl-file peer-key-file peer-trusted-ca-file pre-vote quota-backend-bytes self-signed-cert-validity
  snapshot-count socket-reuse-address socket-reuse-port strict-reconfig-check tls-max-version tls-min-version trusted-ca-file
  unsafe-no-fsync wal-dir`.split(/\s+/),
];

/** The names of all flags of an etcd of this minor version. */
export function knownEtcdFlags(minor: EtcdMinor): ReadonlySet<string> {
  const { without, additional } = ETCD_RELEASES[minor];
  const names = new Set([...ETCD_NAMES, ...additional]);
  for (const name of without) names.delete(name);
  return new Set([...names, ...known(ETCD_FLAGS, minor)]);
}
