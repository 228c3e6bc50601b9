import { expect, test } from 'vitest';
import type { InventoryView } from '../../../src/api/operations/inventory.ts';
import { cardText, diskText, sizeText } from '../../../src/page/machine/parts.ts';

type Card = InventoryView['cards'][number];
const CARD = {
  name: 'eno1',
  mac: '52:54:00:aa:00:01',
  link: true,
  mbits: 25000,
  driver: 'mlx5_core',
} as Card;

test('sizes have three digits and the unit that fits', () => {
  expect([0, 1023, 1536, 2 ** 30, 2_000_398_934_016, 2 ** 53].map(sizeText)).toEqual([
    '0 B',
    '1020 B',
    '1.5 KiB',
    '1 GiB',
    '1.82 TiB',
    '8190 TiB',
  ]);
});

test('a disk is shown with size, kind and the serial by which a selector names it', () => {
  expect(
    diskText({ name: 'nvme0n1', bytes: 2 ** 40, rotational: false, transport: 'nvme', serial: 'S1' }),
  ).toBe('1 TiB, nvme, serial S1');
  expect(diskText({ name: 'sda', bytes: 2 ** 40, rotational: true })).toBe('1 TiB, rotating');
});

test('a card is shown with its link and the switch port that LLDP names', () => {
  expect(cardText({ ...CARD, neighbour: { system: 'tor-1', port: 'Ethernet7' } })).toBe(
    '52:54:00:aa:00:01, link at 25 Gbit/s, on tor-1 port Ethernet7, mlx5_core',
  );
  expect(cardText({ name: 'eno2', mac: CARD.mac, link: false })).toBe('52:54:00:aa:00:01, no link');
});
