/**
 * Translates kubeadm's ClusterConfiguration into a Cluster document, and says what differs. Pure.
 */
import { MusterError } from '../../base/errors.ts';
import type { Draft } from '../import/csv.ts';

type Fields = Readonly<Record<string, unknown>>;
const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

/** Fields that are translated, or that say where kubeadm keeps what it makes. */
const KNOWN: readonly string[] = [
  'apiVersion',
  'kind',
  'kubernetesVersion',
  'controlPlaneEndpoint',
  'networking.podSubnet',
  'networking.serviceSubnet',
  'networking.dnsDomain',
  'apiServer.certSANs',
  'apiServer.timeoutForControlPlane',
  'imageRepository',
  'certificatesDir',
  'clusterName',
  'encryptionAlgorithm',
  'caCertificateValidityPeriod',
  'certificateValidityPeriod',
  'etcd.local.dataDir',
];

/** The paths of all fields that have a value. */
function pathsOf(value: unknown, path: string): readonly string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [path];
  return Object.entries(value).flatMap(([name, one]) => pathsOf(one, path === '' ? name : `${path}.${name}`));
}

/**
 * Makes the document. `machines`: the names that the machines get in Muster, which are those of the
 * Nodes.
 *
 * @throws {MusterError} E_USAGE when it is no ClusterConfiguration, or etcd is external
 */
export function fromKubeadm(
  config: unknown,
  cluster: string,
  machines: { readonly controlPlanes: readonly string[]; readonly workers: readonly string[] },
): { readonly document: Draft; readonly notes: readonly string[] } {
  const { kind, kubernetesVersion, controlPlaneEndpoint, networking, apiServer, etcd, imageRepository } =
    fieldsOf(config);
  if (kind !== 'ClusterConfiguration')
    throw new MusterError(
      'E_USAGE',
      'it is no ClusterConfiguration of kubeadm; take it from the ConfigMap kubeadm-config',
    );
  if (fieldsOf(etcd).external !== undefined)
    throw new MusterError(
      'E_USAGE',
      'its etcd is external: Muster adopts clusters whose control planes are the members of etcd',
    );
  const { podSubnet, serviceSubnet, dnsDomain } = fieldsOf(networking);
  const endpoint = textOf(controlPlaneEndpoint);
  const listed = (text: unknown): readonly string[] | undefined => textOf(text)?.split(',');
  const sans = fieldsOf(apiServer).certSANs;
  const networks = { pods: listed(podSubnet), services: listed(serviceSubnet) };
  const notes = [
    ...(endpoint === undefined
      ? [
          'controlPlaneEndpoint is not set: the cluster is reached at one control plane; correct `endpoint`, and every kubeconfig with it',
        ]
      : []),
    'encryptSecrets is false: API servers of kubeadm could not read Secrets that are encrypted; remove it when all control planes have moved',
    "cni is none: the pod network that runs stays; it is not one of Muster's",
    'certificates and kubeconfigs that kubeadm made stay valid until they end; machines that Muster boots get their own',
    ...(dnsDomain === undefined ? [] : []),
    ...pathsOf(config, '')
      .filter((path) => !KNOWN.includes(path))
      .map((path) => `${path} is not translated; \`overrides\` of the Cluster may set the same`),
  ];
  const kubernetes = {
    version: (textOf(kubernetesVersion) ?? '').replace(/^v/, ''),
    endpoint: endpoint?.replace(/:6443$/, '') ?? 'FILL-IN',
    controlPlanes: machines.controlPlanes,
    ...(machines.workers.length > 0 && { workers: machines.workers }),
    ...((networks.pods ?? networks.services) !== undefined && { networks }),
    dnsDomain: textOf(dnsDomain),
    ...(Array.isArray(sans) && sans.length > 0 && { sans: sans.map(String) }),
    ...(imageRepository !== undefined &&
      imageRepository !== 'registry.k8s.io' && { registry: imageRepository }),
    encryptSecrets: false,
    cni: 'none',
  };
  return {
    document: { apiVersion: 'muster/v1', kind: 'Cluster', metadata: { name: cluster }, spec: { kubernetes } },
    notes,
  };
}
