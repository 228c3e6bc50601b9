/**
 * Flags and settings of every component: those that kubeadm sets, with the differences that
 * `deviations.ts` lists.
 */
import { ipNetwork, parseIpNetwork } from '../../base/ip.ts';
import { ENCRYPTION } from '../../pki/encryption.ts';
import {
  APISERVER_DIRECTORY,
  AUTHORITIES,
  BOOTSTRAP_KUBECONFIG,
  COMPONENT_KUBECONFIGS,
  KUBELET_SERVING,
  KUBERNETES_DIRECTORY,
  PKI_DIRECTORY,
  SERVICE_ACCOUNT,
} from '../../pki/hierarchy.ts';
import type { ApiServerSpec } from '../../resources/apiserver-spec.ts';
import { ADMISSION_CONFIG, policyFlags } from '../components/policies.ts';
import {
  API_PORT,
  ETCD_CLIENT_PORT,
  ETCD_METRICS_PORT,
  ETCD_PEER_PORT,
  etcdClientUrl,
  KUBELET_HEALTH_PORT,
} from '../model/ports.ts';
import {
  addressOf,
  type ClusterMachine,
  CONTROL_PLANE_TAINT,
  type Component,
  type Value,
} from '../model/resolved-cluster.ts';
import { ETCD_RELEASES, type EtcdMinor } from '../model/versions.ts';

interface Derived {
  readonly value: string | readonly string[];
  /** The values from which this value is derived; absent for a default. */
  readonly by?: string;
}
type DerivedFlags = Readonly<Record<string, Derived>>;

interface FlagFacts {
  readonly name: string;
  readonly pods: readonly string[];
  readonly services: readonly string[];
  readonly dnsDomain: string;
  readonly etcdMinor: EtcdMinor;
  readonly dataDirectory: string;
  readonly etcdMembers: readonly ClusterMachine[];
  readonly apiServer?: ApiServerSpec | undefined;
}

const fixed = (flags: Readonly<Record<string, string>>): DerivedFlags =>
  Object.fromEntries(Object.entries(flags).map(([flag, value]) => [flag, { value }]));

/**
 * Files of trusted CAs. The certificate file of a single CA is used only by programs that sign with
 * that CA.
 */
const BUNDLE = {
  ca: AUTHORITIES.ca.bundle.path,
  etcd: AUTHORITIES['etcd-ca'].bundle.path,
  frontProxy: AUTHORITIES['front-proxy-ca'].bundle.path,
} as const;

/** The flags of all components, each with the values from which it is derived. */
export function componentFlags(facts: FlagFacts): Readonly<Record<Component, DerivedFlags>> {
  return {
    etcd: etcdFlags(facts),
    'kube-apiserver': apiserverFlags(facts),
    'kube-controller-manager': controllerManagerFlags(facts),
    'kube-scheduler': schedulerFlags(),
    kubelet: kubeletFlags(),
  };
}

function etcdFlags({ etcdMinor, dataDirectory }: FlagFacts): DerivedFlags {
  const pki = `${PKI_DIRECTORY}/etcd`;
  const url = (port: number): string => `https://\${machine.host}:${port}`;
  const clientUrl = url(ETCD_CLIENT_PORT);
  const peerUrl = url(ETCD_PEER_PORT);
  return {
    'advertise-client-urls': { value: clientUrl, by: 'machine' },
    'data-dir': { value: dataDirectory, by: 'etcd.dataDirectory' },
    'initial-advertise-peer-urls': { value: peerUrl, by: 'machine' },
    'initial-cluster': { value: '${founding.initialCluster}', by: 'founding' },
    'initial-cluster-state': { value: '${founding.state}', by: 'founding' },
    'initial-cluster-token': { value: '${founding.token}', by: 'founding' },
    'listen-client-urls': { value: `https://127.0.0.1:${ETCD_CLIENT_PORT},${clientUrl}`, by: 'machine' },
    'listen-peer-urls': { value: peerUrl, by: 'machine' },
    name: { value: '${machine.name}', by: 'machine' },
    ...fixed({
      'cert-file': `${pki}/server.crt`,
      'client-cert-auth': 'true',
      'key-file': `${pki}/server.key`,
      'listen-metrics-urls': `http://127.0.0.1:${ETCD_METRICS_PORT}`,
      'peer-cert-file': `${pki}/peer.crt`,
      'peer-client-cert-auth': 'true',
      'peer-key-file': `${pki}/peer.key`,
      'peer-trusted-ca-file': BUNDLE.etcd,
      'snapshot-count': '10000',
      'trusted-ca-file': BUNDLE.etcd,
    }),
    ...Object.fromEntries(
      Object.entries(ETCD_RELEASES[etcdMinor].flags).map(([flag, value]) => [
        flag,
        { value, by: `etcd ${etcdMinor}` },
      ]),
    ),
  };
}

