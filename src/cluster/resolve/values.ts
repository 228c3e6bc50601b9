/**
 * Puts every value of a specification into a builder. A value is put after the values from which it
 * is derived, so that an override also reaches every value that is derived from it.
 */
import { duration } from '../../base/duration.ts';
import { formatIp, ipNetwork, nthAddress, parseIp } from '../../base/ip.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { plainUrl } from '../../resources/registry-spec.ts';
import type { Addon } from '../model/addon.ts';
import {
  type ClusterMachine,
  COMPONENTS,
  type Provenance,
  type ResolvedCluster,
  type Value,
} from '../model/resolved-cluster.ts';
import type { Minor } from '../model/versions.ts';
import {
  ETCD_MINORS,
  type EtcdMinor,
  kubeletGates,
  MINORS,
  minorOf,
  parseVersion,
  RELEASES,
  TOOLS,
} from '../model/versions.ts';
import type { Builder } from './builder.ts';
import { enforcingAddon } from './check-policy.ts';
import { componentFlags, kubeletConfig, proxyConfig } from './derive.ts';
import { defaultOrigin } from './deviations.ts';
import type { Endpoint } from './endpoint.ts';
import { directOf } from './proxies.ts';

/** The parts of a Cluster document, after its version, endpoint and machines were read. */
interface Given {
  readonly name: string;
  readonly spec: KubernetesSpec;
  readonly minor: Minor;
  readonly version: string;
  readonly endpoint: Endpoint;
  readonly machines: readonly ClusterMachine[];
}

/** Images and versions of the network between pods, as their publishers release them together. */
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

/** The image that kube-vip's publisher releases. */
const KUBE_VIP = 'ghcr.io/kube-vip/kube-vip:v1.0.3';

/** Where a runtime listens for kubelet: the paths that kubeadm knows. */
const SOCKETS = {
  containerd: 'unix:///run/containerd/containerd.sock',
  'cri-o': 'unix:///var/run/crio/crio.sock',
} as const;

/**
 * The least memory by role, in MiB: kubeadm's 1,700 MB for a control plane, Kubespray's 1 GB for a
 * worker, each less what a kernel keeps for itself.
 */
const MEMORY_MIB = { 'control-plane': 1600, etcd: 256, worker: 800 } as const;

const DEBIAN_CERTIFICATES = [
  '/etc/ca-certificates',
  '/usr/local/share/ca-certificates',
  '/usr/share/ca-certificates',
];

/** The origin of a value that is taken from the document if the document has it. */
const originOf = (value: unknown): 'spec' | 'default' => (value === undefined ? 'default' : 'spec');

/** Puts all values. The order of the calls is the order in which `--full` shows them. */
export function putValues(build: Builder, given: Given): void {
  const { name, spec, minor, version, endpoint, machines } = given;
  build.put(['name'], name, 'spec', 'metadata.name');
  build.put(['kubernetes', 'version'], version, 'spec', 'version');
  build.put(['kubernetes', 'minor'], minor, 'derived', 'version');
  build.put(['endpoint', 'host'], endpoint.host, 'spec', 'endpoint');
  build.put(['endpoint', 'port'], endpoint.port, 'spec', 'endpoint');
  const networks = putNetworks(build, spec);
  putCertificateNames(build, spec, endpoint.host);
  build.put(['keys'], spec.keys ?? 'ECDSA-P256', originOf(spec.keys), 'keys');
  putLifetimes(build, spec);
  build.put(['encryptSecrets'], spec.encryptSecrets ?? true, originOf(spec.encryptSecrets), 'encryptSecrets');
  build.put(['joining'], spec.joining ?? 'certificate', originOf(spec.joining), 'joining');
  build.put(['podSecurity'], spec.podSecurity ?? 'baseline', originOf(spec.podSecurity), 'podSecurity');
  const versions = putVersionsAndImages(build, given);
  const etcd = putEtcd(build, spec, versions.etcd);
  const runtime = build.put(['runtime'], spec.runtime ?? 'containerd', originOf(spec.runtime), 'runtime');
  build.put(['versions', 'containerd'], '1.7.24', 'default', "Debian 13's");
  for (const [tool, of] of Object.entries(TOOLS[minor]))
    build.put(['versions', tool], of, 'version', `Kubernetes ${minor}`);
  putPodNetwork(build, spec);
  if (spec.serviceProxy !== undefined) build.put(['serviceProxy'], spec.serviceProxy, 'spec', 'serviceProxy');
  build.put(['addons'], addonsOf(spec) as unknown as readonly Value[], originOf(spec.addons), 'addons');
  putMachineSettings(build, spec);
  putProxy(build, given, networks);
  putFlags(build, {
    name,
    pods: networks.pods,
    services: networks.services,
    dnsDomain: networks.dnsDomain,
    etcdMinor: etcd.minor,
    dataDirectory: etcd.dataDirectory,
    etcdMembers: machines.filter(({ roles }) => roles.includes('etcd')),
    apiServer: spec.apiServer,
  });
  putKubelet(build, {
    dns: networks.dns,
    dnsDomain: networks.dnsDomain,
    gates: kubeletGates(versions.kubelet),
    socket: SOCKETS[runtime],
  });
  build.mapping(['kubeProxy', 'config']);
  for (const [field, { value, by }] of Object.entries(proxyConfig(networks.kubernetes, networks.pods)))
    build.put(
      ['kubeProxy', 'config', field],
      value,
      by === undefined ? 'default' : 'derived',
      by ?? 'kubeadm',
    );
  // kubeadm writes it from 1.37 on, where kube-proxy warns of a mode that nobody chose.
  if (MINORS.indexOf(minor) >= MINORS.indexOf('1.37'))
    build.put(['kubeProxy', 'config', 'mode'], 'iptables', 'default', 'kubeadm');
}

