/** What static pods reserve, and checks of what a Cluster adds to them. */
import { mountedDirectories } from '../model/apiserver-mounts.ts';
import { type ClusterFault, clusterError, clusterFault } from '../model/fault.ts';
import type { ResolvedCluster, StaticPodName } from '../model/resolved-cluster.ts';
import { AUDIT_DIRECTORY } from './derive.ts';

type Amounts = { readonly cpu?: string; readonly memory?: string };

/** What each pod reserves, as kubeadm has it. */
export const REQUESTS = {
  etcd: { cpu: '100m', memory: '100Mi' },
  'kube-apiserver': { cpu: '250m' },
  'kube-controller-manager': { cpu: '200m' },
  'kube-scheduler': { cpu: '100m' },
} as const satisfies Readonly<Record<StaticPodName, Amounts>>;

const UNITS: Readonly<Record<string, number>> = {
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A quantity that the schema of the document has accepted, as a number. */
function amountOf(text: string): number {
  const [, number = '', unit = ''] = /^([0-9.]+)(.*)$/.exec(text) ?? [];
  return Number(number) * (UNITS[unit] ?? Number.NaN);
}

/**
 * A log of another directory is on the machine's root file system, which for a live system is its
 * memory: the data filesystem keeps the directory of Muster's own log alone.
 */
export function auditLogFaults({ flags }: ResolvedCluster): readonly ClusterFault[] {
  const file = String([flags['kube-apiserver']['audit-log-path'] ?? ''].flat().at(-1));
  return !file.startsWith('/') || file.startsWith(`${AUDIT_DIRECTORY}/`)
    ? []
    : [
        clusterFault(
          'warning',
          'overrides.flags.kube-apiserver.audit-log-path',
          `the data filesystem keeps ${AUDIT_DIRECTORY} alone, so a machine whose root is in memory loses this log at its next boot; write a file below ${AUDIT_DIRECTORY}, or mount a filesystem there with config.filesystems`,
        ),
      ];
}

/** Faults of additions with which kubelet would not start the pod. */
export function staticPodFaults(resolved: ResolvedCluster): readonly ClusterFault[] {
  const { staticPods = {}, flags, etcd } = resolved;
  return (Object.keys(staticPods) as StaticPodName[]).flatMap((name) => {
    const { resources, volumes = [] } = staticPods[name] ?? {};
    const reserved: Amounts = REQUESTS[name];
    const over = (['cpu', 'memory'] as const).flatMap((of) => {
      const [request, limit] = [resources?.requests?.[of] ?? reserved[of], resources?.limits?.[of]];
      return request === undefined || limit === undefined || amountOf(request) <= amountOf(limit)
        ? []
        : [
            clusterError(
              `staticPods.${name}.resources.limits.${of}`,
              `${limit} is less than what is reserved, ${request}; lower resources.requests.${of} as well`,
            ),
          ];
    });
    const own = mountedDirectories({ flags, hostCertificates: resolved.hostCertificates, etcd }, name);
    const twice = volumes.flatMap(({ path }, n) => {
      const message =
        path === '/'
          ? 'the whole file system of the host would hide that of the image; name the directory that the pod needs'
          : own.includes(path)
            ? `the pod sees ${path} already`
            : volumes.findIndex((one) => one.path === path) < n && `${path} is listed twice`;
      return message ? [clusterError(`staticPods.${name}.volumes[${n}].path`, message)] : [];
    });
    return [...over, ...twice];
  });
}
