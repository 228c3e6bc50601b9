/**
 * Resolving a Cluster: every value has an origin, everything can be overridden, and wrong values
 * are refused.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseIp } from '../../../../src/base/ip.ts';
import { ETCD_FLAGS, FEATURE_GATES, FLAGS, known } from '../../../../src/cluster/components/flags.ts';
import { COMPONENTS, type ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { ETCD_MINORS, ETCD_RELEASES, MINORS, RELEASES } from '../../../../src/cluster/model/versions.ts';
import { kubeletConfiguration } from '../../../../src/cluster/plan/kubelet.ts';
import { previewText } from '../../../../src/cluster/plan/preview.ts';
import { clusterNames, holderOf } from '../../../../src/cluster/resolve/certificate-names.ts';
import { CLUSTER_DEVIATIONS } from '../../../../src/cluster/resolve/deviations.ts';
import { parseEndpoint } from '../../../../src/cluster/resolve/endpoint.ts';
import { PROTECTED_FIELDS, protectedFieldsOf } from '../../../../src/cluster/resolve/protected-fields.ts';
import { resolveCluster } from '../../../../src/cluster/resolve/resolve.ts';
import { LEAF_NAMES, leafOf } from '../../../../src/pki/hierarchy.ts';
import { parseDocuments } from '../../../../src/resources/document.ts';
import { completed, faults, MACHINES, resolved, SHORT } from '../kit.ts';

test('a short specification is resolved without faults', () => {
  const result = completed();
  expect(result.faults).toEqual([]);
  expect(result.resolved?.kubernetes).toEqual({ version: '1.36.3', minor: '1.36' });
});

/**
 * Paths of all leaves; lists are leaves, and so are mappings of kubelet’s and kube-proxy’s fields.
 */
function leaves(value: unknown, path: readonly string[] = []): string[] {
  const isLeaf =
    typeof value !== 'object' ||
    value === null ||
    Array.isArray(value) ||
    ((path[0] === 'kubelet' || path[0] === 'kubeProxy') && path.length === 3);
  return isLeaf
    ? [path.join('.')]
    : Object.entries(value).flatMap(([key, inner]) => leaves(inner, [...path, key]));
}

/** Those of a mapping that are none. */
const allLeaves = (value: unknown, path: readonly string[]): string[] =>
  typeof value !== 'object' || value === null || Array.isArray(value)
    ? [path.join('.')]
    : Object.entries(value).flatMap(([key, inner]) => allLeaves(inner, [...path, key]));

test('one document is resolved once, until its machines change', () => {
  const once = resolveCluster('blue', SHORT, MACHINES);
  expect(resolveCluster('blue', SHORT, [...MACHINES])).toBe(once);
  const [cp1, ...others] = MACHINES;
  const moved = resolveCluster('blue', SHORT, [{ ...cp1!, addresses: ['10.0.0.99'] }, ...others]);
  expect(moved.resolved!.machines[0]!.addresses).toEqual(['10.0.0.99']);
});

test('every value of the full specification says where it came from', () => {
  const { resolved: cluster, provenance } = completed();
  const { machines: _, ...derived } = cluster!;
  expect([...provenance.keys()].sort()).toEqual(leaves(derived).sort());
  expect(provenance.get('versions.etcd')).toEqual({ from: 'version', by: 'Kubernetes 1.36' });
  expect(provenance.get('networks.pods')).toEqual({ from: 'default', by: 'networks.pods' });
  expect(provenance.get('endpoint.host')).toEqual({ from: 'spec', by: 'endpoint' });
  expect(provenance.get('flags.kube-apiserver.service-cluster-ip-range')).toEqual({
    from: 'derived',
    by: 'networks.services',
  });
});

