/**
 * Memory of the catalogue: maps by kind and name, lists that are sorted once per change, and
 * listeners.
 */
import type { Catalog, CatalogChange, Entry } from './catalog.ts';
import { Claims } from './check-machines.ts';
import { KINDS, type Kind } from './kinds.ts';

export const KIND_NAMES = Object.keys(KINDS) as Kind[];

type Entries = { [K in Kind]: Map<string, Entry<K>> };

export class CatalogView implements Catalog {
  readonly #entries: Entries = {
    Network: new Map(),
    Image: new Map(),
    Cluster: new Map(),
    Profile: new Map(),
    Machine: new Map(),
    Webhook: new Map(),
  };
  readonly #lists = new Map<Kind, readonly Entry[]>();
  #claims: Claims | undefined;
  readonly #listeners = new Set<(changes: readonly CatalogChange[]) => void>();

  get<K extends Kind>(kind: K, name: string): Entry<K> | undefined {
    return this.#entries[kind].get(name);
  }

  list<K extends Kind>(kind: K): readonly Entry<K>[] {
    let list = this.#lists.get(kind);
    if (list === undefined) {
      const named = [...this.#entries[kind].entries()].sort(([a], [b]) => (a < b ? -1 : 1));
      list = named.map(([, entry]) => entry as Entry);
      this.#lists.set(kind, list);
    }
    return list as readonly Entry<K>[];
  }

  /** The maps, for checks of all documents. */
  all(): Readonly<Entries> {
    return this.#entries;
  }

  subscribe(listener: (changes: readonly CatalogChange[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Replaces entries whose document did not change, only its position. Listeners are not called.
   */
  move(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const { kind, metadata } = entry.document;
      (this.#entries[kind] as Map<string, Entry>).set(metadata.name, entry);
      this.#lists.delete(kind);
    }
    this.#claims = undefined;
  }

  /**
   * The claims of all machines except those in `names`. Claims that the caller adds do not change
   * the catalogue.
   */
  claimsWithout(names: ReadonlySet<string>): Claims {
    if (this.#claims === undefined || this.#claims.shared) {
      this.#claims = new Claims();
      for (const entry of this.#entries.Machine.values()) this.#claims.add(entry);
    }
    return new Claims(this.#claims, names);
  }

  /** Puts a batch of changes into force, then calls the listeners. */
  put(changes: readonly CatalogChange[]): void {
    if (changes.length === 0) return;
    for (const { kind, name, entry } of changes) {
      const map = this.#entries[kind] as Map<string, Entry>;
      if (kind === 'Machine')
        this.#claim(this.#entries.Machine.get(name), entry as Entry<'Machine'> | undefined);
      if (entry) map.set(name, entry);
      else map.delete(name);
      this.#lists.delete(kind);
    }
    for (const listener of this.#listeners) listener(changes);
  }

  #claim(before: Entry<'Machine'> | undefined, now: Entry<'Machine'> | undefined): void {
    if (before) this.#claims?.remove(before);
    if (now) this.#claims?.add(now);
  }
}
