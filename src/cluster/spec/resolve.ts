/**
 * From the few facts of a Cluster to its full specification, with where each value came from; or
 * with what is wrong. A pure function: the same document and machines give the same result.
 */

import { formatIp, ipNetwork, nthAddress, parseIp } from '../../base/ip.ts';
import { didYouMean } from '../../base/suggest.ts';
import { domainName } from '../../resources/fields.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import type { Addon } from './addon.ts';
import { Builder, pathText } from './builder.ts';
import { checkFull } from './check.ts';
import { enforcingAddon } from './check-policy.ts';
import { valueFaults } from './check-values.ts';
import { componentFlags, kubeletConfig, proxyConfig } from './derive.ts';
import { saidBy } from './deviations.ts';
import { type ClusterFault, clusterError } from './fault.ts';
import { MINORS, type Minor } from './flags.ts';
import { nodeFaults, nodeSettings } from './nodes.ts';
import { API_PORT } from './ports.ts';
import { protectedFieldsOf } from './protected-fields.ts';
import {
  type ClusterMachine,
  type ClusterRole,
  COMPONENTS,
  type Provenance,
  type ResolvedCluster,
  type Value,
} from './resolved-cluster.ts';
import {
  ETCD_MINORS,
  type EtcdMinor,
  kubeletGates,
  minorOf,
  parseVersion,
  RELEASES,
  TOOLS,
} from './versions.ts';

/** A Machine document, as far as clusters care. */
export interface MachineFacts {
  readonly name: string;
  readonly addresses: readonly string[];
}

export interface Completed {
  /** Absent when there is an error. */
  readonly resolved?: ResolvedCluster;
  /**
   * How the cluster is reached, with the machines that are there: known also while one is missing.
   * Absent when even that is wrong.
   */
  readonly access?: ClusterAccess;
  /** By path with dots, in the order in which values were derived. */
  readonly provenance: ReadonlyMap<string, Provenance>;
  readonly faults: readonly ClusterFault[];
}

export type ClusterAccess = Pick<ResolvedCluster, 'name' | 'endpoint' | 'keys' | 'machines'>;

/** Below these, overrides may add keys of their own, and null leaves one out. */
const isOpen = (path: readonly string[]): boolean =>
  (path.length === 3 && path[0] === 'flags' && COMPONENTS.some((component) => component === path[1])) ||
  (path.length === 3 &&
    path[0] === 'kubelet' &&
    (path[1] === 'config' || path[1] === 'controlPlaneConfig')) ||
  (path.length === 3 && path[0] === 'kubeProxy' && path[1] === 'config');

/** What cannot be overridden, since tables are chosen by it; and what says it. */
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
  joining: 'spec.kubernetes.joining',
  podSecurity: 'spec.kubernetes.podSecurity',
};

export function complete(name: string, spec: KubernetesSpec, machines: readonly MachineFacts[]): Completed {
  const release = releaseOf(spec.version);
  if (typeof release === 'string')
    return { provenance: new Map(), faults: [clusterError('version', release)] };
  const endpoint = parseEndpoint(spec.endpoint);
  if (endpoint === undefined)
    return {
      provenance: new Map(),
      faults: [clusterError('endpoint', `"${spec.endpoint}" is not a name or address with an optional port`)],
    };
  const assigned = assignMachines(spec, machines);
  const build = new Builder(spec.overrides ?? {}, isOpen);
  fill(build, {
    name,
    spec,
    minor: release.minor,
    version: release.version,
    endpoint,
    machines: assigned.machines,
  });
  const { tree, unknown } = build.finish();
  const faults: ClusterFault[] = [
    ...assigned.faults,
    ...build.faults.map(({ message, path }) => clusterError(`overrides.${pathText(path)}`, message)),
    ...unknown.map((path) =>
      clusterError(
        `overrides.${pathText(path)}`,
        `the full specification has no "${pathText(path)}"${didYouMean(pathText(path), siblings(build.provenance.keys(), path.length))}`,
      ),
    ),
  ];
  for (const [path, instead] of Object.entries(FIXED))
    if (build.provenance.get(path)?.from === 'override')
      faults.push(clusterError(`overrides.${path}`, `it follows from ${instead}; set that`));
  for (const { path, why } of protectedFieldsOf(spec.overrides ?? {}))
    faults.push(clusterError(`overrides.${pathText(path)}`, `Muster decides this: ${why}`));
  const resolved = { ...(tree as object), machines: assigned.machines } as ResolvedCluster;
  // What is of another type cannot be looked at further; nor can values that are none be looked at
  // beside each other.
  if (faults.every(({ severity }) => severity !== 'error'))
    for (const { path, message } of valueFaults(resolved))
      faults.push(clusterError(spotOf(path, build.provenance), message));
  if (faults.every(({ severity }) => severity !== 'error')) faults.push(...checkFull(resolved));
  const good = faults.every(({ severity }) => severity !== 'error');
  const access = { name, endpoint, keys: spec.keys ?? 'ECDSA-P256', machines: assigned.machines } as const;
  return { ...(good && { resolved }), access, provenance: build.provenance, faults };
}