test('a value that is not kubeadm’s says by which deviation it is Muster’s', () => {
  const { resolved: cluster, provenance } = completed({ version: '1.34' });
  const by = (path: string) => provenance.get(path)?.by;
  expect(by('flags.kube-apiserver.encryption-provider-config')).toBe('Muster: encryption');
  expect(by('flags.kube-apiserver.audit-log-maxage')).toBe('Muster: audit');
  expect(by('flags.kube-scheduler.kubeconfig')).toBe('Muster: kubeconfigDirectories');
  expect(by('kubelet.config.authentication')).toBe('Muster: kubeletTrustBundle');
  expect(by('kubelet.controlPlaneConfig.crashLoopBackOff')).toBe('Muster: kubeletCrashLoop');
  expect(by('kubelet.config.cgroupDriver')).toBe('kubeadm');
  const fields = [
    ...COMPONENTS.flatMap((component) =>
      Object.keys(cluster!.flags[component]).map(
        (flag) => [`flags.${component}.${flag}`, `${component} --${flag}`] as const,
      ),
    ),
    ...(['config', 'controlPlaneConfig'] as const).flatMap((part) =>
      Object.entries(cluster!.kubelet[part]).flatMap(([field, value]) =>
        allLeaves(value, [field]).map((leaf) => [`kubelet.${part}.${field}`, `kubelet ${leaf}`] as const),
      ),
    ),
  ];
  const expected = new Map<string, string>();
  for (const [path, field] of fields) {
    const deviation = Object.entries(CLUSTER_DEVIATIONS).find(([, one]) => one.fields.test(field))?.[0];
    if (deviation !== undefined && provenance.get(path)?.from === 'default')
      expected.set(path, `Muster: ${deviation}`);
  }
  const said = [...provenance].filter(([, origin]) => origin.by.startsWith('Muster: '));
  expect(new Map(said.map(([path, origin]) => [path, origin.by]))).toEqual(expected);
});

test('every scalar can be overridden, and then says so; but for those that the short specification gives, or Muster decides', () => {
  const { resolved: cluster, provenance } = completed();
  const { machines: _, ...derived } = cluster!;
  for (const path of leaves(derived)) {
    const steps = path.split('.');
    const old = steps.reduce((here: unknown, step) => (here as Record<string, unknown>)[step], derived);
    const overrides = steps.reduceRight((inner: unknown, step) => ({ [step]: inner }), old) as Record<
      string,
      unknown
    >;
    const again = completed({ overrides });
    if (
      /^(name|kubernetes|endpoint|etcd\.(topology|runs|minor)|cni\.plugin|runtime|addons|encryptSecrets|podSecurity|joining|networkPolicy)/.test(
        path,
      )
    ) {
      expect(again.faults.map(({ fault }) => fault.path)).toEqual([`spec.kubernetes.overrides.${path}`]);
      continue;
    }
    const owned = protectedFieldsOf(overrides);
    if (owned.length > 0) {
      // It says what the field has anyway.
      expect(again.faults, path).toEqual([]);
      expect(again.resolved, path).toEqual(cluster);
      continue;
    }
    expect(again.faults, path).toEqual([]);
    expect(again.resolved, path).toEqual(cluster);
    expect(again.provenance.get(path)?.from).toBe('override');
    expect(provenance.get(path)?.from).not.toBe('override');
  }
});

/** `{a: {b: value}}` of `a.b`. */
const nested = (path: readonly string[], value: unknown) =>
  path.reduceRight((inner: unknown, step) => ({ [step]: inner }), value) as Record<string, unknown>;

test('an override of a protected field is refused with the reason, also when it removes the field', () => {
  for (const { path, why } of PROTECTED_FIELDS)
    for (const value of ['/somewhere/else', null]) {
      if (path.at(-1) === 'encryption-provider-config' && value !== null) continue;
      expect(faults({ overrides: nested(path, value) }), path.join('.')).toContain(
        `error overrides.${path.join('.')}: Muster decides this: ${why}`,
      );
    }
  const whole = faults({ overrides: { kubelet: { config: { authentication: null } } } });
  expect(whole.join()).toContain('Muster decides this');
});

