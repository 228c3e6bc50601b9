import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import type { EtcdClient } from '../../../src/cluster/joining/user-credentials.ts';
import { openClusters } from '../../../src/lab/clusters.ts';
import { selfSigned } from '../../self-signed.ts';

test('one certificate is asked for, however many look at once, and again after a refusal', async () => {
  let asked = 0;
  const { certificate, key } = selfSigned('nobody');
  const client = async (cluster: string): Promise<EtcdClient> => {
    if (++asked === 1) throw new Error('no keys yet');
    // nobody listens there
    return {
      cluster,
      members: [{ name: 'm1', url: 'https://127.0.0.1:1' }],
      ca: certificate,
      certificate,
      key,
    };
  };
  const clusters = openClusters({
    clock: systemClock,
    client,
    opened: () => Promise.resolve(),
    signal: new AbortController().signal,
  });
  const state = { cluster: 'one', voters: 3 };
  expect(await clusters.look(state)).toBe('no keys yet');
  expect(await Promise.all([clusters.look(state), clusters.look(state)])).toEqual([
    'no member answers a linearizable read',
    'no member answers a linearizable read',
  ]);
  expect(asked).toBe(2);
  await clusters.close();
});

test('a wait ends with what is there instead and why it ends', async () => {
  const clusters = openClusters({
    clock: systemClock,
    client: () => Promise.reject(new Error('no keys yet')),
    opened: () => Promise.resolve(),
    signal: new AbortController().signal,
  });
  expect(await clusters.wait({ cluster: 'one', sameEtcd: true }, () => 'the run is over')).toBe(
    'no keys yet; the run is over',
  );
  await clusters.close();
});
