/**
 * The static pods of a control plane or member of etcd, made from ResolvedCluster and machine.
 * Pure.
 */

import { createHash } from 'node:crypto';
import { urlHost } from '../../base/ip.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { KUBERNETES_DIRECTORY, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
import type { PodAddition } from '../../resources/apiserver-spec.ts';
import { apiserverMounts } from '../model/apiserver-mounts.ts';
import {
  API_PORT,
  CONTROLLER_MANAGER_PORT,
  ETCD_METRICS_PORT,
  etcdPeerUrl,
  SCHEDULER_PORT,
} from '../model/ports.ts';
import {
  addressOf,
  type ClusterMachine,
  type Component,
  type Flags,
  type ResolvedCluster,
} from '../model/resolved-cluster.ts';
import { ETCD_RELEASES } from '../model/versions.ts';
import { apiserverQuestion } from '../resolve/health-requests.ts';
import { REQUESTS } from '../resolve/static-pods.ts';
import { type Mount, type Probe, podManifest, type StaticPod } from './pod.ts';
import type { Rolled } from './restarts.ts';

/** How etcd starts. The founding decides it; `new` is a grant and is never derived here. */
export interface Founding {
  readonly state: 'new' | 'existing';
  /** Derived from the random id of the founding, so that etcd never joins two foundings. */
  readonly token: string;
  /** All members, this one included. */
  readonly members: readonly { readonly name: string; readonly address: string }[];
}

export const MANIFEST_DIRECTORY = '/etc/kubernetes/manifests';

/** Expands `${machine.…}` and `${founding.…}`; any other `${` is left unchanged. */
function expand(text: string, machine: ClusterMachine, founding: Founding | undefined): string {
  const values: Readonly<Record<string, string | undefined>> = {
    'machine.name': machine.name,
    'machine.address': addressOf(machine),
    'machine.host': urlHost(addressOf(machine)),
    'machine.nodeIps': nodeIps(machine).join(','),
    'founding.state': founding?.state,
    'founding.token': founding?.token,
    'founding.initialCluster': founding?.members
      .map(({ name, address }) => `${name}=${etcdPeerUrl(address)}`)
      .sort()
      .join(','),
  };
  return text.replace(/\$\{([a-zA-Z.]+)\}/g, (all, name: string) => values[name] ?? all);
}

/** The first address of each family, for kubelet's `--node-ip`. */
function nodeIps({ addresses }: ClusterMachine): readonly string[] {
  const first = (ipv6: boolean) => addresses.find((text) => text.includes(':') === ipv6);
  const ips = [first(false), first(true)].filter((one) => one !== undefined);
  return ips.sort((a, b) => addresses.indexOf(a) - addresses.indexOf(b));
}

/**
 * The flags as `--flag=value`, in the order in which kubeadm sorts them; a list repeats the flag.
 */
export function commandLine(flags: Flags, machine: ClusterMachine, founding?: Founding): readonly string[] {
  return Object.keys(flags)
    .sort()
    .flatMap((flag) => [flags[flag]!].flat().map((value) => `--${flag}=${expand(value, machine, founding)}`));
}

/** What a probe asks. */
type Question = Pick<Probe, 'httpGet' | 'tcpSocket'>;

const get = (scheme: 'HTTP' | 'HTTPS', path: string): Question => ({
  httpGet: { host: '127.0.0.1', path, port: 'probe-port', scheme },
});
const slow = (question: Question, failureThreshold: number): Probe => ({
  failureThreshold,
  ...question,
  initialDelaySeconds: 10,
  periodSeconds: 10,
  timeoutSeconds: 15,
});
const liveness = (question: Question): Probe => slow(question, 8);
/** A startup probe: by default four minutes, which are 24 tries ten seconds apart. */
const startup = (question: Question, tries = 24): Probe => slow(question, tries);
const readiness = (question: Question): Probe => ({
  failureThreshold: 3,
  ...question,
  periodSeconds: 1,
  timeoutSeconds: 15,
});