test.for([
  ['etcd', 'force-new-cluster', 'true'],
  ['etcd', 'initial-cluster-state', 'new'],
  ['etcd', 'initial-cluster', null],
  ['etcd', 'wal-dir', '/var/lib/wal'],
  ['etcd', 'unsafe-no-fsync', 'true'],
  ['etcd', 'listen-metrics-urls', 'http://10.0.0.11:2381'],
  ['kube-apiserver', 'secure-port', '7443'],
  ['kube-scheduler', 'leader-elect', 'false'],
  ['kubelet', 'hostname-override', 'other'],
] as const)('the flag %s --%s=%s is not for a person', ([component, flag, value]) => {
  expect(faults({ overrides: nested(['flags', component, flag], value) }).join()).toMatch(
    /^error overrides\.flags\.\S+: Muster decides this: /,
  );
});

test.for([
  ['etcd', 'listen-metrics-urls', 'http://0.0.0.0:2381'],
  ['etcd', 'quota-backend-bytes', '8589934592'],
  ['kube-scheduler', 'bind-address', '0.0.0.0'],
  ['kube-apiserver', 'encryption-provider-config', '/etc/kubernetes/apiserver/kms.yaml'],
  ['kubelet', 'cloud-provider', 'external'],
] as const)('the flag %s --%s=%s is a person’s', ([component, flag, value]) => {
  expect(faults({ overrides: nested(['flags', component, flag], value) })).toEqual([]);
});

test('every flag that Muster decides is one of that component', () => {
  for (const { path } of PROTECTED_FIELDS.filter((one) => one.path[0] === 'flags')) {
    const [, component, flag] = path as [string, (typeof COMPONENTS)[number], string];
    const names =
      component === 'etcd'
        ? ETCD_MINORS.flatMap((minor) => [...known(ETCD_FLAGS, minor)])
        : MINORS.flatMap((minor) => [...known(FLAGS[component], minor)]);
    expect(names, component).toContain(flag);
  }
});

test('null is for flags and kubelet’s fields only, and says so', () => {
  const says =
    'null removes only a flag or a field of kubelet or kube-proxy (serviceProxy: none leaves kube-proxy out)';
  expect(faults({ overrides: { versions: null } })).toEqual([
    `error overrides.versions: null where a mapping is expected; ${says}`,
  ]);
  expect(faults({ overrides: { dnsDomain: null } })).toEqual([
    `error overrides.dnsDomain: null where a string is expected; ${says}`,
  ]);
  expect(faults({ overrides: { flags: { etcd: 3 } } })).toEqual([
    'error overrides.flags.etcd: a number where a mapping is expected',
  ]);
});

test.for([
  [{ pods: ['127.0.0.0/16'] }, 'pods: 127.0.0.0/16 overlaps 127.0.0.0/8, which is for the machine itself'],
  [{ pods: ['169.254.0.0/16'] }, 'pods: 169.254.0.0/16 overlaps 169.254.0.0/16'],
  [{ services: ['224.0.0.0/16'] }, 'services: 224.0.0.0/16 overlaps 224.0.0.0/4'],
] as const)('addresses that no pod and no Service can have are refused: %j', ([networks, expected]) => {
  expect(faults({ networks: networks as never }).join()).toContain(`error networks.${expected}`);
});

test('an override reaches what is derived from it', () => {
  const cluster = resolved({
    overrides: { versions: { etcd: '3.6.9-0' }, registry: 'mirror.example', dnsDomain: 'k.test' },
  });
  expect(cluster.images.etcd).toBe('mirror.example/etcd:3.6.9-0');
  expect(cluster.flags['kube-apiserver']['service-account-issuer']).toBe(
    'https://kubernetes.default.svc.k.test',
  );
  const pinned = `x@sha256:${'1'.repeat(64)}`;
  expect(resolved({ overrides: { images: { etcd: pinned } } }).images.etcd).toBe(pinned);
});

