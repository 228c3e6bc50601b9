/** The documents in force, in memory: those of the configuration directory and those of the API, one view. */
import type { SourceSpot } from '../base/errors.ts';
import type { Document, Kind } from './kinds.ts';

/** Where a document came from. One of a file belongs to that file: the API refuses to change it. */
export type Origin =
  | { readonly from: 'file'; readonly at: SourceSpot }
  | { readonly from: 'api'; readonly revision: number };

export interface Entry<K extends Kind = Kind> {
  readonly document: Document<K>;
  readonly origin: Origin;
}

export interface CatalogChange {
  readonly kind: Kind;
  readonly name: string;
  /** Undefined when the document went away. */
  readonly entry: Entry | undefined;
}

/** Reading side: what cores take. Look-ups are constant time. */
export interface Catalog {
  get<K extends Kind>(kind: K, name: string): Entry<K> | undefined;
  /** Ordered by name. */
  list<K extends Kind>(kind: K): readonly Entry<K>[];
  /** Calls `listener` after each batch of changes took effect; the returned function ends that. */
  subscribe(listener: (changes: readonly CatalogChange[]) => void): () => void;
}
