/**
 * The founder with a store and a fake etcd: what is stored before an answer, how members are
 * replaced, and where a restarted server continues.
 */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createFounder } from '../../../../src/cluster/etcd/founder.ts';
import type { EtcdDecision, EtcdMember, MemberFacts } from '../../../../src/cluster/etcd/founding.ts';
import { HOLDS } from '../../../../src/cluster/etcd/holds.ts';
import { decodeFounding } from '../../../../src/cluster/etcd/record.ts';
import type { EtcdGateway } from '../../../../src/cluster/etcd/views.ts';
import { etcdPeerUrl } from '../../../../src/cluster/model/ports.ts';
import { KEYS } from '../../../../src/store/keys.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store } from '../../../../src/store/store.ts';
import { ImpatientClock } from '../../clock.ts';

const MEMBERS = [1, 2, 3].map((n) => ({ name: `m${n}`, address: `10.0.0.${n}` }));

/** A fake etcd as the founder sees it; a call is refused while `refusals` has messages. */
class PlayedEtcd implements EtcdGateway {
  members: EtcdMember[] = [];
  readonly calls: string[] = [];
  readonly reads = async () => true;
  refusals: string[] = [];

  #said(call: string): void {
    this.calls.push(call);
    const refusal = this.refusals.shift();
    if (refusal !== undefined) throw new Error(refusal);
  }

  form(): void {
    this.members = MEMBERS.map(({ name, address }) => ({
      id: `id-${name}`,
      name,
      peerUrls: [etcdPeerUrl(address)],
      learner: false,
      healthy: true,
    }));
  }

  change(id: string, change: Partial<EtcdMember>): void {
    this.members = this.members.map((one) => (one.id === id ? { ...one, ...change } : one));
  }

  view: EtcdGateway['view'] = async () =>
    this.members.length === 0 ? undefined : { clusterId: 'c', members: this.members };

  remove: EtcdGateway['remove'] = async (_, id) => {
    this.#said(`remove ${id}`);
    this.members = this.members.filter((one) => one.id !== id);
  };

  addLearner: EtcdGateway['addLearner'] = async (_, url) => {
    this.#said('add');
    this.members.push({
      id: `new-${this.calls.length}`,
      name: '',
      peerUrls: [url],
      learner: true,
      healthy: false,
    });
  };

  promote: EtcdGateway['promote'] = async (_, id) => {
    this.#said(`promote ${id}`);
    this.change(id, { learner: false });
  };
}

function world(store: Store = openMemoryStore(), etcd = new PlayedEtcd()) {
  const goingDown: string[] = [];
  const clock = new ImpatientClock();
  const events: Readonly<Record<string, unknown>>[] = [];
  const founder = createFounder({
    store,
    clock,
    log: silentLog,
    events: {
      record: ({ kind, reason, fields }) => {
        expect(kind).toBe('cluster.founding');
        expect(reason!.text).not.toMatch(/[{}]/);
        events.push({ code: reason!.code, ...fields });
      },
    },
    gateway: () => etcd,
  });
  founder.begin(() => goingDown);
  const record = async () => {
    const found = await store.get(KEYS.founding.key('one'));
    return found && decodeFounding(found.key, found.value);
  };
  const ask = async (name: string, facts: Partial<MemberFacts> = {}): Promise<EtcdDecision> => {
    const id = (await record())?.id;
    const marker = id &&
      facts.etcd?.wal === 'present' && { cluster: 'one', founding: id, member: name, machine: name };
    return founder.ask('one', MEMBERS, {
      member: name,
      machine: name,
      filesystem: `F-${name}`,
      etcd: { wal: 'absent', health: 'down' },
      fenced: false,
      ...(marker && { marker }),
      ...facts,
    });
  };
  return { store, etcd, clock, founder, record, ask, events, goingDown };
}

const SERVING: Partial<MemberFacts> = { etcd: { wal: 'present', health: 'serving' } };

async function founded() {
  const all = world();
  for (const { name } of MEMBERS) await all.ask(name);
  all.etcd.form();
  for (const { name } of MEMBERS) await all.ask(name, SERVING);
  return all;
}

