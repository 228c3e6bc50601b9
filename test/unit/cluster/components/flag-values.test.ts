/** Values that a component would refuse as it starts are refused when a Cluster is applied. */
import { describe, expect, test } from 'vitest';
import { flagValueFault } from '../../../../src/cluster/components/flag-values.ts';
import {
  ETCD_FLAGS,
  FEATURE_GATES,
  FLAGS,
  KUBERNETES_COMPONENTS,
} from '../../../../src/cluster/components/flags.ts';
import { removedFlags } from '../../../../src/cluster/components/removed.ts';
import { MINORS } from '../../../../src/cluster/model/versions.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { faults } from '../kit.ts';
import { VALUES } from './flag-examples.ts';

type Overrides = NonNullable<KubernetesSpec['overrides']>;

const flags = (component: string, values: Record<string, string>, minor = '1.36'): string[] =>
  faults({ version: minor, overrides: { flags: { [component]: values } } as Overrides });

test('every flag of every component and version takes a right value of its type, and no wrong one', () => {
  const tables = [...KUBERNETES_COMPONENTS.map((component) => FLAGS[component]), ETCD_FLAGS];
  let judged = 0;
  for (const table of tables)
    for (const [name, versions] of table)
      for (const [minor, info] of versions) {
        const [right, ...wrong] = VALUES[info.type] ?? [];
        if (right === undefined) continue;
        judged++;
        expect(flagValueFault(info, right, minor), `${name} ${minor}`).toBeUndefined();
        for (const text of wrong)
          expect(flagValueFault(info, text, minor), `${name}=${text}`).toContain('expected');
      }
  expect(judged).toBeGreaterThan(1000);
});

test('a flag that takes certain names takes each of them, and says which there are', () => {
  for (const component of KUBERNETES_COMPONENTS)
    for (const [name, versions] of FLAGS[component])
      for (const [minor, info] of versions) {
        for (const choice of info.choices) expect(flagValueFault(info, choice, minor), name).toBeUndefined();
        if (info.choices.length > 0)
          expect(flagValueFault(info, 'never', minor), name).toContain('has no "never" here');
      }
  expect(flags('kube-apiserver', { 'audit-log-mode': 'blockin' })).toEqual([
    'error overrides.flags.kube-apiserver.audit-log-mode: kube-apiserver 1.36 has no "blockin" here; did you mean "blocking"?',
  ]);
  expect(flags('kube-apiserver', { 'authorization-mode': 'Node,RBAC,Magic' })[0]).toContain(
    'has no "Magic" here; it takes ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook',
  );
});

test('the flags that packages of the API server and kubelet register by themselves are known', () => {
  for (const minor of MINORS) {
    const seconds = {
      'default-not-ready-toleration-seconds': '30',
      'default-unreachable-toleration-seconds': '30',
    };
    expect(flags('kube-apiserver', seconds, minor)).toEqual([]);
    expect(flags('kubelet', { 'housekeeping-interval': '20s' }, minor)).toEqual([]);
  }
});

test('thresholds with "<", APIs without a value and numbers with "_" are taken, as the components take them', () => {
  expect(flags('kubelet', { 'eviction-hard': 'memory.available<100Mi,nodefs.available<10%' })).toEqual([]);
  expect(flags('kube-apiserver', { 'runtime-config': 'api/all,batch/v1=true' })).toEqual([]);
  expect(flags('kube-apiserver', { 'audit-log-maxsize': '1_000' })).toEqual([]);
  expect(flags('kube-scheduler', { 'kube-api-qps': 'inf' })).toEqual([]);
});

test('labels of metrics have commas in them, as the components take them', () => {
  for (const text of ['m,l=1,3', '"m,l=1,3","n,k=2"'])
    expect(flags('kube-apiserver', { 'allow-metric-labels': text })).toEqual([]);
  expect(flags('kube-apiserver', { 'allow-metric-labels': 'm,l=1,n,k=2' }).join()).toContain(
    'in double quotes',
  );
  const oidc = { 'oidc-issuer-url': 'https://idp.example', 'oidc-client-id': 'k' };
  expect(flags('kube-apiserver', { ...oidc, 'oidc-required-claim': 'groups=a,b' })).toEqual([]);
});

