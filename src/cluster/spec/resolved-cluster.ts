/** The full specification of a cluster: everything that its machines are configured from. */

import type { KeyAlgorithm } from '../../pki/keys.ts';
import type { Addon } from './addon.ts';
import type { Minor } from './flags.ts';
import { API_PORT } from './ports.ts';
import type { EtcdMinor } from './versions.ts';

export const COMPONENTS = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
] as const;
export type Component = (typeof COMPONENTS)[number];

/** A list is a flag that is given several times. */
export type Flags = Readonly<Record<string, string | readonly string[]>>;

export type Value = string | number | boolean | null | readonly Value[] | { readonly [key: string]: Value };

export type ClusterRole = 'control-plane' | 'etcd' | 'worker';

/** As KubeletConfiguration's `registerWithTaints` has them. */
export interface NodeTaint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

export interface ClusterMachine {
  readonly name: string;
  readonly roles: readonly ClusterRole[];
  /** The first is the one that other machines use; one a family in front. */
  readonly addresses: readonly string[];
  /** Of its node, besides what all have. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly NodeTaint[];
}

/**
 * In texts of flags, `${machine.name}`, `${machine.address}` (the first, as it is),
 * `${machine.host}` (the same as in a URL) and `${founding.…}` stand for what is known only at a
 * machine or at founding.
 */
export interface ResolvedCluster {
  readonly name: string;
  readonly kubernetes: { readonly version: string; readonly minor: Minor };
  readonly endpoint: { readonly host: string; readonly port: number };
  readonly networks: {
    readonly pods: readonly string[];
    readonly services: readonly string[];
    /** Empty: not restricted. */
    readonly machines: readonly string[];
  };
  readonly dnsDomain: string;
  /** Of the Services `kubernetes` and `kube-dns`, one a family. */
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
    /** The one on the machines; the form of its configuration follows from it. */
    readonly containerd: string;
    /** Likewise, where it is the runtime. */
    readonly 'cri-o': string;
    readonly runc: string;
    readonly crictl: string;
    readonly nerdctl: string;
    readonly 'cni-plugins': string;
  };
  /** What runs containers. */
  readonly runtime: 'containerd' | 'cri-o';
  readonly registry: string;
  /** References, by tag unless overridden by digest. */
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
  /**
   * Whether what is written to etcd as a Secret is encrypted; what is encrypted already can be read
   * in any case.
   */
  readonly encryptSecrets: boolean;
  /**
   * How workers' kubelets come to their first client certificate: Muster signs it, or the cluster
   * does for a token of that machine.
   */
  readonly joining: 'certificate' | 'token';
  /** Pod Security Standard of namespaces that name none. */
  readonly podSecurity: 'privileged' | 'baseline' | 'restricted';
  readonly etcd: {
    readonly topology: 'stacked' | 'external';
    /** As a static pod, or as a service of the host. */
    readonly runs: 'pod' | 'service';
    readonly minor: EtcdMinor;
    readonly dataDirectory: string;
  };
  /**
   * The endpoint's addresses, held by one control plane at a time; absent: there are none, or
   * somebody else's.
   */
  readonly virtualAddress?: {
    readonly by: 'keepalived' | 'kube-vip';
    /** At most one a family. */
    readonly addresses: readonly string[];
    /** The control planes' network device on that segment. */
    readonly interface: string;
    /** keepalived's: VRRP's number of the group, 1 to 255; one a segment. */
    readonly routerId?: number;
    /** kube-vip's. */
    readonly image?: string;
  };
  /** The network between pods. `none`: an add-on or a person brings one. */
  readonly cni: {
    readonly plugin: 'flannel' | 'kube-router' | 'none';
    /**
     * Those of the plugin, and of who enforces network policies beside it. An empty name of
     * flannel's CNI plugin: it is on the machines already.
     */
    readonly images?: Readonly<Partial<Record<'flannel' | 'flannel-cni-plugin' | 'kube-router', string>>>;
  };
  readonly networkPolicy: {
    /**
     * Who enforces NetworkPolicy objects; `addon`: one of the Cluster's, or what a person brings.
     */
    readonly enforce: 'kube-router' | 'addon' | 'none';
    /**
     * Namespaces whose pods are reached from their own namespace only, until somebody allows more.
     */
    readonly isolate: readonly string[];
  };
  /** In the order in which they are applied. */
  readonly addons: readonly Addon[];
  /** Directory of CNI plugins. */
  readonly cniPlugins: string;
  /** Names or addresses; empty: what the machine's network or image says. */
  readonly timeServers: readonly string[];
  /** Registries that are asked before the one of an image's name; URLs. */
  readonly mirrors: readonly string[];
  /** What machines check of themselves before anything is started. */
  readonly checks: {
    readonly memoryMiB: { readonly 'control-plane': number; readonly etcd: number; readonly worker: number };
    readonly cpus: number;
    /** 99 of 100 writes to etcd's disk end within so many milliseconds. */
    readonly fsyncMs: number;
  };
  /**
   * Directories of the host's certificate authorities that the control plane sees, besides
   * /etc/ssl/certs.
   */
  readonly hostCertificates: readonly string[];
  readonly kubelet: {
    readonly config: { readonly [field: string]: Value };
    /** What differs on control planes. */
    readonly controlPlaneConfig: { readonly [field: string]: Value };
  };
  readonly kubeProxy: {
    /** Fields of KubeProxyConfiguration. */
    readonly config: { readonly [field: string]: Value };
  };
  readonly flags: Readonly<Record<Component, Flags>>;
  readonly machines: readonly ClusterMachine[];
}

/** Where a value came from. */
export interface Provenance {
  readonly from: 'spec' | 'default' | 'version' | 'derived' | 'override';
  /** The field, version or rule, for people. */
  readonly by: string;
}

/** A machine's address for URLs of others; the first. */
export const addressOf = (machine: ClusterMachine): string => machine.addresses[0]!;

/** A machine's first address of a family. */
export const addressOfFamily = ({ addresses }: ClusterMachine, family: 4 | 6): string | undefined =>
  addresses.find((text) => text.includes(':') === (family === 6));

export const withRole = (
  resolved: Pick<ResolvedCluster, 'machines'>,
  role: ClusterRole,
): readonly ClusterMachine[] => resolved.machines.filter(({ roles }) => roles.includes(role));

/**
 * The port at which a balancer of every control plane answers for all of them: that of the
 * endpoint, where keepalived holds its address and it is not the apiservers' own. Undefined: the
 * apiserver itself answers there.
 */
export const balancedPort = ({
  virtualAddress,
  endpoint,
}: Pick<ResolvedCluster, 'virtualAddress' | 'endpoint'>): number | undefined =>
  virtualAddress?.by === 'keepalived' && endpoint.port !== API_PORT ? endpoint.port : undefined;
