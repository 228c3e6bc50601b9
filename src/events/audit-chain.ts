/**
 * The format of the security log: one entry a line, each with the hash of the one before it, and
 * signed checkpoints between them (docs/decisions/0045-the-security-log.md).
 *
 * A line is JSON in exactly one spelling: an entry is encoded again when it is read, and a line
 * that differs from that is not an entry.
 */
import { createHash, type KeyObject, verify } from 'node:crypto';
import { fieldsOf, parsed } from '../base/foreign-json.ts';
import type { Actor } from './actor.ts';
import type { Reason } from './event.ts';

/** What an entry says. The kinds are those of events, and {@link AUDIT_KINDS}. */
export interface AuditContent {
  /** RFC 3339 in UTC, with milliseconds. */
  readonly at: string;
  readonly kind: string;
  readonly subject: string;
  readonly session?: string;
  readonly network?: string;
  readonly reason?: Reason;
  readonly fields?: Readonly<Record<string, string | number | boolean>>;
  readonly actor?: Actor;
}

export interface AuditEntry extends AuditContent {
  /** 1 for the first entry; without gaps. */
  readonly sequence: number;
  /** Hash of the entry before; {@link GENESIS} for the first. */
  readonly prev: string;
  /** SHA-256 of the entry without this field, in hexadecimal. */
  readonly hash: string;
}

/** Entries that the log makes about itself. */
const AUDIT_KINDS = {
  'audit.opened': 'The server started and continues the log.',
  'audit.checkpoint': 'All entries up to here are signed.',
  'audit.removed': 'The oldest segment is removed, because the log has reached its limit.',
  'audit.torn': 'The server ended while it wrote the entry that would have this place; the rest was removed.',
  'audit.lost': 'The disk refused entries for so long that some were dropped.',
  'audit.limited': 'More entries of one kind came than the log takes; the fields say how many were left out.',
} as const;

export type AuditKind = keyof typeof AUDIT_KINDS;

/** A place in the chain: an entry's number and hash, which fix all entries before it too. */
export interface ChainPlace {
  readonly sequence: number;
  readonly hash: string;
}

export interface Checkpoint extends ChainPlace {
  /** Ed25519, in base64url. */
  readonly signature: string;
}

/** What the first entry has as the hash of the one before it. */
export const GENESIS = '0'.repeat(64);
/** There are never more entries than this between two checkpoints. */
export const CHECKPOINT_EVERY = 256;
/** A longer line is not an entry. */
const MAX_LINE = 64 * 1024;

const HASH = /^[0-9a-f]{64}$/;
const SIGNATURE = /^[A-Za-z0-9_-]{86}$/;
const AT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const KIND = /^[a-z][a-z-]{0,31}\.[a-z][a-z-]{0,31}$/;

/** The text that the hash is made of: fields in a fixed order, absent ones left out. */
function bodyOf(content: AuditContent, sequence: number, prev: string): string {
  const { at, kind, subject, session, network, reason, fields, actor } = content;
  return JSON.stringify({
    v: 1,
    sequence,
    at,
    kind,
    subject,
    session,
    network,
    reason: reason && { code: reason.code, text: reason.text },
    fields,
    actor: actor && { uid: actor.uid, user: actor.user, pid: actor.pid },
    prev,
  });
}

const hashOf = (body: string): string =>
  createHash('sha256').update('muster audit entry 1\0').update(body).digest('hex');

const lineOf = (body: string, hash: string): string => `${body.slice(0, -1)},"hash":"${hash}"}`;

/** The entry after `before` (undefined: the first), and its line without a line end. */
export function chained(
  content: AuditContent,
  before: ChainPlace | undefined,
): { readonly entry: AuditEntry; readonly line: string } {
  const sequence = (before?.sequence ?? 0) + 1;
  const prev = before?.hash ?? GENESIS;
  const body = bodyOf(content, sequence, prev);
  const hash = hashOf(body);
  return { entry: { ...content, sequence, prev, hash }, line: lineOf(body, hash) };
}

