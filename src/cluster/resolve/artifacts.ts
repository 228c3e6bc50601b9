/**
 * The binaries, container images and manifests that a resolved Cluster needs, and the URLs at which
 * their publishers offer them.
 */
import type { Arch } from '../../artifacts/oci.ts';
import { OCI_ARCH } from '../../artifacts/oci.ts';
import {
  balancedPort,
  type ClusterMachine,
  type ClusterRole,
  type ResolvedCluster,
  withRole,
} from '../model/resolved-cluster.ts';

/** Programs on the machines that do not come with the operating system. */
export const BINARIES = [
  'kubelet',
  'kubectl',
  'kubeadm',
  'containerd',
  'cri-o',
  'runc',
  'crictl',
  'nerdctl',
  'cni-plugins',
  'etcd',
] as const;
export type BinaryName = (typeof BINARIES)[number];

export interface RequiredBinary {
  readonly kind: 'binary';
  readonly name: BinaryName;
  readonly version: string;
  readonly arch: Arch;
  readonly form: 'file' | 'tar';
  readonly roles: readonly ClusterRole[];
  /**
   * The publisher's URLs of the file and of its checksum file, which is `HASH` alone or lines `HASH
   * FILE`.
   */
  readonly url: string;
  readonly checksums: string;
}

/** A manifest of an add-on. A manifest without URL and file has to be imported. */
export interface RequiredManifest {
  readonly kind: 'manifest';
  readonly addon: string;
  readonly url?: string | undefined;
  readonly file?: string | undefined;
  readonly sha256: string;
  readonly roles: readonly ClusterRole[];
}

export type Required = RequiredBinary | RequiredImage | RequiredManifest;

export interface RequiredImage {
  readonly kind: 'image';
  readonly reference: string;
  readonly arch: Arch;
  readonly roles: readonly ClusterRole[];
}

const ALL: readonly ClusterRole[] = ['control-plane', 'etcd', 'worker'];
const NODES: readonly ClusterRole[] = ['control-plane', 'worker'];

/** Tags of etcd's image end with a build number: `3.6.8-0` is etcd 3.6.8. */
const withoutBuild = (version: string): string => version.replace(/^v/, '').replace(/-\d+$/, '');

const VERSION_OF: Readonly<Record<BinaryName, (resolved: ResolvedCluster) => string>> = {
  kubelet: (resolved) => resolved.versions.kubelet,
  kubectl: (resolved) => resolved.versions['kube-apiserver'],
  kubeadm: (resolved) => resolved.versions['kube-apiserver'],
  containerd: (resolved) => resolved.versions.containerd,
  'cri-o': (resolved) => resolved.versions['cri-o'],
  runc: (resolved) => resolved.versions.runc,
  crictl: (resolved) => resolved.versions.crictl,
  nerdctl: (resolved) => resolved.versions.nerdctl,
  'cni-plugins': (resolved) => resolved.versions['cni-plugins'],
  etcd: (resolved) => withoutBuild(resolved.versions.etcd),
};

const ROLES_OF: Readonly<Record<BinaryName, readonly ClusterRole[]>> = {
  kubelet: ALL,
  kubectl: ['control-plane'],
  kubeadm: ['control-plane'],
  containerd: ALL,
  'cri-o': ALL,
  runc: ALL,
  crictl: ALL,
  nerdctl: NODES,
  'cni-plugins': NODES,
  etcd: ['etcd'],
};

/** Binaries that only one runtime needs. CRI-O's bundle contains its own runc and crun. */
const RUNTIME_OF: Partial<Readonly<Record<BinaryName, ResolvedCluster['runtime']>>> = {
  containerd: 'containerd',
  runc: 'containerd',
  nerdctl: 'containerd',
  'cri-o': 'cri-o',
};

interface Published {
  readonly form: 'file' | 'tar';
  readonly url: string;
  readonly checksums: string;
}

