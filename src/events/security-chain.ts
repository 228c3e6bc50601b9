/**
 * The growing end of the security log, without its files: makes entries, signs checkpoints, and
 * keeps the newest entries for those who list or follow them.
 */
import { createHash, type KeyObject } from 'node:crypto';
import { setBounded } from '../base/aged.ts';
import type { Clock } from '../base/clock.ts';
import {
  type AuditContent,
  type AuditEntry,
  type AuditKind,
  CHECKPOINT_EVERY,
  type ChainPlace,
  type Checkpoint,
  chained,
  checkpointIn,
  signedText,
} from './audit-chain.ts';

/** The key that signs checkpoints. */
export interface AuditKey {
  /** What checkpoints call it. */
  readonly id: string;
  /** The public half, in PEM. */
  readonly pem: string;
  /** An Ed25519 signature. */
  sign(octets: Uint8Array): Buffer;
}

/** The id of a public key: half of the SHA-256 of its SubjectPublicKeyInfo, in hexadecimal. */
export const auditKeyId = (key: KeyObject): string =>
  createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('hex')
    .slice(0, 32);

export interface SecurityChainOptions {
  readonly key: AuditKey;
  readonly clock: Pick<Clock, 'now'>;
  /** Takes each new line, without its end. */
  readonly write: (line: string, entry: AuditEntry) => void;
}

/** So many of the newest entries are kept in memory; older ones are only in the files. */
export const RECENT = 5_000;
/** So many checkpoints are remembered, to compare with those that agents saw. */
const KNOWN_CHECKPOINTS = 20_000;

export class SecurityChain {
  readonly #options: SecurityChainOptions;
  readonly #listeners = new Set<(entry: AuditEntry) => void>();
  readonly #known = new Map<number, string>();
  #recent: AuditEntry[] = [];
  #head: ChainPlace | undefined;
  #checkpoint: Checkpoint | undefined;
  #unsigned = 0;

  constructor(options: SecurityChainOptions) {
    this.#options = options;
  }

  /** Continues after `head`; `recent` are entries that are there already, oldest first. */
  resume(head: ChainPlace | undefined, recent: readonly AuditEntry[]): void {
    this.#head = head;
    for (const entry of recent) this.#keep(entry);
  }

  /** The newest entry; undefined before the first. */
  get head(): ChainPlace | undefined {
    return this.#head;
  }

  /** The newest checkpoint; undefined before the first. */
  get checkpointed(): Checkpoint | undefined {
    return this.#checkpoint;
  }

  /** How many entries no checkpoint signs yet. */
  get unsigned(): number {
    return this.#unsigned;
  }

  /** Appends an entry, and a checkpoint when it is time for one. */
  add(content: AuditContent): AuditEntry {
    const entry = this.#append(content);
    if (this.#unsigned >= CHECKPOINT_EVERY) this.sign();
    return entry;
  }

  /** Appends an entry that the log makes about itself. */
  note(
    kind: AuditKind,
    content: Pick<AuditContent, 'reason' | 'fields'> & { readonly subject?: string },
  ): AuditEntry {
    const at = new Date(this.#options.clock.now()).toISOString();
    return this.add({ at, subject: 'security-log', ...content, kind });
  }

  /** Signs all entries, unless the last checkpoint does already. */
  sign(): void {
    const { key, clock } = this.#options;
    if (this.#head === undefined || this.#unsigned === 0) return;
    const signature = key.sign(signedText(this.#head)).toString('base64url');
    this.#append({
      at: new Date(clock.now()).toISOString(),
      kind: 'audit.checkpoint' satisfies AuditKind,
      subject: 'security-log',
      fields: { key: key.id, signature },
    });
  }

  #append(content: AuditContent): AuditEntry {
    const { entry, line } = chained(content, this.#head);
    this.#head = { sequence: entry.sequence, hash: entry.hash };
    this.#keep(entry);
    this.#options.write(line, entry);
    for (const listener of this.#listeners) listener(entry);
    return entry;
  }

  #keep(entry: AuditEntry): void {
    this.#recent.push(entry);
    if (this.#recent.length >= RECENT + 500) this.#recent = this.#recent.slice(-RECENT);
    const checkpoint = checkpointIn(entry);
    this.#unsigned = checkpoint === undefined ? this.#unsigned + 1 : 0;
    if (checkpoint === undefined) return;
    const { sequence, hash, signature } = checkpoint;
    this.#checkpoint = { sequence, hash, signature };
    setBounded(this.#known, sequence, hash, KNOWN_CHECKPOINTS);
  }

  /**
   * Whether this log contains a checkpoint that somebody kept: `later` when the log is not that
   * long, `other` when it has another entry there, `unknown` when it is too old to be remembered.
   */
  compare({ sequence, hash }: ChainPlace): 'same' | 'other' | 'later' | 'unknown' {
    if (sequence > (this.#head?.sequence ?? 0)) return 'later';
    const known = this.#known.get(sequence);
    if (known !== undefined) return known === hash ? 'same' : 'other';
    const entry = this.#recent.find((one) => one.sequence === sequence);
    if (entry === undefined) return 'unknown';
    return entry.hash === hash ? 'same' : 'other';
  }

  /** With `after`, the first `limit` entries after that number; without, the newest. */
  list({ after, limit = Number.POSITIVE_INFINITY }: { readonly after?: number; readonly limit?: number }) {
    const found =
      after === undefined ? this.#recent : this.#recent.filter(({ sequence }) => sequence > after);
    if (limit >= found.length) return [...found];
    return after === undefined ? found.slice(found.length - limit) : found.slice(0, limit);
  }

  /** Calls `listener` with each new entry; the returned function ends that. */
  subscribe(listener: (entry: AuditEntry) => void): () => void {
    const own = (entry: AuditEntry): void => listener(entry);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }
}
