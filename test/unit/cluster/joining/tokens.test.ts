/** Join tokens: whose they are, how long they live, and what a cluster's API is told of them. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import type { FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import { startTokenKeeper } from '../../../../src/cluster/joining/token-keeper.ts';
import { openJoinTokens } from '../../../../src/cluster/joining/tokens.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store } from '../../../../src/store/store.ts';
import { completed } from '../kit.ts';

const START = Date.UTC(2026, 0, 1);
const SPEC = { joining: 'token' } as const;

async function opened(store: Store = openMemoryStore(), clock = new ManualClock(START as never)) {
  const events: NewEvent[] = [];
  const tokens = await openJoinTokens({
    ...{ store, clock, log: silentLog },
    events: { record: (event) => void events.push(event) },
    secrets: { key: async () => Buffer.alloc(32, 1) },
  });
  return { tokens, store, clock, events };
}

const textOf = async (tokens: Awaited<ReturnType<typeof openJoinTokens>>, machine = 'w1') =>
  (await tokens.of('golden', machine)).reveal();

test('a machine has one token until it has joined, also after a restart and when it asks twice at once', async () => {
  const { tokens, store, events } = await opened();
  const [first, second] = await Promise.all([textOf(tokens), textOf(tokens)]);
  expect(first).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}$/);
  expect(second).toBe(first);
  const { tokens: later } = await opened(store);
  expect(await textOf(later)).toBe(first);
  expect(await textOf(later, 'w2')).not.toBe(first);
  expect((await later.of('blue', 'w1')).reveal()).not.toBe(first);
  expect(events.map(({ kind, subject, reason }) => [kind, subject, reason?.code])).toEqual([
    ['cluster.join-token', 'w1', 'handed-out'],
  ]);
});

test('the store holds no secret of it', async () => {
  const { tokens, store } = await opened();
  const [, secret] = (await textOf(tokens)).split('.');
  const { records } = await store.list('');
  expect(records.length).toBe(1);
  expect(JSON.stringify(records)).not.toContain(secret);
});

test('a token is nobody’s once its machine has joined, and the machine’s next one is another', async () => {
  const { tokens, events } = await opened();
  const first = await textOf(tokens);
  const id = first.slice(0, 6);
  expect(tokens.ownerOf('golden', id)).toBe('w1');
  expect(tokens.ownerOf('blue', id)).toBeUndefined();
  await tokens.joined('golden', 'w1');
  await tokens.joined('golden', 'w1');
  await tokens.joined('golden', 'never-asked');
  expect(tokens.ownerOf('golden', id)).toBeUndefined();
  expect(await textOf(tokens)).not.toBe(first);
  expect(events.map(({ reason }) => reason?.code)).toEqual(['handed-out', 'used', 'handed-out']);
});

test('a record that cannot be read is skipped, and its machine gets another token', async () => {
  const store = openMemoryStore();
  await store.commit([{ key: 'join-tokens/golden/w1', put: '{"v":9}' }]);
  const { tokens } = await opened(store);
  expect(tokens.list('golden')).toEqual([]);
  expect(await textOf(tokens)).toMatch(/^[a-z0-9]{6}\./);
});

/** A fake API with Secrets. */
class Played {
  readonly secrets = new Map<string, Readonly<Record<string, string>>>();
  writes = 0;
  calls = 0;
  down = false;
  refuses: number | undefined;

  readonly kubes =
    (): Kube =>
    async (path, { method = 'GET', body }: KubeCall = {}) => {
      this.calls++;
      if (this.down) throw new Error('no route to host');
      const answer = { body: {}, text: '', date: 0 };
      const name = /secrets\/(bootstrap-token-[a-z0-9]+)/.exec(path)?.[1];
      if (name === undefined) return answer;
      if (this.refuses !== undefined) throw new KubeRefusal(this.refuses, 'refused');
      if (method === 'DELETE' && !this.secrets.delete(name)) throw new KubeRefusal(404, 'not found');
      if (method === 'PATCH') {
        this.writes++;
        const { data } = body as { readonly data: Readonly<Record<string, string>> };
        const plain = Object.entries(data).map(([key, value]) => [
          key,
          Buffer.from(value, 'base64').toString(),
        ]);
        this.secrets.set(name, Object.fromEntries(plain));
      }
      return answer;
    };
}

