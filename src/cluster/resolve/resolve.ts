/**
 * Resolves the short specification of a Cluster: adds every value that the document leaves out,
 * each with its origin, or reports what is wrong with the document. A pure function: the same
 * document and machines give the same result.
 */
import { didYouMean } from '../../base/suggest.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { type ClusterFault, clusterError } from '../model/fault.ts';
import { COMPONENTS, type Provenance, type ResolvedCluster } from '../model/resolved-cluster.ts';
import { MINORS, type Minor, RELEASES } from '../model/versions.ts';
import { Builder, pathText } from './builder.ts';
import { checkResolved } from './check.ts';
import { valueFaults } from './check-values.ts';
import { parseEndpoint } from './endpoint.ts';
import { assignMachines, type MachineFacts } from './machines.ts';
import { withoutOwnValues } from './own-values.ts';
import { protectedFieldsOf } from './protected-fields.ts';
import { putValues } from './values.ts';
import { withoutSettings } from './without-settings.ts';

export interface Resolution {
  /** Absent when there is an error among the faults. */
  readonly resolved?: ResolvedCluster;
  /**
   * How to reach the cluster, with those of its machines that have a document, so it is available
   * even while a document is missing. Absent when the version or the endpoint is wrong.
   */
  readonly access?: ClusterAccess;
  /** Origins by path with dots, in the order in which values were derived. */
  readonly provenance: ReadonlyMap<string, Provenance>;
  readonly faults: readonly ClusterFault[];
}

export type ClusterAccess = Pick<ResolvedCluster, 'name' | 'endpoint' | 'keys' | 'machines'>;

/** Paths below which overrides may add keys, and where null removes one. */
const isOpen = (path: readonly string[]): boolean =>
  (path.length === 3 && path[0] === 'flags' && COMPONENTS.some((component) => component === path[1])) ||
  (path.length === 3 &&
    path[0] === 'kubelet' &&
    (path[1] === 'config' || path[1] === 'controlPlaneConfig')) ||
  (path.length === 3 && path[0] === 'kubeProxy' && path[1] === 'config');

/**
 * Paths that cannot be overridden, because tables are chosen by their values → the field to set
 * instead.
 */
const FIXED: Readonly<Record<string, string>> = {
  name: 'metadata.name',
  'kubernetes.version': 'spec.kubernetes.version',
  'kubernetes.minor': 'spec.kubernetes.version',
  'endpoint.host': 'spec.kubernetes.endpoint',
  'endpoint.port': 'spec.kubernetes.endpoint',
  'etcd.topology': 'spec.kubernetes.etcd.topology',
  'etcd.runs': 'spec.kubernetes.etcd.runs',
  'cni.plugin': 'spec.kubernetes.cni',
  runtime: 'spec.kubernetes.runtime',
  addons: 'spec.kubernetes.addons',
  'networkPolicy.enforce': 'spec.kubernetes.networkPolicy.enforce',
  'networkPolicy.isolate': 'spec.kubernetes.networkPolicy.isolate',
  'virtualAddress.by': 'spec.kubernetes.virtualAddress.by',
  'virtualAddress.addresses': 'spec.kubernetes.virtualAddress.addresses',
  'etcd.minor': 'overrides.versions.etcd',
  encryptSecrets: 'spec.kubernetes.encryptSecrets',
  'pki.leafLifetime': 'spec.kubernetes.pki.leafLifetime',
  'pki.rotateAfter': 'spec.kubernetes.pki.rotateAfter',
  'pki.rehearsal': 'spec.kubernetes.pki.rehearsal',
  joining: 'spec.kubernetes.joining',
  podSecurity: 'spec.kubernetes.podSecurity',
  serviceProxy: 'spec.kubernetes.serviceProxy',
};

/**
 * Resolves `spec.kubernetes` of the Cluster `name`.
 *
 * @param machines The Machine documents that exist, of the machines that the Cluster names.
 * @returns The resolved Cluster with the origin of each value, or the faults that prevent it.
 *   Warnings can come with either.
 * @example
 * const spec = { version: '1.36', endpoint: '10.0.0.10', controlPlanes: ['cp1'] };
 * const { resolved, faults } = resolveCluster('blue', spec, [
 *   { name: 'cp1', addresses: ['10.0.0.11'] },
 * ]);
 * resolved?.networks.pods; // ['10.244.0.0/16']
 */
export function resolveCluster(
  name: string,
  spec: KubernetesSpec,
  machines: readonly MachineFacts[],
): Resolution {
  const asked = JSON.stringify([name, machines]);
  const known = memoResolutions.get(spec);
  if (known?.asked === asked) return known.resolution;
  const once = resolveOnce(name, spec, machines);
  const resolution = hasError(once.faults)
    ? { ...once, faults: withHidden(once.faults, name, spec, machines) }
    : once;
  memoResolutions.set(spec, { asked, resolution });
  return resolution;
}

