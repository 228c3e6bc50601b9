/**
 * Decides which version of each file of the configuration directory is in force. Pure;
 * `directory.files.ts` reads the files.
 *
 * A file is taken as a whole: if its new version has any fault, or breaks other documents, its last
 * valid version stays in force, over restarts of the server too (`kept-files.ts`). If a file never
 * had a valid version, its valid documents are put into force, so that one wrong document does not
 * block the others.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ErrorCode, Fault, SourceSpot } from '../base/errors.ts';
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
import {
  byPlace,
  type Left,
  type Located,
  type ParsedDocuments,
  parseDocuments,
  parsePath,
  pathText,
  type Remnant,
} from './document.ts';
import type { Document, Kind } from './kinds.ts';
import { touches } from './salvage.ts';

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
  /** The text of the documents in force, if that is known. */
  readonly text?: string | undefined;
  /**
   * Why the current text of the file is not in force; empty if it is. A file with faults is read
   * again at every reload.
   */
  readonly faults: readonly Fault[];
  /** Documents of the current text that have faults, as {@link CandidateSet.faulty}. */
  readonly faulty: readonly string[];
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
  /** What was found between all documents as they are written, in force or not. */
  readonly first: readonly CrossFault[];
}

interface ReconcileInput {
  readonly before: Files;
  readonly changes: FileChanges;
  /** Documents of the API. A file cannot contain documents of the same name. */
  readonly api: ReadonlyMap<DocumentId, Document>;
  /** Errors that existed before; no new version caused them. */
  readonly known: readonly CrossFault[];
  /** Clusters whose names the operator repeated, to accept what changes in them. */
  readonly confirm?: readonly string[];
  /** Further checks (that every configuration renders). */
  readonly extra: (set: CandidateSet) => readonly CrossFault[];
}

interface Version {
  documents: readonly (Placed | Located)[];
  /** What is left of documents with faults; only in the first round. */
  remnants: readonly Remnant[];
  whole: boolean;
  text?: string | undefined;
  faults: readonly Fault[];
  faulty: readonly string[];
  /** Whether this version is new and can have caused a fault. */
  fresh: boolean;
}

type Where = ReadonlyMap<DocumentId, { readonly file: string; readonly placed: Placed | Located }>;

const wordedKey = (one: CrossFault): string => `${faultKey(one)} ${one.fault.message}`;

/** Faults with which a document may be in force: what it concerns is held. */
const HELD: readonly ErrorCode[] = ['E_REFERENCE', 'E_CONFIG'];
/** Faults that checks of a newer Muster can find in documents that were in force. */
const REFUSED: readonly ErrorCode[] = ['E_SCHEMA', 'E_CLUSTER', 'E_TRUST'];
/** Faults that no other document can cause. */
const ALONE: readonly ErrorCode[] = ['E_TRUST'];

/**
 * Decides which versions are in force after `changes`. The first round compares all documents as
 * they are written, with what is left of those that have faults, so that every fault is found. Each
 * round reverts files or leaves out documents, so the loop ends.
 */
export function reconcile(input: ReconcileInput): Reconciled {
  const versions = firstVersions(input);
  const known = new Set(input.known.flatMap((one) => [faultKey(one), wordedKey(one)]));
  let first: readonly CrossFault[] | undefined;
  for (;;) {
    const isFirst = first === undefined;
    const faulty = new Set([...versions.values()].flatMap((version) => version.faulty));
    const { set, where, duplicates } = gather(versions, input.api);
    const remnants = new Map(
      [...versions.values()].flatMap((one) =>
        one.remnants.map((remnant) => [idOf(remnant.document), remnant]),
      ),
    );
    const seen: CandidateSet = isFirst && faulty.size > 0 ? { ...set, faulty } : set;
    const checked = accepted([...checkDocuments(seen), ...input.extra(seen)], input);
    const cross = withoutEchoes(trusted(checked, remnants), remnants);
    const errors = cross.filter((one) => one.severity === 'error');
    first ??= cross;
    const blame = new Blame(versions, input.before);
    for (const { fault, file, placed } of duplicates) blame.add([file], fault, placed);
    for (const error of errors) blameForCross(blame, versions, where, { known, faulty, error });
    if (blame.carryOut()) continue;
    return {
      files: new Map(
        [...versions]
          .filter(([, v]) => v.documents.length + v.faults.length > 0 || v.text !== undefined)
          .map(state),
      ),
      documents: new Map([...where].map(([id, { placed }]) => [id, placedOf(placed)])),
      ...inForce(set, faulty, cross, input),
      first,
    };
  }
}

/** The faults with those as warnings that the operator accepted. */
const accepted = (faults: readonly CrossFault[], { confirm = [] }: ReconcileInput): readonly CrossFault[] =>
  confirm.length === 0
    ? faults
    : faults.map((one) =>
        one.confirm !== undefined && confirm.includes(one.confirm) ? { ...one, severity: 'warning' } : one,
      );