test('flags can be added, replaced, repeated and left out; settings of kubelet as well', () => {
  const cluster = resolved({
    overrides: {
      flags: {
        'kube-apiserver': {
          'audit-log-path': '/var/log/audit.log',
          profiling: 'false',
          'enable-bootstrap-token-auth': null,
          'service-account-issuer': ['https://new.example', 'https://old.example'],
        },
      },
      kubelet: {
        config: { maxPods: 250, resolvConf: null, authentication: { anonymous: { enabled: true } } },
      },
    },
  });
  const flags = cluster.flags['kube-apiserver'];
  expect(flags).toMatchObject({ 'audit-log-path': '/var/log/audit.log', profiling: 'false' });
  expect(flags).not.toHaveProperty('enable-bootstrap-token-auth');
  expect(flags['service-account-issuer']).toEqual(['https://new.example', 'https://old.example']);
  expect(cluster.kubelet.config.maxPods).toBe(250);
  expect(cluster.kubelet.config).not.toHaveProperty('resolvConf');
  expect(cluster.kubelet.config.authentication).toMatchObject({
    anonymous: { enabled: true },
    webhook: { enabled: true },
  });
});

test('a kubelet that is to ask the cluster for its serving certificate has none from Muster that it would begin with', () => {
  const files = (override: Readonly<Record<string, unknown>>, machine: number) => {
    const cluster = resolved({ overrides: { kubelet: override } });
    return Object.keys(kubeletConfiguration(cluster, cluster.machines[machine]!)).filter((field) =>
      field.startsWith('tls'),
    );
  };
  const own = ['tlsCertFile', 'tlsPrivateKeyFile'];
  const asks = { serverTLSBootstrap: true };
  expect(files({}, 0)).toEqual(own);
  expect(files({ config: { serverTLSBootstrap: false } }, 0)).toEqual(own);
  expect([files({ config: asks }, 0), files({ config: asks }, 3)]).toEqual([[], []]);
  expect([files({ controlPlaneConfig: asks }, 0), files({ controlPlaneConfig: asks }, 3)]).toEqual([[], own]);
});

test('an override for every kubelet applies to control planes too, unless they have their own', () => {
  const controlPlane = (kubelet: Readonly<Record<string, unknown>>) => {
    const cluster = resolved({ overrides: { kubelet } });
    return kubeletConfiguration(cluster, cluster.machines[0]!);
  };
  const backOff = (seconds: number) => ({ crashLoopBackOff: { maxContainerRestartPeriod: `${seconds}s` } });
  const untainted = { registerWithTaints: [] };
  expect(controlPlane({ config: { ...backOff(60), ...untainted } })).toMatchObject({
    ...backOff(60),
    ...untainted,
  });
  expect(controlPlane({ config: backOff(60), controlPlaneConfig: backOff(7) })).toMatchObject(backOff(7));
  expect(controlPlane({ config: { registerWithTaints: null } })).not.toHaveProperty('registerWithTaints');
});

test('all that control planes have of their own can be left out', () => {
  const { controlPlaneConfig } = resolved({
    overrides: { kubelet: { controlPlaneConfig: { crashLoopBackOff: null, registerWithTaints: null } } },
  }).kubelet;
  expect(controlPlaneConfig).toEqual({});
});