const eventually = async (what: () => Promise<boolean>): Promise<void> => {
  while (!(await what())) await new Promise((next) => setImmediate(next));
};

test('the opening is stored before any member is granted it, and each member is bound to the disk that it named', async () => {
  const { ask, record } = world();
  expect(await ask('m1')).toMatchObject({ do: 'hold', code: 'waiting-for-members' });
  expect(await ask('m2')).toMatchObject({ do: 'hold', code: 'waiting-for-members' });
  expect(await record()).toBeUndefined();
  expect(await ask('m3')).toMatchObject({ do: 'found', filesystem: 'F-m3' });
  expect(await record()).toMatchObject({
    openedBy: 'all-asked',
    grants: { m1: 'F-m1', m2: 'F-m2', m3: 'F-m3' },
  });
  expect(await ask('m1')).toMatchObject({ do: 'found', founding: { state: 'new', members: MEMBERS } });
  const other = await ask('m1', { filesystem: 'other' });
  expect(other).toMatchObject({ do: 'hold', code: 'other-filesystem' });
});

test('a hold tells the machine neither filesystem nor founding that it would have to claim; operators see both', async () => {
  const early = world();
  for (const { name } of MEMBERS) await early.ask(name);
  const granted = await early.ask('m1', { filesystem: 'other' });
  const { ask, record, founder } = await founded();
  const moved = await ask('m1', { ...SERVING, filesystem: 'other' });
  const marker = { cluster: 'one', founding: 'of another time', member: 'm1', machine: 'm1' };
  const marked = await ask('m1', { marker });
  for (const [decision, code, secret] of [
    [granted, 'other-filesystem', 'F-m1'],
    [moved, 'removed-disk', 'F-m1'],
    [marked, 'foreign-marker', (await record())!.id],
  ] as const) {
    expect(decision).toMatchObject({ do: 'hold', code, operators: expect.stringContaining(secret) });
    expect(decision.do === 'hold' && decision.text).not.toContain(secret);
  }
  const lost = await ask('m1', { filesystem: 'other' });
  expect(JSON.stringify(lost.do === 'hold' && lost.text)).not.toContain('F-m1');
  const { members } = await founder.status('one', MEMBERS);
  expect(members.find(({ name }) => name === 'm1')).toHaveProperty('decision');
  await founder.close();
});

test('every step of a founding is an event with a code from the table and its values as fields', async () => {
  const { ask, etcd, events, founder, record } = await founded();
  etcd.change('id-m2', { healthy: false });
  await ask('m2', { filesystem: 'F-new', fenced: true });
  await eventually(async () => (await record())!.replacing?.stage === 'start');
  etcd.change(etcd.members.at(-1)!.id, { name: 'm2', healthy: true });
  await eventually(async () => (await record())!.replacing === undefined);
  await founder.leave('one', MEMBERS, [{ machine: 'w1', node: true, clear: true, drainUntil: 0 }]);
  await founder.passed('one', 'w1', 'drain');
  await founder.gone('one', 'w1');
  await founder.reset('one', MEMBERS);
  const { id } = (await record())!;
  expect(events.every(({ founding }) => founding === id)).toBe(true);
  expect(events.map(({ founding: _, ...event }) => event)).toEqual([
    { code: 'opened_by_all' },
    { code: 'founded_member', member: 'm1' },
    { code: 'data_seen', member: 'm2', health: 'serving' },
    { code: 'data_seen', member: 'm3', health: 'serving' },
    { code: 'replacing_begun', member: 'm2', cause: 'the data on F-m2 are lost' },
    { code: 'replacing_stage', member: 'm2', stage: 'add' },
    { code: 'replacing_stage', member: 'm2', stage: 'start' },
    { code: 'replacing_stage', member: 'm2', stage: 'promote' },
    { code: 'replaced', member: 'm2' },
    { code: 'leaving_ordered', machines: 'w1' },
    { code: 'left_stage', machine: 'w1', stage: 'drain' },
    { code: 'gone', machine: 'w1' },
    { code: 'reset' },
  ]);
  await founder.close();
});

