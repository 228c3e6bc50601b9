/** Changes of a founded cluster's documents: refused, shown, or accepted by its name. */
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AgentFacts } from '../../../src/agent/wire/facts.ts';
import type { Consequences } from '../../../src/api/consequences.ts';
import { lackingVersions } from '../../../src/api/lacking.ts';
import { consequencesText } from '../../../src/cli/documents/consequences.ts';
import { openWorld, type World } from './world.ts';

let world: World;

beforeEach(async () => {
  world = await openWorld();
  await world.client.call('POST', '/v1/apply', { body: { json: { sources: [source()] } } });
  const { resolved } = { resolved: world.deps.resolved('blue') as never };
  const facts: AgentFacts = {
    ...{ agent: '2', bootId: 'b', machineId: 'm', clock: 0, pins: new Map(), requests: new Map() },
    disk: { state: 'unused' },
    etcd: { wal: 'present', health: 'serving' },
    runs: { kubelet: '1.35.6', 'kube-apiserver': '1.35.6', etcd: '3.6.6' },
  };
  const { machines } = resolved as { machines: { name: string }[] };
  await world.releases.heard(resolved, machines[0] as never, facts);
});

afterEach(() => world.close());

function source({ version = '1.35.6', endpoint = '10.77.0.9', more = '' } = {}) {
  const text = `apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  kubernetes:
    version: "${version}"
    endpoint: ${endpoint}
    controlPlanes: [cp1]
${more}  trust: segment
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:02"], profile: worker, addresses: [10.77.0.11]}
`;
  return { file: 'blue.yaml', text };
}

const apply = (changes: Parameters<typeof source>[0], query: Record<string, string> = {}) =>
  world.client
    .call<{ warnings: { code: string; path: string }[] }>('POST', '/v1/apply', {
      query,
      body: { json: { sources: [source(changes)] } },
    })
    .then(
      ({ warnings }) => warnings.filter(({ code }) => code !== 'E_CLUSTER').map(({ code }) => code),
      ({ code, faults }) => `${code} ${faults?.[0]?.at?.line ?? ''}`,
    );

test('a setting that cannot change is refused with its line, also when a person confirms', async () => {
  const more = '    dnsDomain: other.test\n';
  expect(await apply({ more })).toBe('E_FOUNDED 9');
  expect(await apply({ more }, { confirm: 'blue' })).toBe('E_FOUNDED 9');
  expect(await apply({ version: '1.34.9' })).toBe('E_SKEW 6');
});

test('a change that the cluster survives needs its name, and a dry run says so', async () => {
  expect(await apply({ endpoint: '10.77.0.10' })).toBe('E_CONFIRM 7');
  expect(await apply({ endpoint: '10.77.0.10' }, { dryRun: 'true' })).toEqual(['E_CONFIRM']);
  expect(await apply({ endpoint: '10.77.0.10' }, { confirm: 'red' })).toBe('E_CONFIRM 7');
  expect(await apply({ endpoint: '10.77.0.10' }, { confirm: 'blue' })).toEqual(['E_CONFIRM']);
});

test('a dry run shows which files change where, what restarts in which order, and that an upgrade begins', async () => {
  const dry = async (changes: Parameters<typeof source>[0]) =>
    (
      await world.client.call<{ consequences: Consequences[] }>('POST', '/v1/apply', {
        query: { dryRun: 'true' },
        body: { json: { sources: [source(changes)] } },
      })
    ).consequences;
  expect(await dry({})).toEqual([]);
  expect(await dry({ more: '    timeServers: [10.77.0.2]\n' })).toMatchObject([
    { cluster: 'blue', differences: [{ machines: ['cp1'], restarts: ['systemd-timesyncd.service'] }] },
  ]);
  const gates = '    overrides: {flags: {kube-apiserver: {event-ttl: 2h}}}\n';
  const [flags] = await dry({ more: gates });
  expect(flags!.differences[0]).toMatchObject({ restarts: ['kube-apiserver'], inTurn: ['kube-apiserver'] });
  expect(consequencesText([flags!])).toContain('restarts kube-apiserver, one machine after the other');
  expect(await dry({ version: '1.36.3' })).toEqual([
    { cluster: 'blue', differences: [], nextBoot: [], upgrade: { from: '1.35.6', to: '1.36.3' } },
  ]);
});

