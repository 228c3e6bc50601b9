/**
 * Checks all Clusters when documents are applied. A setting that cannot work is refused, with its
 * field; a setting that works but lacks something is a warning.
 */

import { checkedLayer } from '../../agent/serve/machine-layer.ts';
import { duration, seconds, toMillis } from '../../base/duration.ts';
import type { ErrorCode } from '../../base/errors.ts';
import { firstFew } from '../../base/first-few.ts';
import { didYouMean } from '../../base/suggest.ts';
import { type CasesOf, casesIn } from '../../ignition/cases.ts';
import { configurationCheck } from '../../ignition/check.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  type DocumentId,
  exists,
  idOf,
  spotOf,
} from '../../resources/candidate.ts';
import type { ConfigCheck } from '../../resources/catalog.ts';
import { parsePath } from '../../resources/document.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { etcdMembers, machineNames } from '../../resources/membership.ts';
import { plainSecretCheck } from '../../resources/plain-secrets.ts';
import type { ClusterFault } from '../model/fault.ts';
import { configFaults } from './check-configs.ts';
import { dataDiskChanges } from './check-disks.ts';
import { identityChanges } from './check-identities.ts';
import { machineWarnings } from './check-machines.ts';
import { diskFaults } from './check-own-disks.ts';
import { runningFaults } from './check-running.ts';
import { configures, type Placed, segmentFaults, virtualAddresses } from './check-segments.ts';
import { parseEndpoint } from './endpoint.ts';
import type { MachineFacts } from './machines.ts';
import type { Running } from './release.ts';
import { resolveCluster } from './resolve.ts';

const checkConfigurations = configurationCheck(checkedLayer);

/**
 * Makes the check of configurations of machines and of Clusters.
 *
 * @param running What founded clusters run, with which a changed Cluster is compared; absent where
 *   that is not known, e.g. in `muster validate`.
 */
export const checkWith = (running?: Running): ConfigCheck => {
  const clusters = clusterCheck(running);
  return (candidates, changed) => [
    ...checkConfigurations(candidates, changed),
    ...clusters(candidates, changed),
    ...plainSecretCheck(candidates, changed),
  ];
};

/**
 * Faults of the Clusters that `changed` concerns (undefined: all). A Machine without a document or
 * address is only a warning: it may be accepted later, and is held until then. When the Cluster
 * itself did not change, only faults that involve a changed document are returned, or a machine
 * that boots with one.
 */