/** The faults between the documents in force; what refers to a faulty document has none. */
function inForce(
  set: CandidateSet,
  faulty: ReadonlySet<string>,
  cross: readonly CrossFault[],
  input: ReconcileInput,
): Pick<Reconciled, 'errors' | 'warnings'> {
  const seen = { ...set, faulty };
  const found = faulty.size === 0 ? cross : accepted([...checkDocuments(seen), ...input.extra(seen)], input);
  return {
    errors: found.filter((one) => one.severity === 'error'),
    warnings: found.filter((one) => one.severity === 'warning'),
  };
}

/**
 * The faults that do not depend on what is missing in the remnants of documents: an error at
 * another field of one, or a value that another document has as well.
 */
export function trusted(
  faults: readonly CrossFault[],
  remnants: ReadonlyMap<DocumentId, Left>,
): readonly CrossFault[] {
  if (remnants.size === 0) return faults;
  return faults.flatMap((one) => {
    const remnant = remnants.get(one.document);
    const isOfOther = one.other !== undefined && remnants.has(one.other);
    if (isOfOther && one.fault.code !== 'E_DUPLICATE') return [];
    if (remnant === undefined) return [one];
    const path = remnant.written(parsePath(one.fault.path ?? ''));
    if (one.severity === 'warning' || touches(path, remnant.removed)) return [];
    return [{ ...one, fault: { ...one.fault, path: pathText(path) } }];
  });
}

/**
 * Leaves out what a Network with a fault does to the configuration that Muster adds for its
 * machines: the path of such a fault is in no document.
 */
function withoutEchoes(
  faults: readonly CrossFault[],
  remnants: ReadonlyMap<DocumentId, Left>,
): readonly CrossFault[] {
  const isOfNetwork = (id: DocumentId): boolean => id.startsWith('Network/');
  const isWrong =
    [...remnants.keys()].some(isOfNetwork) ||
    faults.some((one) => one.severity === 'error' && isOfNetwork(one.document));
  return isWrong
    ? faults.filter(({ fault }) => fault.code !== 'E_CONFIG' || fault.path?.startsWith('spec.'))
    : faults;
}

const state = ([file, version]: readonly [string, Version]): [string, FileState] => [
  file,
  {
    documents: version.documents.map(placedOf),
    whole: version.whole,
    ...(version.text !== undefined && { text: version.text }),
    faults: version.faults,
    faulty: version.faulty,
  },
];

/** Files as they were in force when the server ended, from their texts. */
export const filesOf = (texts: ReadonlyMap<string, string>): Files =>
  new Map(
    [...texts].map(([file, text]): [string, FileState] => {
      const { documents, faults } = parseDocuments(text, file);
      return [file, { documents, whole: faults.length === 0, text, faults: [], faulty: [] }];
    }),
  );

/**
 * What changed in the directory since those files were in force. A text of which not all documents
 * are valid any more is read again, so that its faults are told.
 */
export function changesSince(before: Files, found: FileChanges): FileChanges {
  const changes = new Map(found);
  for (const [file, { whole, text }] of before) {
    const now = found.get(file);
    if (now === undefined) changes.set(file, 'gone');
    else if (whole && now !== 'gone' && 'text' in now && now.text === text) changes.delete(file);
  }
  return changes;
}

/** The documents of files that have faults, as {@link CandidateSet.faulty}. */
export const faultyIn = (files: Files): ReadonlySet<string> =>
  new Set([...files.values()].flatMap((file) => file.faulty));

