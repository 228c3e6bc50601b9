/** What a machine gets whose disks are to be wiped, and what counts as proved. */
import { expect, test } from 'vitest';
import { readCertificate, readReport, type Wiped, wipedBy } from '../../../../src/machines/life/wipe.ts';
import type { Wipe } from '../../../../src/machines/life/wipe-order.ts';
import type { Life } from '../../../../src/machines/machine.ts';
import {
  document,
  HASH,
  IMAGE,
  leaseFor,
  MAC1,
  machine,
  NETWORK,
  WORKER,
  type World,
  world,
} from './world.ts';

const DISCOVERY = document('Image', 'discovery', {
  os: 'discovery',
  arch: 'x86_64',
  kernel: { sha256: HASH('a'), name: 'vmlinuz' },
  initrds: [{ sha256: HASH('b'), name: 'initrd' }],
  configFormat: 'none',
});
const WIPING = { ...NETWORK, spec: { ...NETWORK.spec, discovery: { image: 'discovery' } } };
const PEER = leaseFor(MAC1);
const row = (result = 'done', code = 'done', numbers = '1000\t64\t0\t64', serial = 'S1') =>
  `disk\tsda\t${result}\t${code}\t${numbers}\t${serial}\t0x5000\tModel X\nend\n`;

/** A machine that is to be wiped, in the discovery system. */
async function wiping(
  disks: readonly string[] = [],
  level: Wipe['level'] = 'overwrite',
): Promise<{ w: World; id: string }> {
  const w = await world([WIPING, DISCOVERY, IMAGE, WORKER, machine('node-1', [MAC1])]);
  const wipe = { id: 'w1', level, disks, serial: 'RACK7' };
  const life: Life = { at: w.clock.now(), state: 'wiping', text: 'sold', by: 'ada', byHand: true, wipe };
  w.roster.change(w.roster.get('node-1')!, { life });
  const { decision, session } = await w.powerOn(MAC1);
  expect(decision).toMatchObject({ kind: 'discovery', reason: { code: 'wipes' } });
  return { w, id: session!.id };
}
const lifeOf = (w: World) => w.roster.get('node-1')!.status.life;

test('a machine that is to be wiped gets the order once, at its own address, and nothing else', async () => {
  const { w, id } = await wiping(['S1']);
  expect(w.boot.waits(id)).toEqual({ do: 'wipe', name: 'node-1' });
  expect(await w.boot.wipeOrder(id, '10.77.0.250')).toBe('refused');
  expect(await w.boot.wipeReport(id, row(), PEER)).toBe('refused');
  expect(lifeOf(w)!.wipe!.begun).toBeUndefined();
  expect(await w.boot.wipeOrder(id, PEER)).toEqual({
    text: 'wipe w1 overwrite\nserial RACK7\ndisk S1',
  });
  expect(lifeOf(w)!.wipe!.begun).toBe(true);
  expect(await w.boot.inventory(id, 'cpu threads 8\n', PEER)).toBe('refused');
  expect(w.boot.config(id, 'user-data', { baseUrl: 'http://10.77.0.1', peer: PEER }).ok).toBe(false);
  expect(await w.boot.wipeReport(id, row(), '10.77.0.250')).toBe('refused');
  expect(await w.boot.wipeReport(id, 'disk\tsda\tdone\n', PEER)).toBe('unreadable');
  expect(lifeOf(w)!.state).toBe('wiping');
});

test('a wipe that is proved is kept as a certificate, and the machine is switched off and held', async () => {
  const { w, id } = await wiping();
  await w.boot.wipeOrder(id, PEER);
  expect(await w.boot.wipeReport(id, row(), PEER)).toBe('kept');
  expect(lifeOf(w)).toMatchObject({ state: 'wiped' });
  // It switches itself off.
  expect(lifeOf(w)).not.toHaveProperty('byHand');
  expect(w.boot.waits(id)).toEqual({ do: 'off', name: 'node-1' });
  const { records } = await w.store.list('wipe/node-1/');
  expect(records.map(({ value }) => readCertificate(value))).toEqual([
    expect.objectContaining({
      ...{ id: 'w1', machine: 'node-1', level: 'overwrite', by: 'ada', reason: 'sold' },
      disks: [expect.objectContaining({ serial: 'S1', canaries: 64, left: 0, zeros: 64, model: 'Model X' })],
    }),
  ]);
  expect((await w.powerOn(MAC1)).decision).toMatchObject({ kind: 'hold', reason: { code: 'not_in_use' } });
});