const clusterCheck =
  (running: Running | undefined): ConfigCheck =>
  (candidates, changed) => {
    const owners = new Map<string, string>();
    const clusters = [...candidates.Cluster.values()].filter(
      ({ document }) => document.spec.kubernetes !== undefined,
    );
    const completions = new Map<string, Completion>();
    const completed = (cluster: Candidate<'Cluster'>): Completion => {
      const { name } = cluster.document.metadata;
      const known = completions.get(name) ?? completionOf(cluster, candidates);
      completions.set(name, known);
      return known;
    };
    let cases: CasesOf | undefined;
    const casesOf: CasesOf = (machine) => {
      cases ??= casesIn(candidates);
      return cases(machine);
    };
    return clusters.flatMap((cluster, n) => {
      const { metadata } = cluster.document;
      const spec = cluster.document.spec.kubernetes!;
      const names = machineNames(spec);
      const shared = [
        ...sharedMachines(cluster, names, owners),
        ...othersMachines(cluster, names, candidates),
      ];
      const itself = !changed || changed.has(`Cluster/${metadata.name}`);
      const held = virtualAddresses(spec);
      const causes = changed
        ? bootingBy(changed, names, candidates, casesOf)
        : new Map<DocumentId, DocumentId>();
      const related = new Set([
        ...[...(changed ?? [])].filter((id) => concerns(id, names, held, candidates)),
        ...causes.keys(),
        ...(causes.size > 0 ? [...changed!].filter((id) => id.startsWith('Profile/')) : []),
      ]);
      if (!itself && related.size === 0) return [];
      const others = held.length > 0 ? clusters.slice(0, n).filter(holdsAddress).map(completed) : [];
      const all = [
        ...shared,
        ...inlineFaults(cluster, spec, candidates),
        ...completionFaults(cluster, completed(cluster)),
        ...missingMachines(cluster, names, candidates),
        ...endpointDoubts(
          cluster,
          completed(cluster),
          clusters.filter((one, k) => k < n || (k > n && changed?.has(idOf(one.document)) === false)),
        ),
        ...backupDoubts(cluster),
        ...runningClusterFaults(cluster, names, completed(cluster), running),
        ...runningDiskFaults(cluster, candidates, casesOf, related, running),
        ...runningIdentityFaults(cluster, completed(cluster), candidates, running),
        ...machineFaults(names, completed(cluster), candidates, casesOf, related),
        ...segmentFaults(completed(cluster), others, candidates).map(({ path, message, ...more }) => ({
          ...found(cluster, `spec.kubernetes.${path}`, message),
          ...more,
        })),
      ];
      const looked = itself ? names : new Set([...names].filter((name) => related.has(`Machine/${name}`)));
      const kept = itself ? all : all.filter(({ other }) => other !== undefined && related.has(other));
      const { resolved } = completed(cluster);
      const warnings = machineWarnings(spec, resolved, looked, candidates, casesOf).map(
        ({ path, message, machines }): CrossFault => ({
          ...found(cluster, `spec.kubernetes.${path}`, message, machines[0]),
          severity: 'warning',
        }),
      );
      const causeOf = ({ other }: CrossFault): DocumentId | undefined =>
        other === undefined || changed?.has(other) ? other : (causes.get(other) ?? other);
      return [...kept, ...warnings].map((one) => {
        const other = causeOf(one);
        return other === undefined ? one : { ...one, other };
      });
    });
  };

/**
 * What is wrong with the disks and configurations of machines, once at the document that wrote it.
 */
function machineFaults(
  names: ReadonlySet<string>,
  { resolved }: Completion,
  candidates: CandidateSet,
  casesOf: CasesOf,
  related: ReadonlySet<DocumentId>,
): readonly CrossFault[] {
  const machinesOf = new Map<string, string[]>();
  const all = [
    ...diskFaults(names, candidates, casesOf),
    ...(resolved === undefined ? [] : configFaults(resolved, candidates, casesOf)),
  ];
  for (const { layer, message, machine } of all) {
    const key = `${layer} ${message}`;
    machinesOf.set(key, [...(machinesOf.get(key) ?? []), machine]);
  }
  return [...machinesOf].flatMap(([key, machines]) => {
    const [layer, message] = [key.slice(0, key.indexOf(' ')), key.slice(key.indexOf(' ') + 1)];
    const [kind, name] = layer.split('/') as ['Cluster' | 'Profile' | 'Machine', string];
    const candidate = candidates[kind].get(name);
    if (candidate === undefined) return [];
    const path = `spec.${/config(\.[A-Za-z]+)*/.exec(message)?.[0] ?? 'config'}`;
    const who = kind === 'Machine' ? '' : `${firstFew(machines)}: `;
    const first = machines.find((one) => related.has(`Machine/${one}`)) ?? machines[0];
    return [found(candidate, path, `${who}${message}`, first)];
  });
}

const holdsAddress = ({ document }: Candidate<'Cluster'>): boolean =>
  virtualAddresses(document.spec.kubernetes!).length > 0;

/** Whether a change of that document can cause a fault of an unchanged Cluster. */
function concerns(
  id: DocumentId,
  names: ReadonlySet<string>,
  held: readonly string[],
  candidates: CandidateSet,
): boolean {
  const [kind, name = ''] = id.split('/');
  if (kind === 'Network') return true;
  if (kind === 'Cluster') return held.length > 0;
  if (kind !== 'Machine') return false;
  const machine = candidates.Machine.get(name)?.document;
  const has = (address: string): boolean =>
    machine !== undefined && (machine.spec.addresses?.includes(address) || configures(machine, address));
  return names.has(name) || held.some(has);
}

