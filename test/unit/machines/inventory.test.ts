import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { MAX_CLAIMED_OCTETS, openInventories } from '../../../src/machines/inventories.ts';
import { MAX_PARTS, readInventory } from '../../../src/machines/inventory.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

const LINES = `cpu threads 64
cpu model Intel(R) Xeon(R) Gold 6430
memory 263794236
dmi bios_vendor Dell Inc.
dmi bios_version 2.1.5
dmi bios_date 09/24/2025
dmi sys_vendor Dell Inc.
dmi product_name PowerEdge R760
dmi product_serial 7XK2LM3
disk NAME="nvme0n1" SIZE="960197124096" ROTA="0" TRAN="nvme" SERIAL="S6CKNT0W1" WWN="eui.002538" MODEL="SAMSUNG MZQL2960"
disk NAME="sr0" SIZE="0" ROTA="1" TRAN="usb" SERIAL="" WWN="" MODEL="Virtual Media"
nic eno1 52:54:00:aa:00:01 1 25000 bnxt_en
nic eno2 52:54:00:aa:00:02 0 -1 bnxt_en
bmc 10.0.0.9
lldp {"Neighbors":[{"InterfaceIndex":2,"InterfaceName":"eno1","Neighbors":[{"ChassisID":"aa:bb:cc:00:11:22","PortID":"Ethernet7","SystemName":"leaf-3","PortDescription":"rack 12, node 7"}]}]}
`;

test('the lines of an agent become an inventory', () => {
  expect(readInventory(LINES)).toEqual({
    processors: { threads: 64, model: 'Intel(R) Xeon(R) Gold 6430' },
    memoryBytes: 263794236 * 1024,
    system: { manufacturer: 'Dell Inc.', product: 'PowerEdge R760', serial: '7XK2LM3' },
    firmware: { vendor: 'Dell Inc.', version: '2.1.5', date: '09/24/2025' },
    bmc: { address: '10.0.0.9' },
    disks: [
      {
        ...{ name: 'nvme0n1', bytes: 960197124096, rotational: false, transport: 'nvme' },
        ...{ serial: 'S6CKNT0W1', wwn: 'eui.002538', model: 'SAMSUNG MZQL2960' },
      },
    ],
    cards: [
      {
        ...{ name: 'eno1', mac: '52:54:00:aa:00:01', link: true, mbits: 25000, driver: 'bnxt_en' },
        neighbour: {
          ...{ system: 'leaf-3', chassis: 'aa:bb:cc:00:11:22' },
          ...{ port: 'Ethernet7', portDescription: 'rack 12, node 7' },
        },
      },
      { name: 'eno2', mac: '52:54:00:aa:00:02', link: false, driver: 'bnxt_en' },
    ],
  });
});

test('nothing is kept of a text without anything that is understood, and too much is cut', () => {
  expect(readInventory('')).toBeUndefined();
  expect(readInventory('hello\nworld x y\nmemory lots')).toBeUndefined();
  expect(readInventory('x'.repeat(70_000))).toBeUndefined();
  const cards = Array.from({ length: 200 }, (_, n) => `nic eth${n} 52:54:00:aa:00:01 1 1000 e1000`).join(
    '\n',
  );
  expect(readInventory(cards)?.cards).toHaveLength(MAX_PARTS);
  expect(
    readInventory(`memory 1\ndmi product_name ${'long '.repeat(100)}`)?.system?.product?.length,
  ).toBeLessThan(100);
  expect(readInventory('memory 1\ndmi product_name a\u202eb\u0007c')?.system?.product).not.toMatch(
    /[\u202e\u0007]/,
  );
});

/** What the roster says of a machine with a document. */
const DOCUMENTED = { entry: {} };

test('inventories are stored when they change, survive a restart, and go with their machine', async () => {
  const store = openMemoryStore();
  const clock = new ManualClock();
  const deps = { store, clock, log: silentLog };
  const first = await openInventories({ ...deps, roster: { get: () => DOCUMENTED } });
  const inventory = readInventory(LINES)!;
  await first.take('node-1', inventory);
  const at = first.get('node-1')!.at;
  clock.advance(millis(5000));
  await first.take('node-1', readInventory(LINES)!);
  await first.take('node-2', inventory);
  expect(first.get('node-1')!.at).toBe(at);
  const second = await openInventories({
    ...deps,
    roster: { get: (machine) => (machine === 'node-1' ? DOCUMENTED : undefined) },
  });
  expect(second.list()).toEqual([{ machine: 'node-1', at, inventory }]);
  const third = await openInventories({ ...deps, roster: { get: () => DOCUMENTED } });
  expect(third.list()).toHaveLength(1);
});

