/** All in-cluster objects of a cluster, in the order in which they are applied. */
import { yamlText } from '../../base/yaml-text.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { corednsConfig, corednsObjects, corednsReplicas } from './coredns.ts';
import { flannelObjects } from './flannel.ts';
import { isolationObjects } from './isolation.ts';
import { kubeProxyObjects } from './kube-proxy.ts';
import { kubeRouterFirewall, kubeRouterObjects } from './kube-router.ts';
import { kubeadmObjects } from './kubeadm.ts';
import { asPlain, type KubeObject } from './object.ts';

export interface Bundle {
  /** Muster's objects: every field is set back whenever they are applied. */
  readonly applied: readonly KubeObject[];
  /** Objects that belong to operators: created only when they are missing. */
  readonly created: readonly KubeObject[];
  /** Fields of applied objects that Muster sets until somebody else sets them. */
  readonly proposed: readonly KubeObject[];
}

const NETWORK: Readonly<
  Record<ResolvedCluster['cni']['plugin'], (resolved: ResolvedCluster) => readonly KubeObject[]>
> = {
  flannel: flannelObjects,
  'kube-router': kubeRouterObjects,
  none: () => [],
};

/** Makes the bundle. `caBundle`: every trusted generation of the cluster's CA, PEM. */
export function bundleOf(resolved: ResolvedCluster, caBundle: string): Bundle {
  return {
    applied: [
      ...kubeadmObjects(resolved, caBundle),
      ...(resolved.serviceProxy === 'none' ? [] : kubeProxyObjects(resolved)),
      ...NETWORK[resolved.cni.plugin](resolved),
      ...(resolved.cni.plugin !== 'kube-router' && resolved.networkPolicy.enforce === 'kube-router'
        ? kubeRouterFirewall(resolved)
        : []),
      ...corednsObjects(resolved),
      ...isolationObjects(resolved),
    ],
    created: [corednsConfig(resolved)],
    proposed: [corednsReplicas(resolved)],
  };
}

/** The objects as a text of YAML documents, which kubectl reads. */
export const manifestText = (objects: readonly KubeObject[]): string =>
  objects.map((object) => yamlText(asPlain(object))).join('---\n');
