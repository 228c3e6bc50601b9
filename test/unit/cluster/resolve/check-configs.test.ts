/** Configurations that contradict what the agent writes or the cluster needs are refused. */
import { expect, test } from 'vitest';
import { systemClock } from '../../../../src/base/clock.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { checkAll } from '../../../../src/cluster/resolve/check-documents.ts';
import { openCatalog } from '../../../../src/resources/catalog.files.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';

const document = (kind: string, name: string, spec: object): string =>
  `---\n${JSON.stringify({ apiVersion: 'muster/v1', kind, metadata: { name }, spec })}\n`;

const LAN = document('Network', 'lan', { subnet: '10.0.0.0/24', dhcp: { mode: 'off' } });
const PROFILE = document('Profile', 'node', { boot: 'disk', dataDisk: { serial: 'data' } });

/** A cluster of a control plane and a worker, whose Machine has this configuration. */
const documents = (config: object, kubernetes: object = {}, lan = LAN): string =>
  lan +
  PROFILE +
  document('Machine', 'cp1', { macs: ['52:54:00:00:00:11'], addresses: ['10.0.0.11'], profile: 'node' }) +
  document('Machine', 'w1', {
    macs: ['52:54:00:00:00:12'],
    addresses: ['10.0.0.12'],
    profile: 'node',
    config,
  }) +
  document('Cluster', 'blue', {
    trust: 'segment',
    kubernetes: {
      version: '1.36',
      endpoint: 'api.test',
      controlPlanes: ['cp1'],
      workers: ['w1'],
      ...kubernetes,
    },
  });

/** What applying the documents says: faults, or warnings if it is taken. */
async function told(text: string): Promise<readonly string[]> {
  const catalog = await openCatalog({
    metrics: createMetrics(),
    store: openMemoryStore(),
    events: { record: () => undefined },
    log: silentLog,
    clock: systemClock,
    checkConfig: checkAll,
  });
  try {
    const { warnings } = await catalog.applyText(text, 'c.yaml');
    return warnings.map(({ message }) => `warning ${message}`);
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
    return error.faults.map(({ message }) => `error ${message}`);
  } finally {
    await catalog.close();
  }
}

const file = (path: string) => ({ files: [{ path, content: '' }] });
const swap = { filesystems: [{ device: '/dev/sdz', format: 'swap' }] };

test.each([
  [file('/var/lib/kubelet/config.yaml'), 'which the agent writes; set overrides.kubelet.config'],
  [file('/etc/systemd/timesyncd.conf.d/90-muster.conf'), 'set spec.kubernetes.timeServers'],
  [file('/etc/containerd/config.toml'), 'which the agent writes; set spec.kubernetes.registries or mirrors'],
  [file('/etc/kubernetes/manifests/etcd.yaml'), 'set overrides.flags or staticPods'],
  [file('/etc/kubernetes/pki/ca.crt'), 'Muster issues it'],
  [file('/etc/muster/agent.conf'), 'the directory is the agent’s own'],
  [
    { units: [{ name: 'kubelet.service', mask: true }] },
    'turns kubelet.service off, which the cluster needs',
  ],
  [{ units: [{ name: 'containerd.service', enabled: false }] }, 'turns containerd.service off'],
  [
    { units: [{ name: 'kubelet.service', contents: '[Service]\nExecStart=/x\n' }] },
    'give it dropins instead of contents',
  ],
  [{ sysctls: { 'net.ipv4.ip_forward': 0 } }, 'sets net.ipv4.ip_forward to 0, and pods need 1'],
  [{ sysctls: { 'net/ipv4/ip_forward': '0' } }, 'sets net/ipv4/ip_forward to 0'],
  [swap, 'config makes swap, with which kubelet does not start'],
])('%j of a worker is refused', async (config, message) => {
  const [first, ...more] = await told(documents(config));
  expect(first).toContain(`error Machine/w1: config`);
  expect(first).toContain(message);
  expect(more).toEqual([]);
});

test.each([
  [file('/etc/kubernetes/apiserver/mine.yaml')],
  [file('/etc/kubernetes/manifests/mine.yaml')],
  [{ units: [{ name: 'kubelet.service', dropins: [{ name: 'a.conf', contents: '[Service]\nNice=1\n' }] }] }],
  [{ units: [{ name: 'crio.service', mask: true }] }],
  [{ sysctls: { 'net.ipv4.ip_forward': 1, 'net.ipv6.conf.all.forwarding': 0 } }],
  [{ network: { interfaces: [{ name: 'eth0', dhcp4: true }] } }],
  [{ network: { interfaces: [{ name: 'eth0', addresses: ['10.0.0.12/24'] }, { name: 'eth1' }] } }],
])('%j of a worker is taken', async (config) => {
  expect(await told(documents(config))).toEqual([]);
});

test.each([
  [{ kubelet: { config: { failSwapOn: false } } }],
  [{ flags: { kubelet: { 'fail-swap-on': 'false' } } }],
])('swap is taken where kubelet takes it: %j', async (overrides) => {
  expect(await told(documents(swap, { overrides }))).toEqual([]);
});

test('a machine whose configuration gives no interface its address is warned of', async () => {
  const config = { network: { interfaces: [{ name: 'eth0', addresses: ['10.0.0.99/24'] }] } };
  expect(await told(documents(config))).toEqual([
    'warning Cluster/blue: w1: config.network gives no interface the address 10.0.0.12 of its Machine; correct one of the two',
  ]);
});

test('where Muster gives the addresses, only an entry for the interface that boots takes its address away', async () => {
  const lan = document('Network', 'lan', {
    subnet: '10.0.0.0/24',
    dhcp: { mode: 'server', pools: [{ start: '10.0.0.100', end: '10.0.0.199' }] },
  });
  const addresses = ['10.0.5.99/24'];
  const warnings = (interfaces: readonly object[]) => told(documents({ network: { interfaces } }, {}, lan));
  expect(await warnings([{ name: 'eth1', addresses }])).toEqual([]);
  expect(await warnings([{ mac: '52:54:00:00:00:12', mtu: 9000 }])).toEqual([]);
  expect(await warnings([{ mac: '52:54:00:00:00:12', addresses }])).toEqual([
    expect.stringContaining('w1: config.network gives no interface the address 10.0.0.12'),
  ]);
});