test('the versions that run are shown, and an unknown cluster is said to be one', async () => {
  expect(await world.client.call('GET', '/v1/clusters/blue/running')).toMatchObject({
    cluster: 'blue',
    version: '1.35.6',
    machines: [{ name: 'cp1', serves: true, versions: { etcd: '3.6.6', kubelet: '1.35.6' } }],
  });
  await expect(world.client.call('GET', '/v1/clusters/red/running')).rejects.toThrow(
    /no machine of a founded/,
  );
});

test('an upgrade of a cluster that is not healthy is refused with every reason, and changes no document', async () => {
  const order = (body: object, query = {}) =>
    world.client.call('POST', '/v1/clusters/blue/change', {
      ...{ query, body: { json: { kind: 'upgrade', ...body } } },
    });
  await expect(order({ to: '1.37.0' })).rejects.toMatchObject({ code: 'E_CLUSTER' });
  await expect(order({ to: '1.34.9' })).rejects.toMatchObject({ code: 'E_SKEW' });
  await expect(order({ to: '1.35.6' })).rejects.toMatchObject({ code: 'E_UPGRADE' });
  await expect(order({ to: '1.36.3', without: ['cp1'] })).rejects.toThrow(/cp1 is not a worker/);
  await expect(order({ to: '1.36.3' })).rejects.toMatchObject({ code: 'E_UPGRADE' });
  expect(world.deps.resolved('blue')).toMatchObject({ kubernetes: { version: '1.35.6' } });
  const preview = await order({ to: '1.36.3' }, { dryRun: 'true' });
  expect(preview).toMatchObject({ about: { blue: 'Kubernetes 1.35.6 to 1.36.3' } });
  const { steps, faults } = preview as unknown as {
    steps: { name: string; noReturn: boolean }[];
    faults: { message: string }[];
  };
  expect(steps.map(({ name }) => name)).toEqual([
    ...['snapshot', 'prefetch', 'etcd', 'apiservers', 'managers', 'control-planes', 'addons', 'settle'],
  ]);
  expect(steps.filter(({ noReturn }) => noReturn).map(({ name }) => name)).toEqual(['apiservers']);
  expect(faults.length).toBeGreaterThan(0);
});

test('a version of which the boot host has no kubelet is told when it is applied, if it has others', async () => {
  const applied = async (kubelets: readonly string[]) => {
    const one = lackingVersions(
      [
        { kind: 'Cluster', name: 'blue' },
        { kind: 'Machine', name: 'cp1' },
      ],
      { resolved: world.deps.resolved, kubelets: () => kubelets },
    );
    return one.map(({ path, message }) => `${path} ${message}`);
  };
  expect(await applied([])).toEqual([]);
  expect(await applied(['1.35.6', '1.34.9'])).toEqual([]);
  expect(await applied(['1.34.9'])).toEqual([
    'spec.kubernetes.version Cluster/blue: this boot host has kubelet 1.34.9, and not 1.35.6; `muster artifacts pull blue` fetches it, unless the images of the machines have it',
  ]);
});

const own = (kind: string, name: string, spec: object) => ({
  apiVersion: 'muster/v1',
  kind,
  metadata: { name },
  spec,
});
const image = (name: string, root: string) =>
  own('Image', name, {
    ...{ os: 'debian', arch: 'x86_64', configFormat: 'cloud-init' },
    ...{ kernel: { sha256: 'a'.repeat(64) }, root: { sha256: root.repeat(64) } },
  });
