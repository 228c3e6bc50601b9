import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Mac } from '../../../src/base/mac.ts';
import { parseSize, parseSpeed } from '../../../src/base/size.ts';
import type { Inventory, InventoryDisk } from '../../../src/machines/inventory.ts';
import { termsOf } from '../../../src/machines/inventory-selector.ts';
import { type NamedProfile, type Selectable, select, selectable } from '../../../src/machines/select.ts';
import { type InventorySelector, inventorySelector } from '../../../src/resources/inventory-selector.ts';

const GIB = 2 ** 30;
const disk = (name: string, more: Partial<InventoryDisk> = {}): InventoryDisk => ({
  name,
  bytes: 960_197_124_096,
  rotational: false,
  transport: 'nvme',
  model: 'SAMSUNG MZQL2960',
  ...more,
});
const card = (name: string, mbits: number | undefined, port?: string) => ({
  name,
  mac: '52:54:00:aa:00:01' as Mac,
  link: mbits !== undefined,
  ...(mbits !== undefined && { mbits }),
  driver: 'mlx5_core',
  ...(port !== undefined && { neighbour: { system: 'leaf-3', port } }),
});
const SERVER: Inventory = {
  processors: { threads: 64 },
  // A machine with 256 GiB; the kernel keeps the rest.
  memoryBytes: 251.6 * GIB,
  disks: [
    disk('nvme0n1'),
    disk('nvme1n1'),
    disk('sda', { transport: 'usb', rotational: true, model: 'Stick' }),
  ],
  cards: [card('eno1', 25_000, 'Ethernet7'), card('eno2', 25_000, 'Ethernet8'), card('eno3', undefined)],
};

const fits = (selector: InventorySelector, inventory = SERVER): boolean =>
  termsOf(inventorySelector.parse(selector)).every((term) => term.fits(inventory));

test.each<[string, InventorySelector, boolean]>([
  ['as many processors', { processors: { min: 64, max: 64 } }, true],
  ['more processors', { processors: { min: 65 } }, false],
  ['the memory that is installed', { memory: { min: '256GiB', max: '256GiB' } }, true],
  ['memory of one more step', { memory: { min: '288GiB' } }, false],
  ['less memory', { memory: { max: '128GiB' } }, false],
  ['two NVMe disks', { disks: { count: { min: 2 }, transport: 'nvme' } }, true],
  ['three NVMe disks', { disks: { count: { min: 3 }, transport: 'nvme' } }, false],
  ['exactly two disks, because disks at USB do not count', { disks: { count: { min: 2, max: 2 } } }, true],
  ['a disk at USB', { disks: { transport: 'usb' } }, true],
  ['no disk that turns', { disks: { count: { max: 0 }, rotational: true } }, true],
  ['disks of a size', { disks: { size: { min: '960GB', max: '961GB' } } }, true],
  ['larger disks', { disks: { size: { min: '1.92TB' } } }, false],
  ['disks by the beginning of their model', { disks: { model: 'SAMSUNG*' } }, true],
  ['disks by another model', { disks: { model: 'SAMSUNG' } }, false],
  ['two fast cards', { cards: { count: { min: 2 }, speed: { min: '25Gbit' } } }, true],
  [
    'three fast cards, of which one has no link',
    { cards: { count: { min: 3 }, speed: { min: '1Mbit' } } },
    false,
  ],
  ['three cards', { cards: { count: { min: 3 }, driver: 'mlx5*' } }, true],
  ['one card at the port of a switch', { cards: { switch: 'leaf-3', port: 'Ethernet7' } }, true],
  ['a port of another switch', { cards: { switch: 'leaf-4', port: 'Ethernet7' } }, false],
  [
    'all at once',
    { processors: { min: 16 }, memory: { min: '64GiB' }, disks: { size: { min: '1GB' } } },
    true,
  ],
  ['all but one', { processors: { min: 16 }, memory: { min: '1TiB' } }, false],
])('%s', (_, selector, expected) => {
  expect(fits(selector)).toBe(expected);
});

test('what a machine did not report fits nothing', () => {
  const nothing: Inventory = { disks: [], cards: [] };
  for (const selector of [
    { processors: { min: 0 } },
    { memory: { max: '1TiB' } },
    { disks: {} },
    { cards: {} },
  ])
    expect(termsOf(selector as InventorySelector).every((term) => term.fits(nothing))).toBe(false);
  expect(fits({ disks: { count: { max: 0 } } }, nothing)).toBe(true);
});

test.each([
  [{}, 'selects nothing'],
  [{ disks: {} }, 'selects nothing'],
  [{ memory: {} }, 'say min, max or both'],
  [{ memory: { min: '64' } }, 'write a number and a unit'],
  [{ memory: { min: '64 GiB' } }, 'write a number and a unit'],
  [{ memory: { min: '1GiB', max: '1GB' } }, 'min is larger than max'],
  [{ processors: { min: 3, max: 2 } }, 'min is larger than max'],
  [{ cards: { speed: { min: '25G' } } }, 'write it like "25Gbit"'],
])('%j is refused', (selector, message) => {
  const result = inventorySelector.safeParse(selector);
  expect(result.error?.issues.map((issue) => issue.message).join('\n')).toContain(message);
});

