import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { measureHealth } from '../../../../src/cluster/health/health-metrics.ts';
import type { ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { createHeartbeats } from '../../../../src/machines/heartbeats.ts';
import type { Member } from '../../../../src/machines/member.ts';

const machine = (name: string, ...roles: string[]) => ({ name, roles });
const BLUE = {
  name: 'blue',
  machines: [
    machine('cp1', 'etcd', 'control-plane'),
    machine('cp2', 'etcd', 'control-plane'),
    machine('w1', 'worker'),
  ],
} as unknown as ResolvedCluster;
const etcd = (health: 'serving' | 'alive' | 'down') => ({ etcd: { wal: 'present', health } as const });
const READY = { apiserver: { health: 'ready', revision: '-' } } as const;

test('machines, members of etcd and API servers are counted by what agents report, and silent ones without', async () => {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const heartbeats = createHeartbeats({ clock });
  const hold = { status: { agent: { hold: { code: 'x', text: 'X.' } } } } as Member;
  let clusters = [BLUE];
  const health = measureHealth({
    clusters: () => clusters,
    roster: { get: (name) => (name === 'w1' ? hold : undefined), heartbeats },
    metrics,
    clock,
  });
  const count = async (metric: string, state: string): Promise<number> => {
    const line = new RegExp(`^muster_cluster_${metric}\\{cluster="blue",[a-z]+="${state}"\\} ([0-9]+)$`, 'm');
    return Number(line.exec(await metrics.text())?.[1]);
  };
  const beat = (...names: string[]) => {
    for (const name of names) heartbeats.beat(name, { bootId: 'b', address: '10.0.0.1' });
  };
  health.heard('cp1', { ...etcd('serving'), ...READY });
  health.heard('cp2', etcd('alive'));
  health.heard('w1', etcd('down'));
  expect(await count('machines', 'running')).toBeNaN();
  clock.advance(duration('50s'));
  beat('cp1', 'cp2', 'w1');
  clock.advance(duration('10s'));
  expect(await count('machines', 'running')).toBe(2);
  expect(await count('machines', 'held')).toBe(1);
  expect(await count('etcd_members', 'serving')).toBe(1);
  expect(await count('etcd_members', 'alive')).toBe(1);
  expect(await count('apiservers', 'ready')).toBe(1);
  expect(await count('apiservers', 'down')).toBe(1);
  clock.advance(duration('45s'));
  expect(await count('machines', 'silent')).toBe(3);
  expect(await count('etcd_members', 'silent')).toBe(2);
  expect(await count('apiservers', 'ready')).toBe(0);
  clusters = [];
  clock.advance(duration('15s'));
  expect(await count('machines', 'silent')).toBe(0);
  health.close();
});
