/**
 * What kubeadm's later commands look for (`token`, `certs`, `upgrade plan`, `join`), and the
 * bindings that its certificates need.
 */

import { createHash } from 'node:crypto';
import { urlHost } from '../../base/ip.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { AUTHORITIES, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
import { apiserverMounts } from '../spec/apiserver-mounts.ts';
import { MACHINE_TOKENS } from '../spec/by-token.ts';
import { etcdClientUrl } from '../spec/ports.ts';
import { addressOf, type ResolvedCluster, withRole } from '../spec/resolved-cluster.ts';
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
/** AddressOwners of tokens that `kubeadm token create` made. There are none until a person makes one. */
const TOKENS = group('system:bootstrappers:kubeadm:default-node-token');
const NODES = group('system:nodes');
const APPROVED = 'system:certificates.k8s.io:certificatesigningrequests';

/**
 * kubeadm takes a component's ConfigMap for its own, and so upgrades it, when this is the digest of
 * its data in order of keys.
 */
export function componentHash(data: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const hash = createHash('sha256');
  for (const key of Object.keys(data).sort()) hash.update(data[key]!);
  return { 'kubeadm.kubernetes.io/component-config.hash': `sha256:${hash.digest('hex')}` };
}

export const endpointUrl = ({ endpoint }: ResolvedCluster): string =>
  `https://${urlHost(endpoint.host)}:${endpoint.port}`;

/**
 * Without these kubeadm would write an apiserver that cannot read Secrets, records nothing and
 * admits everything.
 */
const KEPT = /^(encryption-provider-config|admission-control-config-file|audit-.*)$/;

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
export function clusterConfiguration(resolved: ResolvedCluster): Plain {
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
 * kubelet's settings for machines that join by kubeadm: without the files that only Muster puts
 * down (its serving certificate, the bundle of trust, the link to the machine's resolv.conf).
 */
export function sharedKubeletConfiguration({ kubelet: { config } }: ResolvedCluster): Plain {
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

/** What anyone may read before joining: how to reach the API, and what to believe. */
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

export function kubeadmObjects(resolved: ResolvedCluster, caBundle: string): readonly KubeObject[] {
  const kubelet = { kubelet: yamlText(sharedKubeletConfiguration(resolved)) };
  return [
    // The certificates of people and of apiservers carry no rights of their own.
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
    // They ask, and nothing in the tree approves: that is for who knows the inventory.
    ...(resolved.joining === 'token'
      ? [bindCluster('muster:kubelet-bootstrap', 'system:node-bootstrapper', group(MACHINE_TOKENS))]
      : []),
    bindCluster('kubeadm:node-autoapprove-bootstrap', `${APPROVED}:nodeclient`, TOKENS),
    // A kubelet renews its own client certificate with this, whether Muster is there or not.
    bindCluster('kubeadm:node-autoapprove-certificate-rotation', `${APPROVED}:selfnodeclient`, NODES),
    configMap('cluster-info', 'kube-public', { kubeconfig: yamlText(clusterInfo(resolved, caBundle)) }),
    role('kubeadm:bootstrap-signer-clusterinfo', 'kube-public', reads('cluster-info')),
    bindRole('kubeadm:bootstrap-signer-clusterinfo', 'kube-public', user('system:anonymous')),
  ];
}