/** The last result for each document, so that a change is resolved once for all who look at it. */
const memoResolutions = new WeakMap<
  KubernetesSpec,
  { readonly asked: string; readonly resolution: Resolution }
>();

/** How often settings are left out to find the faults that others hide. */
const ROUNDS = 8;

/**
 * Adds the faults that are found only when others are corrected. Faulty settings are left out, and
 * the Cluster is resolved again. A fault counts only if it is also there with the faulty settings:
 * what appears because a setting is missing would be untrue.
 */
function withHidden(
  first: readonly ClusterFault[],
  name: string,
  spec: KubernetesSpec,
  machines: readonly MachineFacts[],
): readonly ClusterFault[] {
  const keyOf = ({ fault }: ClusterFault): string => `${fault.path} ${fault.message}`;
  const found = new Map(first.map((one) => [keyOf(one), one]));
  let all: ReadonlySet<string> | undefined;
  const { stand, isUnknown } = withStandIns(spec);
  let left = stand;
  let wrong = first;
  for (let round = 0; round < ROUNDS && hasError(wrong); round++) {
    const next = withoutSettings(left, wrong) ?? (round === 0 && left !== spec ? left : undefined);
    if (next === undefined) break;
    left = next;
    wrong = resolveOnce(name, left, machines).faults.filter((one) => !isUnknown(one));
    all ??= new Set(resolveOnce(name, stand, machines, 'all').faults.map(keyOf));
    for (const one of wrong) if (all.has(keyOf(one)) && !found.has(keyOf(one))) found.set(keyOf(one), one);
  }
  return [...found.values()];
}

/** What depends on the version, and on the endpoint. */
const BY_VERSION =
  /^spec\.kubernetes\.(version|apiServer|staticPods|overrides\.(flags|kubelet|kubeProxy|versions))/;
const BY_ENDPOINT = /^spec\.kubernetes\.(endpoint|virtualAddress|sans|proxy)/;

/**
 * Puts a version and an endpoint in the place of wrong ones, so that the rest can be checked.
 * `isUnknown` tells whether a fault depends on what was put there.
 */
function withStandIns(spec: KubernetesSpec): {
  readonly stand: KubernetesSpec;
  readonly isUnknown: (one: ClusterFault) => boolean;
} {
  const lacksVersion = typeof releaseOf(spec.version) === 'string';
  const lacksEndpoint = parseEndpoint(spec.endpoint) === undefined;
  if (!lacksVersion && !lacksEndpoint) return { stand: spec, isUnknown: () => false };
  const stand = {
    ...spec,
    ...(lacksVersion && { version: MINORS.findLast((one) => RELEASES[one].known === 'run')! }),
    ...(lacksEndpoint && { endpoint: 'endpoint.invalid' }),
  };
  const isUnknown = ({ fault: { path = '' } }: ClusterFault): boolean =>
    (lacksVersion && BY_VERSION.test(path)) || (lacksEndpoint && BY_ENDPOINT.test(path));
  return { stand, isUnknown };
}

/** Resolves as far as possible; with `all`, checks go on behind the first stage with an error. */
function resolveOnce(
  name: string,
  spec: KubernetesSpec,
  machines: readonly MachineFacts[],
  extent?: 'all',
): Resolution {
  const isAll = extent === 'all';
  const release = releaseOf(spec.version);
  const endpoint = parseEndpoint(spec.endpoint);
  if (typeof release === 'string' || endpoint === undefined)
    return {
      provenance: new Map(),
      faults: [
        ...(typeof release === 'string' ? [clusterError('version', release)] : []),
        ...(endpoint === undefined
          ? [clusterError('endpoint', `"${spec.endpoint}" is not a name or address with an optional port`)]
          : []),
      ],
    };
  const assigned = assignMachines(spec, machines);
  const built = (overrides: Readonly<Record<string, unknown>>) => {
    const build = new Builder(overrides, isOpen);
    putValues(build, { name, spec, ...release, endpoint, machines: assigned.machines });
    return { build, ...build.finish() };
  };
  const overrides = withoutOwnValues(spec.overrides ?? {}, (given) => built(given).tree);
  const { build, tree, unknown } = built(overrides);
  const { apiServer, staticPods } = spec;
  const resolved = {
    ...(tree as object),
    machines: assigned.machines,
    ...(apiServer && { apiServer }),
    ...(staticPods && { staticPods }),
  } as ResolvedCluster;
  const draft: Draft = {
    assigned: [...untested(release.minor, spec), ...assigned.faults],
    overrides,
    build,
    unknown,
    resolved,
  };
  const faults: ClusterFault[] = [];
  for (const stage of STAGES)
    if (isAll || !hasError(faults)) faults.push(...stage.flatMap((check) => check(draft, isAll)));
  const access = { name, endpoint, keys: spec.keys ?? 'ECDSA-P256', machines: assigned.machines } as const;
  return { ...(!hasError(faults) && { resolved }), access, provenance: build.provenance, faults };
}