/**
 * The value of a flag, overrides included, that the pod itself depends on (a port, a directory).
 */
function flagValue(resolved: ResolvedCluster, component: Component, flag: string, fallback: string): string {
  const value = resolved.flags[component][flag];
  return typeof value === 'string' ? value : fallback;
}

const directory = (name: string, path: string, readOnly = true): Mount => ({
  name,
  path,
  type: 'DirectoryOrCreate',
  readOnly,
});

/**
 * Mounts of the host's certificate directories. Each volume is named after its path, as in kubeadm.
 */
const hostCertificates = (resolved: ResolvedCluster): readonly Mount[] =>
  resolved.hostCertificates.map((path) => directory(path.slice(1).replaceAll('/', '-'), path));

const bySort = (mounts: readonly Mount[]): readonly Mount[] =>
  mounts.toSorted((a, b) => (a.name < b.name ? -1 : 1));

function etcdPod(resolved: ResolvedCluster, machine: ClusterMachine, founding: Founding): StaticPod {
  const { probes } = ETCD_RELEASES[resolved.etcd.minor];
  return {
    name: 'etcd',
    annotations: {
      // kubeadm finds the members by this annotation.
      'kubeadm.kubernetes.io/etcd.advertise-client-urls': expand(
        flagValue(resolved, 'etcd', 'advertise-client-urls', ''),
        machine,
        founding,
      ),
    },
    image: resolved.images.etcd,
    command: ['etcd', ...commandLine(resolved.flags.etcd, machine, founding)],
    port: ETCD_METRICS_PORT,
    requests: REQUESTS.etcd,
    livenessProbe: liveness(get('HTTP', probes.liveness)),
    readinessProbe: readiness(get('HTTP', probes.readiness)),
    startupProbe: startup(get('HTTP', probes.startup)),
    mounts: [
      directory('etcd-data', flagValue(resolved, 'etcd', 'data-dir', resolved.etcd.dataDirectory), false),
      directory('etcd-certs', `${PKI_DIRECTORY}/etcd`, false),
    ],
  };
}

function apiserverPod(resolved: ResolvedCluster, machine: ClusterMachine): StaticPod {
  const port = Number(flagValue(resolved, 'kube-apiserver', 'secure-port', String(API_PORT)));
  const asks = (path: '/livez' | '/readyz') =>
    apiserverQuestion(resolved, addressOf(machine), path, 'probe-port');
  return {
    name: 'kube-apiserver',
    annotations: {
      'kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint': `${urlHost(addressOf(machine))}:${port}`,
    },
    image: resolved.images['kube-apiserver'],
    command: ['kube-apiserver', ...commandLine(resolved.flags['kube-apiserver'], machine)],
    port,
    requests: REQUESTS['kube-apiserver'],
    livenessProbe: liveness(asks('/livez')),
    readinessProbe: readiness(asks('/readyz')),
    startupProbe: startup(asks('/livez'), 90),
    mounts: bySort([
      ...apiserverMounts(resolved).map(({ name, path, readOnly }) => directory(name, path, readOnly)),
      directory('ca-certs', '/etc/ssl/certs'),
      directory('k8s-certs', PKI_DIRECTORY),
      ...hostCertificates(resolved),
    ]),
  };
}

function controllerManagerPod(resolved: ResolvedCluster, machine: ClusterMachine): StaticPod {
  return {
    name: 'kube-controller-manager',
    annotations: {},
    image: resolved.images['kube-controller-manager'],
    command: ['kube-controller-manager', ...commandLine(resolved.flags['kube-controller-manager'], machine)],
    port: CONTROLLER_MANAGER_PORT,
    requests: REQUESTS['kube-controller-manager'],
    livenessProbe: liveness(get('HTTPS', '/healthz')),
    startupProbe: startup(get('HTTPS', '/healthz')),
    mounts: bySort([
      directory('ca-certs', '/etc/ssl/certs'),
      directory('k8s-certs', PKI_DIRECTORY),
      directory('kubeconfig', `${KUBERNETES_DIRECTORY}/controller-manager`),
      ...hostCertificates(resolved),
    ]),
  };
}