export type ReadEntry =
  | { readonly ok: true; readonly entry: AuditEntry }
  /** `entry`: what the line says, when only its hash is wrong. */
  | { readonly ok: false; readonly text: string; readonly entry?: AuditEntry };

/** Reads a line. Never throws. */
export function readEntry(line: string): ReadEntry {
  if (line.length > MAX_LINE) return { ok: false, text: `it is longer than ${MAX_LINE} characters` };
  const value = parsed(line);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { ok: false, text: 'it is not a JSON object' };
  const { v, hash, ...rest } = value as Record<string, unknown>;
  if (v !== 1) return { ok: false, text: 'its version is unknown' };
  if (!isContent(rest) || typeof hash !== 'string' || !HASH.test(hash))
    return { ok: false, text: 'its fields are not those of an entry' };
  const body = bodyOf(rest, rest.sequence, rest.prev);
  if (lineOf(body, hash) !== line) return { ok: false, text: 'it is not written as the server writes' };
  const entry: AuditEntry = { ...rest, hash };
  return hashOf(body) === hash
    ? { ok: true, entry }
    : { ok: false, text: 'its hash does not fit its content', entry };
}

const isText = (value: unknown): boolean => value === undefined || typeof value === 'string';
const isCount = (value: unknown): boolean =>
  value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);

function isContent(
  value: Record<string, unknown>,
): value is Record<string, unknown> & Omit<AuditEntry, 'hash'> {
  const { sequence, at, kind, subject, session, network, reason, fields, actor, prev } = value;
  const { code, text } = fieldsOf(reason);
  const { uid, user, pid } = fieldsOf(actor);
  return (
    Number.isSafeInteger(sequence) &&
    (sequence as number) > 0 &&
    typeof at === 'string' &&
    AT.test(at) &&
    typeof kind === 'string' &&
    KIND.test(kind) &&
    typeof subject === 'string' &&
    isText(session) &&
    isText(network) &&
    (reason === undefined || (typeof code === 'string' && typeof text === 'string')) &&
    (fields === undefined || areFields(fields)) &&
    (actor === undefined || (typeof user === 'string' && isCount(uid) && isCount(pid))) &&
    typeof prev === 'string' &&
    HASH.test(prev)
  );
}

const areFields = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.values(value).every((one) => ['string', 'number', 'boolean'].includes(typeof one));

/** What a checkpoint's signature is made over. */
export const signedText = ({ sequence, hash }: ChainPlace): Buffer =>
  Buffer.from(`muster audit checkpoint 1\0${sequence}\0${hash}`);

/** The checkpoint in an entry of its kind, and the id of the key that signed; else undefined. */
export function checkpointIn(entry: AuditEntry): (Checkpoint & { readonly key: string }) | undefined {
  if (entry.kind !== ('audit.checkpoint' satisfies AuditKind)) return undefined;
  const { key = '', signature = '' } = entry.fields ?? {};
  return { sequence: entry.sequence - 1, hash: entry.prev, key: String(key), signature: String(signature) };
}

/** Whether the owner of `key` signed the checkpoint. */
export function isSigned(checkpoint: Checkpoint, key: KeyObject): boolean {
  if (!SIGNATURE.test(checkpoint.signature)) return false;
  return verify(null, signedText(checkpoint), key, Buffer.from(checkpoint.signature, 'base64url'));
}

/** A checkpoint in one word, for people and agents to keep: `SEQUENCE.HASH.SIGNATURE`. */
export const checkpointText = ({ sequence, hash, signature }: Checkpoint): string =>
  `${sequence}.${hash}.${signature}`;

/**
 * Reads that word; also without a signature, which is then empty. Undefined when it is malformed.
 */
export function readCheckpoint(text: string): Checkpoint | undefined {
  const [digits = '', hash = '', signature = '', ...more] = text.split('.');
  if (!/^[1-9][0-9]{0,14}$/.test(digits) || !HASH.test(hash) || more.length > 0) return undefined;
  if (signature !== '' && !SIGNATURE.test(signature)) return undefined;
  return { sequence: Number(digits), hash, signature };
}
