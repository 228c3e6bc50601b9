/**
 * Checks a security log line by line: finds entries that were changed, removed, moved or cut off.
 */
import type { KeyObject } from 'node:crypto';
import {
  type AuditEntry,
  CHECKPOINT_EVERY,
  type ChainPlace,
  checkpointIn,
  GENESIS,
  isSigned,
  readEntry,
} from './audit-chain.ts';

/** What is wrong with a log, by the kind of damage. */
const AUDIT_FAULTS = {
  unreadable: 'A line is not an entry.',
  changed: 'The content of an entry was changed.',
  replaced: 'An entry does not follow the one before it.',
  missing: 'Entries are missing.',
  moved: 'An entry is not in its place, or is there twice.',
  signature: 'A checkpoint was not signed by a key that is trusted here.',
  unsigned:
    'No entry is signed, or more entries follow each other without a checkpoint than the server writes.',
  cut: 'The log ends before an entry that is known to have existed.',
} as const;

export interface AuditProblem {
  readonly code: keyof typeof AUDIT_FAULTS;
  /** The number of the entry that it is about, as far as that is known. */
  readonly sequence: number;
  readonly text: string;
}

export interface AuditVerdict {
  readonly ok: boolean;
  readonly entries: number;
  readonly first?: number;
  readonly last?: number;
  readonly checkpoints: number;
  /** Number of the last entry that a valid checkpoint signs. */
  readonly signedTo?: number;
  /** At most {@link MAX_PROBLEMS}. */
  readonly problems: readonly AuditProblem[];
  /** How many more problems there are. */
  readonly more: number;
  /** What a reader should know although nothing is wrong. */
  readonly notes: readonly string[];
}

const MAX_PROBLEMS = 100;

export interface AuditVerifier {
  /** Takes the next line; `place` says where it is, such as `FILE:12`. */
  line(text: string, place: string): void;
  /** Takes the octets after the last line end of a file that is not complete. */
  torn(octets: number, place: string): void;
  /** Ends the check. */
  end(): AuditVerdict;
}

const range = (first: number, last: number): string =>
  first === last ? `entry ${first}` : `entries ${first} to ${last}`;

/**
 * Begins a check.
 * @param keys public keys that may have signed checkpoints, by their ids
 * @param expected places that are known from elsewhere: the server's head, or kept checkpoints
 */
export function auditVerifier(
  keys: ReadonlyMap<string, KeyObject>,
  expected: readonly ChainPlace[] = [],
): AuditVerifier {
  return new Verifier(keys, expected);
}

class Verifier implements AuditVerifier {
  readonly #keys: ReadonlyMap<string, KeyObject>;
  readonly #expected: readonly ChainPlace[];
  readonly #problems: AuditProblem[] = [];
  readonly #notes: string[] = [];
  /** Ranges that were passed over; an entry that comes later than its place leaves them. */
  readonly #missing: { first: number; last: number }[] = [];
  /** Last entries of segments that the chain says were removed, with their hashes. */
  readonly #removed = new Map<number, string>();
  #more = 0;
  #entries = 0;
  #checkpoints = 0;
  #signedTo: number | undefined;
  #first: AuditEntry | undefined;
  #last: AuditEntry | undefined;
  #unsigned = 0;

  constructor(keys: ReadonlyMap<string, KeyObject>, expected: readonly ChainPlace[]) {
    this.#keys = keys;
    this.#expected = expected;
  }

  line(text: string, place: string): void {
    const read = readEntry(text);
    const next = (this.#last?.sequence ?? 0) + 1;
    if (!read.ok && read.entry === undefined) {
      this.#found('unreadable', next, `${place} is not an entry${this.#after()}: ${read.text}`);
      return;
    }
    const entry = read.ok ? read.entry : this.#placed(read.entry!, next);
    const { sequence: number } = entry;
    if (!read.ok) this.#found('changed', number, `entry ${number} (${place}) was changed: ${read.text}`);
    this.#entries++;
    this.#first ??= entry;
    if (this.#last !== undefined && entry.sequence <= this.#last.sequence) {
      this.#found(
        'moved',
        entry.sequence,
        `entry ${entry.sequence} (${place}) comes after entry ${this.#last.sequence}: it was moved or copied`,
      );
      this.#isHere(entry.sequence);
      return;
    }
    this.#follow(entry, place);
    for (const { sequence, hash } of this.#expected)
      if (sequence === entry.sequence && hash !== entry.hash)
        this.#found(
          'replaced',
          sequence,
          `entry ${sequence} (${place}) is not the one that is known: another hash is expected`,
        );
    this.#last = entry;
  }

  /**
   * A changed entry may state a wrong number: if it names the entry before it, its place is known.
   */
  #placed(entry: AuditEntry, next: number): AuditEntry {
    return entry.prev === (this.#last?.hash ?? GENESIS) ? { ...entry, sequence: next } : entry;
  }

