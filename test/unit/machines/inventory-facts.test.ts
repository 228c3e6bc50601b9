/** Facts of machines as values of labels. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Inventory } from '../../../src/machines/inventory.ts';
import { factLabel } from '../../../src/machines/inventory-facts.ts';
import { NODE_FACTS } from '../../../src/resources/node-facts.ts';

const disk = (name: string, transport: string) => ({ name, bytes: 1, rotational: false, transport });
const INVENTORY: Inventory = {
  processors: { threads: 64, model: 'AMD EPYC 9354P 32-Core Processor' },
  memoryBytes: 270_000_000_000,
  disks: [disk('nvme0n1', 'nvme'), disk('sda', 'sata'), disk('nvme1n1', 'nvme')],
  cards: [
    { name: 'eno1', mac: '52:54:00:00:00:01' as never, link: false },
    { name: 'eno2', mac: '52:54:00:00:00:02' as never, link: true, neighbour: { system: 'leaf-1.lab' } },
  ],
  system: { manufacturer: 'Dell Inc.', product: 'PowerEdge R7615' },
};

test('each fact is a value that a label can have', () => {
  expect(Object.fromEntries(NODE_FACTS.map((fact) => [fact, factLabel(fact, INVENTORY)]))).toEqual({
    manufacturer: 'Dell-Inc',
    product: 'PowerEdge-R7615',
    processor: 'AMD-EPYC-9354P-32-Core-Processor',
    threads: '64',
    memoryGiB: '251',
    nvmeDisks: '2',
    switch: 'leaf-1.lab',
  });
  expect(factLabel('switch', { disks: [], cards: [] })).toBeUndefined();
});

test('whatever a machine says of itself is a value of a label or none', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (product) => {
      const value = factLabel('product', { disks: [], cards: [], system: { product } });
      if (value !== undefined) expect(value).toMatch(/^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/);
    }),
  );
});
