/**
 * Decides which version of each file of the configuration directory is in force. Pure;
 * `directory.files.ts` reads the files.
 *
 * A file is taken as a whole: if its new version has any fault, or breaks other documents, its last
 * valid version stays in force. If a file never had a valid version (at the start of the server),
 * its valid documents are put into force, so that one wrong document does not block the others.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Fault, SourceSpot } from '../base/errors.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  type DocumentId,
  faultKey,
  idOf,
} from './candidate.ts';
import type { CatalogChange, Entry } from './catalog.ts';
import { KIND_NAMES } from './catalog-view.ts';
import { checkDocuments } from './check.ts';
import { type Located, parseDocuments } from './document.ts';
import type { Document } from './kinds.ts';

/**
 * A document with its position and those of its fields, so that faults that are found later also
 * have line numbers.
 */
export interface Placed {
  readonly document: Document;
  readonly at: SourceSpot;
  readonly spot: Located['spot'];
}

const placedOf = ({ document, at, spot }: Placed | Located): Placed => ({ document, at, spot });

interface FileState {
  /** The documents in force. */
  readonly documents: readonly Placed[];
  /** Whether they are a complete version of the file without faults. */
  readonly whole: boolean;
  /**
   * Why the current text of the file is not in force; empty if it is. A file with faults is read
   * again at every reload.
   */
  readonly faults: readonly Fault[];
  /** Documents of the current text that do not match their schema. */
  readonly faulty?: readonly string[];
}

export type Files = ReadonlyMap<string, FileState>;
/** Changed files with their new text, the reason why they cannot be read, or `gone`. */
export type FileChanges = ReadonlyMap<string, { readonly text: string } | { readonly fault: Fault } | 'gone'>;

interface Reconciled {
  readonly files: Files;
  /** The documents in force of all files. */
  readonly documents: ReadonlyMap<DocumentId, Placed>;
  /**
   * Errors between documents in force that could not be resolved by reverting a file.
   */
  readonly errors: readonly CrossFault[];
  readonly warnings: readonly CrossFault[];
}

interface ReconcileInput {
  readonly before: Files;
  readonly changes: FileChanges;
  /** Documents of the API. A file cannot contain documents of the same name. */
  readonly api: ReadonlyMap<DocumentId, Document>;
  /** Errors that existed before; no new version caused them. */
  readonly known: readonly CrossFault[];
  /** Further checks (that every configuration renders). */
  readonly extra: (set: CandidateSet) => readonly CrossFault[];
}

interface Version {
  documents: readonly (Placed | Located)[];
  whole: boolean;
  faults: readonly Fault[];
  faulty?: readonly string[];
  /** Whether this version is new and can have caused a fault. */
  fresh: boolean;
}

type Where = ReadonlyMap<DocumentId, { readonly file: string; readonly placed: Placed | Located }>;

/**
 * Decides which versions are in force after `changes`. Each round reverts a file or leaves out a
 * document, so the loop ends.
 */
export function reconcile(input: ReconcileInput): Reconciled {
  const versions = firstVersions(input);
  const known = new Set(input.known.map(faultKey));
  for (;;) {
    const { set, where, duplicates } = gather(versions, input.api);
    const cross = [...checkDocuments(set), ...input.extra(set)];
    const errors = cross.filter((one) => one.severity === 'error');
    let again = false;
    for (const { fault, file, placed } of duplicates)
      again = blame(versions, input.before, [file], fault, placed) || again;
    for (const error of errors) again = blameForCross(versions, input.before, where, known, error) || again;
    if (!again)
      return {
        files: new Map(
          [...versions].filter(([, v]) => v.documents.length + v.faults.length > 0 || v.whole).map(state),
        ),
        documents: new Map([...where].map(([id, { placed }]) => [id, placedOf(placed)])),
        errors,
        warnings: cross.filter((one) => one.severity === 'warning'),
      };
  }
}

const state = ([file, version]: readonly [string, Version]): [string, FileState] => [
  file,
  {
    documents: version.documents.map(placedOf),
    whole: version.whole,
    faults: version.faults,
    ...(version.faulty && { faulty: version.faulty }),
  },
];

/**
 * Returns the faults to report. Leaves out missing references to a document that exists in a file
 * and has faults itself: those are reported already.
 */
export function reportedFaults(faults: readonly CrossFault[], files: Files): readonly CrossFault[] {
  const faulty = new Set([...files.values()].flatMap((file) => file.faulty ?? []));
  return faults.filter((one) => !faulty.has(`${one.missing}/${one.missingName}`));
}

function firstVersions({ before, changes }: ReconcileInput): Map<string, Version> {
  const versions = new Map<string, Version>();
  for (const file of [...new Set([...before.keys(), ...changes.keys()])].sort()) {
    const old = before.get(file);
    const change = changes.get(file);
    if (change === undefined) versions.set(file, { ...old!, fresh: false });
    else if (change === 'gone') versions.set(file, { documents: [], whole: true, faults: [], fresh: true });
    else {
      const parsed =
        'text' in change
          ? parseDocuments(change.text, file)
          : { documents: [], faults: [change.fault], faulty: [] };
      const whole = parsed.faults.length === 0;
      versions.set(
        file,
        !whole && old?.whole
          ? { ...old, faults: parsed.faults, fresh: false }
          : { ...parsed, whole, fresh: true },
      );
    }
  }
  return versions;
}

