/** Plans and checks a change through the API before anything is written. Pure. */
import { isDeepStrictEqual } from 'node:util';
import { type Fault, firstOf, MusterError } from '../base/errors.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  type DocumentId,
  faultKey,
  idOf,
} from './candidate.ts';
import type { Applied, ChangeOptions, ConfigCheck } from './catalog.ts';
import { type CatalogView, KIND_NAMES } from './catalog-view.ts';
import { checkDocuments, checkMachines } from './check.ts';
import { type Left, type Located, type ParsedDocuments, readValue } from './document.ts';
import { trusted } from './file-layer.ts';
import type { Document } from './kinds.ts';

/** A document to write; with positions if it was read from a text. */
export type Wanted = Pick<Located, 'document'> & Partial<Pick<Located, 'at' | 'spot'>>;

/** The documents of a change, and what is wrong with those that are not valid. */
export type Read = Omit<ParsedDocuments, 'documents' | 'remnants'> & {
  readonly documents: readonly Wanted[];
  readonly remnants: readonly (Left & Wanted)[];
};

/** Validates each value as a document. */
export function readValues(values: readonly unknown[]): Read {
  const documents: Wanted[] = [];
  const faults: Fault[] = [];
  const remnants: Left[] = [];
  const faulty: string[] = [];
  for (const [n, value] of values.entries()) {
    const result = readValue(value);
    if (result.ok) documents.push({ document: result.document });
    else {
      for (const fault of result.faults)
        faults.push(values.length > 1 ? { ...fault, message: `document ${n + 1}: ${fault.message}` } : fault);
      if (result.left) remnants.push(result.left);
      faulty.push(...result.faulty);
    }
  }
  return { documents, remnants, faults, faulty };
}

/** Several texts or values as one change. */
export const together = (all: readonly Read[]): Read => ({
  documents: all.flatMap((one) => one.documents),
  remnants: all.flatMap((one) => one.remnants),
  faults: all.flatMap((one) => one.faults),
  faulty: all.flatMap((one) => one.faulty),
});

export interface Plan {
  readonly results: readonly Applied[];
  /**
   * Warnings about the changed documents; after a deletion, about all documents that it affects.
   */
  readonly warnings: readonly Fault[];
  /** All documents as they are after the change, and the changed ones. */
  readonly set: CandidateSet;
  readonly touched: ReadonlySet<DocumentId>;
}

/** Documents to create or replace (`put`) and documents to delete (`drop`), as one change. */
export interface Change {
  readonly put?: Read;
  readonly drop?: readonly Document[];
}

/**
 * Checks a change through the API against all documents in force, and returns what it does. `known`
 * returns the errors that existed before; it is called only if they matter.
 *
 * @throws {MusterError} E_SCHEMA, E_DUPLICATE, E_REFERENCE, E_FILE_OWNED or another code of the
 *   first fault, when the change is refused; `faults` has all faults.
 */
export function plan(
  view: CatalogView,
  change: Change,
  known: () => readonly CrossFault[],
  checkConfig: ConfigCheck | undefined,
  { confirm = [], dryRun = false }: Pick<ChangeOptions, 'confirm' | 'dryRun'> = {},
): Plan {
  const { put = NOTHING, drop = [] } = change;
  const remnants = new Map(put.remnants.map((one) => [idOf(one.document), one]));
  const wanted = [...put.documents, ...put.remnants];
  const results = [
    ...wanted.map(({ document }) => outcome(view, document)),
    ...drop.map((document) => outcome(view, document, 'deleted')),
  ];
  const kinds = new Set(results.map((one) => one.kind));
  // No document refers to a Machine, so a change of machines only is checked without the other
  // documents. Its cost does not depend on how many machines there are.
  const machinesOnly = kinds.size === 1 && kinds.has('Machine');
  const { set, cross } = machinesOnly
    ? machinesAlone(view, wanted as readonly Candidate<'Machine'>[], put.faulty)
    : everything(view, wanted, drop, put.faulty, known);
  const touched = new Set<DocumentId>(results.map((one): DocumentId => `${one.kind}/${one.name}`));
  // A dry run shows what has to be confirmed together with everything else that it finds.
  const config = (checkConfig?.(set, touched) ?? []).map((one) =>
    one.confirm !== undefined && (dryRun || confirm.includes(one.confirm))
      ? { ...one, severity: 'warning' as const }
      : one,
  );
  const isError = ({ severity }: CrossFault) => severity === 'error';
  refuse([
    ...put.faults,
    ...ownershipFaults(view, wanted),
    ...trusted(cross.filter(isError), remnants).map((one) => neededFault(one, drop)),
    ...trusted(config.filter(isError), remnants).map((one) => one.fault),
  ]);
  const ofThese = (one: CrossFault) => touched.has(one.document);
  const warnings = [
    // With deletions, a new fault of another document is caused by the deletion.
    ...(drop.length > 0 ? cross : cross.filter(ofThese)),
    ...config.filter((one) => ofThese(one) || (one.other && touched.has(one.other))),
  ].filter((one) => !isError(one));
  return { results, warnings: warnings.map((one) => one.fault), set, touched };
}

