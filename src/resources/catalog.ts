/**
 * The documents in force, in memory: those of the configuration directory and those of the API, one
 * view.
 */
import type { Fault, SourceSpot } from '../base/errors.ts';
import type { Write } from '../store/store.ts';
import type { Candidate, CandidateSet, CrossFault, DocumentId } from './candidate.ts';
import type { Document, Kind } from './kinds.ts';

/** Where a document came from. One of a file belongs to that file: the API refuses to change it. */
export type Origin =
  | { readonly from: 'file'; readonly at: SourceSpot }
  | { readonly from: 'api'; readonly revision: number };

export interface Entry<K extends Kind = Kind> {
  readonly document: Document<K>;
  readonly origin: Origin;
  /** Where a field is written, of a document of a file. */
  readonly spot?: NonNullable<Candidate['spot']>;
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

export interface ChangeOptions {
  /** Check everything, change nothing. */
  readonly dryRun?: boolean;
  /** For one document: refuse with E_CONFLICT unless it is at this revision, or absent. */
  readonly expectRevision?: number | 'absent';
  /** Further records, committed in the same transaction (a status beside its document). */
  readonly alsoWrite?: readonly Write[];
}

/** Which document. */
export interface Target {
  readonly kind: Kind;
  readonly name: string;
}

export interface Applied {
  readonly kind: Kind;
  readonly name: string;
  readonly action: 'created' | 'changed' | 'unchanged' | 'deleted';
  readonly before?: Document;
  readonly after?: Document;
}

export interface ApplyResult {
  readonly results: readonly Applied[];
  /**
   * What the changed documents need that is not there yet; what others lack once these are deleted.
   */
  readonly warnings: readonly Fault[];
  /** The store's revision after the commit; absent when nothing was written. */
  readonly revision?: number;
}

/** Both sides: what the API and the wiring take. Changes run one after another. */
export interface LiveCatalog extends Catalog {
  /**
   * Takes documents as values (of JSON or YAML), all or nothing. Rejects with a MusterError that
   * carries every fault: E_SCHEMA, E_DUPLICATE, E_REFERENCE, E_FILE_OWNED, E_CONFLICT,
   * E_STORE_LIMIT (more than 128 at once).
   */
  apply(values: readonly unknown[], options?: ChangeOptions): Promise<ApplyResult>;
  /** As {@link apply}, of a YAML text; faults carry `file`, line and column. */
  applyText(text: string, file: string, options?: ChangeOptions): Promise<ApplyResult>;
  /** As {@link applyText}, of several texts at once, still all or nothing. */
  applyTexts(
    texts: readonly { readonly text: string; readonly file: string }[],
    options?: ChangeOptions,
  ): Promise<ApplyResult>;
  /**
   * Deletes a document of the API. E_NOT_FOUND, E_FILE_OWNED, E_CONFLICT, E_REFERENCE when others
   * need it.
   */
  delete(kind: Kind, name: string, options?: ChangeOptions): Promise<ApplyResult>;
  /**
   * As {@link delete}, of several documents as one change, all or nothing; E_STORE_LIMIT as with
   * {@link apply}.
   */
  deleteAll(targets: readonly Target[], options?: ChangeOptions): Promise<ApplyResult>;
  /** Faults of the files and documents as they are now; their last good versions are in force. */
  faults(): readonly Fault[];
  /** What will not work yet, e.g. a profile whose image is missing. */
  warnings(): readonly Fault[];
  /** Reads the configuration directory again; resolves when what it says is in force. */
  reload(): Promise<void>;
  /** Stops watching. */
  close(): Promise<void>;
}

/**
 * Checks that the configuration of every machine concerned renders (`src/ignition/check.ts`) and
 * that every Cluster can be completed (`src/cluster/spec/check-documents.ts`). `changed` undefined
 * means all. `other`: the machine that shows it, when the value is another document's.
 */
export type ConfigCheck = (
  candidates: CandidateSet,
  changed: ReadonlySet<DocumentId> | undefined,
) => readonly CrossFault[];