/**
 * The machines that boot with a changed Profile or Image, or that such a Profile selects or no
 * longer selects; each with the document that changed.
 */
function bootingBy(
  changed: ReadonlySet<DocumentId>,
  names: ReadonlySet<string>,
  candidates: CandidateSet,
  casesOf: CasesOf,
): ReadonlyMap<DocumentId, DocumentId> {
  const ids = [...changed];
  const profile = ids.find((id) => id.startsWith('Profile/'));
  const causes = new Map<DocumentId, DocumentId>();
  if (profile === undefined && !ids.some((id) => id.startsWith('Image/'))) return causes;
  for (const name of names) {
    const machine = candidates.Machine.get(name)?.document;
    if (machine === undefined) continue;
    const boots = casesOf(machine).flatMap((one) =>
      [one.profile, one.image].map((part) => part && idOf(part)),
    );
    const cause =
      boots.find((id) => id !== undefined && changed.has(id)) ??
      (machine.spec.profile === undefined ? profile : undefined);
    if (cause !== undefined) causes.set(idOf(machine), cause);
  }
  return causes;
}

/** Machines that another Cluster names too. */
function sharedMachines(
  cluster: Candidate<'Cluster'>,
  names: ReadonlySet<string>,
  owners: Map<string, string>,
): CrossFault[] {
  const { name } = cluster.document.metadata;
  return [...names].flatMap((machine) => {
    const owner = owners.get(machine);
    owners.set(machine, owner ?? name);
    return owner === undefined
      ? []
      : [found(cluster, 'spec.kubernetes', `${machine} is a machine of Cluster ${owner} already`, machine)];
  });
}

/**
 * Machines of this Cluster whose own document names another cluster: such a machine would get its
 * configuration from the other cluster and its certificates from this one.
 */
function othersMachines(
  cluster: Candidate<'Cluster'>,
  names: ReadonlySet<string>,
  candidates: CandidateSet,
): CrossFault[] {
  const { name } = cluster.document.metadata;
  return [...names].flatMap((machine) => {
    const other = candidates.Machine.get(machine)?.document.spec.cluster;
    const message = `${machine} has "cluster: ${other}"; remove that from its Machine, or ${machine} from this Cluster`;
    return other === undefined || other === name ? [] : [found(cluster, 'spec.kubernetes', message, machine)];
  });
}

/**
 * Machines with `delivery: inline` in a role that needs grants: their secrets come with the first
 * configuration, and no agent polls for a grant.
 */
function inlineFaults(
  cluster: Candidate<'Cluster'>,
  { controlPlanes, etcd }: KubernetesSpec,
  candidates: CandidateSet,
): CrossFault[] {
  const members = new Set([...controlPlanes, ...(etcd?.machines ?? [])]);
  return [...machineNames(cluster.document.spec.kubernetes!)].flatMap((name) => {
    const machine = candidates.Machine.get(name)?.document.spec;
    if (machine?.delivery !== 'inline') return [];
    const why = members.has(name)
      ? 'delivery: inline is for workers; only an agent can get the grant by which etcd starts'
      : machine.dataDisk !== undefined
        ? 'delivery: inline and dataDisk exclude each other; a data disk needs an agent that identifies it'
        : undefined;
    return why === undefined ? [] : [found(cluster, 'spec.kubernetes', `${name}: ${why}`, name)];
  });
}