/** The publisher's URLs, as its release page gives them. */
function published(name: BinaryName, version: string, arch: Arch): Published {
  const cpu = OCI_ARCH[arch];
  const github = (project: string) => `https://github.com/${project}/releases/download/v${version}`;
  switch (name) {
    case 'kubelet':
    case 'kubectl':
    case 'kubeadm': {
      const url = `https://dl.k8s.io/release/v${version}/bin/linux/${cpu}/${name}`;
      return { form: 'file', url, checksums: `${url}.sha256` };
    }
    case 'containerd': {
      const url = `${github('containerd/containerd')}/containerd-${version}-linux-${cpu}.tar.gz`;
      return { form: 'tar', url, checksums: `${url}.sha256sum` };
    }
    case 'cri-o': {
      const url = `https://storage.googleapis.com/cri-o/artifacts/cri-o.${cpu}.v${version}.tar.gz`;
      return { form: 'tar', url, checksums: `${url}.sha256sum` };
    }
    case 'runc': {
      const base = github('opencontainers/runc');
      return { form: 'file', url: `${base}/runc.${cpu}`, checksums: `${base}/runc.sha256sum` };
    }
    case 'crictl': {
      const url = `${github('kubernetes-sigs/cri-tools')}/crictl-v${version}-linux-${cpu}.tar.gz`;
      return { form: 'tar', url, checksums: `${url}.sha256` };
    }
    case 'nerdctl': {
      const base = github('containerd/nerdctl');
      const url = `${base}/nerdctl-${version}-linux-${cpu}.tar.gz`;
      return { form: 'tar', url, checksums: `${base}/SHA256SUMS` };
    }
    case 'cni-plugins': {
      const url = `${github('containernetworking/plugins')}/cni-plugins-linux-${cpu}-v${version}.tgz`;
      return { form: 'tar', url, checksums: `${url}.sha256` };
    }
    case 'etcd': {
      const base = github('etcd-io/etcd');
      return {
        form: 'tar',
        url: `${base}/etcd-v${version}-linux-${cpu}.tar.gz`,
        checksums: `${base}/SHA256SUMS`,
      };
    }
  }
}

const IMAGE_ROLES: Readonly<Record<keyof ResolvedCluster['images'], readonly ClusterRole[]>> = {
  etcd: ['etcd'],
  'kube-apiserver': ['control-plane'],
  'kube-controller-manager': ['control-plane'],
  'kube-scheduler': ['control-plane'],
  'kube-proxy': NODES,
  coredns: NODES,
  pause: ALL,
};

/** Images of the pod network and of the program that enforces network policies. */
const networkImages = ({ cni }: ResolvedCluster): readonly string[] =>
  [...new Set(Object.values(cni.images ?? {}))].filter((image) => image !== '');

const imagesFor = (references: readonly string[], arch: Arch, roles: readonly ClusterRole[]) =>
  references.map((reference): RequiredImage => ({ kind: 'image', reference, arch, roles }));

/**
 * A program that the operating system's image has to contain, because its publisher releases no
 * binary that runs everywhere.
 */
export interface RequiredProgram {
  readonly kind: 'program';
  readonly name: 'haproxy' | 'keepalived' | 'curl' | 'iptables';
  readonly roles: readonly ClusterRole[];
}

/**
 * Programs that the balancer (haproxy), the virtual address (keepalived, curl) and the CNI plugin
 * portmap (iptables, for `hostPort`) need; only for roles that some machine of the cluster has.
 */
export function requiredPrograms(resolved: ResolvedCluster): readonly RequiredProgram[] {
  const program = (name: RequiredProgram['name'], ...roles: readonly ClusterRole[]): RequiredProgram => ({
    kind: 'program',
    name,
    roles,
  });
  const all = [
    balancedPort(resolved) === undefined
      ? program('haproxy', 'worker')
      : program('haproxy', 'control-plane', 'worker'),
    ...(resolved.virtualAddress?.by === 'keepalived'
      ? [program('keepalived', 'control-plane'), program('curl', 'control-plane')]
      : []),
    program('iptables', ...NODES),
  ];
  return all.filter(({ roles }) => roles.some((role) => withRole(resolved, role).length > 0));
}

/**
 * The required programs that a machine's image does not contain.
 *
 * @param programs The programs that its Image document lists; undefined when the document lists
 *   none, in which case nothing is reported.
 */