/**
 * The field that a person wrote: the override, or what the short specification gives the value by.
 */
function spotOf(path: string, provenance: ReadonlyMap<string, Provenance>): string {
  const origin = provenance.get(path);
  return origin?.from === 'spec' ? origin.by : `overrides.${path}`;
}

/** Beginnings of that length: what an unknown path of that length may have meant. */
const siblings = (paths: Iterable<string>, length: number): ReadonlySet<string> =>
  new Set([...paths].map((path) => path.split('.').slice(0, length).join('.')));

function releaseOf(text: string): { readonly minor: Minor; readonly version: string } | string {
  const short = text.replace(/^v/, '');
  const minor = MINORS.find((known) => short === known || short.startsWith(`${known}.`));
  if (minor === undefined) return `Kubernetes ${short} is not known here; ${MINORS.join(', ')} are`;
  return { minor, version: short === minor ? `${minor}.${RELEASES[minor].patch}` : short };
}

/** `api.example:6443`, `10.0.0.10`, `[fd00::1]:6443`. */
export function parseEndpoint(text: string): { readonly host: string; readonly port: number } | undefined {
  const found =
    /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)|([0-9a-fA-F]*:[0-9a-fA-F:.]+))(?::([1-9][0-9]{0,4}))?$/.exec(text);
  const whole = parseIp(text);
  if (whole?.family === 6) return { host: formatIp(whole), port: API_PORT };
  if (!found) return undefined;
  const host = found[1] ?? found[2] ?? '';
  const port = Number(found[4] ?? API_PORT);
  const address = parseIp(host);
  const isName = domainName.safeParse(host).success;
  // Four numbers with dots are an address or a slip.
  if (port > 65535 || (address === undefined && (!isName || /^[0-9.]+$/.test(host)))) return undefined;
  if (found[1] !== undefined && address?.family !== 6) return undefined;
  return { host: address ? formatIp(address) : host.toLowerCase(), port };
}

function assignMachines(
  spec: KubernetesSpec,
  machines: readonly MachineFacts[],
): { readonly machines: readonly ClusterMachine[]; readonly faults: readonly ClusterFault[] } {
  const faults: ClusterFault[] = [];
  const external = spec.etcd?.topology === 'external';
  const roles = new Map<string, Set<ClusterRole>>();
  const add = (field: string, names: readonly string[], role: ClusterRole): void => {
    for (const [n, name] of names.entries()) {
      const has = roles.get(name) ?? new Set();
      if (has.has(role)) faults.push(clusterError(`${field}[${n}]`, `${name} stands twice`));
      roles.set(name, has.add(role));
    }
  };
  add('controlPlanes', spec.controlPlanes, 'control-plane');
  add('workers', spec.workers ?? [], 'worker');
  add('etcd.machines', spec.etcd?.machines ?? [], 'etcd');
  if (!external && spec.etcd?.machines)
    faults.push(
      clusterError('etcd.machines', 'only with topology external; stacked members are on the control planes'),
    );
  if (external && !spec.etcd?.machines?.length)
    faults.push(clusterError('etcd.machines', 'topology external needs the machines that are members'));
  if (!external) for (const name of spec.controlPlanes) roles.get(name)!.add('etcd');
  const nodes = [...roles].flatMap(([name, has]) => (has.size === 1 && has.has('etcd') ? [] : [name]));
  faults.push(...nodeFaults(spec.nodes ?? [], new Set(nodes)));
  const known = new Map(machines.map((machine) => [machine.name, machine]));
  const result: ClusterMachine[] = [];
  for (const [name, has] of roles) {
    if (has.has('worker') && has.size > 1)
      faults.push(
        clusterError('workers', `${name} is a worker and ${[...has].find((role) => role !== 'worker')}`),
      );
    const machine = known.get(name);
    // A cluster is founded and runs without a worker that is to come; not without knowing where its
    // control planes are.
    const isWorker = has.size === 1 && has.has('worker');
    const until = (message: string): ClusterFault => ({
      ...clusterError('', isWorker ? `${message}; until then the cluster goes without it` : message, name),
      severity: isWorker ? 'warning' : 'error',
    });
    if (machine === undefined)
      faults.push(until(`there is no Machine "${name}"${didYouMean(name, known.keys())}`));
    else if (machine.addresses.length === 0)
      faults.push(
        until(`Machine "${name}" needs an address of its own (spec.addresses): others reach it there`),
      );
    else
      result.push({
        name,
        roles: [...has],
        addresses: machine.addresses,
        ...nodeSettings(spec.nodes ?? [], name),
      });
  }
  return { machines: result, faults };
}