test.for([
  [
    'an unknown version',
    { version: '1.33.2' },
    'error version: Muster does not know Kubernetes 1.33.2; use 1.34, 1.35, 1.36, 1.37',
  ],
  [
    'an endpoint that is none',
    { endpoint: 'a b' },
    'error endpoint: "a b" is not a name or address with an optional port',
  ],
  [
    'two control planes',
    { controlPlanes: ['cp1', 'cp2'] },
    'error controlPlanes: 2 members of etcd tolerate no more failures than 1; use an odd number',
  ],
  [
    'a machine twice',
    { controlPlanes: ['cp1', 'cp2', 'cp1'] },
    'error controlPlanes[2]: cp1 is listed twice',
  ],
  [
    'a control plane that does not exist',
    { controlPlanes: ['cp1', 'cp2', 'cp4'] },
    'error spec.kubernetes: there is no Machine "cp4"; did you mean "cp1"?',
  ],
  [
    'a worker that is not there yet',
    { workers: ['w1', 'w3'] },
    'warning spec.kubernetes: there is no Machine "w3"; did you mean "w1"?; until then the cluster runs without it',
  ],
  [
    'overlapping networks',
    { networks: { pods: ['10.96.0.0/12'] } },
    'error networks.services: 10.96.0.0/16 overlaps 10.96.0.0/12 of networks.pods',
  ],
  [
    'machines inside the pods’ network',
    { networks: { pods: ['10.0.0.0/16'] } },
    'error machines (cp1): 10.0.0.11 is inside 10.0.0.0/16, which is for pods or services',
  ],
  [
    'an address outside the network',
    { networks: { machines: ['10.0.1.0/24', '10.0.0.0/28'] } },
    'error machines (w1): 10.0.0.21 is outside of networks.machines (10.0.1.0/24, 10.0.0.0/28)',
  ],
  [
    'two networks of one family',
    { networks: { pods: ['10.244.0.0/16', '10.245.0.0/16'] } },
    'error networks.pods: two networks of IPv4; use one for each address family',
  ],
  [
    'two virtual addresses of one family',
    { virtualAddress: { addresses: ['10.0.0.10', '10.0.0.9'], interface: 'eth0' } },
    'error virtualAddress.addresses: two IPv4 addresses; at most one for each address family',
  ],
  [
    'a virtual address of a family that the machines do not have',
    { virtualAddress: { addresses: ['10.0.0.10', 'fd00::10'], interface: 'eth0' } },
    'error virtualAddress.addresses: fd00::10 is IPv6, and not every control plane has such an address',
  ],
  [
    'machines of one family with services of two',
    { networks: { pods: ['10.244.0.0/16', 'fd00:1::/56'], services: ['10.96.0.0/16', 'fd00:2::/112'] } },
    'error machines (cp1): it has no IPv6 address, which networks.services has; dual stack needs both',
  ],
  [
    'pods and services in another order of families',
    { networks: { pods: ['fd00:1::/56', '10.244.0.0/16'], services: ['10.96.0.0/16', 'fd00:2::/112'] } },
    'error networks.services: networks.pods lists other address families, or lists them in another order; list the same families in the same order',
  ],
  [
    'too many services of IPv6',
    { networks: { pods: ['10.244.0.0/16', 'fd00:1::/56'], services: ['10.96.0.0/16', 'fd00:2::/64'] } },
    'error networks.services: fd00:2::/64 is larger than kube-apiserver takes: /12, or /108 for IPv6',
  ],
  [
    'services of another family',
    { networks: { services: ['fd00::/112'] } },
    'error networks.services: networks.pods lists other address families, or lists them in another order; list the same families in the same order',
  ],
  [
    'too few services',
    { networks: { services: ['10.96.0.0/29'] } },
    'error networks.services: 10.96.0.0/29 is too small: the tenth address is DNS',
  ],
  [
    'too many services',
    { networks: { services: ['172.0.0.0/8'] } },
    'error networks.services: 172.0.0.0/8 is larger than kube-apiserver takes: /12, or /108 for IPv6',
  ],
  [
    'an endpoint among the services',
    { endpoint: '10.96.0.5' },
    'error endpoint: 10.96.0.5 is inside a network for pods or services',
  ],
  [
    'an endpoint on one control plane',
    { endpoint: '10.0.0.11' },
    'warning endpoint: it is the address of cp1: the API cannot be reached while that machine is down; use virtualAddress, a balancer or a name',
  ],
  [
    'a flag that nobody knows',
    { overrides: { flags: { 'kube-apiserver': { 'audit-log-pth': 'x' } } } },
    'error overrides.flags.kube-apiserver.audit-log-pth: kube-apiserver 1.36 has no flag --audit-log-pth; did you mean "audit-log-path"?',
  ],
  [
    'a flag of a later version',
    { version: '1.34', overrides: { flags: { 'kube-apiserver': { 'tls-curve-preferences': 'X25519' } } } },
    'error overrides.flags.kube-apiserver.tls-curve-preferences: kube-apiserver 1.34 has no flag --tls-curve-preferences; 1.36, 1.37 know it',
  ],
  [
    'a flag of an older etcd',
    { overrides: { flags: { etcd: { 'enable-v2': 'true' } } } },
    'error overrides.flags.etcd.enable-v2: etcd 3.6 has no flag --enable-v2; 3.4, 3.5 know it',
  ],
  [
    'a flag that is no text',
    { overrides: { flags: { 'kube-scheduler': { profiling: false } } } },
    'error overrides.flags.kube-scheduler.profiling: expected a text on one line; quote numbers and true, false',
  ],
  [
    'apiservers that look at no token, and workers that join by one',
    {
      joining: 'token',
      overrides: { flags: { 'kube-apiserver': { 'enable-bootstrap-token-auth': 'false' } } },
    },
    'error overrides.flags.kube-apiserver.enable-bootstrap-token-auth: workers join by token, which API servers accept only with this flag; remove the override, or set joining: certificate',
  ],
  [
    'a gate that nobody knows',
    { overrides: { flags: { 'kube-apiserver': { 'feature-gates': 'AllBeta=true,Nonsense=true' } } } },
    'error overrides.flags.kube-apiserver.feature-gates: Kubernetes 1.36 has no feature gate Nonsense; if an older version had it, remove it',
  ],
  [
    'a back-off that this kubelet refuses',
    {
      version: '1.34',
      overrides: { kubelet: { config: { featureGates: { KubeletCrashLoopBackOffMax: false } } } },
    },
    'error overrides.kubelet.config.featureGates: kubelet 1.34.9 refuses crashLoopBackOff without the feature gate KubeletCrashLoopBackOffMax: true',
  ],
  [
    'a newer kubelet',
    { overrides: { versions: { kubelet: '1.37.0' } } },
    'error overrides.versions.kubelet: 1.37.0 is newer than kube-apiserver 1.36.3',
  ],
  [
    'a scheduler two versions older',
    { overrides: { versions: { 'kube-scheduler': '1.34.1' } } },
    'error overrides.versions.kube-scheduler: 1.34.1 is 2 minor versions older than kube-apiserver 1.36.3; at most 1 work',
  ],
  [
    'an apiserver of another minor version',
    { overrides: { versions: { 'kube-apiserver': '1.35.1' } } },
    'error overrides.versions.kube-apiserver: 1.35.1 has another minor version than 1.36.3; set version instead',
  ],
  [
    'an etcd too old',
    { overrides: { versions: { etcd: '3.5.1' } } },
    'error overrides.versions.etcd: etcd 3.5.1 is older than 3.5.24, the oldest that kubeadm accepts for Kubernetes 1.36',
  ],
  [
    'an etcd that is not known',
    { overrides: { versions: { etcd: '3.8.0' } } },
    'error overrides.versions.etcd: Muster does not know etcd 3.8.0; use 3.4, 3.5, 3.6, 3.7',
  ],
  [
    'a path that does not exist',
    { overrides: { version: { etcd: '3.6.9' } } },
    'error overrides.version: the full specification has no "version"; did you mean "versions"?',
  ],
  [
    'an unknown component',
    { overrides: { flags: { 'kube-proxy': { v: '2' } } } },
    'error overrides.flags.kube-proxy: the full specification has no "flags.kube-proxy"; did you mean "images.kube-proxy"?',
  ],
  [
    'a value of another type',
    { overrides: { networks: { pods: '10.1.0.0/16' } } },
    'error overrides.networks.pods: a string where a list is expected',
  ],
  [
    'a virtual address that is a machine’s',
    { virtualAddress: { addresses: ['10.0.0.12'], interface: 'eth0' } },
    'error virtualAddress.addresses: 10.0.0.12 is the address of cp2; use one that no machine has',
  ],
  [
    'a virtual address that is none',
    { virtualAddress: { interface: 'eth0' } },
    'error virtualAddress.addresses: "api.golden.test" is not an address; name one, since the endpoint is a name',
  ],
  [
    'a virtual address outside the network',
    {
      networks: { machines: ['10.0.0.0/24'] },
      virtualAddress: { addresses: ['10.0.1.1'], interface: 'eth0' },
    },
    'error virtualAddress.addresses: 10.0.1.1 is outside of networks.machines (10.0.0.0/24)',
  ],
  [
    'a virtual address of kube-vip at another port',
    {
      endpoint: 'api.golden.test:443',
      virtualAddress: { by: 'kube-vip', addresses: ['10.0.0.10'], interface: 'eth0' },
    },
    'error endpoint: port 443: where kube-vip holds the address the API server itself answers, at 6443; with keepalived a balancer answers at any port',
  ],
  [
    'a balancer at the port of another program',
    { endpoint: 'api.golden.test:10250', virtualAddress: { addresses: ['10.0.0.10'], interface: 'eth0' } },
    'error endpoint: port 10250 is used by another program on control planes',
  ],
  [
    'machines of etcd without external',
    { etcd: { machines: ['cp1'] } },
    'error etcd.machines: only with topology external; stacked members are on the control planes',
  ],
  [
    'external without machines',
    { etcd: { topology: 'external' as const } },
    'error etcd.machines: topology external needs the machines that are members',
  ],
] as const)('%s is reported in words', ([, changes, expected]) => {
  expect(faults(changes as never)).toContain(expected);
});