test('two servers on one store cannot both open: the second finds the record of the first', async () => {
  const store = openMemoryStore();
  const [one, two] = [world(store), world(store)];
  for (const { ask } of [one, two]) {
    await ask('m1');
    await ask('m2');
  }
  const [first, second] = await Promise.all([one.ask('m3'), two.ask('m3')]);
  expect(first).toMatchObject({ do: 'found' });
  expect(second).toEqual(first);
});

test('a lost disk is replaced in four steps; a call that etcd refuses is repeated', async () => {
  const { ask, etcd, record, founder } = await founded();
  etcd.change('id-m2', { healthy: false });
  const lost = { filesystem: 'F-new' };
  // The replacement begins only after the machine has confirmed that its etcd is stopped.
  expect(await ask('m2', lost)).toMatchObject({ do: 'replace' });
  expect((await record())!.replacing).toBeUndefined();
  etcd.refusals = ['etcdserver: unhealthy cluster'];
  expect(await ask('m2', { ...lost, fenced: true })).toMatchObject({ do: 'replace' });
  await eventually(async () => (await record())!.replacing?.stage === 'start');
  const added = etcd.members.at(-1)!;
  expect(await ask('m2', { ...lost, fenced: true })).toMatchObject({
    do: 'join',
    founding: { state: 'existing' },
  });
  etcd.refusals = ['etcdserver: can only promote a learner member which is in sync with leader'];
  etcd.change(added.id, { name: 'm2', healthy: true });
  await eventually(async () => (await record())!.replacing === undefined);
  expect((await record())!.joined.m2).toBe('F-new');
  expect(etcd.calls).toEqual([
    'remove id-m2',
    'remove id-m2',
    'add',
    `promote ${added.id}`,
    `promote ${added.id}`,
  ]);
  expect(await ask('m2', { ...SERVING, ...lost })).toMatchObject({
    do: 'start',
    founding: { state: 'existing' },
  });
  expect(await ask('m2', SERVING)).toMatchObject({ do: 'hold', code: 'removed-disk' });
  await founder.close();
});

test('a restarted server continues a replacement from the state of etcd', async () => {
  const { ask, etcd, record, founder, store } = await founded();
  etcd.change('id-m3', { healthy: false });
  await ask('m3', { filesystem: 'F-new', fenced: true });
  await founder.close();
  // The learner was added, but the server was killed before it stored that.
  const before = (await record())!;
  const { address, member, filesystem } = before.replacing!;
  const stopped = { ...before, replacing: { address, member, filesystem, stage: 'add' } };
  await store.commit([{ key: KEYS.founding.key('one'), put: JSON.stringify(stopped) }]);
  etcd.members = etcd.members.filter(({ id }) => id !== 'id-m3' && !id.startsWith('new-'));
  await etcd.addLearner(MEMBERS, etcdPeerUrl('10.0.0.3'));
  const calls = etcd.calls.length;
  const next = world(store, etcd);
  await next.founder.resume();
  next.founder.begin(() => []);
  await eventually(async () => (await record())!.replacing?.stage === 'start');
  expect(etcd.calls).toHaveLength(calls);
  await next.founder.close();
});

test('a member is not removed while the others have no quorum', async () => {
  const { ask, etcd } = await founded();
  etcd.members = [];
  expect(await ask('m2', { filesystem: 'F-2', fenced: true })).toMatchObject({
    do: 'hold',
    code: 'no-quorum',
  });
  expect(await ask('m3', { filesystem: 'F-3', fenced: true })).toMatchObject({
    do: 'hold',
    code: 'no-quorum',
  });
  expect(etcd.calls).toEqual([]);
});

