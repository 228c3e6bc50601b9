/** Clusters that are right elsewhere and are taken, and what is said of settings with a catch. */
import { describe, expect, test } from 'vitest';
import { bundleOf } from '../../../../src/cluster/objects/bundle.ts';
import { kubernetesSpec } from '../../../../src/resources/cluster-spec.ts';
import { faults, resolved } from '../kit.ts';

/** As kubeadm writes it into the ConfigMap kubelet-config. */
const KUBEADM_KUBELET = {
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  authentication: {
    anonymous: { enabled: false },
    webhook: { cacheTTL: '0s', enabled: true },
    x509: { clientCAFile: '/etc/kubernetes/pki/ca.crt' },
  },
  authorization: { mode: 'Webhook', webhook: { cacheAuthorizedTTL: '0s', cacheUnauthorizedTTL: '0s' } },
  cgroupDriver: 'systemd',
  clusterDNS: ['10.96.0.10'],
  clusterDomain: 'cluster.local',
  containerRuntimeEndpoint: '',
  cpuManagerReconcilePeriod: '0s',
  crashLoopBackOff: {},
  evictionPressureTransitionPeriod: '0s',
  fileCheckFrequency: '0s',
  healthzBindAddress: '127.0.0.1',
  healthzPort: 10248,
  httpCheckFrequency: '0s',
  imageMaximumGCAge: '0s',
  imageMinimumGCAge: '0s',
  logging: {
    flushFrequency: 0,
    options: { json: { infoBufferSize: '0' }, text: { infoBufferSize: '0' } },
    verbosity: 0,
  },
  memorySwap: {},
  nodeStatusReportFrequency: '0s',
  nodeStatusUpdateFrequency: '0s',
  rotateCertificates: true,
  runtimeRequestTimeout: '0s',
  shutdownGracePeriod: '0s',
  shutdownGracePeriodCriticalPods: '0s',
  staticPodPath: '/etc/kubernetes/manifests',
  streamingConnectionIdleTimeout: '0s',
  syncFrequency: '0s',
  volumeStatsAggPeriod: '0s',
};

describe('protected fields', () => {
  test("kubeadm's own kubelet configuration is taken, and Muster's values stay", () => {
    const overrides = { kubelet: { config: KUBEADM_KUBELET } };
    expect(faults({ overrides })).toEqual([]);
    const { config } = resolved({ overrides }).kubelet;
    const own = resolved().kubelet.config;
    expect(config.containerRuntimeEndpoint).toBe(own.containerRuntimeEndpoint);
    expect(config.authentication).toMatchObject({
      x509: { clientCAFile: '/etc/kubernetes/pki/ca-bundle.crt' },
    });
    expect(config).not.toHaveProperty('kind');
  });

  test("kubeadm's flags of the API server are taken where they say what Muster says", () => {
    const flags = {
      'client-ca-file': '/etc/kubernetes/pki/ca.crt',
      'etcd-cafile': '/etc/kubernetes/pki/etcd/ca.crt',
      'etcd-certfile': '/etc/kubernetes/pki/apiserver-etcd-client.crt',
      'requestheader-client-ca-file': '/etc/kubernetes/pki/front-proxy-ca.crt',
      'secure-port': '6443',
      'service-cluster-ip-range': '10.96.0.0/16',
      'tls-cert-file': '/etc/kubernetes/pki/apiserver.crt',
    };
    expect(faults({ overrides: { flags: { 'kube-apiserver': flags } } })).toEqual([]);
    expect(resolved({ overrides: { flags: { 'kube-apiserver': flags } } }).flags).toEqual(resolved().flags);
  });

  test.each([
    ['kubelet', { config: { healthzPort: 10249 } }],
    ['kubelet', { config: { staticPodPath: '/etc/kubelet.d' } }],
    ['flags', { 'kube-apiserver': { 'secure-port': '7443' } }],
    ['flags', { 'kube-apiserver': { 'client-ca-file': '/etc/kubernetes/pki/other.crt' } }],
  ])('another value in %s %j is refused', (field, value) => {
    expect(faults({ overrides: { [field]: value } })).toEqual([
      expect.stringMatching(/^error overrides\..*Muster decides this: /),
    ]);
  });
});