export function lackingPrograms(
  resolved: ResolvedCluster,
  machine: string,
  programs: readonly string[] | undefined,
): readonly RequiredProgram['name'][] {
  if (programs === undefined) return [];
  const own = resolved.machines.find(({ name }) => name === machine)?.roles ?? [];
  return requiredPrograms(resolved)
    .filter(({ name, roles }) => roles.some((role) => own.includes(role)) && !programs.includes(name))
    .map(({ name }) => name);
}

/**
 * Everything to download: binaries, then images, then manifests of add-ons; only for roles that
 * some machine of the cluster has.
 *
 * @param ofAddons Images that add-ons need, known once the boot host has their manifests.
 */
export function requiredArtifacts(
  resolved: ResolvedCluster,
  arch: Arch,
  ofAddons: readonly string[] = [],
): readonly Required[] {
  const has = (roles: readonly ClusterRole[]) => roles.some((role) => withRole(resolved, role).length > 0);
  const wanted = BINARIES.filter((name) => (RUNTIME_OF[name] ?? resolved.runtime) === resolved.runtime);
  const binaries = wanted
    .filter((name) => has(ROLES_OF[name]))
    .map((name): RequiredBinary => {
      const version = VERSION_OF[name](resolved);
      return {
        kind: 'binary',
        name,
        version,
        arch,
        roles: ROLES_OF[name],
        ...published(name, version, arch),
      };
    });
  const images = (Object.keys(IMAGE_ROLES) as (keyof ResolvedCluster['images'])[])
    .filter((name) => has(IMAGE_ROLES[name]))
    .map(
      (name): RequiredImage => ({
        kind: 'image',
        reference: resolved.images[name],
        arch,
        roles: IMAGE_ROLES[name],
      }),
    );
  const address = resolved.virtualAddress?.image;
  const known = [
    ...images,
    ...imagesFor(networkImages(resolved), arch, NODES),
    ...imagesFor(address === undefined ? [] : [address], arch, ['control-plane']),
  ];
  const others = ofAddons.filter((reference) => known.every((one) => one.reference !== reference));
  return [...binaries, ...known, ...imagesFor(others, arch, NODES), ...manifestsOf(resolved)];
}

/**
 * Images of the pods that a machine always runs, each once; images for which other pods wait come
 * first. The pause image is not included, because the runtime pulls and pins it by itself.
 */
export function podImages(resolved: ResolvedCluster, { roles }: ClusterMachine): readonly string[] {
  const { images, etcd, virtualAddress } = resolved;
  const control = roles.includes('control-plane');
  const nodes = control || roles.includes('worker');
  return [
    ...new Set([
      ...(roles.includes('etcd') && etcd.runs === 'pod' ? [images.etcd] : []),
      ...(control
        ? [images['kube-apiserver'], images['kube-controller-manager'], images['kube-scheduler']]
        : []),
      ...(control && virtualAddress?.image !== undefined ? [virtualAddress.image] : []),
      ...(nodes && resolved.serviceProxy !== 'none' ? [images['kube-proxy']] : []),
      ...(nodes ? networkImages(resolved) : []),
    ]),
  ];
}

/** Each manifest once, under the first add-on that names it. */
function manifestsOf({ addons }: ResolvedCluster): readonly RequiredManifest[] {
  const files = new Map<string, RequiredManifest>();
  for (const { name, manifests } of addons)
    for (const { url, file, sha256 } of manifests)
      if (!files.has(sha256))
        files.set(sha256, { kind: 'manifest', addon: name, url, file, sha256, roles: ['control-plane'] });
  return [...files.values()];
}

/**
 * The SHA-256 of `file` in a publisher's list of lines `HASH FILE` or `HASH *FILE`, or the only
 * hash in the list; undefined when the list does not contain the file.
 */
export function publishedHash(list: string, file: string): string | undefined {
  const lines = list.split('\n').map((line) => line.trim().split(/\s+/));
  const isHash = (text: string | undefined) => text !== undefined && /^[0-9a-fA-F]{64}$/.test(text);
  const found =
    lines.find(([hash, name]) => isHash(hash) && name?.replace(/^\*?(\.\/)?/, '') === file) ??
    (lines.filter(([first]) => first !== '').length === 1
      ? lines.find(([hash, name]) => isHash(hash) && name === undefined)
      : undefined);
  return found?.[0]?.toLowerCase();
}