/** Names without a Machine document: each is misspelt, or its machine is to be accepted later. */
function missingMachines(
  cluster: Candidate<'Cluster'>,
  names: ReadonlySet<string>,
  candidates: CandidateSet,
): CrossFault[] {
  const { controlPlanes, workers = [], etcd } = cluster.document.spec.kubernetes!;
  const others = [...candidates.Machine.keys()].filter((one) => !names.has(one));
  const missing = (list: string, machines: readonly string[], until: string): CrossFault[] =>
    machines.flatMap((name, n) => {
      if (exists(candidates, 'Machine', name)) return [];
      const message = `there is no Machine "${name}"${didYouMean(name, others)}; until it exists, ${until}`;
      return [{ ...found(cluster, `spec.kubernetes.${list}[${n}]`, message), severity: 'warning' as const }];
    });
  return [
    ...missing('controlPlanes', controlPlanes, 'the whole cluster waits'),
    ...missing('etcd.machines', etcd?.machines ?? [], 'the whole cluster waits'),
    ...missing('workers', workers, 'the cluster runs without it'),
  ];
}

/** Names of the API server at which machines or pods would not find it. */
function endpointDoubts(
  cluster: Candidate<'Cluster'>,
  { spec, resolved }: Completion,
  others: readonly Candidate<'Cluster'>[],
): readonly CrossFault[] {
  const host = parseEndpoint(spec.endpoint)?.host;
  const other = others.find(({ document }) => document.spec.kubernetes!.endpoint === spec.endpoint);
  const domain = resolved?.dnsDomain;
  return [
    ...(other === undefined
      ? []
      : [
          {
            ...found(
              cluster,
              'spec.kubernetes.endpoint',
              `${spec.endpoint} is the endpoint of Cluster/${other.document.metadata.name} as well; machines of one would meet API servers of the other; change one of them`,
            ),
            other: idOf(other.document),
            severity: 'warning' as const,
          },
        ]),
    ...(domain === undefined || host === undefined || !`.${host}`.endsWith(`.${domain}`)
      ? []
      : [
          {
            ...found(
              cluster,
              'spec.kubernetes.endpoint',
              `${host} is below dnsDomain ${domain}, of which the DNS of the cluster knows only Services, so no pod finds it; give one of them another domain`,
            ),
            severity: 'warning' as const,
          },
        ]),
  ];
}

/** A snapshot of a large etcd takes seconds, and is sealed and copied after that. */
const SHORTEST_BACKUP = seconds(60);

function backupDoubts(cluster: Candidate<'Cluster'>): readonly CrossFault[] {
  const { every } = cluster.document.spec.backup ?? {};
  if (every === undefined || duration(every) >= toMillis(SHORTEST_BACKUP)) return [];
  const message = `a snapshot of etcd every ${every} would follow the one before at once, and the kept ones reach back only moments; write 1m or more, mostly some hours`;
  return [{ ...found(cluster, 'spec.backup.every', message), severity: 'warning' }];
}

/** Replaces an address that is not known yet; from the range for benchmarks (RFC 2544). */
const placeholder = (n: number): string => `198.18.${n >> 8}.${n & 255}`;

/** A Cluster, resolved with placeholders for unknown addresses. */
interface Completion extends Placed {
  readonly faults: readonly ClusterFault[];
  /** Machines with a placeholder. */
  readonly unknown: ReadonlySet<string>;
}

function completionOf({ document }: Candidate<'Cluster'>, candidates: CandidateSet): Completion {
  const { name } = document.metadata;
  const spec = document.spec.kubernetes!;
  const unknown = new Set<string>();
  const machines = [...machineNames(spec)].map((machine, n): MachineFacts => {
    const addresses = candidates.Machine.get(machine)?.document.spec.addresses ?? [];
    if (addresses.length > 0) return { name: machine, addresses };
    unknown.add(machine);
    return { name: machine, addresses: [placeholder(n)] };
  });
  const { faults, resolved } = resolveCluster(name, spec, machines);
  return { name, spec, faults, unknown, ...(resolved && { resolved }) };
}

