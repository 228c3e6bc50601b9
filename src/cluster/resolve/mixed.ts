/**
 * A Cluster in the middle of an upgrade: which of its parts have the old release and which the new
 * one. Pure.
 */
import type { KubernetesSpec } from '../../resources/kinds.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { Release } from './release.ts';

/** Parts of a cluster that are upgraded together, in the order in which they are upgraded. */
export const PARTS = ['etcd', 'apiserver', 'managers', 'addons', 'node'] as const;
export type Part = (typeof PARTS)[number];

/** Part → whether it has the new release. */
export type HasNew = Readonly<Record<Part, boolean>>;

export const ALL_OLD: HasNew = { etcd: false, apiserver: false, managers: false, addons: false, node: false };

/** The part to which the version of each program belongs. */
const PART_OF: Readonly<Record<keyof ResolvedCluster['versions'], Part>> = {
  etcd: 'etcd',
  'kube-apiserver': 'apiserver',
  'kube-controller-manager': 'managers',
  'kube-scheduler': 'managers',
  'kube-proxy': 'addons',
  coredns: 'addons',
  kubelet: 'node',
  pause: 'node',
  containerd: 'node',
  'cri-o': 'node',
  runc: 'node',
  crictl: 'node',
  nerdctl: 'node',
  'cni-plugins': 'node',
};

const FLAGS_OF: Readonly<Record<keyof ResolvedCluster['flags'], Part>> = {
  etcd: 'etcd',
  'kube-apiserver': 'apiserver',
  'kube-controller-manager': 'managers',
  'kube-scheduler': 'managers',
  kubelet: 'node',
};

/**
 * The Cluster as one machine has it. Everything that has nothing to do with the release is that of
 * `to`.
 */
export function mixed(from: ResolvedCluster, to: ResolvedCluster, has: HasNew): ResolvedCluster {
  const of = (part: Part): ResolvedCluster => (has[part] ? to : from);
  const chosen = <K extends string, V>(
    parts: Readonly<Record<K, Part>>,
    value: (of: ResolvedCluster, key: K) => V,
  ) =>
    Object.fromEntries((Object.keys(parts) as K[]).map((key) => [key, value(of(parts[key]), key)])) as Record<
      K,
      V
    >;
  return {
    ...to,
    // kubeadm's ConfigMap names the version that the whole cluster has.
    kubernetes: of('addons').kubernetes,
    versions: chosen(PART_OF, ({ versions }, key) => versions[key]),
    images: {
      ...to.images,
      etcd: of('etcd').images.etcd,
      'kube-apiserver': of('apiserver').images['kube-apiserver'],
      'kube-controller-manager': of('managers').images['kube-controller-manager'],
      'kube-scheduler': of('managers').images['kube-scheduler'],
      'kube-proxy': of('addons').images['kube-proxy'],
      coredns: of('addons').images.coredns,
      pause: of('node').images.pause,
    },
    flags: chosen(FLAGS_OF, ({ flags }, key) => flags[key]),
    etcd: of('etcd').etcd,
    kubelet: of('node').kubelet,
    kubeProxy: of('addons').kubeProxy,
  };
}

/** The parts whose programs can emulate the minor version before their own. */
export type Emulating = Extract<Part, 'apiserver' | 'managers'>;

/**
 * The Cluster with programs that have the features, defaults and APIs of another minor version.
 * What they store, that version and the one before it can read: the least compatible version of
 * Kubernetes' components follows the emulated one (component-base, SetEmulationVersion).
 */
export function emulated(
  resolved: ResolvedCluster,
  minor: string,
  parts: readonly Emulating[],
): ResolvedCluster {
  const flags = Object.entries(resolved.flags).map(([component, given]) => {
    const part = FLAGS_OF[component as keyof typeof FLAGS_OF];
    return parts.some((one) => one === part)
      ? [component, { ...given, 'emulated-version': minor }]
      : [component, given];
  });
  return { ...resolved, flags: Object.fromEntries(flags) as ResolvedCluster['flags'] };
}

/** A specification with the versions of a release, however it names them itself. */
export const specAt = (spec: KubernetesSpec, { version, versions, images }: Release): KubernetesSpec => ({
  ...spec,
  version,
  overrides: { ...spec.overrides, versions: { ...versions }, images: { ...images } },
});

/** What a specification says about its release, as an operator wrote it. */
export const askedFor = ({ version, registry, overrides }: KubernetesSpec): string =>
  JSON.stringify([version, registry ?? null, overrides?.versions ?? null, overrides?.images ?? null]);

/** Whether two releases are the same. */
export const sameRelease = (a: Release, b: Release): boolean =>
  a.version === b.version && sameTexts(a.versions, b.versions) && sameTexts(a.images, b.images);

function sameTexts(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => a[key] === b[key]);
}

/** The parts in which two releases differ. */
export function changedParts(from: Release, to: Release): readonly Part[] {
  const keys = Object.keys(PART_OF) as (keyof typeof PART_OF)[];
  const changed = new Set(
    keys.filter((key) => from.versions[key] !== to.versions[key]).map((key) => PART_OF[key]),
  );
  for (const key of Object.keys(to.images) as (keyof Release['images'])[])
    if (from.images[key] !== to.images[key]) changed.add(PART_OF[key]);
  return PARTS.filter((part) => changed.has(part));
}
