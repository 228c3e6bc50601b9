/**
 * What the versions of Kubernetes and etcd know, read from the generated tables. A new version is a
 * new file in scripts/components (`make component-tables`), and nothing here.
 */
import { TABLES } from './component-tables.generated.ts';

export interface Row {
  readonly name: string;
  /** What the table says of the name. */
  readonly words: readonly string[];
  /** The versions that say so. */
  readonly minors: readonly string[];
}

/** The rows of a table, ordered by name. */
export const rowsOf = (table: keyof typeof TABLES): readonly Row[] =>
  TABLES[table]
    .trim()
    .split('\n')
    .map((line) => {
      const [known = '', minors = ''] = line.split(' | ');
      const [name = '', ...words] = known.trim().split(' ');
      return { name, words, minors: minors.split(' ') };
    });

/** Name → version → what is known. */
export type Known<T = unknown> = ReadonlyMap<string, ReadonlyMap<string, T>>;

/** A table by name and version. */
export function knownIn<T>(table: keyof typeof TABLES, read: (words: readonly string[]) => T): Known<T> {
  const all = new Map<string, Map<string, T>>();
  for (const { name, words, minors } of rowsOf(table)) {
    const versions = all.get(name) ?? new Map<string, T>();
    for (const minor of minors) versions.set(minor, read(words));
    all.set(name, versions);
  }
  return all;
}
