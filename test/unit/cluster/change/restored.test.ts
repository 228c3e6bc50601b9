/** What a snapshot from before a rotation brings back, and what the boot host makes of it. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { startRestored } from '../../../../src/cluster/change/restored.ts';
import { keyIdOfTokens } from '../../../../src/cluster/change/rotation/token-key.ts';
import type { FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import type { MusterEvent } from '../../../../src/events/event.ts';
import { trustBundle } from '../../../../src/pki/keyset.ts';
import { type Keysets, openPki } from '../../../../src/pki/pki.ts';
import { generationOf } from '../../../../src/pki/transitions.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { rotateCompletely } from '../../pki/kit.ts';
import { resolved } from '../kit.ts';

const clock = new ManualClock(Date.now() as Millis);

/** A token as the controller manager writes it into a Secret, signed by the primary key. */
function tokenOf(keysets: Keysets): string {
  const sa = keysets.get('sa')!;
  const kid = keyIdOfTokens(generationOf(sa, sa.primary).publicKey);
  const jwt = `${Buffer.from(JSON.stringify({ alg: 'RS256', kid })).toString('base64url')}.e30.x`;
  return Buffer.from(jwt).toString('base64');
}

const textIn = (keysets: Keysets, name: 'ca' | 'front-proxy-ca'): string => trustBundle(keysets.get(name)!);

/** An API with what was published when `keysets` were the cluster's. */
class Played {
  ready = true;
  /** Why it refuses to change Secrets. */
  denies: string | undefined;
  readonly authentication: Record<string, string>;
  readonly rootCa: Map<string, string>;
  readonly tokens: Map<string, string | undefined>;
  readonly patched: string[] = [];

  constructor(keysets: Keysets) {
    this.authentication = {
      'client-ca-file': textIn(keysets, 'ca'),
      'requestheader-client-ca-file': textIn(keysets, 'front-proxy-ca'),
      'requestheader-group-headers': '["X-Remote-Group"]',
    };
    this.rootCa = new Map(['default', 'web'].map((name) => [name, textIn(keysets, 'ca')]));
    this.tokens = new Map([['builder', tokenOf(keysets)]]);
  }

  readonly kube: Kube = async (path, call: KubeCall = {}) => {
    if (!this.ready) throw new Error('connect ECONNREFUSED');
    return { body: this.#answer(path, call), text: '', date: 0 };
  };

  #answer(path: string, { method = 'GET', body }: KubeCall): unknown {
    const data = (body as { data?: Record<string, string | null> } | undefined)?.data ?? {};
    if (method === 'PATCH') this.patched.push(path);
    if (path.endsWith('/extension-apiserver-authentication'))
      return { data: Object.assign(this.authentication, data) };
    const [, , , , namespace = '', kind, name = ''] = path.split('/');
    if (kind === 'configmaps' && method === 'PATCH') {
      if (!this.rootCa.has(namespace)) throw new KubeRefusal(404, 'not found');
      return this.rootCa.set(namespace, data['ca.crt'] ?? '');
    }
    if (kind === 'secrets' && method === 'PATCH') {
      if (this.denies !== undefined) throw new KubeRefusal(500, this.denies);
      if (!this.tokens.has(name)) throw new KubeRefusal(404, 'not found');
      return this.tokens.set(name, data.token === null ? undefined : this.tokens.get(name));
    }
    if (path === '/api/v1/namespaces')
      return { items: ['default', 'web', 'new'].map((one) => ({ metadata: { name: one } })) };
    if (path.startsWith('/api/v1/configmaps'))
      return {
        items: [...this.rootCa].map(([one, bundle]) => ({
          metadata: { namespace: one, name: 'kube-root-ca.crt' },
          data: { 'ca.crt': bundle },
        })),
      };
    if (path.startsWith('/api/v1/secrets'))
      return {
        items: [...this.tokens].map(([one, token]) => ({
          ...{ metadata: { namespace: 'web', name: one }, type: 'kubernetes.io/service-account-token' },
          data: token === undefined ? {} : { token },
        })),
      };
    if (path === '/readyz') return {};
    throw new KubeRefusal(404, path);
  }
}

async function restoredFrom(snapshot: string | undefined) {
  const store = openMemoryStore();
  const pki = openPki({ store, clock, vault: vaultFrom(newVaultKey(), 'test') });
  await pki.found('golden');
  const api = new Played(await pki.keysets('golden'));
  for (const name of ['ca', 'front-proxy-ca', 'sa'] as const) await rotateCompletely(pki, name);
  const record = {
    ...{ v: 1, cluster: 'golden', id: 'founding-2' },
    founded: { at: 0, by: 'a test', ...(snapshot !== undefined && { snapshot }) },
  } as unknown as FoundingRecord;
  const events: MusterEvent[] = [];
  const keys = { counts: true };
  const open = () =>
    startRestored({
      founder: { records: () => [record] },
      clusters: { get: () => ({ resolved: resolved(), faults: [] }) as never },
      ...{ pki, store, clock, log: silentLog, kubes: () => api.kube },
      mayAct: () => keys.counts,
      events: { record: (event: MusterEvent) => events.push(event) } as never,
    });
  return { api, open, events, keys, keysets: await pki.keysets('golden') };
}

