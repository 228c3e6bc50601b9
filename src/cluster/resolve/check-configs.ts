/**
 * Compares the configurations of a Cluster's machines with what the agent writes and what the
 * cluster's programs need: what the agent would overwrite has no effect, and what it relies on
 * cannot be turned off.
 */
import type { CasesOf } from '../../ignition/cases.ts';
import { extraUses } from '../../ignition/extra-uses.ts';
import { type CandidateSet, type DocumentId, idOf } from '../../resources/candidate.ts';
import type { NodeConfig } from '../../resources/nodeconfig.ts';
import { takesSwap } from '../components/kubelet-flags.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';

interface ConfigFault {
  readonly machine: string;
  readonly message: string;
  /** The document that wrote it. */
  readonly layer: DocumentId;
}

/** Faults of all machines of a Cluster whose documents exist. */
export function configFaults(
  resolved: ResolvedCluster,
  candidates: CandidateSet,
  casesOf: CasesOf,
): readonly ConfigFault[] {
  return resolved.machines.flatMap((machine) => {
    const document = candidates.Machine.get(machine.name)?.document;
    if (document === undefined) return [];
    const writers = casesOf(document).flatMap(({ machine: itself, profile, cluster }) =>
      [itself, profile, cluster].flatMap((one) => (one?.spec.config === undefined ? [] : [one])),
    );
    return [...new Set(writers)].flatMap((writer) =>
      [...new Set(faultsOf(resolved, machine, writer.spec.config!))].map((message) => ({
        machine: machine.name,
        message,
        layer: idOf(writer),
      })),
    );
  });
}

const faultsOf = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  config: NodeConfig,
): readonly string[] => {
  const runsKubelet = machine.roles.some((role) => role !== 'etcd');
  return [
    ...fileTexts(config),
    ...(runsKubelet ? unitTexts(resolved, config) : []),
    ...(runsKubelet ? sysctlTexts(machine, config) : []),
    ...(runsKubelet ? swapTexts(resolved, machine, config) : []),
  ];
};

/** Files that the agent writes, each with what to set instead. */
const OF_THE_AGENT: readonly (readonly [path: RegExp, instead: string])[] = [
  [/^\/etc\/hostname$/, 'the host name is the name of the Machine'],
  [/^\/var\/lib\/kubelet\/config\.yaml$/, 'set overrides.kubelet.config'],
  [
    /^\/var\/lib\/kubelet\/(kubeadm-flags\.env|instance-config\.yaml)$|^\/etc\/systemd\/system\/kubelet\.service(\.d\/10-kubeadm\.conf)?$/,
    'set overrides.flags.kubelet',
  ],
  [
    /^\/etc\/kubernetes\/manifests\/(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)\.yaml$/,
    'set overrides.flags or staticPods',
  ],
  [
    /^\/etc\/kubernetes\/apiserver\/(admission|audit-policy|authentication|authorization|encryption)\.yaml$/,
    'set spec.kubernetes.apiServer, or write another file there and name it in a flag',
  ],
  [/^\/etc\/kubernetes\/(admin|controller-manager|kubelet|scheduler|super-admin)\.conf$/, 'Muster issues it'],
  [
    /^\/etc\/kubernetes\/pki\/((etcd\/)?(ca|front-proxy-ca|sa|apiserver[a-z-]*|peer|server|healthcheck-client|front-proxy-client)\.(crt|key|pub))$/,
    'Muster issues it; keys of your own are imported with `muster pki import`',
  ],
  [
    /^\/etc\/(containerd\/config\.toml|crio\/crio\.conf\.d\/90-muster\.conf|crictl\.yaml)$/,
    'set spec.kubernetes.registries or mirrors',
  ],
  [/^\/etc\/(sysctl\.d|modules-load\.d)\/(90-)?muster\.conf$/, 'set config.sysctls or config.kernelModules'],
  [/^\/etc\/systemd\/timesyncd\.conf\.d\/90-muster\.conf$/, 'set spec.kubernetes.timeServers'],
  [/^\/etc\/muster\//, 'the directory is the agent’s own'],
];

/** What to set instead of a file that the agent writes; undefined for other files. */
export const insteadOf = (file: string): string | undefined =>
  OF_THE_AGENT.find(([path]) => path.test(file))?.[1];

const fileTexts = (config: NodeConfig): readonly string[] =>
  [
    ...(config.files ?? []).map(({ path }) => ({ place: 'files', path })),
    ...extraUses(config).map(({ place, path = '' }) => ({ place, path })),
  ].flatMap(({ place, path }) => {
    const instead = insteadOf(path);
    return instead === undefined
      ? []
      : [`config.${place} writes ${path}, which the agent writes; ${instead}`];
  });

function unitTexts({ runtime, etcd }: ResolvedCluster, config: NodeConfig): readonly string[] {
  const units = [
    ...(config.units ?? []).map((unit) => ({ place: 'units', unit })),
    ...extraUses(config).flatMap(({ place, unit }) => (unit ? [{ place, unit }] : [])),
  ];
  const needed = new Set([
    'kubelet.service',
    runtime === 'cri-o' ? 'crio.service' : 'containerd.service',
    ...(etcd.runs === 'service' ? ['muster-etcd.service'] : []),
  ]);
  return units.flatMap(({ place, unit: { name, mask, enabled, contents } }) => {
    if (!needed.has(name)) return [];
    if (mask === true || enabled === false)
      return [`config.${place} turns ${name} off, which the cluster needs; remove it`];
    return contents === undefined
      ? []
      : [`config.${place} writes ${name}, which the agent writes; give it dropins instead of contents`];
  });
}

/** Settings without which no packet gets from pod to pod, by whether the machine has IPv6. */
const FORWARDING = ['net.ipv4.ip_forward', 'net.bridge.bridge-nf-call-iptables'];
const FORWARDING_6 = ['net.ipv6.conf.all.forwarding', 'net.bridge.bridge-nf-call-ip6tables'];

function sysctlTexts({ addresses }: ClusterMachine, { sysctls = {} }: NodeConfig): readonly string[] {
  const needed = [...FORWARDING, ...(addresses.some((one) => one.includes(':')) ? FORWARDING_6 : [])];
  return Object.entries(sysctls).flatMap(([name, value]) => {
    const dotted = name.includes('/') && !name.includes('.') ? name.replaceAll('/', '.') : name;
    return needed.includes(dotted) && String(value).trim() === '0'
      ? [`config.sysctls sets ${name} to 0, and pods need 1; remove it`]
      : [];
  });
}

function swapTexts(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  config: NodeConfig,
): readonly string[] {
  const { disks = [], filesystems = [] } = config;
  const swaps =
    extraUses(config).some(({ swap }) => swap === true) ||
    disks.some(({ partitions = [] }) => partitions.some(({ filesystem }) => filesystem === 'swap')) ||
    filesystems.some(({ format }) => format === 'swap');
  return swaps && !takesSwap(resolved, machine)
    ? [
        'config makes swap, with which kubelet does not start; set overrides.kubelet.config.failSwapOn: false, or remove it',
      ]
    : [];
}