test('kube-vip with external etcd is a warning', () => {
  const external = {
    endpoint: '10.0.0.10',
    virtualAddress: { interface: 'eth0', by: 'kube-vip' as const },
    etcd: { topology: 'external' as const, machines: ['e1'] },
  };
  const told = faults(external, [...MACHINES, { name: 'e1', addresses: ['10.0.0.31'] }]);
  expect(told).toEqual([
    'warning virtualAddress.by: with external etcd, kube-vip does not notice that a member has lost power, so for minutes the address can be on no machine; use keepalived, which moves it within seconds',
  ]);
});

test('two machines with one address, and one without any, are refused', () => {
  const twice = MACHINES.map((machine) =>
    machine.name === 'w2' ? { ...machine, addresses: ['10.0.0.21'] } : machine,
  );
  expect(faults({}, twice)).toEqual(['error machines (w2): 10.0.0.21 is the address of w1 as well']);
  const none = MACHINES.map((machine) => (machine.name === 'cp2' ? { ...machine, addresses: [] } : machine));
  expect(faults({}, none)[0]).toMatch(/^error .*Machine "cp2" needs an address/);
});

test('a network of pods with too little room for the machines is refused', () => {
  expect(faults({ networks: { pods: ['10.244.0.0/23'] } })).toEqual([
    'error networks.pods: 10.244.0.0/23 has room for 2 nodes with a /24 each; there are 5; use a /22 or larger, like 10.244.0.0/16',
  ]);
});

