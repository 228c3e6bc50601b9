/**
 * The approver with a fake API: what it writes, what it leaves alone, and what it records.
 */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { type Log, silentLog } from '../../../../src/base/log.ts';
import type { FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import { startApprover } from '../../../../src/cluster/joining/approver.ts';
import { CLIENT, SERVING } from '../../../../src/cluster/joining/decide.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import { requestOf, type Wanted } from '../../pki/asking.ts';
import { completed } from '../kit.ts';

const EVERY = duration('12s');
const FOUNDED = {
  v: 1,
  cluster: 'golden',
  id: 'f',
  founded: { at: 1, by: 'cp1' },
} as unknown as FoundingRecord;

interface Item {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly spec: object;
  readonly status: { readonly conditions?: readonly Record<string, string>[] };
}

const W1: Wanted = { commonName: 'system:node:w1', organizations: ['system:nodes'], sans: ['DNS:w1'] };
const item = (name: string, asked: Partial<Wanted> = {}, spec: object = {}, status: object = {}): Item => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion: '7' },
  spec: {
    ...{ signerName: SERVING, username: 'system:node:w1', groups: ['system:nodes'] },
    ...{ usages: ['digital signature', 'server auth'] },
    request: Buffer.from(requestOf({ ...W1, ...asked })).toString('base64'),
    ...spec,
  },
  status: status as Item['status'],
});
const FOREIGN: Partial<Wanted> = { sans: ['IP:10.0.0.11'] };
const TOKEN = { signerName: CLIENT, username: 'system:bootstrap:abcdef', groups: ['system:bootstrappers'] };

/** The API of a cluster with three control planes. */
class Played {
  items: Item[];
  down = new Set<string>();
  refusal: number | undefined;
  /** Writes are done, but their answers are lost. */
  deaf = false;
  readonly asked: string[] = [];
  readonly written: Record<string, unknown>[] = [];

  constructor(...items: Item[]) {
    this.items = items;
  }

  readonly kubes =
    (_: string, address: string): Kube =>
    async (path, { method = 'GET', body }: KubeCall = {}) => {
      this.asked.push(`${method} ${address} ${path.replace('/apis/certificates.k8s.io/v1/', '')}`);
      if (this.down.has(address)) throw new Error('no route to host');
      if (method === 'GET')
        return { body: this.#page(new URLSearchParams(path.split('?')[1])), text: '', date: 0 };
      if (this.refusal !== undefined) throw new KubeRefusal(this.refusal, 'refused');
      const object = body as unknown as Item & Record<string, unknown>;
      this.written.push(object);
      this.items = this.items.map((one) => (one.metadata.name === object.metadata.name ? object : one));
      if (this.deaf) throw new Error('no whole answer within 5 s');
      return { body: object, text: '', date: 0 };
    };

  #page(query: URLSearchParams): object {
    const from = Number(query.get('continue') ?? 0);
    const to = from + Number(query.get('limit'));
    return {
      items: this.items.slice(from, to),
      metadata: to < this.items.length ? { continue: String(to) } : {},
    };
  }
}

function world(api: Played, records: () => readonly FoundingRecord[] = () => [FOUNDED]) {
  const clock = new ManualClock();
  const events: NewEvent[] = [];
  const warned: string[] = [];
  const log: Log = { ...silentLog, warn: (_: object, text: string) => void warned.push(text) } as Log;
  const approver = startApprover({
    founder: { records },
    clusters: { get: (name) => (name === 'golden' ? completed() : undefined) },
    kubes: api.kubes,
    isQuarantined: () => false,
    tokens: { ownerOf: (cluster, id) => (cluster === 'golden' && id === 'machin' ? 'w1' : undefined) },
    events: { record: (event) => void events.push(event) },
    clock,
    log,
  });
  const settled = async (): Promise<void> => {
    for (let n = 0; n < 400; n++) await new Promise((next) => setImmediate(next));
  };
  const round = async (): Promise<void> => {
    clock.advance(EVERY);
    await settled();
  };
  return { approver, events, warned, settled, round };
}

test('a request that matches is approved, another is denied with the reason; both are written with the version that was read, and recorded', async () => {
  const api = new Played(item('fits'), item('misfit', FOREIGN));
  const { approver, events, settled, round } = world(api);
  await settled();
  const [approved, denied] = api.written;
  const kind = { apiVersion: 'certificates.k8s.io/v1', kind: 'CertificateSigningRequest' };
  expect(approved).toMatchObject({
    ...kind,
    metadata: { name: 'fits', resourceVersion: '7' },
    status: { conditions: [{ type: 'Approved', status: 'True', reason: 'MachineOfTheInventory' }] },
  });
  expect(denied).toMatchObject({
    ...kind,
    metadata: { name: 'misfit', resourceVersion: '7' },
    status: {
      conditions: [
        {
          ...{ type: 'Denied', status: 'True', reason: 'NamesAreNotOfTheMachine' },
          message: 'Muster: the machine does not have 10.0.0.11, only w1, 10.0.0.21',
        },
      ],
    },
  });
  expect(events).toEqual([
    {
      kind: 'cluster.request-approved',
      subject: 'w1',
      reason: { code: 'inventory', text: expect.stringContaining('are those of w1') },
      fields: { cluster: 'golden', request: 'fits', requester: 'system:node:w1', signer: SERVING },
    },
    {
      kind: 'cluster.request-denied',
      subject: 'w1',
      reason: { code: 'names', text: 'the machine does not have 10.0.0.11, only w1, 10.0.0.21' },
      fields: { cluster: 'golden', request: 'misfit', requester: 'system:node:w1', signer: SERVING },
    },
  ]);
  expect(api.asked.slice(1)).toEqual(
    ['fits', 'misfit'].map((name) => `PUT 10.0.0.11 certificatesigningrequests/${name}/approval`),
  );
  // Each request is decided once.
  await round();
  expect([api.written.length, events.length]).toEqual([2, 2]);
  await approver.close();
});

