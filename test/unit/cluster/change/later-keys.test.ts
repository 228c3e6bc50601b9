/** The guard of clusters whose keys were rotated after the backup of the store. */
import { expect, test } from 'vitest';
import { type Answer, type Evidence, probeName } from '../../../../src/agent/wire/evidence.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { openChanges } from '../../../../src/cluster/change/changes.ts';
import { openLaterKeys } from '../../../../src/cluster/change/later-keys.ts';
import { keyIdOfTokens } from '../../../../src/cluster/change/rotation/token-key.ts';
import type { MusterEvent } from '../../../../src/events/event.ts';
import { encryptionConfig, encryptionConfigHash } from '../../../../src/pki/encryption.ts';
import { PrivateKey } from '../../../../src/pki/keys.ts';
import { openPki, type Pki } from '../../../../src/pki/pki.ts';
import { generationOf } from '../../../../src/pki/transitions.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import { readAuthority } from '../../../../src/pki/x509.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store } from '../../../../src/store/store.ts';
import { CP1, GOLDEN, rotateCompletely } from '../../pki/kit.ts';
import { QUIET_CHANGES } from '../quiet.ts';

const clock = new ManualClock(Date.now() as Millis);
const vault = vaultFrom(newVaultKey(), 'test');

/** A store as a backup has it, and the same store after a rotation of `ca` and `sa`. */
async function backupAndLater(): Promise<{ backup: Store; later: Pki }> {
  const laterStore = openMemoryStore();
  const later = openPki({ store: laterStore, clock, vault });
  await later.found('golden');
  const backup = await copyOf(laterStore);
  for (const name of ['ca', 'sa'] as const) await rotateCompletely(later, name);
  return { backup, later };
}

async function copyOf(store: Store): Promise<Store> {
  const copy = openMemoryStore();
  const { records } = await store.list('');
  await copy.commit(records.map(({ key, value }) => ({ key, put: value })));
  return copy;
}

async function evidenceOf(pki: Pki): Promise<Evidence> {
  const keysets = await pki.keysets('golden');
  const [ca, sa] = [keysets.get('ca')!, keysets.get('sa')!];
  const { keyId } = readAuthority(generationOf(ca, ca.primary).certificate!);
  return {
    kubeletIssuer: keyId!,
    listeners: new Map(),
    programs: new Map(),
    tokens: new Map([[keyIdOfTokens(generationOf(sa, sa.primary).publicKey), 3]]),
  };
}

async function guardOf(store: Store, life = 1) {
  const seen: Pick<MusterEvent, 'kind' | 'subject' | 'reason'>[] = [];
  const events = { record: (event: (typeof seen)[number]) => void seen.push(event) } as never;
  const pki = openPki({ store, clock, vault });
  const clusterOf = (machine: string) => (machine === 'alone' ? undefined : 'golden');
  const parts = { store, pki, clusterOf, events, clock, log: silentLog, life: { number: life } };
  return { seen, guard: await openLaterKeys(parts) };
}

const facts = (evidence: Evidence): AgentFacts => ({ evidence }) as AgentFacts;

test('a store from before a rotation holds the cluster when a machine that saw more shows a key that it does not know, also after a restart', async () => {
  const { backup, later } = await backupAndLater();
  const { guard, seen } = await guardOf(backup);
  const evidence = await evidenceOf(later);
  expect(await guard.heard('cp1', facts(evidence), true)).toMatchObject({
    lines: [{ do: 'hold', code: 'later-keys' }],
  });
  expect(guard.holds('golden')?.message).toContain("kubelet's client certificate on cp1 is of the key");
  expect(guard.holds('golden')?.message).toContain('Restore a later backup');
  expect(seen).toMatchObject([
    { kind: 'cluster.later-keys', subject: 'Cluster/golden', reason: { code: 'held' } },
  ]);
  // Other machines get no plan either: it would put the old keys back.
  expect(
    await guard.heard('w1', facts(await evidenceOf(openPki({ store: backup, clock, vault }))), false),
  ).toBeDefined();
  expect(await guard.heard('alone', facts(evidence), true)).toBeUndefined();
  expect((await guardOf(backup)).guard.warnings()).toMatchObject([{ code: 'E_LATER_KEYS' }]);
});

test('a rotation of the key of service accounts alone is noticed by the tokens of pods', async () => {
  const { backup, later } = await backupAndLater();
  const { guard } = await guardOf(backup);
  const { kubeletIssuer: _, ...evidence } = await evidenceOf(later);
  await guard.heard('w1', facts(evidence), true);
  expect(guard.holds('golden')?.message).toContain('a token of a pod on w1');
});

/** What a control plane shows of its encryption configuration. */
const encryptionOf = async (pki: Pki): Promise<Evidence> => ({
  listeners: new Map(),
  programs: new Map(),
  tokens: new Map(),
  encryption: encryptionConfigHash(encryptionConfig(await pki.encryption('golden'), true)),
});

