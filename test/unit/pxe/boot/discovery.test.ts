/** What an unknown machine gets where its Network has a discovery system, until it is accepted. */
import { expect, test } from 'vitest';
import { duration } from '../../../../src/base/duration.ts';
import { timelineOf } from '../../../../src/diagnosis/timeline.ts';
import { acceptMachine } from '../../../../src/machines/accept.ts';
import { BOOT_LIMIT } from '../../../../src/pxe/decide/decide.ts';
import { document, HASH, IMAGE, leaseFor, MAC1, MAC2, machine, NETWORK, type World, world } from './world.ts';

const DISCOVERY = document('Image', 'discovery', {
  os: 'discovery',
  arch: 'x86_64',
  kernel: { sha256: HASH('a'), name: 'vmlinuz' },
  initrds: [{ sha256: HASH('b'), name: 'initrd' }],
  configFormat: 'none',
  kernelArguments: ['panic=60'],
});
const ASKING = { ...NETWORK, spec: { ...NETWORK.spec, discovery: { image: 'discovery' } } };
const BIG = document('Profile', 'big', {
  image: 'debian',
  selector: { inventory: { disks: { size: { min: '900GB' } } } },
});
const DOCUMENTS = [ASKING, DISCOVERY, IMAGE, BIG];
const UNKNOWN = 'm-525400aa0001';
const LINES = 'cpu threads 8\ndisk NAME="nvme0n1" SIZE="960197124096" ROTA="0" TRAN="nvme" SERIAL="S1"\n';
const PEER = leaseFor(MAC1);

/** Boots the machine up to its script, and returns its session. */
async function boots(w: World): Promise<string> {
  const { decision, session } = await w.powerOn(MAC1);
  expect(decision).toMatchObject({ kind: 'discovery', reason: { code: 'discovers' } });
  return session!.id;
}
const reports = (w: World, session: string, lines = LINES, peer = PEER) =>
  w.boot.inventory!(session, lines, peer);
const waits = (w: World, session: string) => w.boot.waits!(session);

test('an unknown machine boots the discovery system, reports, waits, is accepted, and boots by what it reported', async () => {
  const w = await world(DOCUMENTS);
  const { script, session } = await w.powerOn(MAC1);
  const id = session!.id;
  expect(script).toContain(`echo Muster: ${UNKNOWN} boots discovery ||`);
  expect(script).toContain(`muster.url=http://10.77.0.1:8080/boot/${id} `);
  expect(script).toContain(' panic=60 ');
  expect(waits(w, id)).toEqual({ do: 'report', name: UNKNOWN });
  expect(await reports(w, id)).toBe('kept');
  expect(waits(w, id)).toEqual({ do: 'wait', name: UNKNOWN });
  expect(w.inventories.get(UNKNOWN)).toMatchObject({
    claimed: true,
    inventory: { disks: [{ serial: 'S1' }] },
  });
  expect(w.roster.get(UNKNOWN)!.status).toMatchObject({
    phase: 'discovered',
    bootsWithoutReady: 0,
    reason: { code: 'discovers' },
  });
  expect(w.boot.outlook(UNKNOWN)).toMatchObject({ code: 'discovers' });
  const other = w.boot.explain({ mac: MAC2 });
  expect(other.decision.kind).toBe('discovery');
  await acceptMachine(w, UNKNOWN, { name: 'node-1' });
  expect(waits(w, id)).toEqual({ do: 'reboot', name: 'node-1' });
  expect(waits(w, id)).toEqual({ do: 'reboot', name: 'node-1' });
  expect((await w.powerOn(MAC1)).decision).toMatchObject({ kind: 'script', profile: 'big' });
  expect(w.kinds('node-1').filter((kind) => kind === 'machine.restarts')).toHaveLength(1);
  expect(w.inventories.list().map(({ machine: name, claimed }) => [name, claimed])).toEqual([
    ['node-1', true],
  ]);
});

test('a document that is applied ends the wait as well, and the agent’s inventory then replaces the claim', async () => {
  const w = await world(DOCUMENTS);
  const id = await boots(w);
  await reports(w, id);
  await w.apply(machine('node-1', [MAC1]));
  expect(waits(w, id)).toEqual({ do: 'reboot', name: 'node-1' });
  expect(w.inventories.counting('node-1')?.inventory.disks[0]?.serial).toBe('S1');
  await w.inventories.take('node-1', w.inventories.get('node-1')!.inventory);
  expect(w.inventories.get('node-1')!.claimed).toBeUndefined();
});

test('a wait outlives a restart of the boot host and any number of hours, but not an hour of silence', async () => {
  const before = await world(DOCUMENTS);
  const id = await boots(before);
  await reports(before, id);
  await before.roster.flush();
  const w = await before.restart();
  expect(waits(w, id)).toEqual({ do: 'report', name: UNKNOWN });
  for (let minutes = 0; minutes < 24 * 60; minutes += 30) {
    w.clock.advance(duration('30m'));
    w.boot.tick();
    expect(waits(w, id).do).not.toBe('gone');
  }
  w.clock.advance(duration('61m'));
  w.boot.tick();
  expect(waits(w, id)).toEqual({ do: 'gone' });
});