  #after(): string {
    return this.#last === undefined ? '' : `, after entry ${this.#last.sequence}`;
  }

  /** Compares an entry that is later than the last one with it. */
  #follow(entry: AuditEntry, place: string): void {
    const last = this.#last;
    const { sequence, prev } = entry;
    const next = (last?.sequence ?? 0) + 1;
    if (sequence > next) this.#missing.push({ first: next, last: sequence - 1 });
    const followed =
      last === undefined ? sequence === 1 && GENESIS : sequence === last.sequence + 1 && last.hash;
    const fits = followed === false || followed === prev;
    if (!fits)
      this.#found(
        'replaced',
        sequence,
        last === undefined
          ? `entry ${sequence} (${place}) does not begin a log: it was changed`
          : `entry ${sequence} (${place}) does not follow entry ${last.sequence}: one of the two was replaced`,
      );
    if (entry.kind === 'audit.removed')
      this.#removed.set(Number(entry.fields?.last), String(entry.fields?.hash));
    this.#sign(entry, place);
  }

  #sign(entry: AuditEntry, place: string): void {
    const checkpoint = checkpointIn(entry);
    if (checkpoint === undefined) {
      if (++this.#unsigned === CHECKPOINT_EVERY + 1)
        this.#found(
          'unsigned',
          entry.sequence,
          `more than ${CHECKPOINT_EVERY} entries before entry ${entry.sequence} (${place}) have no checkpoint`,
        );
      return;
    }
    this.#unsigned = 0;
    const key = this.#keys.get(checkpoint.key);
    if (key !== undefined && isSigned(checkpoint, key)) {
      this.#checkpoints++;
      this.#signedTo = checkpoint.sequence;
    } else
      this.#found(
        'signature',
        entry.sequence,
        key === undefined
          ? `the checkpoint in entry ${entry.sequence} (${place}) is signed by key ${checkpoint.key}, which was not given`
          : `the checkpoint in entry ${entry.sequence} (${place}) has a false signature: entries up to it were rewritten`,
      );
  }

  /** Takes a number out of the ranges that are missing. */
  #isHere(sequence: number): void {
    const index = this.#missing.findIndex(({ first, last }) => first <= sequence && sequence <= last);
    if (index < 0) return;
    const { first, last } = this.#missing[index]!;
    const rest = [
      { first, last: sequence - 1 },
      { first: sequence + 1, last },
    ];
    this.#missing.splice(index, 1, ...rest.filter((one) => one.first <= one.last));
  }

  torn(octets: number, place: string): void {
    this.#notes.push(
      `${place} ends with ${octets} octets of an incomplete line${this.#after()}: the server ended while it wrote, or still writes`,
    );
  }

  /** Judges what is missing: rotation removed it, or somebody else did. */
  #judgeMissing(): void {
    for (const { first, last } of this.#missing) {
      const begins = first === 1 && last + 1 === this.#first?.sequence;
      if (begins && this.#removed.get(last) === this.#first?.prev)
        this.#notes.push(`${range(1, last)} were removed by rotation, as the log says itself`);
      else this.#found('missing', first, `${range(first, last)}: missing, and no entry says why`);
    }
  }

  #ends(): void {
    const last = this.#last?.sequence ?? 0;
    for (const { sequence } of this.#expected) {
      if (sequence > last)
        this.#found(
          'cut',
          last + 1,
          `the log ends with entry ${last}; entry ${sequence} existed, so ${range(last + 1, sequence)} were cut off`,
        );
      if (sequence < (this.#first?.sequence ?? 0))
        this.#notes.push(`entry ${sequence} is before the first entry, so it could not be compared`);
    }
    if (this.#signedTo === undefined && this.#first !== undefined && this.#problems.length === 0)
      this.#found(
        'unsigned',
        this.#first.sequence,
        'no checkpoint signs any entry: whoever wrote the file could have written all of it',
      );
    else if (this.#unsigned > 0 && this.#last !== undefined)
      this.#notes.push(
        `${range(last - this.#unsigned + 1, last)}: no checkpoint signs them yet, so whoever wrote the file could have changed them`,
      );
  }

  end(): AuditVerdict {
    this.#judgeMissing();
    this.#ends();
    if (this.#entries === 0 && this.#expected.length === 0) this.#notes.push('the log has no entry');
    return {
      ok: this.#problems.length === 0,
      entries: this.#entries,
      ...(this.#first && { first: this.#first.sequence }),
      ...(this.#last && { last: this.#last.sequence }),
      checkpoints: this.#checkpoints,
      ...(this.#signedTo !== undefined && { signedTo: this.#signedTo }),
      problems: this.#problems,
      more: this.#more,
      notes: this.#notes,
    };
  }

  #found(code: AuditProblem['code'], sequence: number, text: string): void {
    if (this.#problems.length >= MAX_PROBLEMS) this.#more++;
    else this.#problems.push({ code, sequence, text });
  }
}