test('a rotation of the encryption key alone is noticed by the configuration of an API server, at each of its steps', async () => {
  const store = openMemoryStore();
  const later = openPki({ store, clock, vault });
  await later.found('golden');
  const backup = await copyOf(store);
  const old = (await later.encryption('golden'))!.primary;
  const shown = [await encryptionOf(later)];
  const { generation } = await later.transition('golden', 'encryption', { do: 'make' });
  for (const step of [
    { do: 'trust', generation },
    { do: 'promote', generation },
    { do: 'distrust', generation: old },
  ] as const) {
    await later.transition('golden', 'encryption', step);
    shown.push(await encryptionOf(later));
  }
  for (const [n, evidence] of shown.entries()) {
    const { guard } = await guardOf(await copyOf(backup));
    await guard.heard('cp1', facts(evidence), true);
    expect(guard.holds('golden') !== undefined, `step ${n}`).toBe(n > 0);
    // The store that rotated it knows what API servers had, and have.
    const itself = await guardOf(store);
    await itself.guard.heard('cp1', facts(evidence), true);
    expect(itself.guard.holds('golden')).toBeUndefined();
  }
});

test('a rotation of front-proxy-ca is noticed by a client that an API server accepts', async () => {
  const { backup, later } = await backupAndLater();
  const clientOf = async (pki: Pki, answer: Answer): Promise<Evidence> => ({
    ...{ programs: new Map(), tokens: new Map() },
    listeners: new Map([
      [
        'kube-apiserver',
        {
          answers: new Map([
            [
              probeName('front-proxy-ca', (await pki.keysets('golden')).get('front-proxy-ca')!.primary),
              answer,
            ],
          ]),
        },
      ],
    ]),
  });
  const { guard } = await guardOf(backup);
  await guard.heard('cp1', facts(await clientOf(later, 'accepted')), true);
  expect(guard.holds('golden')).toBeUndefined();
  await rotateCompletely(later, 'front-proxy-ca');
  await guard.heard('cp1', facts(await clientOf(later, 'refused')), true);
  expect(guard.holds('golden')).toBeUndefined();
  await guard.heard('cp1', facts(await clientOf(later, 'accepted')), true);
  expect(guard.holds('golden')?.message).toContain('a client of front-proxy-ca that kube-apiserver accepts');
});

test('a machine that has not proved to have seen a later state holds nothing, whatever it reports', async () => {
  const { backup, later } = await backupAndLater();
  const { guard, seen } = await guardOf(backup);
  expect(await guard.heard('cp1', facts(await evidenceOf(later)), false)).toBeUndefined();
  expect([guard.holds('golden'), seen]).toEqual([undefined, []]);
});

test('a key of a generation that was forgotten, and has signed something, is no later key', async () => {
  const { later } = await backupAndLater();
  const store = openMemoryStore();
  const pki = openPki({ store, clock, vault });
  await pki.found('golden');
  const { tokens: _, ...old } = await evidenceOf(pki);
  const publicKey = (await PrivateKey.generate()).publicKey();
  await pki.issue('golden', { leaf: 'kubelet', holder: CP1, cluster: GOLDEN, publicKey });
  await rotateCompletely(pki, 'ca');
  const { guard } = await guardOf(store);
  expect(await guard.heard('cp1', facts({ ...old, tokens: new Map() }), true)).toBeUndefined();
  expect(await guard.heard('cp1', facts(await evidenceOf(later)), true)).toBeDefined();
});

test('while a cluster is held no change of it begins or advances, until an operator lets the keys of this store count', async () => {
  const { backup, later } = await backupAndLater();
  const { guard, seen } = await guardOf(backup);
  const changes = await openChanges({
    ...QUIET_CHANGES,
    ...{ store: backup, clock, log: silentLog, events: { record: () => {} } as never },
    clusters: { get: () => undefined },
    kinds: [],
    settled: () => undefined,
    holds: guard.holds,
  });
  const change = { cluster: 'golden', kind: 'rotation', order: {}, pauseBefore: [], without: [] };
  await guard.heard('cp1', facts(await evidenceOf(later)), true);
  await expect(changes.begin(change, 'ann')).rejects.toThrow('were rotated after the backup');
  await guard.accept('golden', 'ann');
  await expect(changes.begin(change, 'ann')).rejects.toThrow('does not know changes of the kind');
  expect(await guard.heard('cp1', facts(await evidenceOf(later)), true)).toBeUndefined();
  expect(seen.map(({ reason }) => reason?.code)).toEqual(['held', 'accepted']);
  await expect(guard.accept('golden', 'ann')).rejects.toThrow('no machine has shown later keys');
  // A store that is restored once more asks once more.
  const again = await guardOf(backup, 2);
  expect(again.guard.holds('golden')).toBeUndefined();
  expect(await again.guard.heard('cp1', facts(await evidenceOf(later)), true)).toBeDefined();
  await changes.close();
});