const machine = (name: string, more: object = {}) =>
  own('Machine', name, { macs: ['52:54:00:aa:00:02'], addresses: ['10.77.0.11'], profile: 'node', ...more });

/** Applies documents. Resolves with the codes of warnings, or the refusal. */
const put = async (documents: readonly object[], query: Record<string, string> = {}) => {
  const sources = [{ file: 'more.json', text: documents.map((one) => JSON.stringify(one)).join('\n---\n') }];
  return world.client
    .call<{ warnings: { code: string }[]; consequences?: Consequences[] }>('POST', '/v1/apply', {
      query,
      body: { json: { sources } },
    })
    .then(
      ({ warnings, consequences }) => ({ codes: warnings.map(({ code }) => code), consequences }),
      ({ code, message }) => ({ codes: [code], message: String(message), consequences: undefined }),
    );
};

test('a dry run shows which running machines boot what else, and how it is brought to them', async () => {
  const profile = { image: 'old', kernelArguments: ['quiet'] };
  await put([image('old', 'b'), image('new', 'c'), own('Profile', 'node', profile), machine('cp1')]);
  const next = async (...documents: object[]) =>
    (await put(documents, { dryRun: 'true' })).consequences!.flatMap(({ nextBoot }) => nextBoot);
  expect(await next(machine('cp1'))).toEqual([]);
  expect(await next(own('Profile', 'node', { ...profile, image: 'new' }))).toEqual([
    { machines: ['cp1'], changes: ['image'], image: { from: 'old', to: 'new' } },
  ]);
  expect(await next(image('old', 'd'))).toEqual([
    { machines: ['cp1'], changes: ['image'], image: { from: 'old', to: 'old' } },
  ]);
  expect(await next(own('Profile', 'node', { image: 'old', config: { timezone: 'UTC' } }))).toEqual([
    { machines: ['cp1'], changes: ['kernel-arguments', 'configuration'] },
  ]);
  const bootDisk = { dataDisk: { path: '/dev/vdb' } };
  expect(await next(machine('cp1', bootDisk))).toEqual([{ machines: ['cp1'], changes: ['disks'] }]);
  // Another machine, and an image that nobody boots, concern nothing that runs.
  expect(
    await next(image('new', 'd'), machine('w9', { macs: ['52:54:00:aa:00:09'], addresses: [] })),
  ).toEqual([]);
  const { consequences } = await put([own('Profile', 'node', { ...profile, image: 'new' })], {
    dryRun: 'true',
  });
  expect(consequencesText(consequences!)).toBe(`cluster/blue:
  cp1: nothing changes before the next boot, then: image (old becomes new);
    muster cluster roll blue --machines cp1 drains and reboots one after the other,
    and what a machine keeps outside of its data disk is lost with the reboot
`);
});

test('what changes for an installed system is shown to change when it is installed anew', async () => {
  const installed = (name: string, hash: string) => {
    const { spec } = image(name, hash);
    const { root: disk, ...more } = spec as Record<string, unknown>;
    return own('Image', name, { ...more, disk, pieces: disk });
  };
  await put([
    installed('old', 'b'),
    installed('new', 'c'),
    own('Profile', 'node', { image: 'old', home: 'disk', installDisk: { choose: 'smallest' } }),
    machine('cp1'),
  ]);
  const { consequences } = await put(
    [own('Profile', 'node', { image: 'new', home: 'disk', installDisk: { choose: 'smallest' } })],
    {
      dryRun: 'true',
    },
  );
  expect(consequencesText(consequences!)).toBe(`cluster/blue:
  cp1: nothing changes before their systems are installed anew, then: image (old becomes new);
    muster machine install cp1 does that at its next boot
`);
});

