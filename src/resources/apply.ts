/** What a change through the API would do: planned and checked before anything is written. Pure. */
import { isDeepStrictEqual } from 'node:util';
import { type Fault, MusterError } from '../base/errors.ts';
import type { Applied, ConfigCheck, Entry } from './catalog.ts';
import { type CatalogView, KIND_NAMES } from './catalog-view.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  checkDocuments,
  type DocumentId,
  faultKey,
  idOf,
} from './check.ts';
import { type Located, validate } from './document.ts';
import type { Document } from './kinds.ts';

/** A document to be put, with its places if it came from a text. */
export type Wanted = Pick<Located, 'document'> & Partial<Pick<Located, 'at' | 'spot'>>;

/** Values to documents; throws a MusterError with every fault. */
export function wantedOf(values: readonly unknown[]): readonly Wanted[] {
  const wanted: Wanted[] = [];
  const faults: Fault[] = [];
  for (const [n, value] of values.entries()) {
    const result = validate(value);
    if (result.ok) wanted.push({ document: result.document });
    else
      for (const fault of result.faults)
        faults.push(values.length > 1 ? { ...fault, message: `document ${n + 1}: ${fault.message}` } : fault);
  }
  refuse(faults);
  return wanted;
}

export interface Plan {
  readonly results: readonly Applied[];
  /** Of the changed documents. */
  readonly warnings: readonly Fault[];
  /** All faults between documents, as they will be. */
  readonly cross: readonly CrossFault[];
}

/**
 * Checks a change of the API against everything in force. `known` are the errors that are there already and not this change's
 * fault. Throws a MusterError with every fault.
 */
export function plan(
  view: CatalogView,
  change: { readonly put: readonly Wanted[] } | { readonly drop: Entry },
  known: readonly CrossFault[],
  checkConfig: ConfigCheck | undefined,
): Plan {
  const put = 'put' in change ? change.put : [];
  const dropped = 'drop' in change ? change.drop.document : undefined;
  refuse(ownershipFaults(view, put));
  const touched = new Set<DocumentId>(put.map((one) => idOf(one.document)));
  const set = overlay(view, put, dropped);
  const cross = checkDocuments(set);
  const old = new Set(known.map(faultKey));
  const mine = cross.filter(
    (one) => touched.has(one.document) || (one.other && touched.has(one.other)) || !old.has(faultKey(one)),
  );
  const errors = mine.filter((one) => one.severity === 'error').map((one) => one.fault);
  if (dropped) touched.add(idOf(dropped));
  refuse([...errors, ...(checkConfig?.(set, touched) ?? []).map((one) => one.fault)]);
  return {
    results: dropped
      ? [outcome(view, dropped, 'deleted')]
      : put.map(({ document }) => outcome(view, document)),
    warnings: mine
      .filter((one) => one.severity === 'warning' && touched.has(one.document))
      .map((one) => one.fault),
    cross,
  };
}

function refuse(faults: readonly Fault[]): void {
  if (faults.length === 0) return;
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : '';
  throw new MusterError(faults[0]!.code, faults[0]!.message + more, { faults });
}

/** Documents of files cannot be changed here; one name cannot be put twice. */
function ownershipFaults(view: CatalogView, put: readonly Wanted[]): Fault[] {
  const faults: Fault[] = [];
  const seen = new Set<DocumentId>();
  for (const { document, at } of put) {
    const id = idOf(document);
    const place = at && { at };
    if (seen.has(id))
      faults.push({ code: 'E_DUPLICATE', message: `${id} stands twice in what is applied`, ...place });
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

export function fileOwned(id: DocumentId, at: { readonly file: string; readonly line: number }): string {
  return `${id} belongs to ${at.file}:${at.line}; edit it there`;
}

function overlay(view: CatalogView, put: readonly Wanted[], dropped: Document | undefined): CandidateSet {
  const maps: Record<string, Map<string, Candidate>> = {};
  const all = view.all();
  for (const kind of KIND_NAMES) {
    const map = new Map<string, Candidate>();
    for (const [name, entry] of all[kind]) map.set(name, candidateOf(entry));
    maps[kind] = map;
  }
  for (const wanted of put) {
    const map = maps[wanted.document.kind]!;
    // Last, so that it is the new one that is told of a clash.
    map.delete(wanted.document.metadata.name);
    map.set(wanted.document.metadata.name, wanted);
  }
  if (dropped) maps[dropped.kind]!.delete(dropped.metadata.name);
  return maps as unknown as CandidateSet;
}

export function candidateOf(entry: Entry): Candidate {
  return entry.origin.from === 'file'
    ? { document: entry.document, at: entry.origin.at }
    : { document: entry.document };
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
