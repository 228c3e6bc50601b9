/** What a change of documents does to clusters: shown by a dry run of `apply`, and by `diff`. */
import { comparePlans, inTurn, type PlanDifference } from '../cluster/plan/compare.ts';
import { sameRelease, specAt } from '../cluster/resolve/mixed.ts';
import { type NextBoot, nextBoots } from '../cluster/resolve/next-boot.ts';
import type { Running } from '../cluster/resolve/release.ts';
import { releaseOf } from '../cluster/resolve/release.ts';
import { resolveCluster } from '../cluster/resolve/resolve.ts';
import { machinesOf } from '../cluster/resolve/resolved-clusters.ts';
import type { CandidateSet } from '../resources/candidate.ts';
import type { Applied, LiveCatalog } from '../resources/catalog.ts';
import {
  type ClusterSpec,
  type Document,
  KINDS,
  type Kind,
  type KubernetesSpec,
  type MachineSpec,
} from '../resources/kinds.ts';
import { machineNames } from '../resources/membership.ts';

interface Needed {
  readonly catalog: LiveCatalog;
  /** What founded clusters run. */
  readonly running: Pick<Running, 'of'>;
}

/** What changes in one cluster. */
export interface Consequences {
  readonly cluster: string;
  readonly differences: readonly (PlanDifference & {
    /** What of `restarts` happens on one machine after the other. */
    readonly inTurn: readonly string[];
  })[];
  /** What machines of a founded cluster get with their next boot. */
  readonly nextBoot: readonly NextBoot[];
  /** An upgrade that begins, with the versions of Kubernetes. */
  readonly upgrade?: { readonly from: string; readonly to: string };
}

type Deps = Pick<Needed, 'catalog' | 'running'>;

/** Computes the consequences for all clusters that the changed documents concern. */
export function consequencesOf(results: readonly Applied[], deps: Deps): readonly Consequences[] {
  const after = new Map(
    results.map((one): [string, Document | undefined] => [`${one.kind}/${one.name}`, one.after]),
  );
  const concerns = (cluster: string, spec: KubernetesSpec | undefined): boolean =>
    after.has(`Cluster/${cluster}`) ||
    (spec !== undefined && [...machineNames(spec)].some((machine) => after.has(`Machine/${machine}`)));
  const boots = bootsIn(results, deps);
  return deps.catalog.list('Cluster').flatMap(({ document: { metadata, spec } }) => {
    const cluster = metadata.name;
    const planned = concerns(cluster, spec.kubernetes) ? consequencesIn(cluster, after, deps) : undefined;
    const nextBoot = boots(cluster);
    if (planned === undefined && nextBoot.length === 0) return [];
    return [{ ...(planned ?? { cluster, differences: [] }), nextBoot }];
  });
}

/** The kinds from which it follows what a machine boots. */
const BOOTED: readonly Kind[] = ['Image', 'Profile', 'Machine', 'Cluster'];

/** Finds what machines of a founded cluster get with their next boot. */
function bootsIn(
  results: readonly Applied[],
  { catalog, running }: Deps,
): (cluster: string) => readonly NextBoot[] {
  const changed = results.filter(({ kind, action }) => BOOTED.includes(kind) && action !== 'unchanged');
  if (changed.length === 0) return () => [];
  const kinds = Object.keys(KINDS) as Kind[];
  const before = kinds.map((kind) => {
    const entries = catalog.list(kind).map((entry) => [entry.document.metadata.name, entry] as const);
    return [kind, new Map<string, { readonly document: Document }>(entries)] as const;
  });
  const next = before.map(([kind, entries]) => {
    const ofKind = changed.filter((result) => result.kind === kind);
    if (ofKind.length === 0) return [kind, entries] as const;
    const documents = new Map(entries);
    for (const one of ofKind)
      if (one.after === undefined) documents.delete(one.name);
      else documents.set(one.name, { document: one.after });
    return [kind, documents] as const;
  });
  const [was, will] = [before, next].map((sets) => Object.fromEntries(sets) as unknown as CandidateSet);
  const boots = nextBoots(was!, will!);
  return (cluster) => boots([...(running.of(cluster)?.machines.keys() ?? [])].toSorted());
}

function consequencesIn(
  cluster: string,
  after: ReadonlyMap<string, Document | undefined>,
  { catalog, running }: Deps,
): Omit<Consequences, 'nextBoot'> | undefined {
  const old = catalog.get('Cluster', cluster)?.document.spec.kubernetes;
  const changed = after.get(`Cluster/${cluster}`)?.spec as ClusterSpec | undefined;
  const spec = after.has(`Cluster/${cluster}`) ? changed?.kubernetes : old;
  if (old === undefined || spec === undefined) return undefined;
  const addressesBefore = (machine: string) => addressesOf(catalog.get('Machine', machine)?.document.spec);
  const addressesAfter = (machine: string) =>
    after.has(`Machine/${machine}`)
      ? addressesOf(after.get(`Machine/${machine}`)?.spec as MachineSpec | undefined)
      : addressesBefore(machine);
  const resolve = (of: KubernetesSpec, addresses: typeof addressesBefore) =>
    resolveCluster(cluster, of, machinesOf(of, addresses)).resolved;
  const wanted = resolve(spec, addressesAfter);
  const known = running.of(cluster);
  // The versions of a founded cluster change by the steps of an upgrade, not with the plans.
  const at = (of: KubernetesSpec) => (known === undefined ? of : specAt(of, known.release));
  const [before, next] = [resolve(at(old), addressesBefore), resolve(at(spec), addressesAfter)];
  if (before === undefined || next === undefined || wanted === undefined) return undefined;
  const differences = comparePlans(before, next).map((one) => ({ ...one, inTurn: inTurn(one) }));
  const upgrades = known !== undefined && !sameRelease(known.release, releaseOf(wanted));
  if (differences.length === 0 && !upgrades) return undefined;
  return {
    cluster,
    differences,
    ...(upgrades && { upgrade: { from: known.release.version, to: wanted.kubernetes.version } }),
  };
}

const addressesOf = (spec: MachineSpec | undefined): readonly string[] | undefined =>
  spec && (spec.addresses ?? []);