test('a data disk that a running machine would not find is refused or needs its cluster, wherever it is named', async () => {
  const disk = (path: string) => ({ dataDisk: { path } });
  await put([
    image('old', 'b'),
    own('Profile', 'node', { image: 'old', ...disk('/dev/vdb') }),
    machine('cp1'),
  ]);
  const resolved = world.deps.resolved('blue') as never as { machines: never[] };
  await world.releases.heard(resolved as never, resolved.machines[0]!, {
    ...{ agent: '2', bootId: 'b', machineId: 'm', clock: 0, pins: new Map(), requests: new Map() },
    disk: { state: 'ours', mounted: true, filesystem: 'f' },
    dataSelector: 'path=/dev/vdb',
    etcd: { wal: 'present', health: 'serving' },
  } as never);
  expect(await put([machine('cp1', disk('/dev/vdb'))], { dryRun: 'true' })).toMatchObject({ codes: [] });
  // It stays on the disk that has its data.
  const byInventory = { dataDisk: { transport: 'nvme', choose: 'largest' } };
  expect((await put([machine('cp1', byInventory)], { dryRun: 'true' })).codes).toEqual([]);
  for (const documents of [
    [machine('cp1', disk('/dev/vdc'))],
    [own('Profile', 'node', { image: 'old', ...disk('/dev/vdc') })],
  ]) {
    const refused = await put(documents);
    expect(refused.codes).toEqual(['E_CONFIRM']);
    expect(refused).toMatchObject({
      message: expect.stringContaining(
        'cp1 has its data on the disk path=/dev/vdb, and would look for them on path=/dev/vdc',
      ),
    });
    expect((await put(documents, { dryRun: 'true' })).codes).toEqual(['E_CONFIRM']);
    expect((await put(documents, { dryRun: 'true', confirm: 'blue' })).codes).toEqual(['E_CONFIRM']);
  }
  const without = [own('Profile', 'node', { image: 'old' })];
  expect((await put(without)).codes).toEqual(['E_FOUNDED']);
  expect((await put(without, { confirm: 'blue' })).codes).toEqual(['E_FOUNDED']);
  expect((await put([own('Profile', 'other', { image: 'old' })])).codes).toEqual([]);
});

test('a file that moves a founded member, takes its cards or deletes it is not taken, and the fault says why', async () => {
  const all = await openWorld();
  const file = `${all.directory}/config/blue.yaml`;
  fs.writeFileSync(file, source().text);
  await all.deps.catalog.reload();
  const resolved = all.deps.resolved('blue') as never as { machines: never[] };
  const card = { name: 'eth0', mac: '52:54:00:aa:00:02', link: true };
  await all.releases.heard(resolved as never, resolved.machines[0]!, {
    ...{ agent: '2', bootId: 'b', machineId: 'm', clock: 0, pins: new Map(), requests: new Map() },
    disk: { state: 'unused' },
    etcd: { wal: 'present', health: 'serving' },
    inventory: { disks: [], cards: [card] },
  } as never);
  const reloaded = async (text: string) => {
    fs.writeFileSync(file, text);
    await all.deps.catalog.reload();
    return {
      addresses: all.deps.catalog.get('Machine', 'cp1')?.document.spec.addresses,
      faults: all.deps.catalog.faults().map(({ code }) => code),
    };
  };
  const { text } = source();
  const former = ['10.77.0.11'];
  for (const [changed, code] of [
    [text.replace('10.77.0.11', '10.77.0.12'), 'E_FOUNDED'],
    [text.replace('52:54:00:aa:00:02', '52:54:00:aa:00:03'), 'E_CONFIRM'],
    [text.replace('name: cp1', 'name: cp9'), 'E_CONFIRM'],
    [text.slice(0, text.indexOf('---')), 'E_CONFIRM'],
  ] as const) {
    const { addresses, faults } = await reloaded(changed);
    expect(addresses).toEqual(former);
    expect(faults).toContain(code);
  }
  expect(await reloaded(text)).toEqual({ addresses: former, faults: [] });
  expect((await reloaded(text.replace('"]', '", "52:54:00:aa:00:03"]'))).faults).toEqual([]);
  await all.close();
});
