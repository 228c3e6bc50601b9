/** What has to hold before an upgrade begins; each fault says what to do. Pure. */
import type { Fault } from '../../../base/errors.ts';
import type { ClusterHealth } from '../../health/finding.ts';
import { type ClusterRole, type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import { parseVersion } from '../../model/versions.ts';
import { type Required, requiredArtifacts } from '../../resolve/artifacts.ts';
import type { RunningCluster } from '../../resolve/release.ts';

export interface Preflight {
  readonly from: ResolvedCluster;
  readonly to: ResolvedCluster;
  readonly running: RunningCluster;
  readonly health: ClusterHealth;
  /** The roles of the machines that change. */
  readonly roles: readonly ClusterRole[];
  /** Workers that are left out. */
  readonly without: readonly string[];
  /** Whether this boot host has an artifact. */
  readonly has: (artifact: Required) => boolean;
  /** The metrics of each API server; without text where it did not answer. */
  readonly metrics: readonly { readonly machine: string; readonly text: string | undefined }[];
  /** Resources with objects that no API of the new version serves. */
  readonly ending: readonly string[];
  /** Nodes whose disk is almost full. */
  readonly full: readonly string[];
}

const fault = (message: string): Fault => ({ code: 'E_UPGRADE', message });

export function preflightFaults(input: Preflight): readonly Fault[] {
  return [
    ...unhealthy(input),
    ...unheard(input),
    ...missingArtifacts(input),
    ...removedApis(input),
    ...endingObjects(input),
    ...fullDisks(input),
  ];
}

function unhealthy({ health, without }: Preflight): readonly Fault[] {
  return health.findings
    .filter(({ ok, subject }) => !ok && !without.includes(subject))
    .map(({ check, subject, says, fix }) => fault(`${check} ${subject}: ${says}${fix ? `; ${fix}` : ''}`));
}

/** Machines of which it is not known what they run. */
function unheard({ from, running, without, roles: changing }: Preflight): readonly Fault[] {
  return from.machines
    .filter(({ name, roles }) => {
      if (!roles.some((role) => changing.includes(role))) return false;
      const versions = running.machines.get(name)?.versions ?? {};
      const needs = [
        ...(roles.includes('etcd') ? (['etcd'] as const) : []),
        ...(roles.includes('control-plane') ? (['kube-apiserver', 'kubelet'] as const) : []),
        ...(roles.includes('worker') ? (['kubelet'] as const) : []),
      ];
      return !without.includes(name) && needs.some((program) => versions[program] === undefined);
    })
    .map(({ name }) => fault(`${name}: its agent does not report which versions run`));
}

/** The name of an artifact without its version. */
const nameOf = (one: Required): string =>
  one.kind === 'binary'
    ? `binary ${one.name}`
    : one.kind === 'image'
      ? `image ${one.reference.replace(/(:[^:/]+)?(@.*)?$/, '')}`
      : `manifest ${one.addon} ${one.sha256}`;

/**
 * What this boot host has in the old release and lacks in the new one. Where it has nothing of a
 * name, machines bring it with their image or pull it elsewhere. kubelet has to be here if it
 * changes, since nothing else would bring the new one to running machines.
 */
function missingArtifacts({ from, to, has }: Preflight): readonly Fault[] {
  const old = requiredArtifacts(from, 'x86_64').filter(has).map(nameOf);
  const changes = from.versions.kubelet !== to.versions.kubelet;
  return requiredArtifacts(to, 'x86_64')
    .filter((one) => !has(one))
    .filter(
      (one) => old.includes(nameOf(one)) || (changes && one.kind === 'binary' && one.name === 'kubelet'),
    )
    .map((one) => {
      const what =
        one.kind === 'image'
          ? one.reference
          : one.kind === 'binary'
            ? `${one.name} ${one.version}`
            : one.addon;
      return fault(
        `${what} is not on this boot host; \`muster artifacts pull ${to.name}\` or \`muster artifacts import\` brings it`,
      );
    });
}

const DEPRECATED = /^apiserver_requested_deprecated_apis\{([^}]*)\} 1$/;

/** APIs in use that the new minor version no longer serves, by the API servers' own metric. */
function removedApis({ to, metrics }: Preflight): readonly Fault[] {
  const minor = parseVersion(to.versions['kube-apiserver'])![1];
  const silent = metrics.filter(({ text }) => text === undefined);
  const lines = new Set(metrics.flatMap(({ text }) => text?.split('\n') ?? []));
  const unknown = silent.map(({ machine }) =>
    fault(
      `${machine}: its API server does not say which deprecated APIs its clients use; \`muster cluster status\` shows whether it is ready`,
    ),
  );
  const used = [...lines].flatMap((line) => {
    const labels = DEPRECATED.exec(line)?.[1];
    if (labels === undefined) return [];
    const label = (name: string): string => new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? '';
    const removed = Number(/^1\.(\d+)$/.exec(label('removed_release'))?.[1] ?? Number.POSITIVE_INFINITY);
    if (removed > minor) return [];
    const name = [label('group'), label('version'), label('resource')].filter((one) => one !== '').join('/');
    return [
      fault(
        `${name} is in use, and Kubernetes ${label('removed_release')} does not serve it; move its users to the newer API first`,
      ),
    ];
  });
  return [...unknown, ...used];
}

const endingObjects = ({ to, ending }: Preflight): readonly Fault[] =>
  ending.map((what) =>
    fault(
      `there are objects of ${what}, which Kubernetes ${to.kubernetes.minor} can neither serve nor read; delete them first`,
    ),
  );

/** kubelet removes images from a full disk, and so also those that were pulled for the upgrade. */
function fullDisks({ full, without }: Preflight): readonly Fault[] {
  return full
    .filter((name) => !without.includes(name))
    .map((name) =>
      fault(
        `${name}: its disk is almost full (DiskPressure), so that kubelet would remove the images of the new version; free space on it`,
      ),
    );
}

/** The worker that is changed first: the first one that reports. */
export const canaryOf = (resolved: ResolvedCluster, without: readonly string[]): string | undefined =>
  withRole(resolved, 'worker').find(({ name }) => !without.includes(name))?.name;
