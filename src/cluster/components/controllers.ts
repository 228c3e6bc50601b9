/** The controllers of kube-controller-manager, and those that a cluster needs. */
import { rowsOf } from './tables.ts';

/** Each name → the name of today; most had another one before 1.28, and both are taken. */
export const CONTROLLERS: ReadonlyMap<string, string> = new Map(
  rowsOf('controller').flatMap(({ name, words }) =>
    [name, ...words].map((one): [string, string] => [one, name]),
  ),
);

/**
 * Without one of these, pods of the cluster itself do not run, or get no address, or kubelets
 * cannot renew their certificates.
 */
const NEEDED = [
  'certificatesigningrequest-approving-controller',
  'certificatesigningrequest-signing-controller',
  'clusterrole-aggregation-controller',
  'daemonset-controller',
  'deployment-controller',
  'endpointslice-controller',
  'namespace-controller',
  'node-ipam-controller',
  'node-lifecycle-controller',
  'replicaset-controller',
  'root-ca-certificate-publisher-controller',
  'serviceaccount-controller',
];

/** The needed controllers that a value of the flag `controllers` does not start. */
export function missingControllers(value: string, needed: readonly string[] = NEEDED): readonly string[] {
  const given = value.split(',').map((part) => {
    const name = part.replace(/^-/, '');
    return [CONTROLLERS.get(name) ?? name, !part.startsWith('-')] as const;
  });
  const isOn = (name: string): boolean =>
    given.find(([one]) => one === name)?.[1] ?? given.some(([one]) => one === '*');
  return needed.filter((name) => !isOn(name));
}
