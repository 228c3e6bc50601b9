/**
 * Values that overrides may not change: values on which founding relies, the identity of machines,
 * paths of files that Muster installs, and ports to which others connect. Everything else in the
 * resolved specification can be overridden.
 */
import {
  API_PORT,
  ETCD_CLIENT_PORT,
  ETCD_METRICS_PORT,
  ETCD_PEER_PORT,
  KUBELET_HEALTH_PORT,
} from '../model/ports.ts';
import type { Component } from '../model/resolved-cluster.ts';

interface ProtectedField {
  /** The path from the root of the resolved specification. */
  readonly path: readonly string[];
  /** Follows "Muster decides this: ". */
  readonly why: string;
  /** Values that are allowed all the same. */
  readonly unless?: RegExp;
}

const flags = (
  component: Component,
  names: string,
  why: string,
  unless?: RegExp,
): readonly ProtectedField[] =>
  names
    .trim()
    .split(/\s+/)
    .map((name) => ({ path: ['flags', component, name], why, ...(unless && { unless }) }));

/** A field in both parts of `kubelet`; on control planes the second part wins. */
const kubelet = (field: string, why: string, unless?: RegExp): readonly ProtectedField[] =>
  ['config', 'controlPlaneConfig'].map((part) => ({
    path: ['kubelet', part, ...field.split('.')],
    why,
    ...(unless && { unless }),
  }));

const proxy = (field: string, why: string): readonly ProtectedField[] => [
  { path: ['kubeProxy', 'config', ...field.split('.')], why },
];

const FOUNDING =
  'Muster founds etcd once, by a grant; a member that starts with other values forms a second cluster';
const DATA =
  'the agent looks for the WAL there before etcd may start, and the data filesystem is mounted there';
const TLS = 'members use mTLS only, with certificates that Muster issues and renews';
const MEMBER_URLS = `other members, apiservers and Muster connect at ports ${ETCD_CLIENT_PORT} and ${ETCD_PEER_PORT}`;
const PLACED = 'Muster installs the file there, renews it and restarts the programs that read it';
const MACHINE = "each machine has its own value, and the machine's certificates contain it";
const SERVICES = 'it is networks.services; set that';
const PODS = 'it is networks.pods; set that';
const RUNTIME = 'it follows from spec.kubernetes.runtime; set that';
const PROBED = 'kubelet probes the pod there';
const HEALTH = `the agent asks kubelet for its health at port ${KUBELET_HEALTH_PORT}`;
const HEALTH_ADDRESS =
  'the agent asks kubelet for its health at 127.0.0.1; 0.0.0.0 and :: include that address';
const RENEWED =
  'kubelets renew their certificates through the cluster, and a Node whose certificate ended is lost';
const LEADER = 'every control plane runs one, and leader election lets only one of them act';
const LOCAL = 'kubelet probes the pod at 127.0.0.1; 0.0.0.0 and :: include that address';
const LOOPBACK = /^(127\.0\.0\.1|0\.0\.0\.0|::)$/;

