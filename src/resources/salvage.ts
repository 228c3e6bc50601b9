/**
 * Leaves the faulty fields of a document out, so that the rest can be checked against other
 * documents: a fault in one field hides no fault of another. Pure.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Path } from './yaml.ts';

/** What is left of a value, and which of its paths were left out. */
export interface Salvaged {
  readonly value: unknown;
  readonly removed: readonly Path[];
  /** The path in the text of a path in `value`, whose lists may be shorter. */
  written(path: Path): Path;
}

/** How often fields are left out before a document counts as unreadable. */
const ROUNDS = 8;

/**
 * Leaves out fields until `faultsIn` finds none.
 *
 * @param faultsIn The paths of the faults in a value.
 * @returns Undefined when a field that every document of the kind needs is faulty or missing.
 */
export function salvage(
  value: unknown,
  first: readonly Path[],
  faultsIn: (value: unknown) => readonly Path[],
): Salvaged | undefined {
  const removed: Path[] = [];
  let paths = first;
  for (let round = 0; round < ROUNDS; round++) {
    for (const path of paths) {
      const cut = existing(value, path);
      // What is directly below the document, and its name, belongs to every document.
      if (cut.length < 2 || isDeepStrictEqual(cut, ['metadata', 'name'])) return undefined;
      removed.push(cut);
    }
    const gone = new Set(removed.map(keyOf));
    const left = copied(value, [], gone);
    const written = (path: Path): Path => writtenPath(value, path, gone);
    const faults = faultsIn(left);
    if (faults.length === 0) return { value: left, removed, written };
    paths = faults.map(written);
  }
  return undefined;
}

const keyOf = (path: Path): string => path.join('\0');

/** The path itself, or that of the collection which lacks it. */
function existing(value: unknown, path: Path): Path {
  let here = value;
  for (const [n, step] of path.entries()) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, step)) return path.slice(0, n);
    here = (here as Record<string | number, unknown>)[step];
  }
  return path;
}

function copied(value: unknown, path: Path, gone: ReadonlySet<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const isKept = (step: string | number): boolean => !gone.has(keyOf([...path, step]));
  if (Array.isArray(value))
    return value.flatMap((item: unknown, n) => (isKept(n) ? [copied(item, [...path, n], gone)] : []));
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) =>
      isKept(key) ? [[key, copied(inner, [...path, key], gone)]] : [],
    ),
  );
}

function writtenPath(value: unknown, path: Path, gone: ReadonlySet<string>): Path {
  const found: (string | number)[] = [];
  let here = value;
  for (const step of path) {
    let place = step;
    if (Array.isArray(here)) {
      const kept = here.flatMap((_, n) => (gone.has(keyOf([...found, n])) ? [] : [n]));
      place = kept[Number(step)] ?? step;
    }
    found.push(place);
    here = (here as Readonly<Record<string | number, unknown>> | undefined)?.[place];
  }
  return found;
}

const isAbove = (path: Path, other: Path): boolean =>
  path.length <= other.length && path.every((step, n) => step === other[n]);

/** Whether one of the paths contains the other, for any of those that were left out. */
export const touches = (path: Path, removed: readonly Path[]): boolean =>
  removed.some((one) => isAbove(one, path) || isAbove(path, one));
