/** All in-cluster objects of a cluster as one text, in the order in which one needs the other. */
import { yamlText } from '../../ignition/yaml-text.ts';
import type { FullCluster } from '../full.ts';
import { corednsConfig, corednsObjects, corednsReplicas } from './coredns.ts';
import { flannelObjects } from './flannel.ts';
import { isolationObjects } from './isolation.ts';
import { kubeProxyObjects } from './kube-proxy.ts';
import { kubeRouterFirewall, kubeRouterObjects } from './kube-router.ts';
import { kubeadmObjects } from './kubeadm.ts';
import { asPlain, type KubeObject } from './object.ts';

export interface Bundle {
  /** Ours: put in order whenever they are applied. */
  readonly applied: readonly KubeObject[];
  /** People's from then on: made when they are missing. */
  readonly created: readonly KubeObject[];
  /** Fields of what is applied that are ours only until somebody else sets them. */
  readonly proposed: readonly KubeObject[];
}

const NETWORK: Readonly<Record<FullCluster['cni']['plugin'], (full: FullCluster) => readonly KubeObject[]>> =
  {
    flannel: flannelObjects,
    'kube-router': kubeRouterObjects,
    none: () => [],
  };

/** `caBundle`: the cluster's CA, every trusted generation, PEM. */
export function bundleOf(full: FullCluster, caBundle: string): Bundle {
  return {
    applied: [
      ...kubeadmObjects(full, caBundle),
      ...kubeProxyObjects(full),
      ...NETWORK[full.cni.plugin](full),
      ...(full.cni.plugin !== 'kube-router' && full.networkPolicy.enforce === 'kube-router'
        ? kubeRouterFirewall(full)
        : []),
      ...corednsObjects(full),
      ...isolationObjects(full),
    ],
    created: [corednsConfig(full)],
    proposed: [corednsReplicas],
  };
}

/** As kubectl reads them. */
export const manifestText = (objects: readonly KubeObject[]): string =>
  objects.map((object) => yamlText(asPlain(object))).join('---\n');
