/**
 * Interface of the catalogue: the documents in force, of the configuration directory and of the
 * API, as one view in memory.
 */
import type { Fault, SourceSpot } from '../base/errors.ts';
import type { Write } from '../store/store.ts';
import type { Candidate, CandidateSet, CrossFault, DocumentId } from './candidate.ts';
import type { Document, Kind } from './kinds.ts';

/** Where a document comes from. The API refuses to change a document of a file. */
export type Origin =
  | { readonly from: 'file'; readonly at: SourceSpot }
  | { readonly from: 'api'; readonly revision: number };

export interface Entry<K extends Kind = Kind> {
  readonly document: Document<K>;
  readonly origin: Origin;
  /** Finds the position of a field, for documents of files. */
  readonly spot?: NonNullable<Candidate['spot']>;
}

export interface CatalogChange {
  readonly kind: Kind;
  readonly name: string;
  /** Undefined when the document was deleted. */
  readonly entry: Entry | undefined;
}

/** The reading side. Look-ups take constant time. */
export interface Catalog {
  get<K extends Kind>(kind: K, name: string): Entry<K> | undefined;
  /** Ordered by name. */
  list<K extends Kind>(kind: K): readonly Entry<K>[];
  /** Calls `listener` after each batch of changes took effect; the returned function ends that. */
  subscribe(listener: (changes: readonly CatalogChange[]) => void): () => void;
}

export interface ChangeOptions {
  /** Checks everything and changes nothing. */
  readonly dryRun?: boolean;
  /**
   * For a change of one document: refuses with E_CONFLICT unless the document has this revision, or
   * is absent.
   */
  readonly expectRevision?: number | 'absent';
  /** How many documents one change may have; E_TOO_LARGE beyond that. Default: any number. */
  readonly most?: number;
  /** Clusters whose names the operator repeated, to accept what changes in them. */
  readonly confirm?: readonly string[];
  /** Further records to commit in the same transaction, such as the status of a machine. */
  readonly alsoWrite?: readonly Write[];
}

/** Names a document. */
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
   * What the changed documents refer to and does not exist yet; after a deletion, what other
   * documents lack.
   */
  readonly warnings: readonly Fault[];
  /** The store's revision after the commit; absent when nothing was written. */
  readonly revision?: number;
}

/** The reading and the writing side. Changes run one after another. */
export interface LiveCatalog extends Catalog {
  /**
   * Creates or replaces documents, given as values (of JSON or YAML): all of them or none.
   *
   * @throws {MusterError} E_SCHEMA, E_DUPLICATE, E_REFERENCE, E_KERNEL_ARGUMENT or a code of
   *   ConfigCheck when a document is wrong; E_FILE_OWNED when it belongs to a file; E_CONFLICT when
   *   its revision differs; E_STORE_LIMIT when there are more than 128. `faults` has all faults.
   */
  apply(values: readonly unknown[], options?: ChangeOptions): Promise<ApplyResult>;
  /** Like {@link apply}, for a YAML text. Faults have `file`, line and column. */
  applyText(text: string, file: string, options?: ChangeOptions): Promise<ApplyResult>;
  /** Like {@link applyText}, for several texts as one change. */
  applyTexts(
    texts: readonly { readonly text: string; readonly file: string }[],
    options?: ChangeOptions,
  ): Promise<ApplyResult>;
  /**
   * Deletes a document of the API.
   *
   * @throws {MusterError} E_NOT_FOUND; E_FILE_OWNED when it belongs to a file; E_CONFLICT when its
   *   revision differs; E_REFERENCE when another document refers to it.
   */
  delete(kind: Kind, name: string, options?: ChangeOptions): Promise<ApplyResult>;
  /**
   * Like {@link delete}, for several documents as one change: all of them or none.
   *
   * @throws {MusterError} as {@link delete}, and E_STORE_LIMIT as {@link apply}.
   */
  deleteAll(targets: readonly Target[], options?: ChangeOptions): Promise<ApplyResult>;
  /** Current faults of files and documents. The last valid version of each file is in force. */
  faults(): readonly Fault[];
  /** Warnings: what will not work yet, e.g. a profile whose image is missing. */
  warnings(): readonly Fault[];
  /** Computes faults between documents again, after something else that they name has changed. */
  recheck(): void;
  /** Reads the configuration directory again. Resolves when its documents are in force. */
  reload(options?: Pick<ChangeOptions, 'confirm'>): Promise<void>;
  /** Stops watching. */
  close(): Promise<void>;
}

/**
 * Checks that the configuration of each affected machine renders (`src/ignition/check.ts`) and that
 * every Cluster can be resolved (`src/cluster/resolve/check-documents.ts`). `changed`: the
 * documents that changed; undefined means all. If the wrong value is in a document that is not the
 * Machine, `other` of the fault names the machine.
 */
export type ConfigCheck = (
  candidates: CandidateSet,
  changed: ReadonlySet<DocumentId> | undefined,
) => readonly CrossFault[];

/**
 * Checks a change that all other checks accept, and may take seconds (`src/cluster/judge`). Later
 * changes wait for it.
 */
export type LateCheck = (
  candidates: CandidateSet,
  changed: ReadonlySet<DocumentId>,
) => Promise<readonly CrossFault[]>;