test.each([
  ['a disk failed', row('failed', 'write-error'), [], 'sda: write-error'],
  [
    'a sector is still there',
    row('done', 'done', '1000\t64\t1\t63'),
    [],
    'sda: 1 of 64 sectors were still there',
  ],
  ['hardly anything was read', row('done', 'done', '1000\t3\t0\t3'), [], 'sda: only 3 sectors were read'],
  ['sectors read as something else', row('done', 'done', '1000\t64\t0\t60'), [], 'sda: only 60 of 64'],
  ['a disk that is named is absent', row(), ['S2'], 'the disk S2 is not in the machine'],
  ['no disk was wiped', row('left', 'usb', '1000\t0\t0\t0'), [], 'no disk was wiped'],
  ['it is another machine', 'refused\tother-machine\nend\n', [], 'the machine refused: other-machine'],
])('where %s, the wipe failed, and the machine stays out of use', async (_, report, disks, why) => {
  const { w, id } = await wiping(disks);
  await w.boot.wipeOrder(id, PEER);
  expect(await w.boot.wipeReport(id, report, PEER)).toBe('kept');
  expect(lifeOf(w)!.state).toBe('wipe-failed');
  expect(lifeOf(w)!.text).toContain(why);
  const { records } = await w.store.list('wipe/node-1/');
  expect(readCertificate(records[0]!.value)!.failed).toContain(why);
});

const two = (...results: readonly string[]) =>
  `${results.map((result, n) => row(result, result === 'left' ? 'not-named' : result, '1000\t64\t0\t64', `S${n + 1}`).replace('end\n', '')).join('')}end\n`;

test.each([
  ['all', [[], two('done', 'done')], 'wiped', ''],
  ['one of two', [['S1'], two('done', 'left')], 'taken-out', 'not wiped: S2'],
  ['one after the other', [['S1'], two('done', 'left'), ['S2'], two('left', 'done')], 'wiped', ''],
  [
    'the good one after one failed',
    [[], two('failed', 'done'), ['S2'], two('left', 'done')],
    'wipe-failed',
    'not wiped: S1',
  ],
  ['the one that failed', [[], two('done', 'failed'), ['S2'], two('left', 'done')], 'wiped', ''],
  [
    'each after one failed',
    [[], two('done', 'failed'), ['S1'], two('done', 'left'), ['S2'], two('left', 'done')],
    'wiped',
    '',
  ],
  ['all after one failed', [[], two('done', 'failed'), [], two('done', 'done')], 'wiped', ''],
  [
    'a disk that came later',
    [['S1'], two('done'), ['S1'], two('done', 'left')],
    'taken-out',
    'not wiped: S2',
  ],
] as const)('a machine of which %s was wiped is judged by all its disks', (_, orders, state, text) => {
  let wipe: Wipe = { id: 'w1', level: 'tables', disks: [] };
  let last: Wiped | undefined;
  for (let n = 0; n < orders.length; n += 2) {
    const disks = orders[n] as readonly string[];
    const { proved, failed } = wipe;
    wipe = {
      ...{ id: 'w1', level: 'tables', disks: [...disks] },
      ...(disks.length > 0 && proved && { proved }),
      ...(failed && { failed }),
    };
    last = wipedBy(wipe, readReport(orders[n + 1] as string)!);
    wipe = last.wipe;
  }
  expect(last!.state).toBe(state);
  expect(last!.open.length === 0 ? '' : `not wiped: ${last!.open.join(', ')}`).toBe(text);
});

test.each([
  ['nvme-sanitize-crypto', 'sstat=0x0101', undefined],
  ['nvme-sanitize-block', 'sstat=0x0004', undefined],
  ['nvme-sanitize-block', 'sstat=0x0003', 'after nvme-sanitize-block it said "sstat=0x0003"'],
  ['nvme-sanitize-crypto', 'sstat=0x0002', 'it said "sstat=0x0002"'],
  ['nvme-format-erase', 'fpi=0x80', undefined],
  ['nvme-format-crypto', 'fpi=0xb2', 'it said "fpi=0xb2"'],
  ['ata-erase-enhanced', 'security=0x0021', undefined],
  ['ata-erase', 'security=0x0007', 'it said "security=0x0007"'],
  ['ata-erase', '', 'it said ""'],
  ['ata-erase', 'fpi=0x80', 'it said "fpi=0x80"'],
  // What is encrypted stays; the header has to read as zeros.
  ['luks-header', 'luks=8a2b6f8e', 'only 60 of 64'],
  ['', '', 'not erased in a way that is known'],
  ['constructor', 'sstat=0x0101', 'not erased in a way that is known'],
])('a disk that was erased by "%s" and says "%s" is judged by that', async (method, evidence, why) => {
  const { w, id } = await wiping([], 'crypto');
  expect(await w.boot.wipeOrder(id, PEER)).toEqual({ text: 'wipe w1 crypto\nserial RACK7' });
  const text = row('done', 'done', '1000\t64\t0\t60').replace('\nend', `\t${method}\t${evidence}\nend`);
  expect(await w.boot.wipeReport(id, text, PEER)).toBe('kept');
  expect(lifeOf(w)!.state).toBe(why === undefined ? 'wiped' : 'wipe-failed');
  if (why !== undefined) expect(lifeOf(w)!.text).toContain(why);
  const { records } = await w.store.list('wipe/node-1/');
  const [disk] = readCertificate(records[0]!.value)!.disks;
  expect(disk).toMatchObject({ ...(method && { method }), ...(evidence && { evidence }) });
});