interface Given {
  readonly name: string;
  readonly spec: KubernetesSpec;
  readonly minor: Minor;
  readonly version: string;
  readonly endpoint: { readonly host: string; readonly port: number };
  readonly machines: readonly ClusterMachine[];
}

/** As their publishers give them together. */
const NETWORK_IMAGES = {
  flannel: {
    by: 'flannel 0.28',
    images: {
      flannel: 'ghcr.io/flannel-io/flannel:v0.28.4',
      'flannel-cni-plugin': 'ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1',
    },
  },
  'kube-router': {
    by: 'kube-router 2.5',
    images: { 'kube-router': 'docker.io/cloudnativelabs/kube-router:v2.5.0' },
  },
  none: { by: 'none', images: {} },
} as const;

/** Where a runtime listens for kubelet; kubeadm's names. */
const SOCKETS = {
  containerd: 'unix:///run/containerd/containerd.sock',
  'cri-o': 'unix:///var/run/crio/crio.sock',
} as const;

/**
 * MiB of memory: kubeadm's 1,700 MB for a control plane, Kubespray's 1 GB for a worker less what a
 * kernel keeps.
 */
const MEMORY_MIB = { 'control-plane': 1600, etcd: 256, worker: 800 } as const;

const DEBIAN_CERTIFICATES = [
  '/etc/ca-certificates',
  '/usr/local/share/ca-certificates',
  '/usr/share/ca-certificates',
];

/**
 * Puts every value in the order in which one depends on the other, so that an override reaches what
 * is derived from it.
 */
