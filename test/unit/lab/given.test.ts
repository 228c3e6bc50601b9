import { expect, test } from 'vitest';
import { withGiven } from '../../../src/lab/given.ts';

const cluster = {
  kind: 'Cluster',
  spec: {
    dataDisk: { serial: 'DATA' },
    kubernetes: {
      version: '1.36',
      controlPlanes: ['cp1'],
      overrides: { checks: { fsyncMs: 9 }, versions: { pause: '3.10' } },
    },
  },
};

test('the settings of the artifacts directory are merged over a Cluster, map by map', () => {
  const given = { version: '1.34.9', overrides: { versions: { etcd: '3.6.13-0' } } };
  expect(withGiven([cluster], given)).toEqual([
    {
      kind: 'Cluster',
      spec: {
        dataDisk: { serial: 'DATA' },
        kubernetes: {
          version: '1.34.9',
          controlPlanes: ['cp1'],
          overrides: { checks: { fsyncMs: 9 }, versions: { pause: '3.10', etcd: '3.6.13-0' } },
        },
      },
    },
  ]);
});

test('lists are replaced, and other documents stay as they are', () => {
  const other = { kind: 'Machine', spec: { kubernetes: { version: '1' } } };
  const plain = { kind: 'Cluster', spec: { dataDisk: { serial: 'DATA' } } };
  expect(withGiven([other, plain], { version: '2' })).toEqual([other, plain]);
  expect(withGiven([cluster], { controlPlanes: ['a', 'b', 'c'] })[0]).toMatchObject({
    spec: { kubernetes: { controlPlanes: ['a', 'b', 'c'] } },
  });
});