function firstVersions({ before, changes }: ReconcileInput): Map<string, Version> {
  const versions = new Map<string, Version>();
  for (const file of [...new Set([...before.keys(), ...changes.keys()])].sort()) {
    const old = before.get(file);
    const change = changes.get(file);
    if (change === undefined) versions.set(file, { ...old!, remnants: [], fresh: false });
    // A file that was written again with the text that is in force has not changed.
    else if (old?.whole && change !== 'gone' && 'text' in change && change.text === old.text)
      versions.set(file, { ...old, remnants: [], faults: [], faulty: [], fresh: false });
    else if (change === 'gone')
      versions.set(file, { documents: [], remnants: [], whole: true, faults: [], faulty: [], fresh: true });
    else {
      const parsed: ParsedDocuments =
        'text' in change
          ? parseDocuments(change.text, file)
          : { documents: [], remnants: [], faults: [change.fault], faulty: [] };
      const text = 'text' in change ? change.text : undefined;
      versions.set(file, { ...parsed, text, whole: parsed.faults.length === 0, fresh: true });
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
    for (const placed of inOrder(version)) {
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

/** Documents and remnants as the text has them: of two that clash, the later one has the fault. */
const inOrder = ({ documents, remnants }: Version): readonly (Placed | Located)[] =>
  remnants.length === 0
    ? documents
    : [...documents, ...remnants].sort((a, b) => a.at.line - b.at.line || a.at.column - b.at.column);

function blameForCross(
  blame: Blame,
  versions: ReadonlyMap<string, Version>,
  where: Where,
  {
    known,
    faulty,
    error,
  }: {
    readonly known: ReadonlySet<string>;
    readonly faulty: ReadonlySet<string>;
    readonly error: CrossFault;
  },
): void {
  const own = where.get(error.document);
  const other = error.other && where.get(error.other);
  const parties = [own, other].filter((one) => one !== undefined && versions.get(one.file)!.fresh);
  const waits = waitsFor(error, faulty);
  // What is in force with a fault may change in other places.
  if ([...HELD, ...REFUSED].includes(error.fault.code) && known.has(wordedKey(error))) return;
  if (parties.length > 0) {
    const party = parties[0]!;
    const isRemovable = !HELD.includes(error.fault.code);
    const fault =
      waits === undefined ? error.fault : { ...error.fault, message: `${error.document}: ${waits}` };
    const files = parties.map((one) => one!.file);
    blame.add(files, fault, party.placed, isRemovable);
    return;
  }
  if (known.has(faultKey(error)) || waits !== undefined || ALONE.includes(error.fault.code)) return;
  // Neither document is new: a document that they need was deleted or changed.
  const fault = { ...error.fault, message: `this change would break ${error.fault.message}` };
  for (const file of blame.takers(error.missing))
    blame.add([file], { ...fault, at: { file, line: 1, column: 1 } }, undefined);
}

/** The message for a reference to a document that is not in force because of its own faults. */
function waitsFor({ fault, missing, missingName = '' }: CrossFault, faulty: ReadonlySet<string>) {
  if (fault.code !== 'E_REFERENCE' || missing === undefined) return undefined;
  const id = [`${missing}/${missingName}`, `${missing}/`].find((one) => faulty.has(one));
  const isAny = missingName === '' && [...faulty].some((one) => one.startsWith(`${missing}/`));
  return id !== undefined || isAny
    ? `waits for ${missing}${missingName === '' ? '' : `/${missingName}`}, which has a fault; correct that`
    : undefined;
}

/** Collects the faults of one round by the file that they are about, and acts on all together. */
class Blame {
  readonly #versions: Map<string, Version>;
  readonly #before: Files;
  readonly #faults = new Map<string, Fault[]>();
  readonly #left = new Set<Placed | Located>();
  /** Faults with which a document may stay in force; told here if it has another one. */
  readonly #mild: { readonly file: string; readonly placed: Placed | Located; readonly fault: Fault }[] = [];

  constructor(versions: Map<string, Version>, before: Files) {
    this.#versions = versions;
    this.#before = before;
  }

  #isRevertible(file: string): boolean {
    return this.#versions.get(file)!.fresh && this.#before.get(file)?.whole === true;
  }

  /** The new files that had a document of that kind. */
  takers(missing: Kind | undefined): readonly string[] {
    return [...this.#versions.keys()].filter(
      (file) =>
        this.#isRevertible(file) &&
        this.#before
          .get(file)!
          .documents.some(({ document }) => missing === undefined || document.kind === missing),
    );
  }

  /**
   * Has the first of `files` reverted that has an earlier valid version. If none has, `placed` is
   * left out, unless it may stay (`isRemovable`).
   */
  add(
    files: readonly string[],
    fault: Fault,
    placed: Placed | Located | undefined,
    isRemovable = true,
  ): void {
    const revertible = files.find((one) => this.#isRevertible(one));
    if (revertible !== undefined) {
      this.#tell(revertible, fault);
      return;
    }
    if (placed === undefined) return;
    const file = files.find((one) => {
      const { documents, remnants } = this.#versions.get(one)!;
      return documents.includes(placed) || remnants.includes(placed as Remnant);
    });
    if (file === undefined) return;
    if (isRemovable) {
      this.#left.add(placed);
      this.#tell(file, fault);
    } else this.#mild.push({ file, placed, fault });
  }

  #tell(file: string, fault: Fault): void {
    this.#faults.set(file, [...(this.#faults.get(file) ?? []), fault]);
  }

  /** Reverts files and leaves out documents. Returns whether anything is to be checked again. */
  carryOut(): boolean {
    let isChanged = false;
    for (const { file, placed, fault } of this.#mild)
      if (this.#left.has(placed) || this.#versions.get(file)!.remnants.includes(placed as Remnant))
        this.#tell(file, fault);
    for (const [file, version] of this.#versions) {
      const found = this.#faults.get(file) ?? [];
      if (found.length === 0 && version.remnants.length === 0 && (version.whole || !this.#isRevertible(file)))
        continue;
      isChanged = true;
      const faults = [...version.faults, ...found].sort(byPlace);
      const kept = version.documents.filter((one) => !this.#left.has(one));
      const out = [...version.documents.filter((one) => this.#left.has(one)), ...version.remnants];
      const faulty = [...version.faulty, ...out.map(({ document }) => idOf(document))];
      const gone = { remnants: [], faults, faulty };
      this.#versions.set(
        file,
        this.#isRevertible(file)
          ? { ...this.#before.get(file)!, ...gone, fresh: false }
          : { ...version, ...gone, documents: kept, whole: false },
      );
    }
    return isChanged;
  }
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
