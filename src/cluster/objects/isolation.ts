/**
 * Isolated namespaces: their pods accept connections from their own namespace only. Network
 * policies add up, so an operator allows more with another policy. Outgoing connections, DNS
 * included, are not limited.
 */
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { KubeObject } from './object.ts';

const policy = (name: string, namespace: string, ingress: readonly object[]): KubeObject => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name, namespace },
  spec: { podSelector: {}, policyTypes: ['Ingress'], ingress },
});

/** Each isolated namespace of the Cluster, with the two policies that isolate it. */
export const isolationObjects = ({ networkPolicy }: ResolvedCluster): readonly KubeObject[] =>
  networkPolicy.isolate.flatMap((namespace) => [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    policy('muster-default-deny', namespace, []),
    policy('muster-allow-same-namespace', namespace, [{ from: [{ podSelector: {} }] }]),
  ]);
