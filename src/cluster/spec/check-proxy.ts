/**
 * Checks overrides of KubeProxyConfiguration: a field that kube-proxy does not know makes it fail
 * on every machine at once.
 */

import { didYouMean } from '../../base/suggest.ts';
import { FIELD_TYPES } from './check-kubelet.ts';
import { type ClusterFault, clusterError } from './fault.ts';
import type { KubeletFieldType } from './kubelet-fields.ts';
import type { ResolvedCluster, Value } from './resolved-cluster.ts';

/** Fields by type; v1alpha1 is the same in 1.34, 1.35 and 1.36. */
const FIELDS = {
  text: [
    'bindAddress',
    'clusterCIDR',
    'healthzBindAddress',
    'hostnameOverride',
    'metricsBindAddress',
    'portRange',
    'showHiddenMetricsForVersion',
  ],
  duration: ['configSyncPeriod'],
  truth: ['bindAddressHardFail', 'enableProfiling', 'windowsRunAsService'],
  whole: ['oomScoreAdj'],
  texts: ['nodePortAddresses'],
  gates: ['featureGates'],
  mapping: [
    'clientConnection',
    'conntrack',
    'detectLocal',
    'iptables',
    'ipvs',
    'logging',
    'nftables',
    'winkernel',
  ],
} as const satisfies Partial<Record<KubeletFieldType, readonly string[]>>;

/** Fields with a fixed set of values, on Linux. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  mode: ['iptables', 'ipvs', 'nftables'],
  detectLocalMode: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
};

const TYPES: ReadonlyMap<string, KubeletFieldType> = new Map(
  (Object.keys(FIELDS) as (keyof typeof FIELDS)[]).flatMap((type) =>
    FIELDS[type].map((field) => [field, type] as const),
  ),
);
const NAMES = [...TYPES.keys(), ...Object.keys(WORDS)];

/** Faults of the overridden fields: unknown names, and values of the wrong type. */
export const proxyFaults = ({ kubeProxy: { config } }: ResolvedCluster): readonly ClusterFault[] =>
  Object.entries(config).flatMap(([field, value]) => {
    const message = faultOf(field, value);
    return message === undefined ? [] : [clusterError(`overrides.kubeProxy.config.${field}`, message)];
  });

function faultOf(field: string, value: Value): string | undefined {
  const words = Object.hasOwn(WORDS, field) ? WORDS[field] : undefined;
  if (words !== undefined)
    return words.some((word) => word === value) ? undefined : `expected one of ${words.join(', ')}`;
  const type = TYPES.get(field);
  if (type === undefined) return `KubeProxyConfiguration has no ${field}${didYouMean(field, NAMES)}`;
  return FIELD_TYPES[type].holds(value) ? undefined : `expected ${FIELD_TYPES[type].what}`;
}
