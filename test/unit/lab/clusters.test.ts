import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import type { EtcdClient } from '../../../src/cluster/joining/user-credentials.ts';
import { openClusters } from '../../../src/lab/clusters.ts';
import { selfSigned } from '../../self-signed.ts';

test('simultaneous looks share one request for a certificate; after a refusal it is requested again', async () => {
  let asked = 0;
  const { certificate, key } = selfSigned('nobody');
  const credentials = async (cluster: string): Promise<EtcdClient> => {
    if (++asked === 1) throw new Error('no keys yet');
    // Nothing listens at this address.
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
    credentials,
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

test('a failed wait says what was found instead and why it ended', async () => {
  const clusters = openClusters({
    clock: systemClock,
    credentials: () => Promise.reject(new Error('no keys yet')),
    opened: () => Promise.resolve(),
    signal: new AbortController().signal,
  });
  expect(await clusters.wait({ cluster: 'one', sameEtcd: true }, () => 'the run is over')).toBe(
    'no keys yet; the run is over',
  );
  await clusters.close();
});
