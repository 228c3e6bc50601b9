/**
 * Plan lines that install the binaries that the boot host has, each in the directory that its
 * publisher's installer uses. Other binaries come with the machine's image. Nothing of the image is
 * removed: `/usr/local` comes before `/usr` in every search path.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ArtifactBook, BinaryArtifact } from '../../artifacts/book.ts';
import { type Arch, OCI_ARCH } from '../../artifacts/oci.ts';
import { plainUrl } from '../../resources/registry-spec.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { type BinaryName, type RequiredBinary, requiredArtifacts } from '../resolve/artifacts.ts';
import { CRIO_BUNDLE } from './cri-o.ts';
import { directory } from './lines.ts';

interface SuppliesOf {
  readonly resolved: ResolvedCluster;
  readonly machine: ClusterMachine;
  readonly arch: Arch;
  readonly book: Pick<ArtifactBook, 'binary'>;
  /** Returns the URL at which the machine fetches the file with that hash. */
  readonly urlOf: (sha256: string, name: string) => string;
}

/** What this boot host supplies to a machine in addition to its configuration. */
export interface Supplies {
  /** Lines that install binaries. */
  readonly binaries: readonly PlanLine[];
  /** Registries that are asked before {@link ResolvedCluster.mirrors}. */
  readonly mirrors: readonly string[];
  /** The digest of an image that this boot host has. */
  readonly digestOf: (reference: string) => string | undefined;
}

export const NO_SUPPLIES: Supplies = { binaries: [], mirrors: [], digestOf: () => undefined };

/** Finds what this boot host supplies to a machine. */
export type SuppliesFor = (resolved: ResolvedCluster, machine: ClusterMachine) => Supplies;

const PROGRAMS = '/usr/local/bin';
/**
 * The directory for etcd's archive, which has one directory, named after its version and
 * architecture.
 */
const ETCD = '/usr/local/lib/muster/etcd';
const ETCD_PROGRAMS = ['etcd', 'etcdctl', 'etcdutl'] as const;
/** Programs that CRI-O starts from the search path of systemd services. */
const CRIO_PROGRAMS = ['crio', 'conmon', 'pinns', 'crun', 'runc'] as const;
/** Where etcd is installed: from an archive, or as a single file. */
export const ETCD_PROGRAM: readonly string[] = [ETCD, `${PROGRAMS}/etcd`];

/** The directory into which each publisher's archive is unpacked. */
const ARCHIVE: Readonly<Record<BinaryName, (resolved: ResolvedCluster) => string>> = {
  kubelet: () => PROGRAMS,
  kubectl: () => PROGRAMS,
  kubeadm: () => PROGRAMS,
  // containerd's archive has a directory `bin`.
  containerd: () => '/usr/local',
  'cri-o': () => CRIO_BUNDLE,
  runc: () => PROGRAMS,
  crictl: () => PROGRAMS,
  // nerdctl's archive also has two scripts for unprivileged users.
  nerdctl: () => PROGRAMS,
  'cni-plugins': (resolved) => resolved.cniPlugins,
  etcd: () => ETCD,
};

/** Archives whose programs are linked into the search path. */
const LINKED: Partial<
  Readonly<
    Record<
      BinaryName,
      (version: string, cpu: string) => { readonly inside: string; readonly programs: readonly string[] }
    >
  >
> = {
  etcd: (version, cpu) => ({ inside: `etcd-v${version}-linux-${cpu}`, programs: ETCD_PROGRAMS }),
  'cri-o': () => ({ inside: 'cri-o/bin', programs: CRIO_PROGRAMS }),
};

/** Lines for the binaries of the machine's roles that the boot host has. */
export function binaryLines({ resolved, machine, arch, book, urlOf }: SuppliesOf): readonly PlanLine[] {
  const required = requiredArtifacts(resolved, arch).filter(
    (one): one is RequiredBinary =>
      one.kind === 'binary' && one.roles.some((role) => machine.roles.includes(role)),
  );
  return required.flatMap(({ name, version }) => {
    const found = book.binary(name, version, arch);
    return found === undefined ? [] : linesOf(resolved, name, found, urlOf(found.sha256, name));
  });
}

/** Images of static pods, in the order in which they start. */
const STATIC_PODS = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;

/**
 * Adds digests to the images of static pods, `NAME:TAG@sha256:…`, where `digestOf` knows one. All
 * control planes then run the same octets, even if a registry moves the tag. The tag is kept
 * because people and kubeadm read the version from it.
 */
export function pinImages(
  resolved: ResolvedCluster,
  digestOf: (reference: string) => string | undefined,
): ResolvedCluster {
  const pinned = (reference: string): string => {
    const digest = reference.includes('@') ? undefined : digestOf(reference);
    return digest === undefined ? reference : `${reference}@${digest}`;
  };
  const ofPods = Object.fromEntries(STATIC_PODS.map((pod) => [pod, pinned(resolved.images[pod])]));
  const address = resolved.virtualAddress;
  return {
    ...resolved,
    images: { ...resolved.images, ...ofPods },
    ...(address?.image !== undefined && { virtualAddress: { ...address, image: pinned(address.image) } }),
  };
}

/** Adds registries of this boot host: they are asked first for images of every registry. */
export function withMirrors(resolved: ResolvedCluster, mirrors: readonly string[]): ResolvedCluster {
  const own = mirrors.map((url) => ({ url: plainUrl(url) }));
  return {
    ...resolved,
    mirrors: [...mirrors, ...resolved.mirrors],
    registries: resolved.registries.map((one) => ({ ...one, mirrors: [...own, ...one.mirrors] })),
  };
}

function linesOf(
  resolved: ResolvedCluster,
  name: BinaryName,
  { sha256, size, form, version, arch }: BinaryArtifact,
  url: string,
): readonly PlanLine[] {
  if (form === 'file') {
    const path = `${PROGRAMS}/${name}`;
    return [directory(PROGRAMS), { do: 'fetch', mode: 0o755, path, url, sha256, size }];
  }
  const target = ARCHIVE[name](resolved);
  const lines: readonly PlanLine[] = [
    directory(target),
    { do: 'unpack', directory: target, url, sha256, size },
  ];
  const linked = LINKED[name]?.(version, OCI_ARCH[arch]);
  if (linked === undefined) return lines;
  const links = linked.programs.map(
    (program): PlanLine => ({
      do: 'link',
      to: `${target}/${linked.inside}/${program}`,
      path: `${PROGRAMS}/${program}`,
      onlyIfAbsent: false,
    }),
  );
  return [...lines, directory(PROGRAMS), ...links];
}
