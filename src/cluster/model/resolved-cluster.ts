/** A Cluster's resolved specification: everything from which its machines are configured. */

import type { Millis } from '../../base/duration.ts';
import type { KeyAlgorithm } from '../../pki/keys.ts';
import type { ApiServerSpec, PodAddition } from '../../resources/apiserver-spec.ts';
import type { NodeFact } from '../../resources/node-facts.ts';
import type { SecretReference } from '../../resources/secret-spec.ts';
import type { Addon } from './addon.ts';
import { API_PORT } from './ports.ts';
import type { EtcdMinor, Minor } from './versions.ts';

export const COMPONENTS = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
] as const;
export type Component = (typeof COMPONENTS)[number];
export type StaticPodName = Exclude<Component, 'kubelet'>;

/** Flag → value; for a list, the flag is given once for each item. */
export type Flags = Readonly<Record<string, string | readonly string[]>>;

export type Value = string | number | boolean | null | readonly Value[] | { readonly [key: string]: Value };

export type ClusterRole = 'control-plane' | 'etcd' | 'worker';

/** A taint, with the fields of KubeletConfiguration's `registerWithTaints`. */
export interface NodeTaint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

export interface ClusterMachine {
  readonly name: string;
  readonly roles: readonly ClusterRole[];
  /** Other machines reach this machine at the first address. */
  readonly addresses: readonly string[];
  /** Labels of its node, in addition to those of all nodes. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Labels whose values are facts of the machine. */
  readonly factLabels?: Readonly<Record<string, NodeFact>>;
  readonly taints?: readonly NodeTaint[];
  /** The groups in which only so many machines may be down at the same time. */
  readonly groups?: readonly { readonly name: string; readonly maxUnavailable: number }[];
  /** A control plane that is a worker too: its node takes pods of everybody. */
  readonly schedulable?: boolean;
}

/** The taint that keeps pods of everybody from control planes, as kubeadm sets it. */
export const CONTROL_PLANE_TAINT: NodeTaint = {
  effect: 'NoSchedule',
  key: 'node-role.kubernetes.io/control-plane',
};

/** Load balancers of Services send no traffic to nodes with this label, as kubeadm sets it. */
export const NO_BALANCERS = 'node.kubernetes.io/exclude-from-external-load-balancers';

/**
 * Values of flags may contain placeholders that are filled in for each machine or at the founding:
 * `${machine.name}`, `${machine.address}` (the first address), `${machine.host}` (the same, as in a
 * URL) and `${founding.…}`.
 */
