/** The disk on which a system is installed, of those that the machine reports. */
import { expect, test } from 'vitest';
import { pickInstallDisk } from '../../../src/machines/data-disk.ts';
import type { InventoryDisk } from '../../../src/machines/inventory.ts';
import { installDisk } from '../../../src/resources/disk-spec.ts';

const disk = (name: string, more: Partial<InventoryDisk> = {}): InventoryDisk => ({
  name,
  bytes: 480e9,
  rotational: false,
  transport: 'sata',
  serial: name.toUpperCase(),
  ...more,
});
const DISKS = [
  disk('sda', { bytes: 960e9, wwn: '0x5000c500a1b2c3d4' }),
  disk('sdb'),
  disk('sdc', { bytes: 64e9, transport: 'usb' }),
  disk('nvme0n1', { bytes: 1920e9, transport: 'nvme', model: 'SAMSUNG MZQL21T9' }),
];
const picked = (wanted: object, disks = DISKS) => {
  const choice = pickInstallDisk(disks, installDisk.parse(wanted));
  return choice.ok ? choice.disk.name : choice.text;
};

test.each([
  [{ choose: 'smallest' }, 'sdb'],
  [{ choose: 'largest' }, 'nvme0n1'],
  [{ serial: 'SDB' }, 'sdb'],
  [{ wwn: '0x5000c500a1b2c3d4' }, 'sda'],
  [{ size: { min: '900GB', max: '1TB' } }, 'sda'],
  [{ transport: 'nvme' }, 'nvme0n1'],
  [{ transport: 'usb' }, 'sdc'],
  [{ model: 'SAMSUNG*' }, 'nvme0n1'],
  [{ rotational: false, transport: 'nvme' }, 'nvme0n1'],
])('%j takes %s', (wanted, name) => {
  expect(picked(wanted)).toBe(name);
});

test('without choose, several disks that fit are refused with a list of them', () => {
  expect(picked({ rotational: false })).toMatch(/^3 disks fit.*sda.*sdb.*nvme0n1/);
});

test('no disk that fits is refused, and one without a serial number', () => {
  expect(picked({ serial: 'GONE' })).toMatch(/^no disk fits installDisk/);
  expect(picked({ choose: 'smallest' }, [{ name: 'vda', bytes: 1e9, rotational: true }])).toMatch(
    /no serial number/,
  );
});

test('a disk is refused when another one has its serial number, also one that does not fit', () => {
  const twins = [
    disk('sda', { bytes: 100e9, serial: 'TWIN' }),
    disk('sdb', { bytes: 900e9, serial: 'TWIN' }),
  ];
  expect(picked({ choose: 'smallest' }, twins)).toMatch(/several disks have the serial number TWIN/);
  expect(picked({ size: { max: '200GB' } }, twins)).toMatch(/several disks have the serial number TWIN/);
});

test('a document has to say which disk is meant', () => {
  expect(installDisk.safeParse({}).success).toBe(false);
});
