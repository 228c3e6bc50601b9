/** Snapshots of etcd on the boot host: when they are due, who takes them, and what is refused. */
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis, millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createCopies, nameOfCopy } from '../../../../src/cluster/backup/copies.files.ts';
import { nextDue, STALLED, surplus } from '../../../../src/cluster/backup/due.ts';
import { SnapshotCheck } from '../../../../src/cluster/backup/received.ts';
import { encodeSnapshot, newSnapshotId, sealName } from '../../../../src/cluster/backup/snapshot.ts';
import { openSnapshotFiles } from '../../../../src/cluster/backup/snapshot-files.files.ts';
import { createSnapshots, type Snapshots } from '../../../../src/cluster/backup/snapshots.ts';
import type { FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import type { ClusterMachine, ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import type { BackupSpec } from '../../../../src/resources/backup-spec.ts';

const HOUR = duration('1h');

/** Octets as etcd writes them: pages, and the SHA-256 over them. */
function snapshotOctets(pages: number): Buffer {
  const data = randomBytes(pages * 512);
  return Buffer.concat([data, createHash('sha256').update(data).digest()]);
}

const STATUS = JSON.stringify({ hash: 255, revision: 42, totalKey: 7, totalSize: 512 });
const blue = { name: 'blue' } as ResolvedCluster;
const member = (name: string) => ({ name, roles: ['etcd'] }) as unknown as ClusterMachine;
const facts = (changes: Partial<AgentFacts> = {}): AgentFacts =>
  ({ etcd: { wal: 'present', health: 'serving' }, ...changes }) as AgentFacts;
const failed = facts({ hold: { code: 'snapshot-failed', text: 'no room' } });

async function* pieces(octets: Buffer, size = 100_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < octets.length; at += size) yield octets.subarray(at, at + size);
}

let directory: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-snapshots-'));
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

const KEY = newVaultKey();

async function world(
  setting: BackupSpec | undefined = { every: '6h' },
  { vaultKey = KEY, room = Number.POSITIVE_INFINITY, changes = {} as Partial<FoundingRecord> } = {},
) {
  const clock = new ManualClock();
  const events: NewEvent[] = [];
  const state = {
    record: { cluster: 'blue', id: 'f1', founded: { at: 0, by: 'm1' }, ...changes },
    reads: new Set<string>(),
    alarm: undefined as string | undefined,
  };
  const at = path.join(directory, 'state');
  const files = await openSnapshotFiles({
    directory: at,
    vault: vaultFrom(vaultKey, 'test'),
    room: async () => room,
  });
  const snapshots = createSnapshots({
    files,
    copies: createCopies(files, path.join(directory, 'commands')),
    nameOfCopy,
    setting: () => setting,
    records: () => [state.record as FoundingRecord],
    reads: (_cluster, name) => state.reads.has(name),
    alarm: () => state.alarm,
    encryption: async () => ['key-1'],
    clock,
    log: silentLog,
    events: { record: (event) => events.push(event) },
  });
  return { clock, events, state, files, snapshots, at };
}

/** Lets m1 take the snapshot that is ordered. */
async function taken(snapshots: Snapshots, octets = snapshotOctets(600)): Promise<string> {
  const line = snapshots.line(blue, member('m1'), facts());
  if (line?.do !== 'snapshot-etcd') throw new Error('no snapshot is ordered');
  const { id } = line;
  const cut = 200_000;
  await snapshots.agents.take(
    'm1',
    { id, offset: 0, expected: octets.length },
    pieces(octets.subarray(0, cut)),
  );
  if (octets.length > cut)
    await snapshots.agents.take('m1', { id, offset: cut, expected: 0 }, pieces(octets.subarray(cut)));
  await snapshots.agents.end('m1', { id, size: octets.length, etcd: '3.5.16', status: STATUS });
  await snapshots.close();
  return id;
}

test('the first healthy member that polls takes a snapshot that is due, and no other one does', async () => {
  const { snapshots, clock, events } = await world();
  expect(
    snapshots.line(blue, member('m2'), facts({ etcd: { wal: 'present', health: 'alive' } })),
  ).toBeUndefined();
  expect(snapshots.line(blue, { name: 'w1', roles: ['worker'] } as never, facts())).toBeUndefined();
  const octets = snapshotOctets(600);
  const id = await taken(snapshots, octets);
  expect(snapshots.line(blue, member('m2'), facts())).toBeUndefined();
  const { items, due, ordered } = await snapshots.list('blue');
  expect(ordered).toBeUndefined();
  expect(items).toEqual([
    expect.objectContaining({ id, member: 'm1', by: 'schedule', founding: 'f1', revision: 42, keys: 7 }),
  ]);
  expect(items[0]).toMatchObject({
    hash: '000000ff',
    etcd: '3.5.16',
    encryption: ['key-1'],
    size: octets.length,
  });
  expect(due).toBe(clock.now() + 6 * HOUR);
  expect(events).toEqual([expect.objectContaining({ kind: 'cluster.snapshot', subject: 'Cluster/blue' })]);
  const read: Uint8Array[] = [];
  for await (const piece of snapshots.read(items[0]!)) read.push(piece);
  expect(Buffer.concat(read).equals(octets)).toBe(true);
  clock.advance((6 * HOUR) as Millis);
  expect(snapshots.line(blue, member('m2'), facts())).toMatchObject({ do: 'snapshot-etcd' });
});

test('a snapshot that a member cannot take is noted with its reason, and the next attempt waits', async () => {
  const { snapshots, clock } = await world();
  const { id } = snapshots.order('blue');
  expect(snapshots.order('blue')).toEqual({ id });
  expect(snapshots.line(blue, member('m1'), facts())).toEqual({ do: 'snapshot-etcd', id });
  expect(snapshots.line(blue, member('m2'), facts())).toBeUndefined();
  expect(snapshots.line(blue, member('m1'), failed)).toBeUndefined();
  expect((await snapshots.list('blue')).failed).toMatchObject({ id, text: 'm1: no room' });
  expect(snapshots.line(blue, member('m2'), facts())).toBeUndefined();
  clock.advance(duration('10m'));
  expect(snapshots.line(blue, member('m2'), facts())).toMatchObject({ do: 'snapshot-etcd' });
});

test('a member that stops in the middle gives its turn away', async () => {
  const { snapshots, clock } = await world();
  const { id } = snapshots.line(blue, member('m1'), facts()) as { id: string };
  await snapshots.agents.take('m1', { id, offset: 0, expected: 0 }, pieces(snapshotOctets(10)));
  clock.advance((STALLED + 1) as Millis);
  expect(snapshots.line(blue, member('m2'), facts())).toBeUndefined();
  expect((await snapshots.list('blue')).failed?.text).toContain('m1 sent nothing');
  await expect(
    snapshots.agents.take('m1', { id, offset: 5152, expected: 0 }, pieces(Buffer.alloc(1))),
  ).rejects.toMatchObject({ code: 'E_SNAPSHOT' });
});

test('nothing is taken that was not ordered, cut off, changed, or not opened by etcd’s tool', async () => {
  const { snapshots, at } = await world();
  const octets = snapshotOctets(30);
  const end = (changes: object) =>
    snapshots.agents.end('m1', { id, size: octets.length, etcd: '3.5', status: STATUS, ...changes });
  const take = (machine: string, id: string, offset: number, body: Buffer) =>
    snapshots.agents.take(machine, { id, offset, expected: 0 }, pieces(body));
  const refused = { code: 'E_SNAPSHOT' };
  const { id } = snapshots.line(blue, member('m1'), facts()) as { id: string };
  await expect(take('m2', id, 0, octets)).rejects.toMatchObject(refused);
  await expect(take('m1', 'another', 0, octets)).rejects.toMatchObject(refused);
  await expect(take('m1', id, 512, octets)).rejects.toThrow('begins at octet 512');
  await take('m1', id, 0, octets.subarray(0, 1024));
  await expect(end({})).rejects.toThrow('cut off on its way');
  await take('m1', id, 0, octets.subarray(0, 1024));
  await expect(end({ size: 1024 })).rejects.toThrow('cut off after 1024');
  const changed = Buffer.from(octets);
  changed[700]! ^= 1;
  await take('m1', id, 0, changed);
  await expect(end({})).rejects.toThrow('SHA-256');
  await take('m1', id, 0, octets);
  await expect(end({ status: 'snapshot file integrity check failed' })).rejects.toThrow('did not say');
  expect((await snapshots.list('blue')).items).toEqual([]);
  expect(fs.readdirSync(path.join(at, 'blue'))).toEqual([]);
  await take('m1', id, 0, octets);
  await end({});
  expect((await snapshots.list('blue')).items).toHaveLength(1);
});

test('without room on the disk nothing is taken, and the reason says what to do', async () => {
  const { snapshots } = await world({ every: '6h' }, { room: 1000 });
  const { id } = snapshots.line(blue, member('m1'), facts()) as { id: string };
  const take = (expected: number) =>
    snapshots.agents.take('m1', { id, offset: 0, expected }, pieces(snapshotOctets(1000)));
  await expect(take(2000)).rejects.toThrow('free space there, or lower spec.backup.keep');
  await expect(take(500)).rejects.toThrow('has no room for a snapshot');
});

test('a snapshot that was changed, cut off or moved to another cluster does not open', async () => {
  const { snapshots, files, at } = await world();
  const id = await taken(snapshots);
  const [snapshot] = (await snapshots.list('blue')).items;
  await snapshots.verify(snapshot!);
  const { data } = files.paths(snapshot!);
  const whole = fs.readFileSync(data);
  for (const damaged of [whole.subarray(0, -1), Buffer.concat([whole, whole]), Buffer.alloc(0)]) {
    fs.writeFileSync(data, damaged);
    await expect(snapshots.verify(snapshot!)).rejects.toMatchObject({ code: 'E_SNAPSHOT' });
  }
  fs.writeFileSync(data, whole);
  await snapshots.verify(snapshot!);
  fs.cpSync(path.join(at, 'blue'), path.join(at, 'red'), { recursive: true });
  expect(await snapshots.list('red')).toMatchObject({
    items: [],
    faults: [expect.stringContaining('is a snapshot of the cluster blue, not of red')],
  });
  fs.writeFileSync(path.join(at, `red/${id}.json`), encodeSnapshot({ ...snapshot!, cluster: 'red' }));
  const [forged] = (await snapshots.list('red')).items;
  await expect(snapshots.verify(forged!)).rejects.toMatchObject({ code: 'E_VAULT_RECORD' });
});

test('after the vault key changed, only the keys of snapshots are sealed again', async () => {
  const { snapshots, files } = await world();
  await taken(snapshots);
  const [before] = (await snapshots.list('blue')).items;
  const data = fs.readFileSync(files.paths(before!).data);
  const next = await world(undefined, { vaultKey: `${newVaultKey()}\n${KEY}` });
  expect(await next.files.rewrap()).toBe(1);
  expect(await next.files.rewrap()).toBe(0);
  const [after] = (await next.snapshots.list('blue')).items;
  expect(after!.sealed.kid).not.toBe(before!.sealed.kid);
  expect(fs.readFileSync(files.paths(after!).data).equals(data)).toBe(true);
  await next.snapshots.verify(after!);
  const lost = await world(undefined, { vaultKey: newVaultKey() });
  await expect(lost.snapshots.verify(after!)).rejects.toMatchObject({ code: 'E_VAULT_KEY' });
  expect(sealName(after!)).toContain('blue/');
});

test('copies go to a directory and through a program, and the oldest are removed there as well', async () => {
  const to = path.join(directory, 'share');
  fs.mkdirSync(to);
  const commands = path.join(directory, 'commands');
  fs.mkdirSync(commands);
  const log = path.join(directory, 'log');
  const program = `#!/bin/sh\necho "$1 $2 $3 $(basename "\${4:-}")" >>${log}\n[ ! -e ${directory}/broken ] || { echo no way >&2; exit 3; }\n`;
  fs.writeFileSync(path.join(commands, 'away'), program, { mode: 0o755 });
  const { snapshots, clock } = await world({ keep: 1, to: [{ directory: to }, { command: 'away' }] });
  snapshots.order('blue');
  const first = await taken(snapshots);
  expect(fs.readdirSync(to).sort()).toEqual([`blue.${first}.etcd`, `blue.${first}.json`]);
  clock.advance(HOUR);
  fs.writeFileSync(path.join(directory, 'broken'), '');
  fs.rmSync(to, { recursive: true });
  snapshots.order('blue');
  const second = await taken(snapshots);
  const { items } = await snapshots.list('blue');
  expect(items.map(({ id }) => id)).toEqual([second]);
  expect(items[0]!.copies).toEqual([
    expect.objectContaining({ to, fault: expect.stringContaining('ENOENT') }),
    expect.objectContaining({ to: 'command away', fault: expect.stringContaining('no way') }),
  ]);
  expect(fs.readFileSync(log, 'utf8').trim().split('\n')).toEqual([
    `put blue ${first} ${first}.etcd`,
    `put blue ${second} ${second}.etcd`,
    `remove blue ${first}`,
  ]);
});

test('only the machine that was ordered to restore a snapshot gets it', async () => {
  const { snapshots, state } = await world();
  const id = await taken(snapshots);
  await expect(snapshots.agents.give('m1', id)).rejects.toMatchObject({ code: 'E_SNAPSHOT' });
  Object.assign(state.record, { restoring: { member: 'm1', snapshot: id } });
  await expect(snapshots.agents.give('m2', id)).rejects.toMatchObject({ code: 'E_SNAPSHOT' });
  expect((await snapshots.agents.give('m1', id)).size).toBe(600 * 512 + 32);
  expect(() => snapshots.order('blue')).toThrow('is being restored');
});

test('a cluster that was never founded has nothing to take', async () => {
  const { snapshots } = await world({ every: '1h' }, { changes: { founded: undefined as never } });
  expect(snapshots.line(blue, member('m1'), facts())).toBeUndefined();
  expect(() => snapshots.order('blue')).toThrow('never founded');
});

test('a snapshot is due at most once in its interval, whatever the clock did', () => {
  fc.assert(
    fc.property(fc.nat(), fc.nat(), fc.option(fc.nat()), (now, newest, failure) => {
      const due = nextDue(HOUR, { newest, failed: failure ?? undefined }, now);
      expect(due).toBeLessThanOrEqual(now + HOUR);
      if (newest <= now) expect(due).toBeGreaterThanOrEqual(newest + HOUR);
    }),
  );
});

test('the newest snapshots are kept', () => {
  const all = [3, 1, 2].map((n) => ({ id: newSnapshotId(n * 1000, Buffer.from([0, n])), takenAt: n * 1000 }));
  expect(surplus(all, 2, 3000)).toEqual([all[1]!.id]);
  expect(surplus(all, 3, 3000)).toEqual([]);
});

test('octets are a whole snapshot only with their own SHA-256 at the end, in whatever pieces they come', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(fc.integer({ min: 1, max: 700 })), (pages, cuts) => {
      const octets = snapshotOctets(pages);
      const check = (whole: Buffer): string | undefined => {
        const made = new SnapshotCheck();
        let at = 0;
        for (const cut of cuts) {
          made.push(whole.subarray(at, at + cut));
          at = Math.min(whole.length, at + cut);
        }
        made.push(whole.subarray(at));
        return made.fault();
      };
      expect(check(octets)).toBeUndefined();
      expect(check(octets.subarray(0, -1))).toBeDefined();
      octets[5]! ^= 1;
      expect(check(octets)).toBeDefined();
    }),
    { numRuns: 50 },
  );
});