test('sizes and speeds are read with their unit only', () => {
  expect(['1MB', '960GB', '1.92TB', '64GiB', '0.5TiB'].map(parseSize)).toEqual([
    1e6,
    960e9,
    1_920_000_000_000,
    64 * GIB,
    512 * GIB,
  ]);
  expect(
    ['', '1', 'GB', '-1GB', '1e3GB', '1KB', '1.GB', '.5GB', '1gb', ' 1GB', '1GB\n'].map(parseSize),
  ).toEqual(Array.from({ length: 11 }, () => undefined));
  expect(['25Gbit', '100Mbit', '25', '1Tbit'].map(parseSpeed)).toEqual([25_000, 100, undefined, undefined]);
});

const ranges = fc
  .tuple(fc.nat(6), fc.nat(6))
  .map(([a, b]) => ({ min: Math.min(a, b), max: Math.max(a, b) }))
  .chain((both) => fc.constantFrom(both, { min: both.min }, { max: both.max }));
const sizes = ranges.map((range) =>
  Object.fromEntries(Object.entries(range).map(([end, n]) => [end, `${n}GiB`])),
);
const given = <T extends object>(fields: T): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const selectors = fc
  .record({
    processors: some(ranges),
    memory: some(sizes),
    disks: some(
      fc
        .record({ count: some(ranges), size: some(sizes), transport: some(fc.constantFrom('nvme', 'sata')) })
        .map(given)
        .filter((fields) => Object.keys(fields).length > 0),
    ),
  })
  .map(given)
  .filter((fields) => Object.keys(fields).length > 0) as fc.Arbitrary<InventorySelector>;
const inventories: fc.Arbitrary<Inventory> = fc
  .record({
    threads: fc.nat(7),
    gib: fc.nat(7),
    disks: fc.array(fc.tuple(fc.nat(7), fc.constantFrom('nvme', 'sata', 'usb')), { maxLength: 4 }),
  })
  .map(({ threads, gib, disks }) => ({
    processors: { threads },
    memoryBytes: gib * GIB,
    disks: disks.map(([size, transport], n) => disk(`d${n}`, { bytes: size * GIB, transport })),
    cards: [],
  }));
const profiles = fc
  .array(fc.record({ arch: some(fc.constant('x86_64')), inventory: some(selectors) }).map(given), {
    maxLength: 6,
  })
  .map((list) =>
    list.map((selector, n): NamedProfile => ({ name: `p${n}`, spec: { selector } as NamedProfile['spec'] })),
  );
const known: Selectable = { spec: { macs: [] }, macs: [], arch: 'x86_64' };
const nameOf = (selection: ReturnType<typeof select>): string | undefined =>
  selection.kind === 'selected' ? selection.profile.name : undefined;

test('a selector with a lower minimum and a higher maximum fits at least the same machines', () => {
  const wider = ({ min, max }: { min?: number; max?: number }) => ({
    ...(min !== undefined && { min: Math.max(0, min - 1) }),
    ...(max !== undefined && { max: max + 1 }),
  });
  fc.assert(
    fc.property(ranges, ranges, inventories, (processors, count, inventory) => {
      if (fits({ processors, disks: { count } }, inventory))
        expect(fits({ processors: wider(processors), disks: { count: wider(count) } }, inventory)).toBe(true);
    }),
  );
});

test('all that an inventory may select is known before it is reported', () => {
  fc.assert(
    fc.property(profiles, inventories, (list, inventory) => {
      const now = select(known, list);
      const later = select({ ...known, inventory }, list);
      const names = selectable(known, list).map((profile) => profile?.name);
      expect(names).toContain(nameOf(now));
      expect(names).toContain(nameOf(later));
      // A profile that the inventory brings was announced.
      const { awaiting = [] } = now.kind === 'missing' ? {} : now;
      if (nameOf(later) !== nameOf(now)) expect(awaiting).toContain(nameOf(later));
      expect(later).not.toHaveProperty('awaiting');
    }),
    { numRuns: 2000 },
  );
});

test('each value of a selector counts as a field, and all are named', () => {
  const one = (name: string, selector: object) => ({ name, spec: { selector } }) as unknown as NamedProfile;
  const found = select({ ...known, inventory: SERVER }, [
    one('a', { arch: 'x86_64', inventory: { memory: { min: '64GiB' } } }),
    one('b', { inventory: { memory: { min: '64GiB', max: '256GiB' }, disks: { transport: 'nvme' } } }),
  ]);
  expect(found).toMatchObject({
    profile: { name: 'b' },
    matched: ['inventory.memory.max=256GiB', 'inventory.memory.min=64GiB', 'inventory.disks.transport=nvme'],
  });
});
