/** Proxies of a cluster, and settings that imply others. */
import { expect, test } from 'vitest';
import { bundleOf } from '../../../../src/cluster/objects/bundle.ts';
import { checkLines } from '../../../../src/cluster/plan/checks.ts';
import { containerdLines } from '../../../../src/cluster/plan/containerd.ts';
import { crioLines } from '../../../../src/cluster/plan/cri-o.ts';
import { kubeletPart } from '../../../../src/cluster/plan/kubelet-unit.ts';
import { proxyVariables } from '../../../../src/cluster/resolve/proxies.ts';
import { kubernetesSpec } from '../../../../src/resources/cluster-spec.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { faults, resolved } from '../kit.ts';

const PROXY = { http: 'http://proxy.example:3128', noProxy: ['.corp.example'] };
const textOf = (
  lines: readonly { readonly path?: string; readonly content?: unknown }[],
  path: string,
): string =>
  lines.flatMap((line) => (line.path === path ? [(line.content as { text: string }).text] : [])).join('');

test('what is reached directly is derived from networks, machines, endpoint, virtual addresses and domain', () => {
  const cluster = resolved({
    proxy: PROXY,
    virtualAddress: { interface: 'eth0', addresses: ['10.9.0.10'] },
    dnsDomain: 'blue.local',
    mirrors: ['http://10.77.0.1:8080'],
  });
  const { NO_PROXY, HTTPS_PROXY, no_proxy } = proxyVariables(cluster)!;
  expect(NO_PROXY!.split(',')).toEqual([
    'localhost',
    '127.0.0.0/8',
    '::1',
    '10.244.0.0/16',
    '10.96.0.0/16',
    '10.0.0.0/24',
    'api.golden.test',
    '10.9.0.10',
    '.svc',
    '.blue.local',
    '.corp.example',
    '10.77.0.1',
  ]);
  expect([HTTPS_PROXY, no_proxy]).toEqual([PROXY.http, NO_PROXY]);
});

test('networks of machines that the Cluster names count instead of those around its machines', () => {
  const cluster = resolved({ proxy: PROXY, networks: { machines: ['10.0.0.0/16'] } });
  expect(cluster.proxy?.noProxy).toContain('10.0.0.0/16');
  expect(cluster.proxy?.noProxy).not.toContain('10.0.0.0/24');
});

test('another machine in the same network restarts nothing', () => {
  const run = (workers: string[]) => {
    const cluster = resolved({ proxy: PROXY, workers });
    return [containerdLines(cluster).run, kubeletPart(cluster, cluster.machines[0]!, []).run];
  };
  expect(run(['w1'])).toEqual(run(['w1', 'w2']));
});

test('runtimes and kubelet get the variables, and none without a proxy', () => {
  const variable = 'Environment="HTTPS_PROXY=http://proxy.example:3128"';
  for (const [spec, has] of [
    [{ proxy: PROXY }, true],
    [{}, false],
  ] as const) {
    const cluster = resolved(spec);
    const { files } = kubeletPart(cluster, cluster.machines[0]!, []);
    const units = [
      textOf(containerdLines(cluster).files as never, '/etc/systemd/system/containerd.service'),
      textOf(crioLines(cluster).files as never, '/etc/systemd/system/crio.service'),
      textOf(files as never, '/etc/systemd/system/kubelet.service.d/10-kubeadm.conf'),
    ];
    expect(units.map((unit) => unit.includes(variable))).toEqual([has, has, has]);
    expect(units.map((unit) => unit.includes('NO_PROXY='))).toEqual([has, has, has]);
  }
});

const schema = kubernetesSpec.shape.proxy;
test.for([
  [{}, false],
  [{ noProxy: ['a'] }, false],
  [{ http: 'proxy:3128' }, false],
  [{ http: 'socks5://proxy:1' }, true],
  [{ http: 'socks4://proxy:1' }, false],
  [{ https: 'http://me:secret@proxy:1' }, false],
  [{ https: 'http://proxy.example:3128' }, true],
  [{ http: 'http://[fd00::1]:3128', noProxy: ['10.0.0.0/8', 'fd00::/8', '*.a.example', 'b:443'] }, true],
  [{ http: 'http://p', noProxy: ['a,b'] }, false],
  [{ http: 'http://p', noProxy: ['a b'] }, false],
  [{ http: 'http://p', noProxy: ['http://a'] }, false],
] as const)('proxy %j: %s', ([proxy, good]) => {
  expect(schema.safeParse(proxy).success).toBe(good);
});

test('a domain with a star is written as programs read it', () => {
  expect(schema.parse({ http: 'http://p', noProxy: ['*.a.example'] })?.noProxy).toEqual(['.a.example']);
});

const swap = (kubelet: object): Partial<KubernetesSpec> => ({ overrides: { kubelet } });
test.for([
  [{}, ['cp1', 'w1']],
  [{ config: { failSwapOn: false } }, []],
  [{ controlPlaneConfig: { failSwapOn: false } }, ['w1']],
] as const)('kubelet %j: the machines %j are checked for swap', ([kubelet, names]) => {
  const cluster = resolved(swap(kubelet));
  const checked = ['cp1', 'w1'].filter((name) =>
    checkLines(cluster, cluster.machines.find((one) => one.name === name)!, []).some(
      (line) => line.do === 'check' && line.check === 'swapless',
    ),
  );
  expect(checked).toEqual(names);
});

test('kubelet’s domain is that of the cluster', () => {
  expect(faults(swap({ config: { clusterDomain: 'other.local' } }))[0]).toMatch(
    /CoreDNS serves dnsDomain alone/,
  );
});

test.for([
  [undefined, 2],
  [3, 3],
] as const)('replicas of CoreDNS: %s is proposed as %s', ([replicas, proposed]) => {
  const cluster = resolved(replicas === undefined ? {} : { coreDNS: { replicas } });
  expect(bundleOf(cluster, 'CA').proposed).toContainEqual(
    expect.objectContaining({ spec: { replicas: proposed } }),
  );
});