/**
 * The plan with the warnings of a late check.
 *
 * @throws {MusterError} with the code of the first fault, when the check refuses the change
 */
export function withLate({ warnings, ...plan }: Plan, late: readonly CrossFault[]): Plan {
  refuse(late.filter(({ severity }) => severity === 'error').map(({ fault }) => fault));
  return { ...plan, warnings: [...warnings, ...late.map(({ fault }) => fault)] };
}

const NOTHING: Read = { documents: [], remnants: [], faults: [], faulty: [] };

/**
 * Reports a reference that a deletion would break for the deleted document. An address does not
 * name its Network, so any deleted Network may be the one that it needs.
 */
function neededFault(
  { fault, document, missing, missingName }: CrossFault,
  drop: readonly Document[],
): Fault {
  const dropped = drop
    .filter(({ kind, metadata }) => kind === missing && (missingName ?? metadata.name) === metadata.name)
    .map(idOf);
  if (dropped.length === 0) return fault;
  const how = fault.path?.startsWith('spec.addresses') ? 'holds an address of' : 'is named by';
  const message = `${dropped.join(' or ')} ${how} ${document}; change or delete that first`;
  return { code: fault.code, message, ...(fault.at && { at: fault.at }) };
}

interface Checked {
  readonly set: CandidateSet;
  readonly cross: readonly CrossFault[];
}

function machinesAlone(
  view: CatalogView,
  put: readonly Candidate<'Machine'>[],
  faulty: readonly string[],
): Checked {
  const machines = new Map(put.map((one) => [one.document.metadata.name, one]));
  const set: CandidateSet = { ...view.all(), Machine: machines, faulty: new Set(faulty) };
  return { set, cross: checkMachines(put, set, view.claimsWithout(new Set(machines.keys()))) };
}

/** Faults that involve a changed document, or that did not exist before. */
function everything(
  view: CatalogView,
  put: readonly Wanted[],
  drop: readonly Document[],
  faulty: readonly string[],
  known: () => readonly CrossFault[],
): Checked {
  const set = { ...overlay(view, put, drop), faulty: new Set(faulty) };
  const touched = new Set<DocumentId>(put.map((one) => idOf(one.document)));
  const old = new Set(known().map(faultKey));
  const cross = checkDocuments(set).filter(
    (one) => touched.has(one.document) || (one.other && touched.has(one.other)) || !old.has(faultKey(one)),
  );
  return { set, cross };
}

function refuse(faults: readonly Fault[]): void {
  if (faults.length === 0) return;
  throw new MusterError(faults[0]!.code, firstOf(faults), { faults });
}

/**
 * Faults for documents that belong to files, which the API cannot change, and for names that the
 * change contains twice.
 */
function ownershipFaults(view: CatalogView, put: readonly Wanted[]): Fault[] {
  const faults: Fault[] = [];
  const seen = new Set<DocumentId>();
  for (const { document, at } of put) {
    const id = idOf(document);
    const place = at && { at };
    if (seen.has(id))
      faults.push({ code: 'E_DUPLICATE', message: `${id} is listed twice in this change`, ...place });
    seen.add(id);
    const owner = view.get(document.kind, document.metadata.name)?.origin;
    if (
      owner?.from === 'file' &&
      !isDeepStrictEqual(view.get(document.kind, document.metadata.name)!.document, document)
    )
      faults.push({ code: 'E_FILE_OWNED', message: fileOwned(id, owner.at), ...place });
  }
  return faults;
}

/** Message of E_FILE_OWNED: names the file to edit. */
export function fileOwned(id: DocumentId, at: { readonly file: string; readonly line: number }): string {
  return `${id} belongs to ${at.file}:${at.line}; edit it there`;
}

function overlay(view: CatalogView, put: readonly Wanted[], drop: readonly Document[]): CandidateSet {
  const all = view.all();
  const maps: Record<string, Map<string, Candidate>> = {};
  for (const kind of KIND_NAMES) maps[kind] = new Map<string, Candidate>(all[kind]);
  for (const wanted of put) {
    const map = maps[wanted.document.kind]!;
    // Inserted last, so that a clash is reported for the new document.
    map.delete(wanted.document.metadata.name);
    map.set(wanted.document.metadata.name, wanted);
  }
  for (const { kind, metadata } of drop) maps[kind]!.delete(metadata.name);
  return maps as unknown as CandidateSet;
}

function outcome(view: CatalogView, document: Document, action?: 'deleted'): Applied {
  const { kind } = document;
  const { name } = document.metadata;
  const before = view.get(kind, name)?.document;
  if (action) return { kind, name, action, before: document };
  if (before === undefined) return { kind, name, action: 'created', after: document };
  return {
    kind,
    name,
    action: isDeepStrictEqual(before, document) ? 'unchanged' : 'changed',
    before,
    after: document,
  };
}