test('members are taken out one at a time, dead ones first, and never so that the quorum is lost', async () => {
  const { etcd, founder, record } = await founded();
  const go = (...machines: string[]) =>
    founder.leave(
      'one',
      MEMBERS.filter(({ name }) => !machines.includes(name)),
      machines.map((machine) => ({ machine, node: false, clear: false, drainUntil: 0 })),
    );
  etcd.change('id-m3', { healthy: false });
  await expect(go('m1')).rejects.toThrow('without m1 etcd would have no quorum');
  expect((await record())!.leaving).toBeUndefined();
  await go('m2', 'm3');
  for (const machine of ['m2', 'm3']) await founder.passed('one', machine, 'drain');
  await eventually(async () => (await record())!.former?.length === 2);
  expect(etcd.calls).toEqual(['remove id-m3', 'remove id-m2']);
  expect(Object.values((await record())!.leaving!).map(({ stage }) => stage)).toEqual(['down', 'down']);
  expect(founder.departing('m2', undefined)?.id).toBe((await record())!.id);
  await founder.gone('one', 'm2');
  await founder.gone('one', 'm3');
  expect((await record())!.leaving).toBeUndefined();
  expect(founder.departing('m2', undefined)).toBeUndefined();
  await founder.close();
});

test('no member is taken out while another one may restart, and the status says so', async () => {
  const { etcd, founder, record, goingDown } = await founded();
  goingDown.push('m2', 'w1');
  const departing = { machine: 'm3', node: false, clear: false, drainUntil: 0 };
  await founder.leave('one', MEMBERS.slice(0, 2), [departing]);
  await founder.passed('one', 'm3', 'drain');
  await eventually(async () => (await founder.status('one', MEMBERS)).waiting !== undefined);
  expect((await founder.status('one', MEMBERS)).waiting).toBe(
    'without m3 etcd would have no quorum while m2 may restart at any moment',
  );
  expect(etcd.calls).toEqual([]);
  goingDown.length = 0;
  await eventually(async () => (await record())!.former !== undefined);
  expect(etcd.calls).toEqual(['remove id-m3']);
  await founder.close();
});

test('a server that starts changes no etcd before it knows which machines may restart', async () => {
  const { etcd, founder, record, store } = await founded();
  await founder.close();
  const before = (await record())!;
  const member = '10.0.0.3';
  const m3 = { stage: 'drain', since: 0, member, node: false, clear: false, drainUntil: 0 };
  const leaving = { m3 };
  await store.commit([{ key: KEYS.founding.key('one'), put: JSON.stringify({ ...before, leaving }) }]);
  const unready = { store, clock: new ImpatientClock(), log: silentLog, events: { record: () => {} } };
  const next = createFounder({ ...unready, gateway: () => etcd });
  await next.resume();
  await next.passed('one', 'm3', 'drain');
  for (let n = 0; n < 20; n++) await new Promise((done) => setImmediate(done));
  expect(etcd.calls).toEqual([]);
  next.begin(() => []);
  await eventually(async () => (await record())!.former !== undefined);
  expect(etcd.calls).toEqual(['remove id-m3']);
  await next.close();
});

test('a reset includes machines that were still leaving', async () => {
  const { founder, record } = await founded();
  await founder.leave('one', MEMBERS, [{ machine: 'w1', node: true, clear: true, drainUntil: 0 }]);
  await founder.reset('one', MEMBERS);
  expect(founder.departing('w1', undefined)).toMatchObject({ reset: { cleared: [] } });
  await founder.gone('one', 'w1');
  expect((await record())!).toMatchObject({ reset: { cleared: ['w1'] } });
  expect(founder.departing('w1', undefined)).toBeUndefined();
  await founder.close();
});

test('a restarted server carries out an order that was stored before', async () => {
  const { etcd, founder, record, store } = await founded();
  await founder.leave('one', MEMBERS.slice(0, 2), [
    { machine: 'm3', node: false, clear: true, drainUntil: 0 },
  ]);
  await founder.close();
  const before = (await record())!;
  const leaving = { m3: { ...before.leaving!.m3!, stage: 'etcd' } };
  await store.commit([{ key: KEYS.founding.key('one'), put: JSON.stringify({ ...before, leaving }) }]);
  const next = world(store, etcd);
  await next.founder.resume();
  next.founder.begin(() => []);
  await eventually(async () => (await record())!.former !== undefined);
  expect(etcd.calls).toEqual(['remove id-m3']);
  await next.founder.close();
});