function schedulerPod(resolved: ResolvedCluster, machine: ClusterMachine): StaticPod {
  return {
    name: 'kube-scheduler',
    annotations: {},
    image: resolved.images['kube-scheduler'],
    command: ['kube-scheduler', ...commandLine(resolved.flags['kube-scheduler'], machine)],
    port: SCHEDULER_PORT,
    requests: REQUESTS['kube-scheduler'],
    livenessProbe: liveness(get('HTTPS', '/livez')),
    readinessProbe: readiness(get('HTTPS', '/readyz')),
    startupProbe: startup(get('HTTPS', '/livez')),
    mounts: [directory('kubeconfig', `${KUBERNETES_DIRECTORY}/scheduler`)],
  };
}

/**
 * Adds a digest of the files that the pod reads: kubelet restarts a static pod when its manifest
 * changes, but not when a file changes.
 */
const annotated = (pod: StaticPod, reads: string | undefined): StaticPod =>
  reads === undefined ? pod : { ...pod, annotations: { ...pod.annotations, 'muster/reads': reads } };

/**
 * Environment variable with the revision with which a process was started. The agent reports it, so
 * that rolling restarts see whether a change has arrived.
 */
export const REVISION = 'MUSTER_REVISION';

/** A short digest of a text: the first 16 digits of its SHA-256. */
const revisionOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);

/** The pod with what the Cluster adds to it. */
function added(pod: StaticPod, more: PodAddition | undefined): StaticPod {
  if (more === undefined) return pod;
  const { volumes = [], env, resources, priorityClassName } = more;
  const given = <T>(values: Readonly<Record<string, T | undefined>> = {}): Record<string, T> =>
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Record<
      string,
      T
    >;
  const limits = given(resources?.limits);
  return {
    ...pod,
    ...(env && { env: { ...pod.env, ...env } }),
    requests: { ...pod.requests, ...given(resources?.requests) },
    ...(Object.keys(limits).length > 0 && { limits }),
    ...(priorityClassName && { priorityClassName }),
    mounts: [
      ...pod.mounts,
      ...volumes.map(({ path, type = 'DirectoryOrCreate', readOnly = true }, n) => ({
        name: `added-${n}`,
        path,
        type,
        readOnly,
      })),
    ],
  };
}

const textOf = (pod: StaticPod): string => yamlText(podManifest(pod) as unknown as Plain);

export interface ManifestFile {
  readonly path: string;
  readonly mode: number;
  readonly text: string;
  readonly pod: Rolled;
  readonly revision: string;
}

function manifestFile(pod: StaticPod): ManifestFile {
  const file = { path: `${MANIFEST_DIRECTORY}/${pod.name}.yaml`, mode: 0o600 };
  const revision = revisionOf(textOf(pod));
  return {
    ...file,
    text: textOf({ ...pod, env: { ...pod.env, [REVISION]: revision } }),
    pod: pod.name,
    revision,
  };
}

/**
 * The manifests of a machine's roles, as files with mode 0600.
 *
 * @param founding How etcd starts; without it there is no manifest of etcd.
 * @param reads Returns a digest of the files that a pod reads when it starts.
 */
export function manifestFiles(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  founding?: Founding,
  reads: (pod: string) => string | undefined = () => undefined,
): readonly ManifestFile[] {
  const pods: StaticPod[] = [];
  if (machine.roles.includes('etcd') && founding) pods.push(etcdPod(resolved, machine, founding));
  if (machine.roles.includes('control-plane'))
    pods.push(
      apiserverPod(resolved, machine),
      controllerManagerPod(resolved, machine),
      schedulerPod(resolved, machine),
    );
  return pods.map((pod) =>
    manifestFile(annotated(added(pod, resolved.staticPods?.[pod.name]), reads(pod.name))),
  );
}
