/** Compares inventories with the selectors of Profiles. Pure. */
import { parseSize, parseSpeed } from '../base/size.ts';
import type { InventorySelector } from '../resources/inventory-selector.ts';
import type { Inventory, InventoryCard, InventoryDisk } from './inventory.ts';

/** A part of a selector that is compared as a whole. */
export interface Term {
  /** What it asks for, e.g. `inventory.memory.min=64GiB`. */
  readonly wants: readonly string[];
  readonly fits: (inventory: Inventory) => boolean;
}

interface Range {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/** Kernels and firmware keep a part of the memory: this much of what is installed is reported. */
const REPORTED_MEMORY = 15 / 16;

const within = (value: number | undefined, { min, max }: Range): boolean =>
  value !== undefined && (min === undefined || value >= min) && (max === undefined || value <= max);

type TextRange = { readonly min?: string | undefined; readonly max?: string | undefined };

const rangeOf = ({ min, max }: TextRange, read: (text: string) => number | undefined): Range => ({
  min: min === undefined ? undefined : read(min),
  max: max === undefined ? undefined : read(max),
});

/**
 * `Dell*` fits every text with that beginning; without `*` the whole text must be the same.
 */
export const fitsPattern = (text: string | undefined, pattern: string): boolean =>
  text !== undefined && (pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern);

const optional = (text: string | undefined, pattern: string | undefined): boolean =>
  pattern === undefined || fitsPattern(text, pattern);

export type DiskWanted = Omit<NonNullable<InventorySelector['disks']>, 'count'>;

/** Whether a disk is one of those that are meant. */
export function fitsDisk(disk: InventoryDisk, wanted: DiskWanted): boolean {
  const { size, rotational, transport, model } = wanted;
  if (transport === undefined ? disk.transport === 'usb' : disk.transport !== transport) return false;
  if (rotational !== undefined && disk.rotational !== rotational) return false;
  return (size === undefined || within(disk.bytes, rangeOf(size, parseSize))) && optional(disk.model, model);
}

function fitsCard(card: InventoryCard, wanted: NonNullable<InventorySelector['cards']>): boolean {
  const { speed, driver } = wanted;
  if (speed !== undefined && !within(card.link ? card.mbits : undefined, rangeOf(speed, parseSpeed)))
    return false;
  const { system, port } = card.neighbour ?? {};
  return optional(card.driver, driver) && optional(system, wanted.switch) && optional(port, wanted.port);
}

/** Each group of a selector, and what fits it. */
const FITS: {
  readonly [G in keyof Required<InventorySelector>]: (
    inventory: Inventory,
    wanted: NonNullable<InventorySelector[G]>,
  ) => boolean;
} = {
  processors: ({ processors }, wanted) => within(processors?.threads, wanted),
  memory({ memoryBytes }, wanted) {
    const { min, max } = rangeOf(wanted, parseSize);
    return within(memoryBytes, { min: min === undefined ? undefined : min * REPORTED_MEMORY, max });
  },
  disks: ({ disks }, { count = { min: 1 }, ...wanted }) =>
    within(disks.filter((disk) => fitsDisk(disk, wanted)).length, count),
  cards: ({ cards }, { count = { min: 1 }, ...wanted }) =>
    within(cards.filter((card) => fitsCard(card, wanted)).length, count),
};

const memoTerms = new WeakMap<InventorySelector, readonly Term[]>();

/** The terms of a selector, in the order of {@link FITS}; an inventory has to fit all. */
export function termsOf(selector: InventorySelector): readonly Term[] {
  const known = memoTerms.get(selector);
  if (known !== undefined) return known;
  const terms = (Object.keys(FITS) as (keyof typeof FITS)[]).flatMap((group): Term[] => {
    const wanted = selector[group];
    if (wanted === undefined) return [];
    const fits = FITS[group] as (inventory: Inventory, wanted: object) => boolean;
    return [{ wants: leaves(`inventory.${group}`, wanted), fits: (inventory) => fits(inventory, wanted) }];
  });
  memoTerms.set(selector, terms);
  return terms;
}

/** The values of a mapping as `path=value`, in alphabetical order. */
function leaves(path: string, value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return value === undefined ? [] : [`${path}=${value}`];
  return Object.entries(value)
    .flatMap(([name, inner]) => leaves(`${path}.${name}`, inner))
    .sort();
}