test('requests of unknown nodes, and requests that others decided, are left alone', async () => {
  const decided = { conditions: [{ type: 'Approved', status: 'True' }] };
  const foreign = item('foreign', { commonName: 'system:node:x' }, { username: 'system:node:x' });
  const api = new Played(foreign, item('approved', FOREIGN, {}, decided));
  const { approver, events, settled } = world(api);
  await settled();
  expect([api.asked.length, api.written, events]).toEqual([1, [], []]);
  await approver.close();
});

test('a wrong request that Kubernetes approved first raises one alarm', async () => {
  const api = new Played(
    item('stolen', { sans: [] }, TOKEN, {
      conditions: [{ type: 'Approved', status: 'True' }],
      certificate: 'x',
    }),
  );
  const { approver, events, settled, round } = world(api);
  await settled();
  await round();
  expect(api.written).toEqual([]);
  expect(events).toEqual([
    {
      kind: 'cluster.request-alarm',
      subject: 'w1',
      reason: {
        code: 'requester',
        text: 'system:bootstrap:abcdef asks for the client certificate of system:node:w1; somebody has approved that already',
      },
      fields: { cluster: 'golden', request: 'stolen', requester: 'system:bootstrap:abcdef', signer: CLIENT },
    },
  ]);
  // Another request with that name, after the API deleted the first.
  api.items = [];
  await round();
  api.items = [item('stolen', { sans: [] }, TOKEN, { conditions: [{ type: 'Approved' }] })];
  await round();
  expect(events).toHaveLength(2);
  await approver.close();
});

test('after a conflict the request is read again; another refusal is logged once and retried', async () => {
  const api = new Played(item('fits'));
  api.refusal = 409;
  const { approver, events, warned, settled, round } = world(api);
  await settled();
  expect([events, warned]).toEqual([[], []]);
  api.refusal = 403;
  await round();
  await round();
  expect([events, warned]).toEqual([[], ['a request for a certificate could not be decided']]);
  api.refusal = undefined;
  await round();
  expect(events).toHaveLength(1);
  await approver.close();
});

test('a decision whose answer was lost is recorded when it is seen; a decision of somebody else is not', async () => {
  const api = new Played(item('misfit', FOREIGN), item('fits'));
  api.deaf = true;
  const { approver, events, warned, settled, round } = world(api);
  await settled();
  expect([events, warned.length]).toEqual([[], 2]);
  const [misfit] = api.items;
  api.items = [misfit!, item('fits', {}, {}, { conditions: [{ type: 'Approved', message: 'by hand' }] })];
  await round();
  await round();
  expect(events.map(({ kind, fields }) => `${kind} ${fields?.request}`)).toEqual([
    'cluster.request-denied misfit',
  ]);
  expect(api.written).toHaveLength(2);
  await approver.close();
});

test('all control planes are tried, the one that answered last first, and the list is read page by page', async () => {
  const other = item('other', {}, { signerName: 'example.com/own' });
  const api = new Played(...Array<Item>(45).fill(other), item('fits'));
  api.down.add('10.0.0.11');
  const { approver, events, settled, round } = world(api);
  await settled();
  const list = 'certificatesigningrequests?limit=20';
  expect(api.asked).toEqual([
    `GET 10.0.0.11 ${list}`,
    `GET 10.0.0.12 ${list}`,
    `GET 10.0.0.12 ${list}&continue=20`,
    `GET 10.0.0.12 ${list}&continue=40`,
    'PUT 10.0.0.12 certificatesigningrequests/fits/approval',
  ]);
  expect(events).toHaveLength(1);
  api.asked.length = 0;
  await round();
  expect(api.asked[0]).toBe(`GET 10.0.0.12 ${list}`);
  await approver.close();
});

test('of many requests fifty are decided per round, and the rest in later rounds', async () => {
  const flood = item('flood', FOREIGN);
  const items = Array.from({ length: 70 }, (_, n) => ({
    ...flood,
    metadata: { ...flood.metadata, name: `flood-${n}`, uid: `uid-${n}` },
  }));
  const api = new Played(...items);
  const { approver, settled, round } = world(api);
  await settled();
  expect(api.written).toHaveLength(50);
  await round();
  expect(api.written).toHaveLength(70);
  await approver.close();
});

test('clusters that are not founded, were reset or are incomplete are not asked, and no cluster is asked twice at a time', async () => {
  const { founded: _, ...open } = FOUNDED;
  let records: readonly FoundingRecord[] = [
    open,
    { ...FOUNDED, reset: { at: 1, cleared: [] } },
    { ...FOUNDED, cluster: 'incomplete' },
  ];
  const api = new Played();
  const { approver, settled, round } = world(api, () => records);
  await settled();
  expect(api.asked).toEqual([]);
  records = [FOUNDED];
  const answers: (() => void)[] = [];
  const answer = api.kubes('', '');
  const slow = world(
    Object.assign(new Played(), {
      kubes: () => async (path: string) => {
        await new Promise<void>((next) => answers.push(next));
        return answer(path);
      },
    }),
  );
  await slow.settled();
  await slow.round();
  await slow.round();
  expect(answers).toHaveLength(1);
  for (const next of answers) next();
  await slow.approver.close();
  await round();
  expect(api.asked.length).toBeGreaterThan(0);
  await approver.close();
});
