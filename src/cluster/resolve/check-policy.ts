/**
 * Checks network policies: that exactly one program enforces them, and that they do not cut off
 * what the cluster needs.
 */
import { type ClusterFault, clusterError } from '../model/fault.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';

/** Add-ons in the catalogue that are a network between pods and also enforce policies. */
const ENFORCING = ['calico', 'cilium'] as const;

/**
 * The first add-on of the list that is a pod network and enforces network policies; undefined when
 * there is none.
 */
export const enforcingAddon = (addons: readonly { readonly name: string }[]): string | undefined =>
  ENFORCING.find((known) => addons.some(({ name }) => name === known));

const error = (path: string, message: string): ClusterFault => clusterError(`networkPolicy.${path}`, message);

/** Faults of `networkPolicy`: who enforces policies, and which namespaces are isolated. */
export function policyFaults({ networkPolicy, cni, addons }: ResolvedCluster): readonly ClusterFault[] {
  const { enforce, isolate } = networkPolicy;
  const found: ClusterFault[] = [];
  const addon = cni.plugin === 'none' ? enforcingAddon(addons) : undefined;
  if (enforce === 'addon' && cni.plugin === 'kube-router')
    found.push(error('enforce', 'kube-router is the network and enforces them itself; leave enforce out'));
  if (enforce === 'kube-router' && addon !== undefined)
    found.push(
      error('enforce', `the add-on ${addon} is the network and enforces them itself; leave enforce out`),
    );
  if (enforce === 'none' && isolate.length > 0) found.push(error('isolate', UNENFORCED[cni.plugin]));
  for (const [n, namespace] of isolate.entries()) {
    if (isolate.indexOf(namespace) < n) found.push(error(`isolate[${n}]`, `${namespace} is listed twice`));
    if (namespace === 'kube-system')
      found.push(error(`isolate[${n}]`, 'CoreDNS is in kube-system, and pods of every namespace ask it'));
  }
  return found;
}

const seems = 'so that the namespaces would only seem isolated';
/** Why policies are not enforced, by network. kube-router enforces them, so its text is unused. */
const UNENFORCED: Readonly<Record<ResolvedCluster['cni']['plugin'], string>> = {
  flannel: `flannel enforces no network policies, ${seems}; set networkPolicy.enforce: kube-router, which adds its firewall, or enforce: addon if an add-on does it`,
  none: `nothing is known to enforce network policies, ${seems}; set networkPolicy.enforce: addon if the network that you install does, or kube-router, which adds its firewall`,
  'kube-router': '',
};
