/**
 * Objects that kubeadm's later commands read (`token`, `certs`, `upgrade plan`, `join`), and the
 * role bindings that a cluster's certificates need.
 */

import { createHash } from 'node:crypto';
import { urlHost } from '../../base/ip.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { AUTHORITIES, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
import { apiserverMounts } from '../model/apiserver-mounts.ts';
import { etcdClientUrl } from '../model/ports.ts';
import { addressOf, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import { MACHINE_TOKENS } from '../resolve/by-token.ts';
import {
  bindCluster,
  bindRole,
  clusterRole,
  configMap,
  group,
  type KubeObject,
  role,
  user,
} from './object.ts';

const SYSTEM = 'kube-system';
/** The group of tokens that `kubeadm token create` makes. Muster makes no token of this group. */
const TOKENS = group('system:bootstrappers:kubeadm:default-node-token');
const NODES = group('system:nodes');
const APPROVED = 'system:certificates.k8s.io:certificatesigningrequests';

/**
 * The annotation by which kubeadm recognises that nobody edited a component's ConfigMap, so that it
 * may upgrade it: a digest of the ConfigMap's data, in the order of the keys.
 */
export function componentHash(data: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const hash = createHash('sha256');
  for (const key of Object.keys(data).sort()) hash.update(data[key]!);
  return { 'kubeadm.kubernetes.io/component-config.hash': `sha256:${hash.digest('hex')}` };
}

const endpointUrl = ({ endpoint }: ResolvedCluster): string =>
  `https://${urlHost(endpoint.host)}:${endpoint.port}`;

/**
 * Flags that kubeadm has to keep when it writes kube-apiserver's manifest. Without these flags
 * kube-apiserver cannot read Secrets, writes no audit log and admits every pod.
 */
const KEPT =
  /^(encryption-provider-config|admission-control-config-file|audit-.*|(authentication|authorization)-config|authentication-token-webhook-config-file|oidc-.*)$/;

function apiserverSettings(resolved: ResolvedCluster): { readonly [field: string]: Plain } {
  const kept = Object.entries(resolved.flags['kube-apiserver']).filter(([flag]) => KEPT.test(flag));
  return {
    extraArgs: kept
      .flatMap(([name, values]) => [values].flat().map((value) => ({ name, value })))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
    extraVolumes: apiserverMounts(resolved).map(({ name, path, readOnly }) => ({
      hostPath: path,
      mountPath: path,
      name,
      pathType: 'DirectoryOrCreate',
      ...(readOnly && { readOnly }),
    })),
  };
}

/** kubeadm's v1beta4 ClusterConfiguration. */
function clusterConfiguration(resolved: ResolvedCluster): Plain {
  const sans = [...resolved.sans.dns, ...resolved.sans.ips].filter((one) => one !== resolved.endpoint.host);
  const members = withRole(resolved, 'etcd').map((member) => etcdClientUrl(addressOf(member)));
  return {
    apiServer: { ...(sans.length > 0 && { certSANs: sans }), ...apiserverSettings(resolved) },
    apiVersion: 'kubeadm.k8s.io/v1beta4',
    caCertificateValidityPeriod: '87600h0m0s',
    certificateValidityPeriod: '8760h0m0s',
    certificatesDir: PKI_DIRECTORY,
    clusterName: resolved.name,
    controlPlaneEndpoint: `${urlHost(resolved.endpoint.host)}:${resolved.endpoint.port}`,
    controllerManager: {},
    dns: {},
    encryptionAlgorithm: resolved.keys,
    etcd:
      resolved.etcd.runs === 'pod'
        ? { local: { dataDir: resolved.etcd.dataDirectory } }
        : {
            external: {
              caFile: AUTHORITIES['etcd-ca'].bundle.path,
              certFile: `${PKI_DIRECTORY}/apiserver-etcd-client.crt`,
              endpoints: members,
              keyFile: `${PKI_DIRECTORY}/apiserver-etcd-client.key`,
            },
          },
    imageRepository: resolved.registry,
    kind: 'ClusterConfiguration',
    kubernetesVersion: `v${resolved.kubernetes.version.replace(/^v/, '')}`,
    networking: {
      dnsDomain: resolved.dnsDomain,
      podSubnet: resolved.networks.pods.join(','),
      serviceSubnet: resolved.networks.services.join(','),
    },
    proxy: {},
    scheduler: {},
  };
}

/**
 * kubelet's settings for machines that join with kubeadm. They leave out the files that only Muster
 * installs: the serving certificate, the trust bundle, the link to the machine's resolv.conf.
 */
function sharedKubeletConfiguration({ kubelet: { config } }: ResolvedCluster): Plain {
  const {
    tlsCertFile: _,
    tlsPrivateKeyFile: __,
    containerRuntimeEndpoint: ___,
    resolvConf: ____,
    ...rest
  } = config;
  const text = JSON.stringify({
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    ...rest,
  }).replaceAll(AUTHORITIES.ca.bundle.path, AUTHORITIES.ca.pair!.cert);
  const shared = JSON.parse(text) as Record<string, Plain>;
  return Object.fromEntries(Object.entries(shared).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A kubeconfig that anyone may read before joining: the API's address and its CA. */
const clusterInfo = (resolved: ResolvedCluster, caBundle: string): Plain => ({
  apiVersion: 'v1',
  clusters: [
    {
      cluster: {
        'certificate-authority-data': Buffer.from(caBundle).toString('base64'),
        server: endpointUrl(resolved),
      },
      name: '',
    },
  ],
  contexts: null,
  'current-context': '',
  kind: 'Config',
  users: null,
});

const reads = (name: string) => ({ resources: ['configmaps'], names: [name], verbs: ['get'] });

/** The objects for kubeadm's commands, and role bindings. `caBundle`: the cluster's CA, PEM. */
export function kubeadmObjects(resolved: ResolvedCluster, caBundle: string): readonly KubeObject[] {
  const kubelet = { kubelet: yamlText(sharedKubeletConfiguration(resolved)) };
  return [
    // The certificates of users and of API servers name groups, and these bindings give them
    // rights.
    bindCluster('kubeadm:cluster-admins', 'cluster-admin', group('kubeadm:cluster-admins')),
    bindCluster(
      'kubeadm:apiserver-kubelet-client',
      'system:kubelet-api-admin',
      user('kube-apiserver-kubelet-client'),
    ),
    configMap('kubeadm-config', SYSTEM, { ClusterConfiguration: yamlText(clusterConfiguration(resolved)) }),
    role('kubeadm:nodes-kubeadm-config', SYSTEM, reads('kubeadm-config')),
    bindRole('kubeadm:nodes-kubeadm-config', SYSTEM, TOKENS, NODES),
    configMap('kubelet-config', SYSTEM, kubelet, { annotations: componentHash(kubelet) }),
    role('kubeadm:kubelet-config', SYSTEM, reads('kubelet-config')),
    bindRole('kubeadm:kubelet-config', SYSTEM, NODES, TOKENS),
    clusterRole('kubeadm:get-nodes', { resources: ['nodes'], verbs: ['get'] }),
    bindCluster('kubeadm:get-nodes', 'kubeadm:get-nodes', TOKENS),
    bindCluster('kubeadm:kubelet-bootstrap', 'system:node-bootstrapper', TOKENS),
    // Machines may request a certificate with their token. Only Muster approves the request.
    ...(resolved.joining === 'token'
      ? [bindCluster('muster:kubelet-bootstrap', 'system:node-bootstrapper', group(MACHINE_TOKENS))]
      : []),
    bindCluster('kubeadm:node-autoapprove-bootstrap', `${APPROVED}:nodeclient`, TOKENS),
    // Lets a kubelet renew its client certificate without Muster.
    bindCluster('kubeadm:node-autoapprove-certificate-rotation', `${APPROVED}:selfnodeclient`, NODES),
    configMap('cluster-info', 'kube-public', { kubeconfig: yamlText(clusterInfo(resolved, caBundle)) }),
    role('kubeadm:bootstrap-signer-clusterinfo', 'kube-public', reads('cluster-info')),
    bindRole('kubeadm:bootstrap-signer-clusterinfo', 'kube-public', user('system:anonymous')),
  ];
}