export interface ResolvedCluster {
  readonly name: string;
  readonly kubernetes: { readonly version: string; readonly minor: Minor };
  readonly endpoint: { readonly host: string; readonly port: number };
  readonly networks: {
    readonly pods: readonly string[];
    readonly services: readonly string[];
    /** Networks in which machines must be; an empty list allows any network. */
    readonly machines: readonly string[];
  };
  readonly dnsDomain: string;
  /** Addresses of the Services `kubernetes` and `kube-dns`, one for each address family. */
  readonly serviceAddresses: { readonly kubernetes: readonly string[]; readonly dns: readonly string[] };
  readonly sans: { readonly dns: readonly string[]; readonly ips: readonly string[] };
  readonly versions: {
    readonly etcd: string;
    readonly coredns: string;
    readonly pause: string;
    readonly 'kube-apiserver': string;
    readonly 'kube-controller-manager': string;
    readonly 'kube-scheduler': string;
    readonly 'kube-proxy': string;
    readonly kubelet: string;
    /** The version on the machines, which determines the format of containerd's configuration. */
    readonly containerd: string;
    /** Used when CRI-O is the runtime. */
    readonly 'cri-o': string;
    readonly runc: string;
    readonly crictl: string;
    readonly nerdctl: string;
    readonly 'cni-plugins': string;
  };
  /** The container runtime. */
  readonly runtime: 'containerd' | 'cri-o';
  readonly registry: string;
  /** Image references, by tag unless an override gives a digest. */
  readonly images: Readonly<
    Record<
      | 'etcd'
      | 'kube-apiserver'
      | 'kube-controller-manager'
      | 'kube-scheduler'
      | 'kube-proxy'
      | 'coredns'
      | 'pause',
      string
    >
  >;
  readonly keys: KeyAlgorithm;
  /** How long certificates and CAs are used; absent fields: as src/pki/hierarchy.ts says, never. */
  readonly pki: {
    readonly leafLifetime?: Millis;
    readonly rotateAfter?: Millis;
    readonly rehearsal?: Millis;
  };
  /**
   * Whether Secrets are encrypted when they are written to etcd. Secrets that are encrypted already
   * can be read in either case.
   */
  readonly encryptSecrets: boolean;
  /**
   * How workers' kubelets get their first client certificate: from Muster, or from the cluster with
   * a bootstrap token for that machine.
   */
  readonly joining: 'certificate' | 'token';
  /** The Pod Security Standard of namespaces that name none. */
  /** What carries the addresses of Services; absent: kube-proxy. */
  readonly serviceProxy?: 'kube-proxy' | 'none';
  readonly podSecurity: 'privileged' | 'baseline' | 'restricted';
  readonly etcd: {
    readonly topology: 'stacked' | 'external';
    /** pod: a static pod. service: a service of the host. */
    readonly runs: 'pod' | 'service';
    readonly minor: EtcdMinor;
    readonly dataDirectory: string;
  };
  /**
   * Addresses of the endpoint that one control plane holds at a time. Absent when the Cluster has
   * none, or when something outside of the cluster holds them.
   */
  readonly virtualAddress?: {
    readonly by: 'keepalived' | 'kube-vip';
    /** At most one for each address family. */
    readonly addresses: readonly string[];
    /** The control planes' network device on the segment of these addresses. */
    readonly interface: string;
    /** VRRP's group number for keepalived, 1 to 255, unique on the segment. */
    readonly routerId?: number;
    /** The image of kube-vip. */
    readonly image?: string;
  };
  /** The network between pods. `none`: an add-on or an operator installs one. */
  readonly cni: {
    readonly plugin: 'flannel' | 'kube-router' | 'none';
    /**
     * Images of the CNI plugin and of the policy engine. An empty `flannel-cni-plugin` means that
     * the plugin is part of the machines' image.
     */
    readonly images?: Readonly<Partial<Record<'flannel' | 'flannel-cni-plugin' | 'kube-router', string>>>;
  };
  readonly networkPolicy: {
    /**
     * The program that enforces NetworkPolicy objects. `addon`: an add-on, or a network that an
     * operator installs.
     */
    readonly enforce: 'kube-router' | 'addon' | 'none';
    /** Namespaces whose pods accept connections from their own namespace only. */
    readonly isolate: readonly string[];
  };
  /** Add-ons in the order in which they are applied. */
  readonly addons: readonly Addon[];
  /** Directory of CNI plugins. */
  readonly cniPlugins: string;
  /**
   * Names or addresses; an empty list keeps the servers that the machine's network or image names.
   */
  readonly timeServers: readonly string[];
  /** URLs of registries to ask before the one in an image's name. */
  readonly mirrors: readonly string[];
  /** Proxies of container runtimes and kubelets. Absent: they reach everything directly. */
  readonly proxy?: {
    readonly http?: string;
    /** Default: `http`. */
    readonly https?: string;
    /** Names, addresses and networks that are reached directly. */
    readonly noProxy: readonly string[];
  };
  readonly coreDNS: { readonly replicas: number };
  /** What single registries have besides these mirrors. */
  readonly registries: readonly ResolvedRegistry[];
  /** Limits of the checks that machines make before they start anything. */
  readonly checks: {
    readonly memoryMiB: { readonly 'control-plane': number; readonly etcd: number; readonly worker: number };
    readonly cpus: number;
    /** 99 of 100 writes to etcd's disk have to end within this many milliseconds. */
    readonly fsyncMs: number;
  };
  /** Directories of certificate authorities on the host, in addition to /etc/ssl/certs. */
  readonly hostCertificates: readonly string[];
  readonly kubelet: {
    readonly config: { readonly [field: string]: Value };
    /** Fields that replace those of `config` on control planes. */
    readonly controlPlaneConfig: { readonly [field: string]: Value };
  };
  readonly kubeProxy: {
    /** Fields of KubeProxyConfiguration. */
    readonly config: { readonly [field: string]: Value };
  };
  readonly flags: Readonly<Record<Component, Flags>>;
  readonly machines: readonly ClusterMachine[];
  /** Documents that API servers read; policies.ts says where. */
  readonly apiServer?: ApiServerSpec;
  /** Additions to static pods. */
  readonly staticPods?: Readonly<Partial<Record<StaticPodName, PodAddition>>>;
}

/** A registry, or a mirror: the CA that it is trusted by, and how machines log in. */
export type RegistryAccess = {
  /** PEM; absent: Muster's CA for a mirror, the system's for a registry. */
  readonly ca?: string;
  readonly login?: { readonly username: string; readonly password: SecretReference };
};

export type ResolvedRegistry = RegistryAccess & {
  /** As image names have it. */
  readonly registry: string;
  /** Asked in this order; `url` has no default port and no slash at its end. */
  readonly mirrors: readonly (RegistryAccess & { readonly url: string })[];
  /** Whether the registry itself is asked last. */
  readonly upstream: boolean;
};

/** The origin of a value. */
export interface Provenance {
  readonly from: 'spec' | 'default' | 'version' | 'derived' | 'override';
  /** The field, version or rule that gives the value, as text for people. */
  readonly by: string;
}

/** The address at which other machines reach this one: the first. */
export const addressOf = (machine: ClusterMachine): string => machine.addresses[0]!;

/** The machine's first address of that family. */
export const addressOfFamily = ({ addresses }: ClusterMachine, family: 4 | 6): string | undefined =>
  addresses.find((text) => text.includes(':') === (family === 6));

/** The machines of the cluster that have this role. */
export const withRole = (
  resolved: Pick<ResolvedCluster, 'machines'>,
  role: ClusterRole,
): readonly ClusterMachine[] => resolved.machines.filter(({ roles }) => roles.includes(role));

/**
 * The port at which a balancer on every control plane answers for all API servers: the endpoint's
 * port, if keepalived holds its address and the port is not that of the API servers. Undefined when
 * the API server itself answers at the endpoint.
 */
export const balancedPort = ({
  virtualAddress,
  endpoint,
}: Pick<ResolvedCluster, 'virtualAddress' | 'endpoint'>): number | undefined =>
  virtualAddress?.by === 'keepalived' && endpoint.port !== API_PORT ? endpoint.port : undefined;