test('a settled inventory counts until it is unsettled, also after a restart, and is forgotten with its machine', async () => {
  const store = openMemoryStore();
  const deps = { store, clock: new ManualClock(), log: silentLog, roster: { get: () => DOCUMENTED } };
  const first = await openInventories(deps);
  await first.settle('node-1');
  expect(first.counting('node-1')).toBeUndefined();
  await first.take('node-1', readInventory('cpu threads 8\nmemory 1000\n')!);
  await first.settle('node-1');
  const settled = first.counting('node-1');
  await first.take('node-1', readInventory('cpu threads 8\nmemory 500\n')!);
  await first.settle('node-1');
  expect(first.counting('node-1')).toBe(settled);
  expect(first.get('node-1')!.inventory.memoryBytes).toBe(500 * 1024);
  const second = await openInventories(deps);
  expect(second.counting('node-1')).toEqual(settled);
  expect(second.get('node-1')!.inventory.memoryBytes).toBe(500 * 1024);
  await second.unsettle('node-1');
  expect(second.counting('node-1')!.inventory.memoryBytes).toBe(500 * 1024);
  await second.forget('node-1');
  expect(second.get('node-1')).toBeUndefined();
  expect((await openInventories(deps)).list()).toEqual([]);
});

test('a settled inventory takes over neighbours that a card hears later, and no other change', async () => {
  const deps = { store: openMemoryStore(), clock: new ManualClock(), log: silentLog };
  const inventories = await openInventories({ ...deps, roster: { get: () => DOCUMENTED } });
  const lldp = (port: string) =>
    `lldp {"Neighbors":[{"InterfaceName":"eno1","Neighbors":[{"PortID":"${port}"}]},{"InterfaceName":"eno2","Neighbors":[{"PortID":"E9"}]}]}\n`;
  const report = (memory: number, more = '') =>
    inventories.take(
      'node-1',
      readInventory(
        `memory ${memory}\nnic eno1 52:54:00:aa:00:01 1 1000 e1000\nnic eno2 52:54:00:aa:00:02 ${more === '' ? 0 : 1} 1000 e1000\n${more}`,
      )!,
    );
  const counting = () => {
    const { memoryBytes, cards } = inventories.counting('node-1')!.inventory;
    return [memoryBytes! / 1024, ...cards.map(({ link, neighbour }) => [link, neighbour?.port])];
  };
  await report(8);
  await inventories.settle('node-1');
  const before = inventories.counting('node-1');
  await report(4);
  expect(inventories.counting('node-1')).toBe(before);
  await report(4, lldp('E1'));
  expect(counting()).toEqual([8, [true, 'E1'], [false, undefined]]);
  await report(4, lldp('E2'));
  expect(counting()).toEqual([8, [true, 'E1'], [false, undefined]]);
});

test('what an unknown machine claims counts once it has a document, and the report of its agent replaces it', async () => {
  const documented = new Set<string>();
  const roster = { get: (machine: string) => (documented.has(machine) ? DOCUMENTED : {}) };
  const deps = { store: openMemoryStore(), clock: new ManualClock(), log: silentLog, roster };
  const first = await openInventories(deps);
  const inventory = readInventory(LINES)!;
  expect(await first.claim('m-1', inventory)).toBe(true);
  expect(await first.claim('m-1', inventory)).toBe(false);
  const second = await openInventories(deps);
  expect(second.get('m-1')).toMatchObject({ claimed: true, inventory });
  expect(second.counting('m-1')).toBeUndefined();
  documented.add('node-1');
  await second.adopt('m-1', 'node-1');
  expect(second.list().map(({ machine }) => machine)).toEqual(['node-1']);
  expect(second.counting('node-1')?.inventory).toEqual(inventory);
  await second.take('node-1', inventory);
  expect((await openInventories(deps)).list()).toEqual([
    { machine: 'node-1', at: deps.clock.now(), inventory },
  ]);
  // A machine that has one keeps it, whatever somebody claimed under an address of it.
  await second.claim('m-2', readInventory('memory 1\n')!);
  await second.adopt('m-2', 'node-1');
  expect(second.list()).toEqual([{ machine: 'node-1', at: deps.clock.now(), inventory }]);
});

test('claims of unknown machines have a bound in octets, and those with a document are not among them', async () => {
  const store = openMemoryStore();
  const roster = { get: (machine: string) => (machine === 'node-1' ? DOCUMENTED : {}) };
  const inventories = await openInventories({ store, clock: new ManualClock(), log: silentLog, roster });
  const long = 'x'.repeat(96);
  const disks = Array.from(
    { length: 64 },
    (_, n) => `disk NAME="d${n}" SIZE="1" SERIAL="${long}" WWN="${long}" MODEL="${long}"\n`,
  );
  const large = readInventory(disks.join(''))!;
  await inventories.claim('node-1', large);
  const each = JSON.stringify(large).length;
  const fit = Math.floor(MAX_CLAIMED_OCTETS / each);
  for (let n = 0; n <= fit; n++) await inventories.claim(`m-${n}`, large);
  const kept = inventories.list();
  expect(kept.length * each).toBeLessThanOrEqual(MAX_CLAIMED_OCTETS + each);
  expect(kept.length).toBeGreaterThan(fit - 10);
  expect(inventories.get('m-0')).toBeUndefined();
  expect(inventories.get('node-1')).toBeDefined();
  expect((await store.list('inventory/')).records).toHaveLength(kept.length);
});

test('an inventory says which of its parts could not be asked', () => {
  const text = 'cpu threads 4\nmissing bmc ipmitool did not end within 10 seconds\nmissing x\n';
  expect(readInventory(text)?.missing).toEqual([
    { part: 'bmc', text: 'ipmitool did not end within 10 seconds' },
  ]);
});