test('the session of a waiting machine gets no configuration, and neither reports nor lines count', async () => {
  const w = await world(DOCUMENTS);
  const id = await boots(w);
  const from = { baseUrl: 'http://10.77.0.1:8080', peer: PEER };
  const permits = async () => {
    expect(w.boot.config(id, 'user-data', from)).toMatchObject({ ok: false });
    expect(await w.boot.report(id, { step: 'ready' }, PEER)).toMatchObject({ believed: false });
    const form = new Map([
      ['boot', '00000000-0000-0000-0000-000000000000'],
      ['lines', 'x'],
    ]);
    expect(await w.boot.console!(id, form, PEER)).toBe('refused');
    expect(w.boot.ticketed(id)).toMatchObject({ current: false });
  };
  await permits();
  await acceptMachine(w, UNKNOWN, { profile: 'big' });
  await permits();
  // The boot after it, also where the loader still has the URL from before.
  const { decision, session } = await w.fetch(MAC1, id);
  expect(decision.kind).toBe('script');
  expect(session!.id).not.toBe(id);
});

test('a machine that is switched on again while it waits boots in another session', async () => {
  const w = await world(DOCUMENTS);
  const first = await boots(w);
  waits(w, first);
  const second = await boots(w);
  expect(second).not.toBe(first);
  expect(waits(w, second)).toEqual({ do: 'report', name: UNKNOWN });
});

test('reports count from the machine’s address only, not too often, and if they say something', async () => {
  const w = await world(DOCUMENTS);
  const id = await boots(w);
  expect(await reports(w, id, LINES, leaseFor(MAC2))).toBe('refused');
  expect(await reports(w, 'AAAAAAAAAAAAAAAAAAAAAA')).toBe('refused');
  expect(await reports(w, id, 'nonsense')).toBe('unreadable');
  expect(await reports(w, id)).toBe('kept');
  expect(await reports(w, id)).toBe('later');
  w.clock.advance(duration('59m'));
  expect(waits(w, id)).toEqual({ do: 'wait', name: UNKNOWN });
  w.clock.advance(duration('1m'));
  expect(waits(w, id)).toEqual({ do: 'report', name: UNKNOWN });
  await acceptMachine(w, UNKNOWN);
  expect(await reports(w, id)).toBe('refused');
});

test('a machine whose record was forgotten starts over', async () => {
  const w = await world(DOCUMENTS);
  const id = await boots(w);
  await reports(w, id);
  w.roster.forget(UNKNOWN);
  expect(waits(w, id)).toMatchObject({ do: 'reboot' });
  await expect.poll(() => w.inventories.list()).toEqual([]);
});

test('discovery boots that never ask are counted, and the machine is then held; one that asks is not', async () => {
  const w = await world(DOCUMENTS);
  for (let n = 0; n < BOOT_LIMIT - 1; n++) await boots(w);
  waits(w, await boots(w));
  for (let n = 0; n < BOOT_LIMIT; n++) await boots(w);
  const { decision, script } = await w.powerOn(MAC1);
  expect(decision).toMatchObject({ kind: 'hold', reason: { code: 'unknown_machine' } });
  expect(script).toContain('It booted the discovery system 5 times');
  await acceptMachine(w, UNKNOWN, { profile: 'big' });
  expect(w.roster.get(UNKNOWN)!.status.bootsWithoutReady).toBe(0);
});

test.each([
  ['without a discovery system in its Network', [NETWORK, DISCOVERY], '', 'x86_64'],
  ['without the image', [ASKING], 'Image "discovery" does not exist', 'x86_64'],
  ['of another processor', [ASKING, DISCOVERY], 'is for x86_64, the machine is aarch64', 'aarch64'],
] as const)('an unknown machine %s is held', async (_, documents, text, arch) => {
  const w = await world(documents);
  const { decision, script } = await w.powerOn(MAC1, { arch });
  expect(decision).toMatchObject({ kind: 'hold', reason: { code: 'unknown_machine' } });
  expect(decision.reason.text).toContain(text);
  expect(script).not.toContain('kernel --name');
});

test('`muster explain` and the timeline show a discovery boot as no failure', async () => {
  const w = await world(DOCUMENTS);
  const id = await boots(w);
  waits(w, id);
  await reports(w, id);
  const explained = w.boot.explain({ machine: UNKNOWN });
  expect(explained.decision).toMatchObject({ kind: 'discovery', image: 'discovery' });
  expect(explained.remedy).toBe(`muster machine accept ${UNKNOWN} --profile PROFILE`);
  const events = w.events.list({ subject: UNKNOWN });
  const timeline = timelineOf({ machine: UNKNOWN, events, now: w.clock.now() })!;
  expect(timeline.boot?.outcome).toBe('discovery');
  expect(timeline.verdicts).toEqual([]);
  expect(timeline.stages.at(-1)?.stage).toBe('discovery');
  expect(timeline.entries.at(-1)).toMatchObject({ kind: 'machine.inventory', claim: true });
});