describe('serviceProxy: none', () => {
  test('leaves kube-proxy out, for a network that carries Services itself', () => {
    const kinds = (spec: object) =>
      bundleOf(resolved(spec), 'CA').applied.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(kinds({ cni: 'none' })).toContain('DaemonSet kube-proxy');
    expect(kinds({ cni: 'none', serviceProxy: 'none' }).filter((one) => one.includes('kube-proxy'))).toEqual(
      [],
    );
  });

  test('needs such a network', () => {
    expect(faults({ serviceProxy: 'none' })).toEqual([
      'error serviceProxy: flannel leaves Services to kube-proxy; set cni: none and add a network that carries them, such as Cilium',
    ]);
    expect(faults({ overrides: { kubeProxy: null } })[0]).toContain(
      'serviceProxy: none leaves kube-proxy out',
    );
  });
});

test('a webhook that is called without TLS gets a warning', () => {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'a', cluster: { server: 'http://audit.example' } }],
    contexts: [{ name: 'a', context: { cluster: 'a' } }],
    'current-context': 'a',
  } as const;
  expect(faults({ apiServer: { auditWebhook: structuredClone(config) as never } })).toEqual([
    expect.stringMatching(
      /^warning apiServer\.auditWebhook\.clusters\[0\]\.cluster\.server: http:\/\/ shows/,
    ),
  ]);
});

test('an audit log that no filesystem keeps gets a warning', () => {
  const log = (path: string) =>
    faults({ overrides: { flags: { 'kube-apiserver': { 'audit-log-path': path } } } });
  expect(log('/data/audit.log')).toEqual([
    expect.stringMatching(
      /^warning .*audit-log-path: the data filesystem keeps \/var\/log\/kubernetes alone/,
    ),
  ]);
  expect(log('/var/log/kubernetes/api.log')).toEqual([]);
  expect(log('-')).toEqual([]);
});

test('the root of the host cannot be mounted over that of an image', () => {
  expect(faults({ staticPods: { 'kube-apiserver': { volumes: [{ path: '/' }] } } })).toEqual([
    expect.stringContaining('error staticPods.kube-apiserver.volumes[0].path: the whole file system'),
  ]);
});

test.each([
  ['kube-apiserver', 'enable-swagger-ui'],
  ['kube-apiserver', 'master-service-namespace'],
  ['kube-apiserver', 'ssh-user'],
  ['kube-apiserver', 'etcd-quorum-read'],
  ['kube-controller-manager', 'volume-host-cidr-denylist'],
  ['kube-controller-manager', 'register-retry-count'],
  ['kube-controller-manager', 'deployment-controller-sync-period'],
  ['kube-scheduler', 'lock-object-name'],
])('%s %s left Kubernetes, and the message says what to do', (component, flag) => {
  expect(faults({ overrides: { flags: { [component]: { [flag]: 'x' } } } })[0]).toMatch(
    /; (remove it: |set )/,
  );
});

test("Kubernetes' name for a kubeconfig in a file leads to the one that is taken", () => {
  const webhook = {
    timeout: '3s',
    subjectAccessReviewVersion: 'v1',
    matchConditionSubjectAccessReviewVersion: 'v1',
    failurePolicy: 'Deny',
    authorizedTTL: '1m',
    unauthorizedTTL: '1m',
    connectionInfo: { type: 'KubeConfigFile', kubeConfigFile: '/x' },
  };
  const authorization = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AuthorizationConfiguration',
    authorizers: [{ type: 'Webhook', name: 'a', webhook }],
  };
  const result = kubernetesSpec.partial().safeParse({ apiServer: { authorization } });
  expect(result.error?.issues.map(({ message }) => message)).toContain(
    'write type: KubeConfig, and the kubeconfig itself as kubeConfig: Muster makes the file',
  );
});

test('a list of controllers that leaves one out is told to take it out', () => {
  const flags = { 'kube-controller-manager': { controllers: '*,-nodeipam' } };
  expect(faults({ overrides: { flags } })).toEqual([
    expect.stringContaining('the cluster needs node-ipam-controller; take it out of the list'),
  ]);
});