test('with an error there is no full specification', () => {
  expect(completed({ controlPlanes: ['cp1', 'cp2'] }).resolved).toBeUndefined();
});

test.for([
  ['api.example', { host: 'api.example', port: 6443 }],
  ['API.example:443', { host: 'api.example', port: 443 }],
  ['10.0.0.10', { host: '10.0.0.10', port: 6443 }],
  ['fd00:0::1', { host: 'fd00::1', port: 6443 }],
  ['[fd00::1]:7443', { host: 'fd00::1', port: 7443 }],
  ['[10.0.0.1]:1', undefined],
  ['api:0', undefined],
  ['api:65536', undefined],
  ['10.0.0.300', undefined],
  ['https://api', undefined],
  ['', undefined],
] as const)('the endpoint %s is read', ([text, expected]) => {
  expect(parseEndpoint(text)).toEqual(expected);
});

test('names of certificates come from the full specification', () => {
  expect(clusterNames(resolved())).toEqual({
    name: 'golden',
    dnsDomain: 'cluster.local',
    serviceAddresses: ['10.96.0.1'],
    endpointNames: { dns: ['api.golden.test'], ips: ['10.0.0.10'] },
  });
});

test('a virtual address is the endpoint’s unless it is said, and is in the certificates', () => {
  const cluster = resolved({ endpoint: '10.0.0.10', sans: [], virtualAddress: { interface: 'eth0' } });
  expect(cluster.virtualAddress).toEqual({
    by: 'keepalived',
    addresses: ['10.0.0.10'],
    interface: 'eth0',
    routerId: 10,
  });
  const named = resolved({
    sans: [],
    virtualAddress: { addresses: ['10.0.0.10'], interface: 'eth0', routerId: 7 },
  });
  expect(named.virtualAddress?.routerId).toBe(7);
  expect(clusterNames(named).endpointNames).toEqual({ dns: ['api.golden.test'], ips: ['10.0.0.10'] });
});