test('flags and names that only a fork of Kubernetes has are unknown', () => {
  expect(flags('kube-apiserver', { 'send-retry-after-while-not-ready-once': 'true' })[0]).toContain(
    'kube-apiserver 1.36 has no flag --send-retry-after-while-not-ready-once',
  );
  expect(flags('kube-apiserver', { 'authorization-mode': 'Scope' })[0]).toContain('has no "Scope" here');
});

test('an admission plugin that left Kubernetes is refused with the version', () => {
  expect(
    flags('kube-apiserver', { 'enable-admission-plugins': 'NodeRestriction,PodSecurityPolicy' })[0],
  ).toBe(
    'error overrides.flags.kube-apiserver.enable-admission-plugins: kube-apiserver 1.36 has no "PodSecurityPolicy" any more: PodSecurity took its place and is on: remove it, and label the namespaces',
  );
  expect(flags('kube-apiserver', { 'enable-admission-plugins': 'NodeRestriction,AlwaysPullImages' })).toEqual(
    [],
  );
});

test('a flag that left Kubernetes is refused with what takes its place', () => {
  expect(flags('kube-controller-manager', { 'pod-eviction-timeout': '1m' })).toEqual([
    'error overrides.flags.kube-controller-manager.pod-eviction-timeout: kube-controller-manager 1.36 has no flag --pod-eviction-timeout; set default-not-ready-toleration-seconds and default-unreachable-toleration-seconds of kube-apiserver',
  ]);
  expect(flags('kubelet', { 'pod-infra-container-image': 'a/b:1' })[0]).toContain(
    '; 1.34 knows it; remove it: the container runtime names the image of the pause container',
  );
  expect(flags('kube-apiserver', { 'feature-gates': 'PodPriority=true' })[0]).toContain(
    '; if an older version had it, remove it',
  );
});

test.each(KUBERNETES_COMPONENTS)('no flag of %s that is said to be gone is in every version', (component) => {
  for (const flag of removedFlags(component))
    expect([...(FLAGS[component].get(flag)?.keys() ?? [])], flag).not.toEqual([...MINORS]);
});

test('a gate that is locked can be named with its default alone', () => {
  const locked = [...FEATURE_GATES].filter(([, versions]) => versions.get('1.36')?.locked);
  expect(locked.length).toBeGreaterThan(20);
  for (const [gate, versions] of locked) {
    const { on } = versions.get('1.36')!;
    expect(flags('kube-apiserver', { 'feature-gates': `${gate}=${on}` })).toEqual([]);
    expect(flags('kube-apiserver', { 'feature-gates': `kube:${gate}=${!on}` })).toEqual([
      `error overrides.flags.kube-apiserver.feature-gates: the feature gate ${gate} is ${on} in Kubernetes 1.36 and cannot be changed; remove it`,
    ]);
  }
});

describe('labels in kubelet’s flag', () => {
  test('a label that kubelet may not set is refused and leads to nodes[].labels', () => {
    expect(flags('kubelet', { 'node-labels': 'node-role.kubernetes.io/worker=,team=a' })).toEqual([
      'error overrides.flags.kubelet.node-labels: kubelet may not set the label node-role.kubernetes.io/worker, and ends; give it to nodes by nodes[].labels',
    ]);
  });

  test('a blank is refused, because kubelet would read two words', () => {
    expect(flags('kubelet', { 'node-labels': 'team=a b' })[0]).toContain('"team=a b" has a blank');
    expect(flags('kubelet', { 'provider-id': '"x"' })[0]).toContain('a quote');
  });

  test.each([
    'team=a,example.com/rack=7',
    'topology.kubernetes.io/zone=z1',
    'node.kubernetes.io/x=',
    'team',
    '',
  ])('%j is taken', (text) => {
    expect(flags('kubelet', { 'node-labels': text })).toEqual([]);
  });

  test.each(['-x=y', 'team=-a', 'a=b=c', '=x'])('%j is refused', (text) => {
    expect(flags('kubelet', { 'node-labels': text })).toHaveLength(1);
  });
});