function fill(build: Builder, { name, spec, minor, version, endpoint, machines }: Given): void {
  const release = RELEASES[minor];
  const given = <T>(value: T | undefined): 'spec' | 'default' => (value === undefined ? 'default' : 'spec');
  build.put(['name'], name, 'spec', 'metadata.name');
  build.put(['kubernetes', 'version'], version, 'spec', 'version');
  build.put(['kubernetes', 'minor'], minor, 'derived', 'version');
  build.put(['endpoint', 'host'], endpoint.host, 'spec', 'endpoint');
  build.put(['endpoint', 'port'], endpoint.port, 'spec', 'endpoint');
  const network = (kind: 'pods' | 'services' | 'machines', fallback: readonly string[]) =>
    build.put(
      ['networks', kind],
      spec.networks?.[kind] ?? fallback,
      given(spec.networks?.[kind]),
      `networks.${kind}`,
    );
  network('machines', []);
  const pods = network('pods', ['10.244.0.0/16']);
  const services = network('services', ['10.96.0.0/16']);
  const dnsDomain = build.put(
    ['dnsDomain'],
    spec.dnsDomain ?? 'cluster.local',
    given(spec.dnsDomain),
    'dnsDomain',
  );
  const nth = (n: number) => services.flatMap((text) => nthText(text, n));
  const addresses = build.put(
    ['serviceAddresses', 'kubernetes'],
    nth(1),
    'derived',
    'first address of networks.services',
  );
  const dns = build.put(
    ['serviceAddresses', 'dns'],
    nth(10),
    'derived',
    'tenth address of networks.services',
  );
  const virtual = virtualAddress(build, spec, endpoint.host);
  const names = [...new Set([endpoint.host, ...virtual, ...(spec.sans ?? [])])];
  build.put(
    ['sans', 'dns'],
    names.filter((one) => parseIp(one) === undefined),
    'derived',
    'endpoint and sans',
  );
  build.put(
    ['sans', 'ips'],
    names.filter((one) => parseIp(one) !== undefined),
    'derived',
    'endpoint and sans',
  );
  build.put(['keys'], spec.keys ?? 'ECDSA-P256', given(spec.keys), 'keys');
  build.put(['encryptSecrets'], spec.encryptSecrets ?? true, given(spec.encryptSecrets), 'encryptSecrets');
  build.put(['joining'], spec.joining ?? 'certificate', given(spec.joining), 'joining');
  build.put(['podSecurity'], spec.podSecurity ?? 'baseline', given(spec.podSecurity), 'podSecurity');

  const etcd = build.put(['versions', 'etcd'], release.etcd, 'version', `Kubernetes ${minor}`);
  const coredns = build.put(['versions', 'coredns'], release.coredns, 'version', `Kubernetes ${minor}`);
  const pause = build.put(['versions', 'pause'], release.pause, 'version', `Kubernetes ${minor}`);
  const registry = build.put(
    ['registry'],
    spec.registry ?? 'registry.k8s.io',
    given(spec.registry),
    'registry',
  );
  const image = (what: string, reference: string) =>
    build.put(['images', what], reference, 'derived', `registry and versions.${what}`);
  for (const what of ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'])
    image(
      what,
      `${registry}/${what}:v${build.put(['versions', what], version, 'derived', 'kubernetes.version')}`,
    );
  const kubelet = build.put(['versions', 'kubelet'], version, 'derived', 'kubernetes.version');
  image('etcd', `${registry}/etcd:${etcd}`);
  image('coredns', `${registry}/coredns/coredns:${coredns}`);
  image('pause', `${registry}/pause:${pause}`);

  const topology = spec.etcd?.topology ?? 'stacked';
  build.put(['etcd', 'topology'], topology, given(spec.etcd?.topology), 'etcd.topology');
  build.put(
    ['etcd', 'runs'],
    spec.etcd?.runs ?? (topology === 'external' ? 'service' : 'pod'),
    spec.etcd?.runs === undefined ? 'derived' : 'spec',
    spec.etcd?.runs === undefined ? 'etcd.topology' : 'etcd.runs',
  );
  const etcdMinor = parseVersion(etcd) ? minorOf(etcd) : '';
  const knownEtcd = ETCD_MINORS.includes(etcdMinor as EtcdMinor) ? (etcdMinor as EtcdMinor) : '3.6';
  build.put(['etcd', 'minor'], etcdMinor, 'derived', 'versions.etcd');
  const dataDirectory = build.put(['etcd', 'dataDirectory'], '/var/lib/etcd', 'default', 'kubeadm');
  const runtime = build.put(['runtime'], spec.runtime ?? 'containerd', given(spec.runtime), 'runtime');
  build.put(['versions', 'containerd'], '1.7.24', 'default', "Debian 13's");
  for (const [tool, of] of Object.entries(TOOLS[minor]))
    build.put(['versions', tool], of, 'version', `Kubernetes ${minor}`);
  const plugin = spec.cni ?? 'flannel';
  build.put(['cni', 'plugin'], plugin, given(spec.cni), 'cni');
  for (const [what, reference] of Object.entries<string>(NETWORK_IMAGES[plugin].images))
    build.put(['cni', 'images', what], reference, 'default', NETWORK_IMAGES[plugin].by);
  networkPolicy(build, spec, plugin);
  build.put(['addons'], addonsOf(spec) as unknown as readonly Value[], given(spec.addons), 'addons');
  build.put(['cniPlugins'], '/opt/cni/bin', 'default', 'where installers of CNI put theirs');
  build.put(['timeServers'], spec.timeServers ?? [], given(spec.timeServers), 'timeServers');
  build.put(['mirrors'], spec.mirrors ?? [], given(spec.mirrors), 'mirrors');
  for (const [role, mebibytes] of Object.entries(MEMORY_MIB))
    build.put(['checks', 'memoryMiB', role], mebibytes, 'default', 'kubeadm and Kubespray');
  build.put(['checks', 'cpus'], 1, 'default', 'the least that starts');
  build.put(['checks', 'fsyncMs'], 100, 'default', "etcd's heartbeat interval");
  build.put(['hostCertificates'], DEBIAN_CERTIFICATES, 'default', "Debian's directories");

  const flags = componentFlags({
    name,
    pods,
    services,
    dnsDomain,
    etcdMinor: knownEtcd,
    dataDirectory,
    etcdMembers: machines.filter(({ roles }) => roles.includes('etcd')),
  });
  for (const component of COMPONENTS)
    for (const [flag, { value, by }] of Object.entries(flags[component]))
      build.put(
        ['flags', component, flag],
        value,
        by === undefined ? 'default' : 'derived',
        by ?? saidBy(`${component} --${flag}`, value),
      );
  const config = kubeletConfig({ dns, dnsDomain, gates: kubeletGates(kubelet), socket: SOCKETS[runtime] });
  for (const part of ['config', 'controlPlaneConfig'] as const) {
    build.mapping(['kubelet', part]);
    for (const [field, { value, by }] of Object.entries(config[part])) {
      const path = ['kubelet', part, field];
      // What a person says of every kubelet is no less said of control planes: only a default gives
      // way.
      if (part === 'controlPlaneConfig' && !build.says(path) && build.says(['kubelet', 'config', field]))
        continue;
      build.put(
        path,
        value,
        by === undefined ? 'default' : 'derived',
        by ?? saidBy(`kubelet ${field}`, value),
      );
    }
  }
  build.mapping(['kubeProxy', 'config']);
  for (const [field, { value, by }] of Object.entries(proxyConfig(addresses, pods)))
    build.put(
      ['kubeProxy', 'config', field],
      value,
      by === undefined ? 'default' : 'derived',
      by ?? 'kubeadm',
    );
}

/**
 * Images are of whoever runs on every node for the network, so that the firewall's stands beside
 * the plugin's.
 */
function networkPolicy(
  build: Builder,
  { networkPolicy: given, addons = [] }: KubernetesSpec,
  plugin: ResolvedCluster['cni']['plugin'],
): void {
  const addon = plugin === 'none' ? enforcingAddon(addons) : undefined;
  const itself = plugin === 'kube-router' ? plugin : addon === undefined ? 'none' : 'addon';
  const enforce =
    given?.enforce === undefined
      ? build.put(['networkPolicy', 'enforce'], itself, 'derived', addon === undefined ? 'cni' : 'addons')
      : build.put(['networkPolicy', 'enforce'], given.enforce, 'spec', 'networkPolicy.enforce');
  build.put(
    ['networkPolicy', 'isolate'],
    given?.isolate ?? [],
    given?.isolate === undefined ? 'default' : 'spec',
    'networkPolicy.isolate',
  );
  const { by, images } = NETWORK_IMAGES['kube-router'];
  if (enforce === 'kube-router' && plugin !== enforce)
    build.put(['cni', 'images', enforce], images[enforce], 'default', by);
}

const addonsOf = ({ addons = [] }: KubernetesSpec): readonly Addon[] =>
  addons.map(({ name, manifests = [], objects = [], patches = [], images = [] }) => ({
    name,
    manifests,
    objects,
    patches,
    images,
  }));

/** As its publisher has it. */
const KUBE_VIP = 'ghcr.io/kube-vip/kube-vip:v1.0.3';

/** The addresses; none when there is no virtual address. */
function virtualAddress(
  build: Builder,
  { virtualAddress: given }: KubernetesSpec,
  host: string,
): readonly string[] {
  if (given === undefined) return [];
  const put = <T extends Value>(field: string, value: T | undefined, otherwise: T, by: string): T =>
    value === undefined
      ? build.put(['virtualAddress', field], otherwise, 'derived', by)
      : build.put(['virtualAddress', field], value, 'spec', `virtualAddress.${field}`);
  const by = put('by', given.by, 'keepalived', 'no other choice');
  const addresses = put('addresses', given.addresses, [host], 'endpoint');
  put('interface', given.interface, given.interface, '');
  if (by === 'keepalived')
    put('routerId', given.routerId, routerIdOf(addresses[0] ?? ''), 'virtualAddress.addresses');
  else build.put(['virtualAddress', 'image'], KUBE_VIP, 'default', 'kube-vip 1.0');
  return addresses;
}

/** Two clusters on one segment have two addresses, and so two numbers. */
function routerIdOf(address: string): number {
  const last = Number(/\.([0-9]{1,3})$/.exec(address)?.[1] ?? 0);
  return last >= 1 && last <= 255 ? last : 51;
}

function nthText(network: string, n: number): string[] {
  try {
    return [formatIp(nthAddress(ipNetwork(network), n))];
  } catch {
    // Too small or, by an override, no network: checkFull says so.
    return [];
  }
}
