/**
 * The API versions that the flag runtime-config may name. An API server ends at its start with a
 * version that it does not know, also to switch it off; only those of the groups apiextensions and
 * apiregistration it ignores. From the `install` packages of k8s.io/kubernetes,
 * k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator.
 */

/**
 * Versions of each group. `v1beta1>=35` is known from minor version 35 on, `v1alpha1<35` up to 34.
 */
const GROUP_VERSIONS: Readonly<Record<string, string>> = {
  'admissionregistration.k8s.io': 'v1 v1alpha1 v1beta1',
  'apiextensions.k8s.io': 'v1 v1beta1',
  'apiregistration.k8s.io': 'v1 v1beta1',
  apps: 'v1 v1beta1 v1beta2',
  'authentication.k8s.io': 'v1 v1alpha1 v1beta1',
  'authorization.k8s.io': 'v1 v1beta1',
  autoscaling: 'v1 v2 v2beta1<36 v2beta2<36',
  batch: 'v1 v1beta1',
  'certificates.k8s.io': 'v1 v1alpha1 v1beta1',
  'coordination.k8s.io': 'v1 v1alpha2 v1beta1',
  'discovery.k8s.io': 'v1 v1beta1',
  'events.k8s.io': 'v1 v1beta1',
  'flowcontrol.apiserver.k8s.io': 'v1 v1beta1 v1beta2 v1beta3',
  'internal.apiserver.k8s.io': 'v1alpha1',
  'networking.k8s.io': 'v1 v1beta1',
  'node.k8s.io': 'v1 v1alpha1 v1beta1',
  policy: 'v1 v1beta1',
  'rbac.authorization.k8s.io': 'v1 v1alpha1 v1beta1',
  'resource.k8s.io': 'v1 v1alpha3 v1beta1 v1beta2',
  'scheduling.k8s.io': 'v1 v1alpha1<36 v1alpha2>=36 v1beta1',
  'storage.k8s.io': 'v1 v1alpha1 v1beta1',
  'storagemigration.k8s.io': 'v1alpha1<35 v1beta1>=35',
};

/**
 * The versions of an API group in a minor version of Kubernetes (`36` for 1.36); none when there is
 * no such group.
 */
export function apiVersions(group: string, minor: number): readonly string[] {
  if (!Object.hasOwn(GROUP_VERSIONS, group)) return [];
  return GROUP_VERSIONS[group]!.split(' ').flatMap((entry) => {
    const [, version = '', sign, bound] = /^(\w+)(?:(<|>=)(\d+))?$/.exec(entry)!;
    if (sign === '<' && minor >= Number(bound)) return [];
    if (sign === '>=' && minor < Number(bound)) return [];
    return [version];
  });
}