describe('files of static pods', () => {
  test('a file that is in no directory that the pod sees is refused, with those directories', () => {
    const told = flags('kube-apiserver', {
      'audit-policy-file': '/etc/kubernetes/audit/policy.yaml',
      'authentication-config': '/etc/kubernetes/auth/authn.yaml',
      'oidc-ca-file': '/etc/ssl/idp-ca.pem',
      'admission-control-config-file': '/etc/kubernetes/admission/config.yaml',
    });
    expect(told).toHaveLength(4);
    for (const one of told)
      expect(one).toMatch(
        /kube-apiserver does not see \/etc\/\S+: put the file below \/etc\/kubernetes\/apiserver or /,
      );
  });

  test('a file in such a directory is taken', () => {
    expect(
      flags('kube-apiserver', {
        'audit-policy-file': '/etc/kubernetes/apiserver/mine.yaml',
        'oidc-ca-file': '/etc/ssl/certs/idp-ca.pem',
        'oidc-issuer-url': 'https://idp.example',
        'oidc-client-id': 'k',
        'tls-sni-cert-key': '/etc/kubernetes/pki/a.crt,/etc/kubernetes/pki/a.key',
      }),
    ).toEqual([]);
    expect(flags('kube-scheduler', { config: '/etc/kubernetes/scheduler/profile.yaml' })).toEqual([]);
    expect(flags('kube-scheduler', { config: '/etc/kubernetes/pki/profile.yaml' })).toHaveLength(1);
  });
});

test('etcd in a pod reads files of its own directories alone, and as a service all of them', () => {
  const crl = { 'peer-crl-file': '/srv/crl.pem' };
  expect(flags('etcd', crl)).toEqual([
    'error overrides.flags.etcd.peer-crl-file: etcd does not see /srv/crl.pem: put the file below /etc/kubernetes/pki/etcd or /var/lib/etcd',
  ]);
  expect(faults({ etcd: { runs: 'service' }, overrides: { flags: { etcd: crl } } })).toEqual([]);
});

describe('networks of pods are counted in addresses', () => {
  const pods = (network: string, overrides: Overrides = {}): string[] =>
    faults({ networks: { pods: [network] }, overrides });

  test('a network whose nodes get no address for pods is refused', () => {
    expect(pods('10.244.0.0/24')[0]).toMatch(
      /^error networks\.pods: 10\.244\.0\.0\/24 gives each node a \/32, in which no pod gets an address/,
    );
  });

  test('a mask that an override sets is the one that counts, and is held against maxPods', () => {
    const mask = (size: string, more: Overrides = {}): Overrides => ({
      flags: { 'kube-controller-manager': { 'node-cidr-mask-size': size } },
      ...more,
    });
    expect(pods('10.244.0.0/16')).toEqual([]);
    expect(pods('10.244.0.0/16', mask('31'))[0]).toMatch(/^error .*gives each node a \/31/);
    expect(pods('10.244.0.0/16', mask('28'))[0]).toMatch(
      /^warning .*a \/28, with addresses for 13 pods, and kubelet takes 110/,
    );
    expect(pods('10.244.0.0/16', mask('28'))[0]).toContain(
      'set overrides.flags.kube-controller-manager.node-cidr-mask-size: "25", or lower',
    );
    expect(pods('10.244.0.0/23', mask('26'))[0]).toContain('use a /22 or larger, like 10.244.0.0/16, or');
    expect(pods('10.244.0.0/16', mask('28', { kubelet: { config: { maxPods: 13 } } }))).toEqual([]);
  });
});
