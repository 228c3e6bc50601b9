/**
 * What the files of a configuration directory say, and which version of each is in force. Pure: the
 * edge reads, this decides.
 *
 * A file is taken as a whole: when anything in its new version is wrong, or breaks what others say,
 * its last good version stays. A file that was never good (at start) gives those of its documents
 * that are good by themselves, so that one bad document does not hide the rest.
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
 * A document and where it and its fields are written: faults that show later have their lines as
 * well.
 */
export interface Placed {
  readonly document: Document;
  readonly at: SourceSpot;
  readonly spot: Located['spot'];
}

const placedOf = ({ document, at, spot }: Placed | Located): Placed => ({ document, at, spot });

interface FileState {
  /** Those in force. */
  readonly documents: readonly Placed[];
  /** Whether they are one whole version of the file, without fault. */
  readonly whole: boolean;
  /**
   * Why the file's present text is not in force, if it is not. Such a file is to be read again with
   * every reload.
   */
  readonly faults: readonly Fault[];
  /** Documents of the present text that do not fit their schema. */
  readonly faulty?: readonly string[];
}

export type Files = ReadonlyMap<string, FileState>;
/** What became of files since: their text, why they cannot be read, or `gone`. */
export type FileChanges = ReadonlyMap<string, { readonly text: string } | { readonly fault: Fault } | 'gone'>;

interface Reconciled {
  readonly files: Files;
  /** The documents of all files that are in force. */
  readonly documents: ReadonlyMap<DocumentId, Placed>;
  /**
   * Faults between documents as they are in force; errors are those that nothing could be reverted
   * for.
   */
  readonly errors: readonly CrossFault[];
  readonly warnings: readonly CrossFault[];
}

interface ReconcileInput {
  readonly before: Files;
  readonly changes: FileChanges;
  /** Documents of the API; a file cannot take their names. */
  readonly api: ReadonlyMap<DocumentId, Document>;
  /** Errors that were in force already: nobody's new version is to blame for them. */
  readonly known: readonly CrossFault[];
  /** What else must hold (that every configuration renders). */
  readonly extra: (set: CandidateSet) => readonly CrossFault[];
}

interface Version {
  documents: readonly (Placed | Located)[];
  whole: boolean;
  faults: readonly Fault[];
  faulty?: readonly string[];
  /** New in this round, so that it can be to blame. */
  fresh: boolean;
}

type Where = ReadonlyMap<DocumentId, { readonly file: string; readonly placed: Placed | Located }>;

/**
 * Takes changed files into account; ends because every round reverts a file or leaves out a
 * document.
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
 * The `faults` that are reported: not those about a missing document that exists but has faults
 * itself.
 */
export function told(faults: readonly CrossFault[], files: Files): readonly CrossFault[] {
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
 * All documents in one set. A name that stands twice counts once: the API's first, then files
 * unchanged, then by name and line.
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
  // Nobody who takes part is new: something that they need went away or changed.
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
 * Reverts the first of `files` that has a good version to go back to; else leaves out the document
 * `removable`. Says whether it did anything.
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

/** `fresh`: the document itself changed, not only its place in the file. */
export type FileChange = CatalogChange & { readonly fresh: boolean };

/**
 * The changes from the files' documents that were in force to those that are now. An unchanged
 * document keeps its object, so that what is remembered about it by identity stays valid.
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