test('a restore needs a lost quorum and a member with its own data, and ends when that machine’s marker changes', async () => {
  const { ask, etcd, founder, record } = await founded();
  const { id } = (await record())!;
  const restore = (from: string) => founder.restore('one', MEMBERS, from, []);
  await expect(restore('m1')).rejects.toThrow('etcd has a quorum');
  etcd.members = [];
  await expect(restore('m1')).rejects.toThrow(
    'they form a quorum as soon as they run, so there is nothing to restore',
  );
  for (const name of ['m2', 'm3']) await ask(name, { filesystem: `G-${name}` });
  await expect(restore('m2')).rejects.toThrow('m2 does not have its data');
  const { restoring } = await restore('m1');
  expect(await ask('m1', { etcd: { wal: 'present', health: 'down' } })).toEqual({
    do: 'restore',
    restoring: { ...restoring!, from: id },
  });
  expect(await ask('m2', { filesystem: 'G-m2' })).toMatchObject({ do: 'hold', code: 'restoring' });
  const marker = { cluster: 'one', founding: restoring!.id, member: 'm1', machine: 'm1' };
  expect(await ask('m1', { etcd: { wal: 'present', health: 'down' }, marker })).toMatchObject({
    do: 'start',
    founding: { token: `muster-${restoring!.id}`, members: [{ name: 'm1' }] },
  });
  expect(await record()).toMatchObject({ id: restoring!.id, joined: { m1: 'F-m1' }, lists: {} });
  await founder.close();
});

test('a restore on a machine that died is called off when the machine is silent, and then another member’s data are restored', async () => {
  const { ask, clock, etcd, founder, record } = await founded();
  etcd.members = [];
  const { id } = (await record())!;
  const restore = (from: string, ...without: string[]) => founder.restore('one', MEMBERS, from, without);
  const callOff = (member: string) => founder.callOff('one', MEMBERS, member);
  const alive = { etcd: { wal: 'present', health: 'alive' } } as const;
  clock.advance(millis(61_000));
  await ask('m1', alive);
  const first = (await restore('m1', 'm2', 'm3')).restoring!;
  await expect(callOff('m2')).rejects.toThrow('the data that are being restored are those of m1');
  await expect(callOff('m1')).rejects.toThrow(
    /m1 was last heard \ds ago and is restoring its data; to abandon the restore/,
  );
  clock.advance(millis(61_000));
  // A member that was abandoned is heard again.
  expect(await ask('m2', alive)).toMatchObject({ do: 'hold', code: 'restoring' });
  await expect(restore('m2', 'm1', 'm3')).rejects.toThrow(
    '`muster cluster call-off one m1` ends the restore',
  );
  expect((await callOff('m1')).restoring).toBeUndefined();
  const second = (await restore('m2', 'm1', 'm3')).restoring!;
  expect(await ask('m2', alive)).toEqual({ do: 'restore', restoring: { ...second, from: id } });
  const marker = { cluster: 'one', founding: second.id, member: 'm2', machine: 'm2' };
  expect(await ask('m2', { ...alive, marker })).toMatchObject({ do: 'start' });
  // The first restore had ended without the server knowing.
  const unheard = { cluster: 'one', founding: first.id, member: 'm1', machine: 'm1' };
  expect(await ask('m1', { ...alive, marker: unheard })).toMatchObject({
    do: 'hold',
    code: 'foreign-marker',
  });
  await founder.close();
});

test('after a restore is called off, members that are a quorum start with their data', async () => {
  const { ask, clock, etcd, founder, record } = await founded();
  etcd.members = [];
  const { id } = (await record())!;
  clock.advance(millis(61_000));
  const alive = { etcd: { wal: 'present', health: 'alive' } } as const;
  await ask('m1', alive);
  await founder.restore('one', MEMBERS, 'm1', ['m2', 'm3']);
  clock.advance(millis(61_000));
  for (const name of ['m2', 'm3']) expect(await ask(name, alive)).toMatchObject({ do: 'hold' });
  await founder.callOff('one', MEMBERS, 'm1');
  for (const name of ['m2', 'm3'])
    expect(await ask(name, alive)).toMatchObject({ do: 'start', founding: { token: `muster-${id}` } });
  await founder.close();
});