/** How long certificates and CAs are used, in milliseconds; a time that is not set is left out. */
function putLifetimes(build: Builder, { pki = {} }: Given['spec']): void {
  build.mapping(['pki']);
  for (const field of ['leafLifetime', 'rotateAfter', 'rehearsal'] as const) {
    const text = pki[field];
    if (text !== undefined) build.put(['pki', field], duration(text), 'spec', `pki.${field}`);
  }
}

interface Networks {
  readonly pods: readonly string[];
  readonly services: readonly string[];
  readonly dnsDomain: string;
  /** Addresses of the Services `kubernetes` and `kube-dns`, one per address family. */
  readonly kubernetes: readonly string[];
  readonly dns: readonly string[];
}

function putNetworks(build: Builder, spec: KubernetesSpec): Networks {
  const network = (kind: 'pods' | 'services' | 'machines', fallback: readonly string[]) =>
    build.put(
      ['networks', kind],
      spec.networks?.[kind] ?? fallback,
      originOf(spec.networks?.[kind]),
      `networks.${kind}`,
    );
  network('machines', []);
  const pods = network('pods', ['10.244.0.0/16']);
  const services = network('services', ['10.96.0.0/16']);
  const dnsDomain = build.put(
    ['dnsDomain'],
    spec.dnsDomain ?? 'cluster.local',
    originOf(spec.dnsDomain),
    'dnsDomain',
  );
  const nth = (n: number) => services.flatMap((text) => nthText(text, n));
  const kubernetes = build.put(
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
  return { pods, services, dnsDomain, kubernetes, dns };
}

/**
 * The nth address of a network; an empty list when the network is too small or, by an override, not
 * a network.
 */
function nthText(network: string, n: number): string[] {
  try {
    return [formatIp(nthAddress(ipNetwork(network), n))];
  } catch {
    // The checks of the resolved Cluster report the network itself.
    return [];
  }
}

/** The names and addresses by which kube-apiserver is reached, for its certificate. */
function putCertificateNames(build: Builder, spec: KubernetesSpec, host: string): void {
  const virtual = putVirtualAddress(build, spec, host);
  const names = [...new Set([host, ...virtual, ...(spec.sans ?? [])])];
  const dns = names.filter((one) => parseIp(one) === undefined);
  const ips = names.filter((one) => parseIp(one) !== undefined);
  build.put(['sans', 'dns'], dns, 'derived', 'endpoint and sans');
  build.put(['sans', 'ips'], ips, 'derived', 'endpoint and sans');
}

/** Returns the virtual addresses; none when the Cluster has no virtual address. */
function putVirtualAddress(
  build: Builder,
  { virtualAddress: given }: KubernetesSpec,
  host: string,
): readonly string[] {
  if (given === undefined) return [];
  const put = <T extends Value>(field: string, value: T | undefined, otherwise: T, by: string): T =>
    value === undefined
      ? build.put(['virtualAddress', field], otherwise, 'derived', by)
      : build.put(['virtualAddress', field], value, 'spec', `virtualAddress.${field}`);
  const by = put('by', given.by, 'keepalived', 'the default without virtualAddress.by');
  const addresses = put('addresses', given.addresses, [host], 'endpoint');
  put('interface', given.interface, given.interface, '');
  if (by === 'keepalived')
    put('routerId', given.routerId, routerIdOf(addresses[0] ?? ''), 'virtualAddress.addresses');
  else build.put(['virtualAddress', 'image'], KUBE_VIP, 'default', 'kube-vip 1.0');
  return addresses;
}

/**
 * VRRP's group number, 1 to 255: the last number of the address, so that two clusters on one
 * segment, which have different addresses, get different groups.
 */
function routerIdOf(address: string): number {
  const last = Number(/\.([0-9]{1,3})$/.exec(address)?.[1] ?? 0);
  return last >= 1 && last <= 255 ? last : 51;
}

/** Returns the versions that later values depend on. */
function putVersionsAndImages(
  build: Builder,
  { spec, minor, version }: Given,
): { readonly etcd: string; readonly kubelet: string } {
  const release = RELEASES[minor];
  const etcd = build.put(['versions', 'etcd'], release.etcd, 'version', `Kubernetes ${minor}`);
  const coredns = build.put(['versions', 'coredns'], release.coredns, 'version', `Kubernetes ${minor}`);
  const pause = build.put(['versions', 'pause'], release.pause, 'version', `Kubernetes ${minor}`);
  const registry = build.put(
    ['registry'],
    spec.registry ?? 'registry.k8s.io',
    originOf(spec.registry),
    'registry',
  );
  const image = (what: string, reference: string) =>
    build.put(['images', what], reference, 'derived', `registry and versions.${what}`);
  for (const what of ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy']) {
    const own = build.put(['versions', what], version, 'derived', 'kubernetes.version');
    image(what, `${registry}/${what}:v${own}`);
  }
  const kubelet = build.put(['versions', 'kubelet'], version, 'derived', 'kubernetes.version');
  image('etcd', `${registry}/etcd:${etcd}`);
  image('coredns', `${registry}/coredns/coredns:${coredns}`);
  image('pause', `${registry}/pause:${pause}`);
  return { etcd, kubelet };
}

function putEtcd(
  build: Builder,
  spec: KubernetesSpec,
  version: string,
): { readonly minor: EtcdMinor; readonly dataDirectory: string } {
  const topology = spec.etcd?.topology ?? 'stacked';
  const runs = spec.etcd?.runs;
  build.put(['etcd', 'topology'], topology, originOf(spec.etcd?.topology), 'etcd.topology');
  if (runs === undefined)
    build.put(['etcd', 'runs'], topology === 'external' ? 'service' : 'pod', 'derived', 'etcd.topology');
  else build.put(['etcd', 'runs'], runs, 'spec', 'etcd.runs');
  const minor = parseVersion(version) ? minorOf(version) : '';
  build.put(['etcd', 'minor'], minor, 'derived', 'versions.etcd');
  const dataDirectory = build.put(['etcd', 'dataDirectory'], '/var/lib/etcd', 'default', 'kubeadm');
  // The checks report an unknown version later; until then its flags are those of a known version.
  const known = ETCD_MINORS.find((one) => one === minor) ?? '3.6';
  return { minor: known, dataDirectory };
}

/** The network between pods, and which program enforces network policies. */
function putPodNetwork(build: Builder, spec: KubernetesSpec): void {
  const plugin = spec.cni ?? 'flannel';
  build.put(['cni', 'plugin'], plugin, originOf(spec.cni), 'cni');
  for (const [what, reference] of Object.entries<string>(NETWORK_IMAGES[plugin].images))
    build.put(['cni', 'images', what], reference, 'default', NETWORK_IMAGES[plugin].by);
  putNetworkPolicy(build, spec, plugin);
}

/**
 * When kube-router only adds its firewall to another plugin, its image joins the plugin's images.
 */
function putNetworkPolicy(
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
    originOf(given?.isolate),
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

function putProxy(build: Builder, { spec, endpoint, machines }: Given, networks: Networks): void {
  const { proxy, virtualAddress } = spec;
  if (proxy === undefined) return;
  for (const field of ['http', 'https'] as const)
    if (proxy[field] !== undefined) build.put(['proxy', field], proxy[field], 'spec', `proxy.${field}`);
  const direct = directOf({
    networks: { ...networks, machines: spec.networks?.machines ?? [] },
    machines,
    host: endpoint.host,
    virtual: virtualAddress?.addresses ?? [],
    dnsDomain: networks.dnsDomain,
    given: proxy.noProxy ?? [],
  });
  build.put(
    ['proxy', 'noProxy'],
    direct,
    'derived',
    'networks, machines, endpoint, dnsDomain and proxy.noProxy',
  );
}

/** Without the fields that are absent, since every value of a resolved Cluster is one of YAML. */
const registriesOf = ({ registries = [] }: KubernetesSpec): ResolvedCluster['registries'] =>
  registries.map(({ registry, mirrors = [], upstream = true, ca, login }) => ({
    registry,
    mirrors: mirrors.map((one) => ({
      url: plainUrl(one.url),
      ...(one.ca !== undefined && { ca: one.ca }),
      ...(one.login && { login: one.login }),
    })),
    upstream,
    ...(ca !== undefined && { ca }),
    ...(login && { login }),
  }));

function putMachineSettings(build: Builder, spec: KubernetesSpec): void {
  build.put(['cniPlugins'], '/opt/cni/bin', 'default', 'the directory that CNI installers write to');
  build.put(['timeServers'], spec.timeServers ?? [], originOf(spec.timeServers), 'timeServers');
  const { replicas } = spec.coreDNS ?? {};
  build.put(['coreDNS', 'replicas'], replicas ?? 2, originOf(replicas), 'coreDNS.replicas');
  build.put(['mirrors'], spec.mirrors ?? [], originOf(spec.mirrors), 'mirrors');
  build.put(['registries'], registriesOf(spec), originOf(spec.registries), 'registries');
  for (const [role, mebibytes] of Object.entries(MEMORY_MIB))
    build.put(['checks', 'memoryMiB', role], mebibytes, 'default', 'kubeadm and Kubespray');
  build.put(['checks', 'cpus'], 1, 'default', 'the smallest number that Kubernetes starts with');
  build.put(['checks', 'fsyncMs'], 100, 'default', "etcd's heartbeat interval");
  build.put(['hostCertificates'], DEBIAN_CERTIFICATES, 'default', "Debian's directories");
}

function putFlags(build: Builder, facts: Parameters<typeof componentFlags>[0]): void {
  const flags = componentFlags(facts);
  for (const component of COMPONENTS)
    for (const [flag, { value, by }] of Object.entries(flags[component]))
      putDerived(build, ['flags', component, flag], value, by, `${component} --${flag}`);
}

function putKubelet(build: Builder, facts: Parameters<typeof kubeletConfig>[0]): void {
  const config = kubeletConfig(facts);
  for (const part of ['config', 'controlPlaneConfig'] as const) {
    build.mapping(['kubelet', part]);
    for (const [field, { value, by }] of Object.entries(config[part])) {
      const path = ['kubelet', part, field];
      // An override for every kubelet is meant for control planes too: it replaces Muster's default
      // for control planes, but not an override for control planes.
      const isOverridden = build.says(['kubelet', 'config', field]);
      if (part === 'controlPlaneConfig' && isOverridden && !build.says(path)) continue;
      putDerived(build, path, value, by, `kubelet ${field}`);
    }
  }
}

/**
 * Puts values with their origins. A value without `by` is a default; its origin comes from the
 * table of deviations from kubeadm, by its `field`.
 */
function putDerived(
  build: Builder,
  path: readonly string[],
  value: Value,
  by: string | undefined,
  field: string,
): void {
  const from: Provenance['from'] = by === undefined ? 'default' : 'derived';
  build.put(path, value, from, by ?? defaultOrigin(field, value));
}