const alive = facts({ etcd: { wal: 'present', health: 'alive' } });

test('an etcd that is full is copied: its health check fails, and its reads are answered', async () => {
  const { snapshots, state } = await world({});
  const { id } = snapshots.order('blue');
  expect(snapshots.line(blue, member('m1'), alive)).toBeUndefined();
  state.reads.add('m1');
  expect(snapshots.line(blue, member('m1'), alive)).toEqual({ do: 'snapshot-etcd', id });
});

test('an order that no member can take says why, and fails with the reason after ten minutes', async () => {
  const { snapshots, state, clock, events } = await world({});
  const { id } = snapshots.order('blue');
  expect((await snapshots.list('blue')).ordered).toMatchObject({ waits: 'no member of etcd has polled' });
  state.alarm = 'etcd, m1: alarm CORRUPT';
  snapshots.line(blue, member('m1'), alive);
  snapshots.line(blue, member('m2'), facts({ hold: { code: 'unit-failed', text: 'kubelet' } }));
  const why = 'etcd of m1 answers no read; m2 is held: kubelet (etcd, m1: alarm CORRUPT)';
  expect((await snapshots.list('blue')).ordered).toEqual({ id, received: 0, waits: why });
  clock.advance(millis(STALLED + 1));
  expect(await snapshots.list('blue')).toMatchObject({
    failed: { id, text: `no member could take it for ten minutes: ${why}` },
  });
  expect(events.at(-1)).toMatchObject({ kind: 'cluster.snapshot', reason: { code: 'failed' } });
});
