import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chooseDisk } from '../../../src/machines/data-disk.ts';
import type { InventoryDisk } from '../../../src/machines/inventory.ts';
import { dataDisk } from '../../../src/resources/disk-spec.ts';
import type { DataDiskSpec } from '../../../src/resources/kinds.ts';

const disk = (name: string, gb: number, more: Partial<InventoryDisk> = {}): InventoryDisk => ({
  ...{ name, bytes: gb * 1e9, rotational: false, transport: 'nvme', model: 'SAMSUNG MZQL2' },
  ...{ serial: `S-${name}`, ...more },
});
const DISKS = [
  disk('sda', 4000, { rotational: true, transport: 'sata', model: 'ST4000' }),
  disk('nvme0n1', 480),
  disk('nvme1n1', 960),
  disk('nvme2n1', 960),
  disk('sdb', 32, { transport: 'usb', model: 'Stick' }),
];
const chosen = (wanted: object, disks: readonly InventoryDisk[] = DISKS, others: DataDiskSpec[] = []) => {
  const choice = chooseDisk({ disks }, dataDisk.parse(wanted) as DataDiskSpec, others);
  return choice.ok ? choice.serial : choice.text;
};

test.each([
  [{ rotational: true }, 'S-sda'],
  [{ transport: 'sata' }, 'S-sda'],
  [{ transport: 'usb' }, 'S-sdb'],
  [{ model: 'ST*' }, 'S-sda'],
  [{ size: { max: '500GB' } }, 'S-nvme0n1'],
  [{ size: { min: '400GB', max: '480GB' } }, 'S-nvme0n1'],
  [{ choose: 'largest' }, 'S-sda'],
  [{ choose: 'smallest' }, 'S-nvme0n1'],
  [{ transport: 'nvme', choose: 'largest' }, 'S-nvme1n1'],
])('%j is %s', (wanted, serial) => {
  expect(chosen(wanted)).toBe(serial);
});

test('says what there is when no disk or several fit, and when one could not be found again', () => {
  expect(chosen({ size: { min: '8TB' } })).toMatch(
    /^no disk of its inventory fits \(sda, 4000 GB, sata, rotational, ST4000, serial S-sda; /,
  );
  expect(chosen({ size: { min: '8TB' } }, [])).toBe('no disk of its inventory fits (it has none)');
  expect(chosen({ transport: 'nvme', size: { min: '900GB' } })).toBe(
    '2 disks fit; add `choose`, or say more (nvme1n1, 960 GB, nvme, flash, SAMSUNG MZQL2, serial S-nvme1n1; nvme2n1, 960 GB, nvme, flash, SAMSUNG MZQL2, serial S-nvme2n1)',
  );
  expect(chosen({ choose: 'largest' }, [{ ...disk('vda', 10), serial: undefined as never }])).toContain(
    'no serial number',
  );
  expect(chosen({ choose: 'largest' }, [disk('vda', 10, { serial: '  ' })])).toContain('no serial number');
  expect(chosen({ choose: 'largest' }, [disk('vda', 10, { serial: 'WD WX11' })])).toBe('WD WX11');
  const twins = [disk('sda', 10, { serial: 'X' }), disk('sdb', 10, { serial: 'X' })];
  expect(chosen({ choose: 'largest' }, twins)).toContain('several disks have the serial number X');
});

test('disks that other selectors of the machine name are left out', () => {
  const nvme = { transport: 'nvme', choose: 'largest' };
  for (const other of [
    { serial: 'S-nvme1n1' },
    { path: '/dev/nvme1n1' },
    { path: '/dev/disk/by-id/nvme-SAMSUNG_MZQL2_S-nvme1n1' },
  ])
    expect(chosen(nvme, DISKS, [other])).toBe('S-nvme2n1');
});

test.each([
  [{}, 'say which disk'],
  [{ encrypt: 'tpm' }, 'say which disk'],
  [{ serial: 'A', choose: 'largest' }, 'write one of both'],
  [{ sizeMiB: 1000, size: { min: '1GB' } }, 'write one of both'],
])('%j is refused', (wanted, message) => {
  expect(dataDisk.safeParse(wanted).error?.issues[0]?.message).toContain(message);
});

test('the order and the names of disks do not matter, and what is chosen fits', () => {
  const one = fc.record({
    gb: fc.integer({ min: 1, max: 4 }),
    transport: fc.constantFrom('nvme', 'sata'),
    serial: fc.nat(9).map((n) => `S${n}`),
  });
  const lists = fc
    .uniqueArray(one, { maxLength: 6, selector: ({ serial }) => serial })
    .chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })));
  fc.assert(
    fc.property(lists, fc.constantFrom('largest' as const, 'smallest' as const), ([list, turned], choose) => {
      const [found, again] = [list, turned].map((of, kind) =>
        chooseDisk(
          { disks: of.map(({ gb, ...more }, n) => disk(`${'ab'[kind]}${n}`, gb, more)) },
          { transport: 'nvme', choose },
        ),
      );
      const sizes = list.filter(({ transport }) => transport === 'nvme').map(({ gb }) => gb);
      expect([found!.ok, again!.ok]).toEqual([sizes.length > 0, sizes.length > 0]);
      if (!found!.ok || !again!.ok) return;
      expect(again!.serial).toBe(found!.serial);
      expect(found!.disk.bytes / 1e9).toBe(Math[choose === 'largest' ? 'max' : 'min'](...sizes));
    }),
  );
});