async function round(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(duration('5s'));
}

/** Lets some rounds run. */
async function pass(): Promise<void> {
  for (let n = 0; n < 20; n++) await round();
}

/** Lets rounds run until `done`. */
async function rounds(done: () => boolean): Promise<void> {
  for (let n = 0; n < 200 && !done(); n++) await round();
  expect(done()).toBe(true);
}

test('CAs and tokens from before a rotation are put right, and the cluster is held until then', async () => {
  const { api, open, events, keysets } = await restoredFrom('20261126T060000Z-1f2e');
  api.ready = false;
  const restored = await open();
  expect(restored.holds('golden')?.message).toContain('no API server has answered yet');
  expect(restored.holds('other')).toBeUndefined();
  api.ready = true;
  await rounds(() => api.patched.length >= 4);
  expect(restored.holds('golden')?.message).toContain('kube-root-ca.crt of web has other CAs');
  // The controller manager publishes the CA in a namespace that has none.
  expect(restored.holds('golden')?.message).toContain('kube-root-ca.crt of new has other CAs');
  api.rootCa.set('new', textIn(keysets, 'ca'));
  await rounds(() => restored.holds('golden') === undefined);
  expect(api.authentication).toEqual({
    'client-ca-file': textIn(keysets, 'ca'),
    'requestheader-client-ca-file': textIn(keysets, 'front-proxy-ca'),
    'requestheader-group-headers': '["X-Remote-Group"]',
  });
  expect([...api.rootCa.values()]).toEqual(Array(3).fill(textIn(keysets, 'ca')));
  expect(api.tokens.get('builder')).toBeUndefined();
  expect(events).toMatchObject([{ kind: 'cluster.restored', reason: { code: 'right' } }]);
  await restored.close();
});

test('what cannot be put right is named with its reason, and holds up nothing else', async () => {
  const { api, open, keysets } = await restoredFrom('20261126T060000Z-1f2e');
  api.rootCa.set('new', textIn(keysets, 'ca'));
  api.denies = 'a webhook does not answer';
  api.tokens.set('other', api.tokens.get('builder'));
  const restored = await open();
  const message = (): string => restored.holds('golden')?.message ?? '';
  const denied = (name: string): string =>
    `secret/web/${name} has a token of a key that has ended: a webhook does not answer`;
  await rounds(() => message().includes(`: ${denied('builder')}, ${denied('other')}`));
  api.denies = undefined;
  await rounds(() => restored.holds('golden') === undefined);
  await restored.close();
});

test('nothing is put right on the word of a store whose keys may be older than those of the cluster', async () => {
  const { api, open, keys } = await restoredFrom('20261126T060000Z-1f2e');
  keys.counts = false;
  const restored = await open();
  await pass();
  expect(restored.holds('golden')).toBeDefined();
  expect(api.patched).toEqual([]);
  keys.counts = true;
  await rounds(() => api.patched.length > 0);
  await restored.close();
});

test('what was found right in a founding is not looked at again, also after a restart', async () => {
  const { api, open, keysets } = await restoredFrom('20261126T060000Z-1f2e');
  api.rootCa.set('new', textIn(keysets, 'ca'));
  const first = await open();
  await rounds(() => first.holds('golden') === undefined);
  await first.close();
  api.authentication['client-ca-file'] = 'what a later rotation publishes';
  const patched = api.patched.length;
  const second = await open();
  expect(second.holds('golden')).toBeUndefined();
  await pass();
  expect(api.patched.length).toBe(patched);
  await second.close();
});

test('a token of a key that API servers still accept stays', async () => {
  const { api, open, keysets } = await restoredFrom('20261126T060000Z-1f2e');
  api.rootCa.set('new', textIn(keysets, 'ca'));
  api.tokens.set('today', tokenOf(keysets));
  const restored = await open();
  await rounds(() => restored.holds('golden') === undefined);
  expect(api.tokens.get('today')).toBe(tokenOf(keysets));
  expect(api.patched.filter((path) => path.includes('/secrets/'))).toEqual([
    '/api/v1/namespaces/web/secrets/builder',
  ]);
  await restored.close();
});

test('a cluster that was not restored from a snapshot is left alone', async () => {
  const { api, open } = await restoredFrom(undefined);
  const restored = await open();
  expect(restored.holds('golden')).toBeUndefined();
  await pass();
  expect(api.patched).toEqual([]);
  await restored.close();
});