const completionFaults = (
  cluster: Candidate<'Cluster'>,
  { faults, unknown }: Completion,
): readonly CrossFault[] =>
  faults.flatMap(({ fault, severity, machine }) => {
    if (machine !== undefined && unknown.has(machine)) return [];
    const path = machine === undefined ? (fault.path ?? 'spec.kubernetes') : 'spec.kubernetes';
    const message = machine === undefined ? fault.message : `${machine}: ${fault.message}`;
    return [{ ...found(cluster, path, message, machine), severity }];
  });

/** Faults of a Cluster on what runs: on its own machines, or for another cluster on one of them. */
function runningClusterFaults(
  cluster: Candidate<'Cluster'>,
  names: ReadonlySet<string>,
  { resolved }: Completion,
  running: Running | undefined,
): readonly CrossFault[] {
  const { name } = cluster.document.metadata;
  const taken = [...names].flatMap((machine) => {
    const other = running?.clusterOf(machine);
    if (other === undefined || other === name) return [];
    const message = `${machine} runs for the founded cluster ${other}; take it out there first: \`muster cluster remove-node ${other} ${machine}\``;
    return [{ ...found(cluster, 'spec.kubernetes', message, machine, 'E_FOUNDED') }];
  });
  const known = running?.of(name);
  if (known === undefined || resolved === undefined) return taken;
  const faults = runningFaults(resolved, known).map(
    ({ path, message, machine, code, survivable }): CrossFault => ({
      ...found(cluster, `spec.kubernetes.${path}`, message, machine, code),
      ...(survivable && { confirm: name }),
    }),
  );
  return [...taken, ...faults];
}

/** Data disks of a founded cluster's machines that documents no longer select. */
function runningDiskFaults(
  cluster: Candidate<'Cluster'>,
  candidates: CandidateSet,
  casesOf: CasesOf,
  related: ReadonlySet<DocumentId>,
  running: Running | undefined,
): readonly CrossFault[] {
  const { metadata } = cluster.document;
  const known = running?.of(metadata.name);
  if (known === undefined) return [];
  const members = new Set(etcdMembers(cluster.document));
  return dataDiskChanges(metadata.name, members, known, candidates, casesOf).map(
    ({ machine, profile, code, message, survivable }): CrossFault => ({
      ...found(cluster, 'spec.kubernetes', message, machine, code),
      ...(related.has(`Profile/${profile}`) && { other: `Profile/${profile}` as const }),
      ...(survivable && { confirm: metadata.name }),
    }),
  );
}

/** Machine documents by which a founded cluster's machine would not be what it was. */
function runningIdentityFaults(
  cluster: Candidate<'Cluster'>,
  { spec, resolved }: Completion,
  candidates: CandidateSet,
  running: Running | undefined,
): readonly CrossFault[] {
  const { name } = cluster.document.metadata;
  const known = running?.of(name);
  if (known === undefined) return [];
  // What is resolved has a placeholder for an address that is not there.
  const addressOf = (machine: string): string | undefined => {
    const [first] = candidates.Machine.get(machine)?.document.spec.addresses ?? [];
    return first && (resolved?.machines.find((one) => one.name === machine)?.addresses[0] ?? first);
  };
  return identityChanges(name, machineNames(spec), known, candidates, addressOf).map(
    ({ machine, code, message, survivable }): CrossFault => ({
      ...found(cluster, 'spec.kubernetes', message, machine, code),
      ...(survivable && { confirm: name }),
    }),
  );
}

function found(
  candidate: Candidate<'Cluster'> | Candidate<'Profile'> | Candidate<'Machine'>,
  path: string,
  message: string,
  machine?: string,
  code: ErrorCode = 'E_CLUSTER',
): CrossFault {
  const document = idOf(candidate.document);
  const at = spotOf(candidate, parsePath(path));
  return {
    fault: { code, message: `${document}: ${message}`, path, ...(at && { at }) },
    document,
    ...(machine !== undefined && { other: `Machine/${machine}` as DocumentId }),
    severity: 'error',
  };
}

/** The check without a boot host. */
export const checkAll: ConfigCheck = checkWith();
