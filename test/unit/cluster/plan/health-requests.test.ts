/** What a plan asks API servers that refuse anonymous requests. */
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { balancerConfig, balancerPart } from '../../../../src/cluster/plan/balancer.ts';
import { manifestFiles } from '../../../../src/cluster/plan/manifests.ts';
import { keepalivedConfig, virtualAddressLines } from '../../../../src/cluster/plan/virtual-address.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { faults, resolved } from '../kit.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

const withFlag = (value: string): Partial<KubernetesSpec> => ({
  overrides: { flags: { 'kube-apiserver': { 'anonymous-auth': value } } },
});
const CLIENT = '/etc/muster/health.pem';

// biome-ignore lint/suspicious/noExplicitAny: a manifest as its reader sees it
type Loose = any;

function containerOf(changes: Partial<KubernetesSpec>): Loose {
  const cluster = resolved(changes);
  const file = manifestFiles(cluster, cluster.machines[0]!).find(({ pod }) => pod === 'kube-apiserver')!;
  return (load(file.text) as Loose).spec.containers[0];
}

test.for(['true', 'T', '1'])(
  'anonymous-auth=%s: kubelet, balancer and keepalived ask without a credential',
  (value) => {
    const container = containerOf(withFlag(value));
    expect(container.livenessProbe.httpGet.path).toBe('/livez');
    const cluster = resolved(withFlag(value));
    expect(balancerConfig(cluster, [])).not.toContain(CLIENT);
  },
);

test.for(['false', 'F', '0'])(
  'anonymous-auth=%s: probes look at the port, and everything else asks with a certificate',
  (value) => {
    expect(faults(withFlag(value))).toEqual([]);
    const container = containerOf(withFlag(value));
    for (const probe of ['livenessProbe', 'readinessProbe', 'startupProbe']) {
      expect(container[probe].httpGet).toBeUndefined();
      expect(container[probe].tcpSocket).toEqual({ host: '10.0.0.11', port: 'probe-port' });
    }
    const cluster = resolved({
      ...withFlag(value),
      virtualAddress: { addresses: ['10.0.0.10'], interface: 'eth0' },
    });
    expect(balancerConfig(cluster, [])).toContain(` crt ${CLIENT}`);
    expect(keepalivedConfig(cluster, cluster.machines[0]!, cluster.virtualAddress!)).toContain(
      `--cert ${CLIENT} --key ${CLIENT} https://127.0.0.1:6443/readyz`,
    );
    const worker = cluster.machines.find(({ name }) => name === 'w1')!;
    const unit = balancerPart(cluster, worker, [])!.files.find(
      (line) => line.do === 'put' && line.path.endsWith('.service'),
    );
    // A user of its own could not read the key.
    expect(JSON.stringify(unit)).not.toContain('DynamicUser');
  },
);

test('kube-vip looks at the port as well', () => {
  const cluster = resolved({
    ...withFlag('false'),
    virtualAddress: { addresses: ['10.0.0.10'], interface: 'eth0', by: 'kube-vip' },
  });
  const { files } = virtualAddressLines(cluster, cluster.machines[0]!, [])!;
  expect(JSON.stringify(files)).toContain('tcpSocket');
  expect(JSON.stringify(files)).not.toContain('httpGet');
});

test.for([
  ['cp1', 'false', true],
  ['w1', 'false', true],
  ['cp1', 'true', false],
  ['w1', 'true', false],
] as const)(
  '%s gets a certificate for its questions where anonymous-auth is %s: %s',
  async ([name, value, gets]) => {
    const { planner } = await rig({ spec: withFlag(value) });
    await settle(planner, new TestMachine('cp1'));
    const plan = await settle(planner, new TestMachine(name));
    const found = plan.lines.filter((line) => 'path' in line && line.path === CLIENT);
    expect(found).toHaveLength(gets ? 1 : 0);
    if (gets) expect(found[0]).toMatchObject({ do: 'put-with-key', mode: 0o600, leaf: 'health' });
  },
);
