/**
 * A cluster while the document of a control plane is missing: its status, and access for operators.
 */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import type { FoundingStatus } from '../../../../src/cluster/etcd/status.ts';
import { createHealth } from '../../../../src/cluster/health/health.ts';
import { userEtcdClient, userKubeconfig } from '../../../../src/cluster/joining/user-credentials.ts';
import { openPki } from '../../../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { completed, FOUNDING, MACHINES } from '../kit.ts';
import { QUIET_HEALTH } from '../quiet.ts';

const torn = completed(
  {},
  MACHINES.filter(({ name }) => name !== 'cp2'),
);
const clusters = { get: () => torn, at: () => undefined };
const clock = new ManualClock();
const pki = openPki({ store: openMemoryStore(), vault: vaultFrom(newVaultKey(), 'test'), clock });

const looked = (founding: () => Promise<FoundingStatus>) =>
  createHealth({
    ...QUIET_HEALTH,
    clusters,
    founding,
    condition: async () => ({ members: [], silent: [], quota: 1 }),
    kubes: () => () => Promise.reject(new Error('no API server here')),
    pki,
    objects: {
      present: () => Promise.reject(new Error('not asked')),
      applied: { known: async () => undefined },
    },
    roster: { get: () => undefined, heartbeats: { alive: () => undefined } as never },
    certificateState: () => 'valid',
    clock,
    newId: () => 'probe',
  }).look('golden', { etcdOnly: false });

const RECORD = {
  v: 1,
  cluster: 'golden',
  id: 'f1',
  openedAt: 0,
  openedBy: 'all-asked',
  members: FOUNDING.members,
  grants: {},
  founded: { at: 1, by: 'cp1' },
  joined: {},
  lists: {},
} as const;

test('etcd and the known machines are judged in addition to the faults of the document', async () => {
  const view = {
    clusterId: 'c',
    members: FOUNDING.members.map(({ name, address }) => ({
      id: `id-${name}`,
      name,
      peerUrls: [`https://${address}:2380`],
      learner: false,
      healthy: true,
    })),
  };
  const { ok, scope, findings } = await looked(async () => ({
    cluster: 'golden',
    record: RECORD,
    members: FOUNDING.members.map(({ name }) => ({ name, asked: true })),
    view,
  }));
  expect([ok, scope]).toEqual([false, expect.stringContaining('document is incomplete')]);
  expect(findings.find(({ check }) => check === 'cluster')?.says).toContain('there is no Machine "cp2"');
  const etcd = findings.filter(({ check }) => check === 'etcd');
  expect(etcd.map((one) => [one.subject, one.ok])).toEqual([
    ['golden', true],
    ['cp2', true],
    ['cp1', true],
    ['cp3', true],
  ]);
  expect(findings.filter(({ check }) => check === 'machine').map(({ subject }) => subject)).toContain('cp1');
});

test('for a cluster that was never founded only the faults of its document are reported', async () => {
  const { findings } = await looked(() => Promise.reject(new MusterError('E_NOT_FOUND', 'no record')));
  expect(findings.some(({ check }) => check === 'etcd')).toBe(false);
  expect(findings[0]).toMatchObject({ check: 'cluster', ok: false });
});

test('operators get their certificates, and etcd is asked at the members in the record', async () => {
  await pki.found('golden', 'ECDSA-P256');
  const deps = { clusters, pki, events: { record: () => undefined }, recorded: () => FOUNDING.members };
  const { members, certificate } = await userEtcdClient(deps, 'golden', 'me');
  expect(members).toEqual([
    { name: 'cp1', url: 'https://10.0.0.11:2379' },
    { name: 'cp3', url: 'https://10.0.0.13:2379' },
    { name: 'cp2', url: 'https://10.0.0.12:2379' },
  ]);
  expect(certificate).toContain('BEGIN CERTIFICATE');
  expect(await userKubeconfig(deps, 'golden', 'me')).toContain('server: "https://api.golden.test:6443"');
});