/**
 * The resolv.conf that pods get. kubelet's unit links this path to the file that is right for the
 * machine.
 */
export const RESOLVER = '/run/muster/resolv.conf';

export const AUDIT_POLICY = `${APISERVER_DIRECTORY}/audit-policy.yaml`;
/** The directory of the audit log; on the data filesystem if the machine has one. */
export const AUDIT_DIRECTORY = '/var/log/kubernetes';

/**
 * The current audit log and its ten older files are bounded to about 100 MB together, because the
 * disk of a live system may be its memory. Compressed lines of JSON take less than a tenth of their
 * size.
 */
const AUDIT_LOG = {
  'audit-log-compress': 'true',
  'audit-log-maxage': '30',
  'audit-log-maxbackup': '10',
  'audit-log-maxsize': '50',
  'audit-log-path': `${AUDIT_DIRECTORY}/audit.log`,
  'audit-policy-file': AUDIT_POLICY,
};

function apiserverFlags({ services, dnsDomain, etcdMembers, apiServer }: FlagFacts): DerivedFlags {
  return {
    'advertise-address': { value: '${machine.address}', by: 'machine' },
    'etcd-servers': {
      value: etcdMembers.map((member) => etcdClientUrl(addressOf(member))).join(','),
      by: 'etcd members',
    },
    'service-account-issuer': { value: `https://kubernetes.default.svc.${dnsDomain}`, by: 'dnsDomain' },
    'service-cluster-ip-range': { value: services.join(','), by: 'networks.services' },
    ...fixed({
      ...AUDIT_LOG,
      'admission-control-config-file': ADMISSION_CONFIG,
      'allow-privileged': 'true',
      ...(apiServer?.authorization === undefined && { 'authorization-mode': 'Node,RBAC' }),
      'client-ca-file': BUNDLE.ca,
      'enable-admission-plugins': 'NodeRestriction',
      'enable-bootstrap-token-auth': 'true',
      'encryption-provider-config': ENCRYPTION.path,
      'encryption-provider-config-automatic-reload': 'true',
      'etcd-cafile': BUNDLE.etcd,
      'etcd-certfile': `${PKI_DIRECTORY}/apiserver-etcd-client.crt`,
      'etcd-keyfile': `${PKI_DIRECTORY}/apiserver-etcd-client.key`,
      'kubelet-certificate-authority': BUNDLE.ca,
      'kubelet-client-certificate': `${PKI_DIRECTORY}/apiserver-kubelet-client.crt`,
      'kubelet-client-key': `${PKI_DIRECTORY}/apiserver-kubelet-client.key`,
      'kubelet-preferred-address-types': 'InternalIP,ExternalIP,Hostname',
      'proxy-client-cert-file': `${PKI_DIRECTORY}/front-proxy-client.crt`,
      'proxy-client-key-file': `${PKI_DIRECTORY}/front-proxy-client.key`,
      'requestheader-allowed-names': 'front-proxy-client',
      'requestheader-client-ca-file': BUNDLE.frontProxy,
      'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
      'requestheader-group-headers': 'X-Remote-Group',
      'requestheader-username-headers': 'X-Remote-User',
      'secure-port': String(API_PORT),
      'service-account-key-file': SERVICE_ACCOUNT.verifiers,
      'service-account-signing-key-file': SERVICE_ACCOUNT.key,
      'shutdown-watch-termination-grace-period': '5s',
      'tls-cert-file': `${PKI_DIRECTORY}/apiserver.crt`,
      'tls-private-key-file': `${PKI_DIRECTORY}/apiserver.key`,
    }),
    ...policyFlags(apiServer),
  };
}

function controllerManagerFlags({ name, pods, services }: FlagFacts): DerivedFlags {
  const conf = COMPONENT_KUBECONFIGS['controller-manager'].path;
  return {
    'cluster-cidr': { value: pods.join(','), by: 'networks.pods' },
    'cluster-name': { value: name, by: 'name' },
    'service-cluster-ip-range': { value: services.join(','), by: 'networks.services' },
    ...nodeMasks(pods),
    ...fixed({
      'allocate-node-cidrs': 'true',
      'authentication-kubeconfig': conf,
      'authorization-kubeconfig': conf,
      'bind-address': '127.0.0.1',
      'client-ca-file': BUNDLE.ca,
      'cluster-signing-cert-file': AUTHORITIES.ca.pair!.cert,
      'cluster-signing-key-file': AUTHORITIES.ca.pair!.key,
      controllers: '*,bootstrapsigner,tokencleaner',
      kubeconfig: conf,
      'leader-elect': 'true',
      'requestheader-client-ca-file': BUNDLE.frontProxy,
      'root-ca-file': BUNDLE.ca,
      'service-account-private-key-file': SERVICE_ACCOUNT.key,
      'use-service-account-credentials': 'true',
    }),
  };
}

