/** What a machine gets whose parts are to be tested, and what counts as passed. */
import { expect, test } from 'vitest';
import { readTestReport } from '../../../../src/machines/life/burn-in.ts';
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
const TESTING = { ...NETWORK, spec: { ...NETWORK.spec, discovery: { image: 'discovery' } } };
const PEER = leaseFor(MAC1);

const MEMORY = 'memory\ttested\t1000000\t10000\t0';
const DISK = 'disk\tsda\tread\t2000\t2000\t5\tpassed\tnone\tS1\t0x5000\tModel X';
const NETWORK_ROW = 'network\teth0\tfetched\t5000\t10000\t200\t0\t0';
const report = (...lines: string[]): string => `${lines.join('\n')}\nend\n`;
const GOOD = report(MEMORY, DISK, NETWORK_ROW);

/** A machine that is to be tested, in the discovery system. */
async function testing(): Promise<{ w: World; id: string }> {
  const w = await world([TESTING, DISCOVERY, IMAGE, WORKER, machine('node-1', [MAC1])]);
  const order = { id: 't1', seconds: 60, serial: 'RACK7' };
  const life: Life = {
    at: w.clock.now(),
    state: 'testing',
    text: 'new',
    by: 'ada',
    byHand: true,
    test: order,
  };
  w.roster.change(w.roster.get('node-1')!, { life });
  const { decision, session } = await w.powerOn(MAC1);
  expect(decision).toMatchObject({ kind: 'discovery', reason: { code: 'tests' } });
  return { w, id: session!.id };
}
const lifeOf = (w: World) => w.roster.get('node-1')!.status.life!;
const reportIn = async (w: World) => {
  const { records } = await w.store.list('test/node-1/');
  return readTestReport(records[0]!.value);
};

test('a machine that is to be tested gets the order at its own address, and nothing else', async () => {
  const { w, id } = await testing();
  expect(w.boot.waits(id)).toEqual({ do: 'test', name: 'node-1' });
  expect(await w.boot.testOrder(id, '10.77.0.250')).toBe('refused');
  expect(await w.boot.testReport(id, GOOD, PEER)).toBe('refused');
  expect(await w.boot.testOrder(id, PEER)).toEqual({
    text: `test t1 60\nserial RACK7\nfetch /assets/${HASH('a')}/kernel\n`,
  });
  expect(lifeOf(w)).toMatchObject({ state: 'testing', test: { begun: true } });
  expect(lifeOf(w)).not.toHaveProperty('byHand');
  expect(await w.boot.wipeOrder(id, PEER)).toBe('refused');
  expect(await w.boot.testReport(id, GOOD, '10.77.0.250')).toBe('refused');
});

test('what a machine measured is kept, and it is taken out and switched off as before', async () => {
  const { w, id } = await testing();
  await w.boot.testOrder(id, PEER);
  expect(await w.boot.testReport(id, GOOD, PEER)).toBe('kept');
  expect(lifeOf(w)).toMatchObject({ state: 'taken-out', text: 'It passed its test. new', by: 'ada' });
  expect(lifeOf(w)).not.toHaveProperty('test');
  expect(w.boot.waits(id)).toEqual({ do: 'off', name: 'node-1' });
  expect(await reportIn(w)).toMatchObject({
    ...{ id: 't1', by: 'ada', reason: 'new', seconds: 60, faults: [] },
    memory: { code: 'tested', octets: 1000000, errors: 0 },
    disks: [{ name: 'sda', read: 2000, health: 'passed', selfTest: 'none', serial: 'S1' }],
    network: { card: 'eth0', octets: 5000, sent: 200, lost: 0 },
  });
});

test.each([
  ['memory erred', report(MEMORY.replace(/0$/, '3'), DISK, NETWORK_ROW), 'memory: 3 errors'],
  ['memory was not tested', report(DISK, NETWORK_ROW), 'its memory was not tested to the end'],
  [
    'a disk cannot be read',
    report(MEMORY, DISK.replace('read', 'read-error'), NETWORK_ROW),
    'sda: read-error',
  ],
  [
    'a disk says that it fails',
    report(MEMORY, DISK.replace('passed', 'failed'), NETWORK_ROW),
    'sda: it says',
  ],
  ['a self-test failed', report(MEMORY, DISK.replace('none', 'failed'), NETWORK_ROW), 'self-test failed'],
  ['the network was not tested', report(MEMORY, DISK), 'its network was not tested'],
  ['packets were lost', report(MEMORY, DISK, NETWORK_ROW.replace(/0\t0$/, '3\t0')), '3 of 200 packets'],
  ['the card counted errors', report(MEMORY, DISK, NETWORK_ROW.replace(/0$/, '7')), 'counted 7 errors'],
  [
    'nothing could be fetched',
    report(MEMORY, DISK, NETWORK_ROW.replace('fetched', 'fetch-error')),
    'fetch-error',
  ],
  ['it is another machine', report('refused\tother-machine'), 'the machine refused: other-machine'],
])('where %s, the test failed', async (_, text, why) => {
  const { w, id } = await testing();
  await w.boot.testOrder(id, PEER);
  expect(await w.boot.testReport(id, text, PEER)).toBe('kept');
  expect(lifeOf(w).state).toBe('taken-out');
  expect(lifeOf(w).text).toMatch(/^It failed its test: /);
  expect((await reportIn(w))!.faults.join('; ')).toContain(why);
});

test.each([
  ['a boot host that answers no pings', report(MEMORY, DISK, NETWORK_ROW.replace(/0\t0$/, '200\t0'))],
  [
    'a disk that is shared',
    report(MEMORY, DISK.replace('read', 'shared').replace('passed', 'unread'), NETWORK_ROW),
  ],
])('%s is no fault of the machine', async (_, text) => {
  const { w, id } = await testing();
  await w.boot.testOrder(id, PEER);
  expect(await w.boot.testReport(id, text, PEER)).toBe('kept');
  expect((await reportIn(w))!.faults).toEqual([]);
});

test.each([
  ['ends early', GOOD.replace('end\n', '')],
  ['has a number that is none', GOOD.replace('10000', '-1')],
  ['has a line of another kind', report('cpu\tfast')],
  ['has too few words', report('memory\ttested')],
])('a report that %s is not taken', async (_, text) => {
  const { w, id } = await testing();
  await w.boot.testOrder(id, PEER);
  expect(await w.boot.testReport(id, text, PEER)).toBe('unreadable');
  expect(lifeOf(w).state).toBe('testing');
});
