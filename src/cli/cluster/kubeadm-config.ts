/**
 * Translates kubeadm's ClusterConfiguration into a Cluster document, and says what differs. Pure.
 */
import { MusterError } from '../../base/errors.ts';
import { type Fields, fieldsOf } from '../../base/foreign-json.ts';
import type { Draft } from '../import/csv.ts';

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

/** What becomes of flags of the API server that a cluster depends on; others may be overrides. */
const API_FLAGS: readonly (readonly [flag: RegExp, becomes: (value: string) => string])[] = [
  [
    /^service-account-issuer$/,
    (value) =>
      `Muster's API servers issue tokens of another issuer, and refuse those of ${value}; keep it with overrides.flags.kube-apiserver.service-account-issuer`,
  ],
  [
    /^oidc-|^authentication-config$/,
    () =>
      'users that log in by it cannot after the move; write apiServer.authentication, or set the same in overrides',
  ],
  [
    /^audit-/,
    () => 'the audit log ends with the move; write apiServer.auditPolicy, or set the same in overrides',
  ],
  [
    /^(?:enable|disable)-admission-plugins$|^admission-control-config-file$/,
    () => 'other admission plugins may admit or refuse other objects; set the same in overrides',
  ],
  [
    /^feature-gates$|^runtime-config$/,
    () => 'objects that need it are not served without it; set the same in overrides',
  ],
];

/** Flags from both forms of extraArgs: kubeadm v1beta3 has a map, v1beta4 a list. */
function flagsOf(extraArgs: unknown): readonly (readonly [name: string, value: string])[] {
  return Array.isArray(extraArgs)
    ? extraArgs.map((one) => [String(fieldsOf(one).name ?? ''), String(fieldsOf(one).value ?? '')] as const)
    : Object.entries(fieldsOf(extraArgs)).map(([name, value]) => [name, String(value)] as const);
}

/** The components of a ClusterConfiguration that have flags of their own. */
const COMPONENTS = ['apiServer', 'controllerManager', 'scheduler'] as const;

/**
 * A note for each flag.
 *
 * @throws {MusterError} E_USAGE for Secrets that Muster's API servers could not read
 */
function flagNotes(config: Fields): readonly string[] {
  const flags = [
    ...COMPONENTS.map((component) => [component, fieldsOf(config[component]).extraArgs] as const),
    ['etcd.local', fieldsOf(fieldsOf(config.etcd).local).extraArgs] as const,
  ];
  return flags.flatMap(([component, extraArgs]) =>
    flagsOf(extraArgs).map(([name, value]) => {
      if (component === 'apiServer' && /^(?:experimental-)?encryption-provider-config$/.test(name))
        throw new MusterError(
          'E_USAGE',
          `apiServer.extraArgs ${name}: its Secrets are encrypted by keys that Muster does not have, and its API servers could not read them; first let kubeadm's API servers write them unencrypted (provider identity first, then replace all Secrets), and take the flag out`,
        );
      const known = component === 'apiServer' ? API_FLAGS.find(([flag]) => flag.test(name)) : undefined;
      const becomes = known?.[1](value) ?? '`overrides` of the Cluster may set the same';
      return `${component}.extraArgs.${name} is not translated; ${becomes}`;
    }),
  );
}

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
    'trust is approved: an operator compares a code for each machine that Muster boots; segment and tpm are the others (docs/security.md)',
    'encryptSecrets is false: API servers of kubeadm could not read Secrets that are encrypted; remove it when all control planes have moved',
    "cni is none: the pod network that runs stays; it is not one of Muster's",
    'certificates and kubeconfigs that kubeadm made stay valid until they end; machines that Muster boots get their own',
    ...flagNotes(fieldsOf(config)),
    ...pathsOf(config, '')
      .filter((path) => !KNOWN.includes(path) && !path.includes('.extraArgs'))
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
    document: {
      apiVersion: 'muster/v1',
      kind: 'Cluster',
      metadata: { name: cluster },
      spec: { trust: 'approved', kubernetes },
    },
    notes,
  };
}