/**
 * Prefix length of a node's part of the pod network, by IP version. These are the defaults of
 * kube-controller-manager, and its flag is set only when the default does not fit.
 */
const NODE_PREFIX = { 4: 24, 6: 64 } as const;

/** The prefix length, in bits, of a node's part of this pod network. */
export function nodePrefix(network: string): number {
  const { base, prefix } = ipNetwork(network);
  const usual = NODE_PREFIX[base.family];
  if (prefix < usual) return Math.min(usual, prefix + 16);
  return Math.min(base.family === 4 ? 32 : 128, prefix + 8);
}

function nodeMasks(pods: readonly string[]): DerivedFlags {
  const flags: Record<string, Derived> = {};
  for (const text of pods) {
    const network = parseIpNetwork(text);
    if (network === undefined) continue;
    const { family } = network.base;
    const prefix = nodePrefix(text);
    if (pods.length === 1 && prefix === NODE_PREFIX[family]) continue;
    flags[pods.length === 1 ? 'node-cidr-mask-size' : `node-cidr-mask-size-ipv${family}`] = {
      value: String(prefix),
      by: 'networks.pods',
    };
  }
  return flags;
}

function schedulerFlags(): DerivedFlags {
  const conf = COMPONENT_KUBECONFIGS.scheduler.path;
  return fixed({
    'authentication-kubeconfig': conf,
    'authorization-kubeconfig': conf,
    'bind-address': '127.0.0.1',
    kubeconfig: conf,
    'leader-elect': 'true',
  });
}

function kubeletFlags(): DerivedFlags {
  return {
    'hostname-override': { value: '${machine.name}', by: 'machine' },
    'node-ip': { value: '${machine.nodeIps}', by: 'machine' },
    ...fixed({
      'bootstrap-kubeconfig': BOOTSTRAP_KUBECONFIG,
      config: '/var/lib/kubelet/config.yaml',
      kubeconfig: `${KUBERNETES_DIRECTORY}/kubelet.conf`,
    }),
  };
}

interface DerivedValue {
  readonly value: Value;
  readonly by?: string;
}

/** Fields of KubeletConfiguration. Fields with kubelet's defaults are left out. */
export function kubeletConfig(facts: {
  readonly dns: readonly string[];
  readonly dnsDomain: string;
  readonly gates: Readonly<Record<string, boolean>>;
  /** URL of the container runtime's socket. */
  readonly socket: string;
}): Readonly<Record<'config' | 'controlPlaneConfig', Readonly<Record<string, DerivedValue>>>> {
  const gates = Object.keys(facts.gates).length > 0;
  return {
    config: {
      authentication: {
        value: {
          anonymous: { enabled: false },
          webhook: { enabled: true },
          x509: { clientCAFile: BUNDLE.ca },
        },
      },
      authorization: { value: { mode: 'Webhook' } },
      cgroupDriver: { value: 'systemd' },
      clusterDNS: { value: facts.dns, by: 'serviceAddresses.dns' },
      clusterDomain: { value: facts.dnsDomain, by: 'dnsDomain' },
      containerRuntimeEndpoint: { value: facts.socket, by: 'runtime' },
      // The gates are set on workers too, because an override may set the back-off for every
      // kubelet.
      ...(gates && { featureGates: { value: facts.gates, by: 'versions.kubelet' } }),
      healthzBindAddress: { value: '127.0.0.1' },
      healthzPort: { value: KUBELET_HEALTH_PORT },
      resolvConf: { value: RESOLVER },
      rotateCertificates: { value: true },
      staticPodPath: { value: '/etc/kubernetes/manifests' },
      tlsCertFile: { value: KUBELET_SERVING.cert },
      tlsPrivateKeyFile: { value: KUBELET_SERVING.key },
    },
    controlPlaneConfig: {
      crashLoopBackOff: { value: { maxContainerRestartPeriod: '5s' } },
      registerWithTaints: {
        value: [{ ...CONTROL_PLANE_TAINT }],
      },
    },
  };
}

/**
 * Fields of KubeProxyConfiguration. Fields with kube-proxy's defaults are left out.
 *
 * @param addresses Addresses of the Service `kubernetes`.
 */
export const proxyConfig = (
  addresses: readonly string[],
  pods: readonly string[],
): Readonly<Record<string, DerivedValue>> => ({
  bindAddress: { value: addresses[0]?.includes(':') ? '::' : '0.0.0.0', by: 'networks.services' },
  clientConnection: { value: { kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf' } },
  clusterCIDR: { value: pods.join(','), by: 'networks.pods' },
});
