/**
 * Compares a resolved Cluster with what its founded cluster runs: refuses what cannot work there,
 * with its field, and marks what a person may accept with `--confirm NAME`. Pure.
 */
import type { ErrorCode } from '../../base/errors.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { compareVersions } from '../model/versions.ts';
import { fixedOf, type RunningCluster, type RunningMachine } from './release.ts';
import { minorsNewer, SKEW_RULES, type Skewed, stepFault } from './skew.ts';

export interface RunningFault {
  readonly code: ErrorCode;
  /** Below `spec.kubernetes`. */
  readonly path: string;
  readonly message: string;
  readonly machine?: string;
  /** Whether the cluster survives it, so that a person may accept it. */
  readonly survivable: boolean;
}

/** How one setting of a founded cluster may change. */
interface FixedRule {
  readonly path: string;
  /** Why the change does not work; undefined when it does. */
  readonly why: (was: RunningCluster['fixed'], will: RunningCluster['fixed']) => string | undefined;
  readonly survivable?: true;
}

const list = (networks: readonly string[]): string => networks.join(', ');
const same = (a: readonly string[], b: readonly string[]): boolean => list(a) === list(b);
const begins = (a: readonly string[], b: readonly string[]): boolean => same(a, b.slice(0, a.length));

/** The settings of a founded cluster that cannot simply change. */
const FIXED_RULES: readonly FixedRule[] = [
  {
    path: 'networks.services',
    why: (was, will) =>
      begins(was.services, will.services)
        ? undefined
        : `its Services have addresses in ${list(was.services)}; the addresses of existing Services never change`,
  },
  {
    path: 'networks.services',
    survivable: true,
    why: (was, will) =>
      begins(was.services, will.services) && !same(was.services, will.services)
        ? `existing Services keep the addresses in ${list(was.services)}; only new ones can get both families`
        : undefined,
  },
  {
    path: 'networks.pods',
    why: (was, will) => {
      if (same(was.pods, will.pods)) return undefined;
      if (begins(was.pods, will.pods) && will.cni === 'none') return undefined;
      return `its nodes have networks in ${list(was.pods)}; neither a Node's network nor ${was.cni} can follow a change`;
    },
  },
  {
    path: 'dnsDomain',
    why: (was, will) =>
      was.dnsDomain === will.dnsDomain
        ? undefined
        : `it was founded with ${was.dnsDomain}, which is in certificates, in service-account tokens and in every running pod`,
  },
  {
    path: 'runtime',
    why: (was, will) =>
      was.runtime === will.runtime
        ? undefined
        : `its machines run ${was.runtime}, and ${will.runtime} would end every pod on all of them at once; make another cluster, or reset this one`,
  },
  {
    path: 'etcd.topology',
    why: (was, will) =>
      was.etcdTopology === will.etcdTopology
        ? undefined
        : `its etcd is ${was.etcdTopology}; a running etcd is not moved to other machines at once`,
  },
  {
    path: 'cni',
    survivable: true,
    why: (was, will) =>
      was.cni === will.cni
        ? undefined
        : `it runs ${was.cni}; pods lose their network until each of them was restarted`,
  },
  {
    path: 'endpoint',
    survivable: true,
    why: (was, will) =>
      was.endpoint === will.endpoint
        ? undefined
        : `clients know it as ${was.endpoint}; kubeconfigs that were given out stop working`,
  },
  {
    path: 'virtualAddress.addresses',
    survivable: true,
    why: ({ virtualAddresses: had }, { virtualAddresses: will }) => {
      const lost = had.filter((address) => !will.includes(address));
      return lost.length === 0
        ? undefined
        : `its control planes hold ${list(lost)}, where machines and clients reach the API; they lose it unless the endpoint leads elsewhere already`;
    },
  },
];

/** All faults of a Cluster on what it runs. */
export function runningFaults(resolved: ResolvedCluster, running: RunningCluster): readonly RunningFault[] {
  const will = fixedOf(resolved);
  const fixed = FIXED_RULES.flatMap(({ path, why, survivable = false }): RunningFault[] => {
    const message = why(running.fixed, will);
    const code = survivable ? 'E_CONFIRM' : 'E_FOUNDED';
    return message === undefined ? [] : [{ code, path, message, survivable }];
  });
  return [...fixed, ...lostMachines(resolved, running), ...versionFaults(resolved, running)];
}

/** Machines with a part in etcd or the control plane that the document does not name any more. */
function lostMachines(resolved: ResolvedCluster, { machines }: RunningCluster): readonly RunningFault[] {
  const named = new Set(resolved.machines.map(({ name }) => name));
  return [...machines].flatMap(([machine, { serves }]) =>
    !serves || named.has(machine)
      ? []
      : [
          {
            code: 'E_CONFIRM' as const,
            path: 'controlPlanes',
            message: `${machine} runs a part of its control plane or etcd, and would run it on; \`muster cluster remove-node ${resolved.name} ${machine}\` takes it out`,
            machine,
            survivable: true,
          },
        ],
  );
}

/** Program of the resolved Cluster → the field that sets its version. */
const FIELD = {
  etcd: 'overrides.versions.etcd',
  'kube-apiserver': 'version',
} as const;

function versionFaults(resolved: ResolvedCluster, running: RunningCluster): readonly RunningFault[] {
  return [
    ...stepFaults(resolved, running, 'kube-apiserver'),
    ...stepFaults(resolved, running, 'etcd'),
    ...skewFaults(resolved, running.machines),
  ];
}

const withoutBuild = (version: string): string => version.replace(/^v/, '').replace(/-\d+$/, '');

/** Faults of the way from each running version of the program to the wanted one; each once. */
function stepFaults(
  { versions }: ResolvedCluster,
  { release, machines }: RunningCluster,
  program: keyof typeof FIELD,
): readonly RunningFault[] {
  const reported = [...machines.values()].flatMap((machine) => machine.versions[program] ?? []);
  const from = new Set([withoutBuild(release.versions[program]), ...reported]);
  const found = new Map<string, RunningFault>();
  for (const version of [...from].sort(compareVersions)) {
    const fault = stepFault(program, version, withoutBuild(versions[program]));
    if (fault === undefined) continue;
    const survivable = fault.code === 'older-patch';
    const code = survivable ? 'E_CONFIRM' : 'E_SKEW';
    found.set(fault.code, { code, path: FIELD[program], message: fault.text, survivable });
  }
  return [...found.values()];
}

/** Kubelets that are too old for the wanted API server, or newer than it. */
function skewFaults(
  { versions }: ResolvedCluster,
  machines: ReadonlyMap<string, RunningMachine>,
): readonly RunningFault[] {
  const api = versions['kube-apiserver'];
  const rules = SKEW_RULES.filter(({ program, than }) => than === 'kube-apiserver' && program === 'kubelet');
  return [...machines].flatMap(([machine, { versions: runs }]) =>
    rules.flatMap(({ program, older, newer }): RunningFault[] => {
      const version = runs[program as Extract<Skewed, 'kubelet'>];
      const by = version === undefined ? 0 : minorsNewer(version, api);
      if (by >= -older && by <= newer) return [];
      const message =
        by > newer
          ? `${machine} runs ${program} ${version}, which is newer than kube-apiserver ${api}`
          : `${machine} runs ${program} ${version}, and kube-apiserver ${api} serves none that is more than ${older} minor versions older; bring that machine up to date first`;
      return [{ code: 'E_SKEW', path: 'version', message, machine, survivable: false }];
    }),
  );
}
