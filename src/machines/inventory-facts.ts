/** The facts of an inventory that documents can name as values of labels. */
import type { NodeFact } from '../resources/node-facts.ts';
import type { Inventory } from './inventory.ts';

const nvmes = ({ disks }: Inventory): number => disks.filter(({ transport }) => transport === 'nvme').length;
const gigabytes = (octets: number | undefined): number | undefined =>
  octets === undefined ? undefined : Math.round(octets / 2 ** 30);

/** Name of a fact → its value; undefined while the machine has not told it. */
const FACTS: Readonly<Record<NodeFact, (inventory: Inventory) => string | number | undefined>> = {
  manufacturer: ({ system }) => system?.manufacturer,
  product: ({ system }) => system?.product,
  processor: ({ processors }) => processors?.model,
  threads: ({ processors }) => processors?.threads,
  memoryGiB: ({ memoryBytes }) => gigabytes(memoryBytes),
  nvmeDisks: nvmes,
  switch: ({ cards }) => cards.find(({ neighbour }) => neighbour?.system)?.neighbour?.system,
};

/**
 * A fact as the value of a label: other characters than letters, digits and "-_." become dashes, at
 * most 63 are kept.
 */
export function factLabel(fact: NodeFact, inventory: Inventory): string | undefined {
  const value = FACTS[fact](inventory);
  if (value === undefined) return undefined;
  const text = String(value)
    .replace(/[^A-Za-z0-9_.-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 63)
    .replace(/[^A-Za-z0-9]+$/, '');
  return text === '' ? undefined : text;
}