test('every flag that is given by default is known to that version', () => {
  for (const minor of MINORS)
    for (const etcd of ['3.5.30', '3.6.8-0']) {
      const cluster = resolved({ version: minor, overrides: { versions: { etcd } } });
      for (const component of COMPONENTS)
        expect(Object.keys(cluster.flags[component]).length).toBeGreaterThan(4);
    }
  for (const minor of ETCD_MINORS)
    for (const flag of Object.keys(ETCD_RELEASES[minor].flags))
      expect(known(ETCD_FLAGS, minor)).toContain(flag);
});

test('the tables of flags and gates are plausible: no version without', () => {
  for (const table of [...Object.values(FLAGS), FEATURE_GATES])
    for (const minor of MINORS) expect(known(table, minor).size).toBeGreaterThan(50);
  expect(known(FEATURE_GATES, '1.34')).toContain('KubeletCrashLoopBackOffMax');
  expect(Object.keys(RELEASES)).toEqual([...MINORS]);
});

/** Names of all certificates are names and addresses, and every machine has a plan. */
function buildable(cluster: ResolvedCluster): void {
  for (const machine of cluster.machines) {
    for (const leaf of LEAF_NAMES)
      for (const ip of leafOf(leaf).sans(holderOf(machine), clusterNames(cluster)).ips)
        expect(parseIp(ip), ip).toBeDefined();
    expect(previewText(cluster, machine)).not.toBe('');
  }
}

test('whatever the overrides are, completing ends in a specification or in faults', () => {
  const key = fc.constantFrom(
    'flags',
    'kubelet',
    'config',
    'kube-apiserver',
    'etcd',
    'versions',
    'networks',
    'pods',
    'images',
    'v',
    '__proto__',
    'constructor',
    'featureGates',
  );
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.oneof(
        fc.string(),
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(fc.string(), { maxLength: 3 }),
      ),
      fc.dictionary(key, tie('value'), { maxKeys: 3 }),
    ),
  }));
  let built = 0;
  fc.assert(
    fc.property(fc.dictionary(key, value, { maxKeys: 4 }), (overrides) => {
      const result = completed({ overrides });
      expect(result.resolved === undefined).toBe(result.faults.some(({ severity }) => severity === 'error'));
      if (result.resolved === undefined) return;
      buildable(result.resolved);
      built += 1;
    }),
    { seed: 6, numRuns: 500 },
  );
  expect(built).toBeGreaterThan(5);
});

test('completing is a function: the same twice, and the input untouched', () => {
  const before = structuredClone(SHORT);
  expect(JSON.stringify(resolved())).toBe(JSON.stringify(resolved()));
  expect(SHORT).toEqual(before);
});

test('a Cluster document has the short specification next to its configuration', () => {
  const text = `apiVersion: muster/v1
kind: Cluster
metadata: {name: golden}
spec:
  trust: segment
  config: {files: []}
  kubernetes:
    version: "1.36"
    endpoint: api.golden.test
    controlPlanes: [cp1, cp2, cp3]
    networks: {pods: [10.244.0.0/16, "fd00:10:244::/56"]}
    overrides: {flags: {kube-apiserver: {v: "2"}}}
`;
  expect(parseDocuments(text, 'c.yaml').faults).toEqual([]);
  const wrong = parseDocuments(
    text.replace('10.244.0.0/16', '10.244.0.1/16').replace('"1.36"', '1.36'),
    'c.yaml',
  ).faults;
  expect(wrong.map(({ path }) => path).sort()).toEqual([
    'spec.kubernetes.networks.pods[0]',
    'spec.kubernetes.version',
  ]);
});
