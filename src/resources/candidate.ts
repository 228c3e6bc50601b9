/** Documents as they are checked together, and faults that they have together. */
import type { ErrorCode, Fault, SourceSpot } from '../base/errors.ts';
import { didYouMean } from '../base/suggest.ts';
import { pathText } from './document.ts';
import type { Document, Kind } from './kinds.ts';
import type { Path } from './yaml.ts';

/**
 * A document to be checked, and where it is written if it is from a file. An entry of the catalogue
 * is one.
 */
export interface Candidate<K extends Kind = Kind> {
  readonly document: Document<K>;
  /** Where it begins; absent for documents of the API. */
  readonly at?: SourceSpot;
  readonly origin?: { readonly from: 'file'; readonly at: SourceSpot } | { readonly from: 'api' };
  /** Where a field is, when its text is at hand. */
  readonly spot?: (path: Path, what?: 'value' | 'key') => SourceSpot;
}

/** The place of a field, as exactly as it is known. */
export function spotOf(candidate: Candidate, path: Path): SourceSpot | undefined {
  const { spot, at, origin } = candidate;
  return spot?.(path) ?? at ?? (origin?.from === 'file' ? origin.at : undefined);
}

export type DocumentId = `${Kind}/${string}`;
export const idOf = (document: Document): DocumentId => `${document.kind}/${document.metadata.name}`;

/** A fault that documents have together. */
export interface CrossFault {
  readonly fault: Fault;
  /** The document that has the field. */
  readonly document: DocumentId;
  /** The other one, where two documents disagree. */
  readonly other?: DocumentId;
  /** What would heal it by existing, or being as it was. */
  readonly missing?: Kind;
  /** Its name, where a document names it. */
  readonly missingName?: string;
  /** A warning does not refuse the document: it says what will not work yet. */
  readonly severity: 'error' | 'warning';
}

/** The same fault keeps its key when places move; a warning that becomes an error is another. */
export const faultKey = (one: CrossFault): string =>
  `${one.severity} ${one.document} ${one.fault.code} ${one.fault.path ?? ''}`;

/** All candidates by kind and name. */
export type CandidateSet = { readonly [K in Kind]: ReadonlyMap<string, Candidate<K>> };

/** Where a candidate is, for a message about another one. */
export function placeOf(candidate: Candidate, path: Path = []): string {
  const id = idOf(candidate.document);
  const at = spotOf(candidate, path);
  return at ? `${id} (${at.file}:${at.line})` : `${id} (from the API)`;
}

export function report(
  found: CrossFault[],
  candidate: Candidate,
  path: Path,
  message: string,
  more: {
    readonly code?: ErrorCode;
    readonly other?: Candidate;
    readonly missing?: Kind;
    readonly missingName?: string;
    readonly severity?: 'warning';
  } = {},
): void {
  const at = spotOf(candidate, path);
  const id = idOf(candidate.document);
  found.push({
    fault: {
      code: more.code ?? 'E_SCHEMA',
      message: `${id}: ${message}`,
      path: pathText(path),
      ...(at && { at }),
    },
    document: id,
    ...(more.other && { other: idOf(more.other.document) }),
    ...(more.missing && { missing: more.missing }),
    ...(more.missingName !== undefined && { missingName: more.missingName }),
    severity: more.severity ?? 'error',
  });
}

/** Tells that a document names one that does not exist, with the nearest name that does. */
export function checkReference(
  from: Candidate,
  kind: Kind,
  name: string,
  path: Path,
  candidates: CandidateSet,
  found: CrossFault[],
  severity?: 'warning',
): void {
  if (candidates[kind].has(name)) return;
  report(found, from, path, `there is no ${kind} "${name}"${didYouMean(name, candidates[kind].keys())}`, {
    code: 'E_REFERENCE',
    missing: kind,
    missingName: name,
    ...(severity && { severity }),
  });
}