export const PROTECTED_FIELDS: readonly ProtectedField[] = [
  { path: ['etcd', 'dataDirectory'], why: DATA },
  {
    path: ['serviceAddresses', 'kubernetes'],
    why: 'kube-apiserver itself takes the first address of networks.services',
  },
  ...flags(
    'etcd',
    `force-new-cluster initial-cluster initial-cluster-state initial-cluster-token initial-advertise-peer-urls discovery discovery-srv
    discovery-srv-name config-file proxy`,
    FOUNDING,
  ),
  ...flags('etcd', 'data-dir wal-dir', DATA),
  ...flags('etcd', 'name', `${MACHINE}; the founding uses it as the member's name`),
  ...flags('etcd', 'unsafe-no-fsync', 'a power cut would lose writes that etcd has acknowledged', /^false$/),
  ...flags(
    'etcd',
    'advertise-client-urls listen-client-urls listen-client-http-urls listen-peer-urls',
    MEMBER_URLS,
  ),
  ...flags(
    'etcd',
    'listen-metrics-urls',
    `probes connect to http://127.0.0.1:${ETCD_METRICS_PORT}; http://0.0.0.0:${ETCD_METRICS_PORT} includes it`,
    new RegExp(`(^|,)http://(127\\.0\\.0\\.1|0\\.0\\.0\\.0|\\[::\\]):${ETCD_METRICS_PORT}(,|$)`),
  ),
  ...flags(
    'etcd',
    'enable-grpc-gateway',
    'Muster changes members and asks for their health through it',
    /^true$/,
  ),
  ...flags(
    'etcd',
    `cert-file key-file trusted-ca-file client-cert-auth peer-cert-file peer-key-file peer-trusted-ca-file peer-client-cert-auth auto-tls
    peer-auto-tls`,
    TLS,
  ),
  ...flags(
    'kube-apiserver',
    'secure-port',
    `balancers, kubelets and the virtual address reach it at ${API_PORT}`,
  ),
  ...flags(
    'kube-apiserver',
    'bind-address',
    'its own machine reaches it at 127.0.0.1 and others at its address; only 0.0.0.0 and :: include both',
    /^(0\.0\.0\.0|::)$/,
  ),
  ...flags('kube-apiserver', 'advertise-address', MACHINE),
  ...flags('kube-apiserver', 'etcd-servers', 'it is the members that the Cluster names'),
  ...flags('kube-apiserver', 'service-cluster-ip-range', SERVICES),
  ...flags(
    'kube-apiserver',
    `client-ca-file etcd-cafile etcd-certfile etcd-keyfile kubelet-client-certificate kubelet-client-key proxy-client-cert-file
    proxy-client-key-file requestheader-client-ca-file service-account-key-file service-account-signing-key-file tls-cert-file
    tls-private-key-file`,
    PLACED,
  ),
  ...flags(
    'kube-apiserver',
    'etcd-prefix',
    'all objects are below /registry, and with another prefix an API server finds none of them',
    /^\/?registry\/?$/,
  ),
  ...flags(
    'kube-apiserver',
    'encryption-provider-config',
    'without it Secrets that are encrypted cannot be read; encryptSecrets: false stops encrypting, another path is your own',
    /^\//,
  ),
  ...flags(
    'kube-apiserver',
    'encryption-provider-config-automatic-reload',
    'API servers read another encryption key without a restart, which its rotation relies on',
    /^(1|t|T|TRUE|true|True)$/,
  ),
  ...flags('kube-controller-manager', 'cluster-cidr', PODS),
  ...flags('kube-controller-manager', 'service-cluster-ip-range', SERVICES),
  ...flags(
    'kube-controller-manager',
    `authentication-kubeconfig authorization-kubeconfig kubeconfig client-ca-file cluster-signing-cert-file cluster-signing-key-file
    requestheader-client-ca-file root-ca-file service-account-private-key-file`,
    PLACED,
  ),
  ...flags('kube-scheduler', 'authentication-kubeconfig authorization-kubeconfig kubeconfig', PLACED),
  ...(['kube-controller-manager', 'kube-scheduler'] as const).flatMap((component) => [
    ...flags(component, 'secure-port', PROBED),
    ...flags(component, 'bind-address', LOCAL, LOOPBACK),
    ...flags(component, 'leader-elect', LEADER, /^true$/),
  ]),
  ...flags('kubelet', 'hostname-override node-ip', MACHINE),
  ...flags(
    'kubelet',
    'bootstrap-kubeconfig config config-dir kubeconfig client-ca-file tls-cert-file tls-private-key-file',
    PLACED,
  ),
  ...flags('kubelet', 'root-dir cert-dir', 'the data filesystem is mounted there'),
  ...flags('kubelet', 'pod-manifest-path', 'the agent puts static pods there'),
  ...flags('kubelet', 'container-runtime-endpoint cgroup-driver', RUNTIME),
  ...flags('kubelet', 'healthz-port', HEALTH, new RegExp(`^${KUBELET_HEALTH_PORT}$`)),
  ...flags('kubelet', 'healthz-bind-address', HEALTH_ADDRESS, LOOPBACK),
  ...flags('kubelet', 'register-node', 'Muster waits for the Node of every machine', /^true$/),
  ...kubelet('staticPodPath', 'the agent puts static pods there'),
  ...kubelet('tlsCertFile', PLACED),
  ...kubelet('tlsPrivateKeyFile', PLACED),
  ...kubelet('authentication.x509.clientCAFile', PLACED),
  ...kubelet('containerRuntimeEndpoint', RUNTIME),
  ...kubelet('cgroupDriver', RUNTIME),
  ...kubelet('clusterDomain', 'CoreDNS serves dnsDomain alone; set that'),
  ...kubelet('healthzPort', HEALTH),
  ...kubelet('healthzBindAddress', HEALTH_ADDRESS, LOOPBACK),
  ...kubelet('registerNode', 'Muster waits for the Node of every machine'),
  ...flags('kubelet', 'rotate-certificates', RENEWED, /^(1|t|T|TRUE|true|True)$/),
  ...kubelet('rotateCertificates', RENEWED, /^true$/),
  ...proxy('clusterCIDR', PODS),
  ...proxy('hostnameOverride', MACHINE),
  ...proxy(
    'clientConnection.kubeconfig',
    'with this kubeconfig kube-proxy reaches the API through its own machine',
  ),
];

/** The protected fields that these overrides change or leave out, also as part of a mapping. */
export const protectedFieldsOf = (overrides: Readonly<Record<string, unknown>>): readonly ProtectedField[] =>
  PROTECTED_FIELDS.filter(({ path, unless }) => {
    const found = valueAt(overrides, path);
    return found !== undefined && (typeof found === 'object' || !unless?.test(String(found)));
  });

/**
 * The value at `path`, or the value above it if that is not a mapping; undefined when overrides
 * have neither. An open path, where null removes a whole value, has three steps.
 */
function valueAt(overrides: Readonly<Record<string, unknown>>, path: readonly string[]): unknown {
  let here: unknown = overrides;
  for (const [depth, step] of path.entries()) {
    if (typeof here !== 'object' || here === null || Array.isArray(here)) return depth < 3 ? undefined : here;
    if (!Object.hasOwn(here, step)) return undefined;
    here = (here as Readonly<Record<string, unknown>>)[step];
  }
  return here;
}