async function keeping() {
  const { tokens, clock, store } = await opened();
  const api = new Played();
  const warned: string[] = [];
  let founded = false;
  let spec: Partial<KubernetesSpec> = SPEC;
  const record = { cluster: 'golden', id: 'f', founded: { at: 1, by: 'cp1' } } as FoundingRecord;
  const keeper = startTokenKeeper({
    founder: { records: () => (founded ? [record] : []) },
    clusters: { get: () => completed(spec) },
    kubes: api.kubes,
    ...{ tokens, clock },
    log: { ...silentLog, warn: (_: object, text: string) => void warned.push(text) } as typeof silentLog,
  });
  const after = async (time: string): Promise<void> => {
    const until = clock.monotonic() + duration(time);
    while (clock.monotonic() < until) {
      clock.advance(duration('12s'));
      for (let n = 0; n < 50; n++) await new Promise((next) => setImmediate(next));
    }
  };
  return {
    ...{ tokens, store, clock, api, keeper, warned, after },
    found: () => {
      founded = true;
    },
    change: (next: Partial<KubernetesSpec>) => {
      spec = next;
    },
  };
}

test('a token becomes a Secret when the API answers, even forty minutes late, and expires after a quarter of an hour', async () => {
  const { tokens, api, keeper, after, found, clock } = await keeping();
  const [id = '', secret] = (await textOf(tokens)).split('.');
  await after('40m');
  expect(api.calls).toBe(0);
  found();
  // The agent asks at every poll.
  await textOf(tokens);
  await after('12s');
  const until = new Date(clock.now() + duration('15m')).getTime();
  const { expiration, ...says } = api.secrets.get(`bootstrap-token-${id}`)!;
  expect(says).toEqual({
    ...{ 'token-id': id, 'token-secret': secret, description: 'w1, by Muster' },
    ...{ 'usage-bootstrap-authentication': 'true' },
    'auth-extra-groups': 'system:bootstrappers:muster:machines',
  });
  expect(Math.abs(Date.parse(expiration!) - until)).toBeLessThan(30_000);
  await keeper.close();
});

test('a token is renewed while its machine asks, but not at each poll; otherwise it expires', async () => {
  const { tokens, api, keeper, after, found, clock } = await keeping();
  found();
  const id = (await textOf(tokens)).slice(0, 6);
  for (let n = 0; n < 60; n++) {
    await after('30s');
    await textOf(tokens);
  }
  expect(api.writes).toBeGreaterThan(3);
  expect(api.writes).toBeLessThan(9);
  const left = Date.parse(api.secrets.get(`bootstrap-token-${id}`)!.expiration!) - clock.now();
  expect(left).toBeGreaterThan(duration('9m'));
  const { writes } = api;
  await after('1h');
  expect(api.writes - writes).toBeLessThan(2);
  expect(Date.parse(api.secrets.get(`bootstrap-token-${id}`)!.expiration!)).toBeLessThan(clock.now());
  await keeper.close();
});

test.each([
  ['its machine has joined', SPEC, true],
  ['its machine is no worker of the cluster any more', { ...SPEC, workers: [] }, false],
  ['the cluster joins by certificate', {}, false],
])('a Secret goes with its record when %s, once the API answers', async (_, spec, joins) => {
  const { tokens, store, api, keeper, after, found, change } = await keeping();
  found();
  await textOf(tokens);
  await after('12s');
  expect(api.secrets.size).toBe(1);
  api.down = true;
  if (joins) await tokens.joined('golden', 'w1');
  change(spec);
  await after('1m');
  expect([api.secrets.size, tokens.list('golden').length]).toEqual([1, 1]);
  api.down = false;
  await after('12s');
  expect([api.secrets.size, (await store.list('join-tokens/')).records]).toEqual([0, []]);
  await keeper.close();
});

test('a token that is gone from the API is deleted here too', async () => {
  const { tokens, api, keeper, after, found } = await keeping();
  found();
  await textOf(tokens);
  await after('12s');
  api.secrets.clear();
  await tokens.joined('golden', 'w1');
  await after('12s');
  expect(tokens.list('golden')).toEqual([]);
  await keeper.close();
});

test('an API that refuses for minutes is logged once, and asked again', async () => {
  const { tokens, api, keeper, after, found, warned } = await keeping();
  found();
  api.refuses = 403;
  await textOf(tokens);
  await after('1m');
  expect(warned).toEqual([]);
  await after('5m');
  expect(warned).toEqual(['the API refuses a join token']);
  api.refuses = undefined;
  await after('12s');
  expect(api.secrets.size).toBe(1);
  await keeper.close();
});
