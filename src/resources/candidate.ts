/** Documents as they are checked against each other, and the faults that this finds. */
import type { ErrorCode, Fault, SourceSpot } from '../base/errors.ts';
import { didYouMean } from '../base/suggest.ts';
import { withoutSecrets } from '../base/without-secrets.ts';
import { pathText } from './document.ts';
import type { Document, Kind } from './kinds.ts';
import type { Path } from './yaml.ts';

/**
 * A document to check, and its position if it is from a file. Entries of the catalogue are
 * candidates.
 */
export interface Candidate<K extends Kind = Kind> {
  readonly document: Document<K>;
  /** Where the document begins; absent for documents of the API. */
  readonly at?: SourceSpot;
  readonly origin?: { readonly from: 'file'; readonly at: SourceSpot } | { readonly from: 'api' };
  /** Finds the position of a field; absent if the text is not available. */
  readonly spot?: (path: Path, what?: 'value' | 'key') => SourceSpot;
}

/** The most exact known position of a field. */
export function spotOf(candidate: Candidate, path: Path): SourceSpot | undefined {
  const { spot, at, origin } = candidate;
  return spot?.(path) ?? at ?? (origin?.from === 'file' ? origin.at : undefined);
}

export type DocumentId = `${Kind}/${string}`;
export const idOf = (document: Document): DocumentId => `${document.kind}/${document.metadata.name}`;

/** A fault that was found by comparing documents. */
export interface CrossFault {
  readonly fault: Fault;
  /** The document whose field is wrong. */
  readonly document: DocumentId;
  /** The other document, if two documents disagree. */
  readonly other?: DocumentId;
  /** Kind of the document whose absence or change causes the fault. */
  readonly missing?: Kind;
  /** Name of that document, if it is known. */
  readonly missingName?: string;
  /**
   * The cluster whose name an operator has to repeat to accept this error; the error is then a
   * warning.
   */
  readonly confirm?: string;
  /** A warning does not refuse the document; it reports something that will not work yet. */
  readonly severity: 'error' | 'warning';
}

/**
 * Identifies a fault. The key does not depend on positions; a warning that becomes an error gets
 * another key.
 */
export const faultKey = (one: CrossFault): string =>
  `${one.severity} ${one.document} ${one.fault.code} ${one.fault.path ?? ''}`;

/** All candidates by kind and name. */
export type CandidateSet = { readonly [K in Kind]: ReadonlyMap<string, Candidate<K>> } & {
  /**
   * Documents that exist and have faults of their own, as `Profile/worker`; as `Profile/` where the
   * name cannot be read. What refers to one is not told that it is missing.
   */
  readonly faulty?: ReadonlySet<string>;
};

/** Whether a document is in the set, or exists and is not in it because of its faults. */
export const exists = (candidates: CandidateSet, kind: Kind, name: string): boolean =>
  candidates[kind].has(name) || isFaulty(candidates, kind, name);

/** Whether a document exists and is not in the set because of its faults. */
export const isFaulty = ({ faulty }: CandidateSet, kind: Kind, name: string): boolean =>
  faulty !== undefined && (faulty.has(`${kind}/${name}`) || faulty.has(`${kind}/`));

/** Whether any document of that kind is not in the set because of its faults. */
export const lacksAny = ({ faulty }: CandidateSet, kind: Kind): boolean =>
  faulty !== undefined && [...faulty].some((id) => id.startsWith(`${kind}/`));

/** Names a candidate and its position, for a message about another document. */
export function placeOf(candidate: Candidate, path: Path = []): string {
  const id = idOf(candidate.document);
  const at = spotOf(candidate, path);
  return at ? `${id} (${at.file}:${at.line})` : `${id} (from the API)`;
}

/** Adds a fault of `candidate` at `path` to `found`. */
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
      message: `${id}: ${withoutSecrets(message, String(path.at(-1)))}`,
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

/**
 * Reports E_REFERENCE if `from` refers to a document that does not exist, and suggests the nearest
 * name.
 */
export function checkReference(
  from: Candidate,
  kind: Kind,
  name: string,
  path: Path,
  candidates: CandidateSet,
  found: CrossFault[],
  severity?: 'warning',
): void {
  if (exists(candidates, kind, name)) return;
  report(found, from, path, `there is no ${kind} "${name}"${didYouMean(name, candidates[kind].keys())}`, {
    code: 'E_REFERENCE',
    missing: kind,
    missingName: name,
    ...(severity && { severity }),
  });
}