/** A version that is known by documents is refused until the document accepts it. */
const untested = (minor: Minor, { acceptUntested }: KubernetesSpec): readonly ClusterFault[] =>
  RELEASES[minor].known === 'run' || acceptUntested === minor
    ? []
    : [
        clusterError(
          'version',
          `Muster knows Kubernetes ${minor} by documents only: none of its programs has judged these values. Use ${MINORS.filter((one) => RELEASES[one].known === 'run').join(', ')}, or accept that with acceptUntested: "${minor}"`,
        ),
      ];

const hasError = (faults: readonly ClusterFault[]): boolean =>
  faults.some(({ severity }) => severity === 'error');

/** The input of the checks: the resolved Cluster before it is known to be free of faults. */
interface Draft {
  /** Faults of the lists of machines, and of a version that is not accepted. */
  readonly assigned: readonly ClusterFault[];
  readonly overrides: Readonly<Record<string, unknown>>;
  readonly build: Builder;
  /** Paths of overrides that the specification does not have. */
  readonly unknown: readonly (readonly string[])[];
  readonly resolved: ResolvedCluster;
}

type Check = (draft: Draft, forced: boolean) => readonly ClusterFault[];

const overrideFault = (path: readonly string[], message: string): ClusterFault =>
  clusterError(`overrides.${pathText(path)}`, message);

const wrongTypes: Check = ({ build }) =>
  build.faults.map(({ message, path }) => overrideFault(path, message));

const unknownOverrides: Check = ({ build, unknown }) =>
  unknown.map((path) => {
    const text = pathText(path);
    const guess = didYouMean(text, siblings(build.provenance.keys(), path.length));
    return overrideFault(path, `the full specification has no "${text}"${guess}`);
  });

/** Known paths, cut to that length, for suggestions when a path of that length is unknown. */
const siblings = (paths: Iterable<string>, length: number): ReadonlySet<string> =>
  new Set([...paths].map((path) => path.split('.').slice(0, length).join('.')));

const fixedOverrides: Check = ({ build }) =>
  Object.entries(FIXED).flatMap(([path, instead]) =>
    build.provenance.get(path)?.from === 'override'
      ? [clusterError(`overrides.${path}`, `it follows from ${instead}; set that`)]
      : [],
  );

const protectedOverrides: Check = ({ overrides }) =>
  protectedFieldsOf(overrides).map(({ path, why }) => overrideFault(path, `Muster decides this: ${why}`));

/** What is derived from a wrong value is wrong as well; the value that was written is the fault. */
const wrongValues: Check = ({ resolved, build }) => {
  const all = valueFaults(resolved);
  const written = all.filter(({ path }) => /^(spec|override)$/.test(build.provenance.get(path)?.from ?? ''));
  return (written.length > 0 ? written : all).map(({ path, message }) =>
    clusterError(writtenAt(path, build.provenance), message),
  );
};

/**
 * The field that an operator wrote: the override, or the field of the document that gives the
 * value.
 */
function writtenAt(path: string, provenance: ReadonlyMap<string, Provenance>): string {
  const origin = provenance.get(path);
  return origin?.from === 'spec' ? origin.by : `overrides.${path}`;
}

/**
 * The checks, in stages. A stage runs only when the stages before it found no error: a value of the
 * wrong type cannot be checked, and wrong values cannot be compared with each other.
 */
const STAGES: readonly (readonly Check[])[] = [
  [({ assigned }) => assigned, wrongTypes, unknownOverrides, fixedOverrides, protectedOverrides],
  [wrongValues],
  [({ resolved }, forced) => checkResolved(resolved, forced)],
];

/**
 * The release that a version like `1.36` or `v1.36.2` names, or a text that says why there is none.
 */
function releaseOf(text: string): { readonly minor: Minor; readonly version: string } | string {
  const short = text.replace(/^v/, '');
  const minor = MINORS.find((known) => short === known || short.startsWith(`${known}.`));
  if (minor === undefined) return `Muster does not know Kubernetes ${short}; use ${MINORS.join(', ')}`;
  return { minor, version: short === minor ? `${minor}.${RELEASES[minor].patch}` : short };
}
