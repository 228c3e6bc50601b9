/** The cluster that kubeadm's golden files were made for, as a short specification. */

import type { ResolvedCluster } from '../../../src/cluster/model/resolved-cluster.ts';
import type { MachineFacts } from '../../../src/cluster/resolve/machines.ts';
import { type Resolution, resolveCluster } from '../../../src/cluster/resolve/resolve.ts';
import type { KubernetesSpec } from '../../../src/resources/kinds.ts';

export const SHORT: KubernetesSpec = {
  version: '1.36.3',
  endpoint: 'api.golden.test:6443',
  controlPlanes: ['cp1', 'cp2', 'cp3'],
  workers: ['w1', 'w2'],
  sans: ['10.0.0.10'],
};

export const MACHINES: readonly MachineFacts[] = [
  { name: 'cp1', addresses: ['10.0.0.11'] },
  { name: 'cp2', addresses: ['10.0.0.12'] },
  { name: 'cp3', addresses: ['10.0.0.13'] },
  { name: 'w1', addresses: ['10.0.0.21'] },
  { name: 'w2', addresses: ['10.0.0.22'] },
];

/** Versions that are known by documents are like others in tests. */
const ACCEPTED = { acceptUntested: '1.37' };

export const completed = (
  changes: Partial<KubernetesSpec> = {},
  machines: readonly MachineFacts[] = MACHINES,
): Resolution => resolveCluster('golden', { ...SHORT, ...ACCEPTED, ...changes }, machines);

/** The full specification; throws with its faults when there is none. */
export function resolved(
  changes: Partial<KubernetesSpec> = {},
  machines?: readonly MachineFacts[],
): ResolvedCluster {
  const result = completed(changes, machines);
  if (result.resolved === undefined)
    throw new Error(result.faults.map(({ fault }) => `${fault.path}: ${fault.message}`).join('\n'));
  return result.resolved;
}

/** Faults as `severity path: message`. */
export const faults = (changes: Partial<KubernetesSpec>, machines?: readonly MachineFacts[]): string[] =>
  completed(changes, machines).faults.map(
    ({ severity, fault }) => `${severity} ${fault.path?.replace('spec.kubernetes.', '')}: ${fault.message}`,
  );

export const FOUNDING = {
  state: 'new',
  token: 'founding-1',
  members: [
    { name: 'cp2', address: '10.0.0.12' },
    { name: 'cp1', address: '10.0.0.11' },
    { name: 'cp3', address: '10.0.0.13' },
  ],
} as const;