test('lost members are abandoned only by name, and not while they are heard', async () => {
  const { ask, clock, etcd, founder, record } = await founded();
  etcd.members = [];
  const restore = (from: string, ...without: string[]) => founder.restore('one', MEMBERS, from, without);
  await expect(restore('m1', 'm2', 'm3')).rejects.toThrow(
    /m2 \(last heard 0s ago\), m3 .* a member that is heard is not abandoned/,
  );
  clock.advance(millis(61_000));
  await expect(restore('m1')).rejects.toThrow('m1 was last heard 61s ago; power it on');
  await ask('m1', { etcd: { wal: 'present', health: 'alive' } });
  await expect(restore('m1')).rejects.toThrow(
    /m2 \(with its data, last heard 61s ago\), m3 \(.*power them on.*--without m2 m3/,
  );
  await expect(restore('m1', 'm2')).rejects.toThrow(/--without m2 m3/);
  await expect(restore('m1', 'm2', 'm3', 'm1')).rejects.toThrow('m1 cannot be both restored and abandoned');
  await expect(restore('m1', 'm2', 'm3', 'm9')).rejects.toThrow('m9 is no member');
  expect((await record())!.restoring).toBeUndefined();
  const { restoring } = await restore('m1', 'm2', 'm3');
  const marker = { cluster: 'one', founding: restoring!.id, member: 'm1', machine: 'm1' };
  await ask('m1', { etcd: { wal: 'present', health: 'down' }, marker });
  // An abandoned member that comes back has a disk of another founding.
  const old = { cluster: 'one', founding: 'before', member: 'm2', machine: 'm2' };
  expect(await ask('m2', { ...SERVING, marker: old })).toMatchObject({ do: 'hold', code: 'foreign-marker' });
  await founder.close();
});

test('a member that was not heard since the server started may have data, and is abandoned only by name', async () => {
  const before = await founded();
  await before.founder.close();
  before.etcd.members = [];
  const { ask, founder } = world(before.store, before.etcd);
  await ask('m1', { etcd: { wal: 'present', health: 'alive' } });
  await ask('m2', { filesystem: 'G-m2' });
  await expect(founder.restore('one', MEMBERS, 'm1', [])).rejects.toThrow(
    /m3 \(not heard since the server started\); .*--without m3/,
  );
  expect((await founder.restore('one', MEMBERS, 'm1', ['m3'])).restoring).toMatchObject({ member: 'm1' });
  await founder.close();
});

test('the status shows how old the last facts of a member are', async () => {
  const { clock, founder } = await founded();
  clock.advance(millis(65_000));
  const { members } = await founder.status('one', MEMBERS);
  expect(members[1]).toMatchObject({ name: 'm2', data: 'present', silent: true });
  expect(members[1]!.heardMsAgo).toBeGreaterThanOrEqual(65_000);
  await founder.close();
});

test('a worker that becomes a member is held with instructions, and joins after its disk was cleared', async () => {
  const { ask, etcd, founder } = await founded();
  etcd.change('id-m3', { healthy: false });
  const marker = { cluster: 'one', founding: 'none', member: 'none', machine: 'm3' };
  const worker = { filesystem: 'F-worker', fenced: true };
  const held = await ask('m3', { ...worker, marker });
  expect(held).toMatchObject({ do: 'hold', code: 'other-role', text: expect.stringContaining('--clear') });
  // A disk that was copied or belongs to another machine is still foreign.
  expect(await ask('m3', { ...worker, marker: { ...marker, machine: 'm2' } })).toMatchObject({
    do: 'hold',
    code: 'foreign-marker',
  });
  expect(await ask('m3', worker)).toMatchObject({ do: 'replace' });
  await founder.close();
});

test('with a record that cannot be read nothing is founded and nothing starts', async () => {
  const { ask, store } = world();
  await store.commit([{ key: KEYS.founding.key('one'), put: '{"v":2}' }]);
  await expect(ask('m1')).rejects.toThrow('not a founding of a version known here');
});

test('docs/founding.md has every hold, with what ends it', () => {
  const page = readFileSync('docs/founding.md', 'utf8');
  const rows = [...page.matchAll(/^\| `([a-z-]+)` \| .+ \| .+ \|$/gm)].map(([, code]) => code);
  expect(rows).toEqual(Object.keys(HOLDS));
});