interface Duplicate {
  readonly fault: Fault;
  readonly file: string;
  readonly placed: Placed | Located;
}

/**
 * Collects all documents in one set. If several have the same name, it takes one: first that of
 * the API, then that of an unchanged file, then the first by file name and line.
 */
function gather(
  versions: ReadonlyMap<string, Version>,
  api: ReadonlyMap<DocumentId, Document>,
): { readonly set: CandidateSet; readonly where: Where; readonly duplicates: readonly Duplicate[] } {
  const maps = Object.fromEntries(KIND_NAMES.map((kind) => [kind, new Map<string, Candidate>()]));
  const where = new Map<DocumentId, { file: string; placed: Placed | Located }>();
  const duplicates: Duplicate[] = [];
  for (const document of api.values()) maps[document.kind]!.set(document.metadata.name, { document });
  const order = [...versions].sort(([, a], [, b]) => Number(a.fresh) - Number(b.fresh));
  for (const [file, version] of order) {
    for (const placed of version.documents) {
      const id = idOf(placed.document);
      const other = where.get(id);
      if (other || api.has(id)) {
        const place = other
          ? `${other.placed.at.file}:${other.placed.at.line}; keep one`
          : `the API; delete it there with \`muster delete\`, or here`;
        duplicates.push({
          fault: { code: 'E_DUPLICATE', message: `${id} is also in ${place}`, at: placed.at },
          file,
          placed,
        });
        continue;
      }
      maps[placed.document.kind]!.set(placed.document.metadata.name, placed);
      where.set(id, { file, placed });
    }
  }
  return { set: maps as unknown as CandidateSet, where, duplicates };
}

function blameForCross(
  versions: Map<string, Version>,
  before: Files,
  where: Where,
  known: ReadonlySet<string>,
  error: CrossFault,
): boolean {
  const own = where.get(error.document);
  const other = error.other && where.get(error.other);
  const parties = [own, other].filter((one) => one !== undefined && versions.get(one.file)!.fresh);
  if (parties.length > 0) {
    const party = parties[0]!;
    const removable =
      error.fault.code === 'E_REFERENCE' || error.fault.code === 'E_CONFIG' ? undefined : party.placed;
    return blame(
      versions,
      before,
      parties.map((one) => one!.file),
      error.fault,
      removable,
    );
  }
  if (known.has(faultKey(error))) return false;
  // Neither document is new: a document that they need was deleted or changed.
  const takers = [...versions].filter(
    ([file, version]) =>
      version.fresh &&
      before.get(file)?.whole &&
      before.get(file)!.documents.some(({ document }) => !error.missing || document.kind === error.missing),
  );
  const fault = { ...error.fault, message: `this change would break ${error.fault.message}` };
  let again = false;
  for (const [file] of takers) {
    const at = { file, line: 1, column: 1 };
    again = blame(versions, before, [file], { ...fault, at }, undefined) || again;
  }
  return again;
}

/**
 * Reverts the first of `files` that has an earlier valid version. If none has, leaves out the
 * document `removable`. Returns whether it changed anything.
 */
function blame(
  versions: Map<string, Version>,
  before: Files,
  files: readonly string[],
  fault: Fault,
  removable: Placed | Located | undefined,
): boolean {
  for (const file of files) {
    const version = versions.get(file)!;
    const old = before.get(file);
    if (version.fresh && old?.whole) {
      versions.set(file, { ...old, faults: [fault], fresh: false });
      return true;
    }
    if (!version.fresh && old?.whole && version.faults.length > 0) {
      version.faults = [...version.faults, fault];
      return false;
    }
  }
  if (removable === undefined) return false;
  for (const file of files) {
    const version = versions.get(file)!;
    if (!version.documents.includes(removable)) continue;
    version.documents = version.documents.filter((one) => one !== removable);
    version.whole = false;
    version.faults = [...version.faults, fault];
    return true;
  }
  return false;
}

/** `fresh`: the document itself changed, not only its position in the file. */
export type FileChange = CatalogChange & { readonly fresh: boolean };

/**
 * Compares the documents of files that were in force with those that are now. An unchanged document
 * keeps its object, so that caches that use it as a key stay valid.
 */
export function differences(
  before: ReadonlyMap<DocumentId, Entry>,
  now: ReadonlyMap<DocumentId, Placed>,
): readonly FileChange[] {
  const changes: FileChange[] = [];
  for (const [id, { document }] of before)
    if (!now.has(id))
      changes.push({ kind: document.kind, name: document.metadata.name, entry: undefined, fresh: true });
  for (const [id, { document, at, spot }] of now) {
    const old = before.get(id)?.document;
    const same = old !== undefined && (old === document || isDeepStrictEqual(old, document));
    const entry: Entry = { document: same ? old : document, origin: { from: 'file', at }, spot };
    changes.push({ kind: document.kind, name: document.metadata.name, entry, fresh: !same });
  }
  return changes;
}
