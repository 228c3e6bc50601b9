/** What founded clusters run is kept, and survives a restart of the boot host. */
import { expect, test } from 'vitest';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { openReleases } from '../../../../src/cluster/change/releases.ts';
import { releaseOf } from '../../../../src/cluster/resolve/release.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { resolved } from '../kit.ts';

const facts = (said: Partial<AgentFacts> = {}): AgentFacts => ({
  agent: '2',
  bootId: 'b',
  machineId: 'm',
  clock: 0,
  disk: { state: 'ours', device: '/dev/vda', filesystem: 'f', mounted: true },
  etcd: { wal: 'present', health: 'serving' },
  pins: new Map(),
  requests: new Map(),
  ...said,
});

test('a member makes the release, workers do not, and a restarted server knows all of it', async () => {
  const store = openMemoryStore();
  const releases = await openReleases({ store, log: silentLog });
  const blue = resolved({ version: '1.35.6' });
  const [cp1, , , w1] = blue.machines;
  await releases.heard(blue, w1!, facts({ runs: { kubelet: '1.35.6' } }));
  expect(releases.of('golden')).toBeUndefined();
  await releases.heard(blue, cp1!, facts({ runs: { etcd: '3.6.6' }, dataSelector: 'serial=1', image: 'i' }));
  await releases.heard(blue, cp1!, facts({ runs: { kubelet: '1.35.6' } }));

  const again = await openReleases({ store, log: silentLog });
  expect(again.of('golden')).toEqual(releases.of('golden'));
  expect(again.of('golden')?.release.version).toBe('1.35.6');
  expect(again.of('golden')?.machines.get('cp1')).toMatchObject({
    serves: true,
    versions: { etcd: '3.6.6', kubelet: '1.35.6' },
    image: 'i',
  });
  expect(again.clusterOf('w1')).toBe('golden');
});

test('an edited document moves neither release nor founding, and a settled upgrade moves the release', async () => {
  const releases = await openReleases({ store: openMemoryStore(), log: silentLog });
  const before = resolved({ version: '1.35.6' });
  const after = resolved({ version: '1.36.3', dnsDomain: 'other.test', endpoint: '10.0.0.10' });
  await releases.heard(before, before.machines[0]!, facts());
  await releases.heard(after, after.machines[0]!, facts());
  expect(releases.of('golden')?.release.version).toBe('1.35.6');
  expect(releases.of('golden')?.fixed).toMatchObject({
    dnsDomain: 'cluster.local',
    endpoint: '10.0.0.10:6443',
  });
  await releases.settle('golden', releaseOf(after));
  expect(releases.of('golden')?.release.versions.kubelet).toBe('1.36.3');
});

test('a machine that is taken out is forgotten, and so is a cluster that was reset', async () => {
  const store = openMemoryStore();
  const releases = await openReleases({ store, log: silentLog });
  const blue = resolved();
  for (const machine of blue.machines) await releases.heard(blue, machine, facts());
  await releases.forget('golden', 'w1');
  expect(releases.clusterOf('w1')).toBeUndefined();
  await releases.reset('golden');
  expect(releases.of('golden')).toBeUndefined();
  expect((await openReleases({ store, log: silentLog })).of('golden')).toBeUndefined();
});
