/**
 * Limits of a commit and order of keys. Every store checks the limits before it queues a commit.
 */
import { MusterError } from '../base/errors.ts';
import { MAX_COMMIT_BYTES, MAX_OPERATIONS, MAX_VALUE_BYTES, type Write } from './store.ts';

/** At most this many octets in a key, UTF-8. */
const MAX_KEY_BYTES = 1024;

/**
 * Checks the limits of a commit. The cost per write is constant for values of ordinary size.
 *
 * @throws {MusterError} E_STORE_LIMIT when it has more than {@link MAX_OPERATIONS} writes, a value
 *   above {@link MAX_VALUE_BYTES} or values above {@link MAX_COMMIT_BYTES} in all, when a key is
 *   empty, too long or listed twice, or when a text contains a lone surrogate, which UTF-8 cannot
 *   encode.
 */
export function checkWrites(writes: readonly Write[]): void {
  if (writes.length > MAX_OPERATIONS)
    throw new MusterError(
      'E_STORE_LIMIT',
      `${writes.length} operations in one commit; at most ${MAX_OPERATIONS} are allowed`,
    );
  let units = 0;
  for (const write of writes) {
    checkKey(write.key);
    if (!('put' in write)) continue;
    checkValue(write.key, write.put);
    units += write.put.length;
  }
  if (units * 3 > MAX_COMMIT_BYTES && sizeOf(writes) > MAX_COMMIT_BYTES)
    throw new MusterError(
      'E_STORE_LIMIT',
      `the values of one commit are longer than ${MAX_COMMIT_BYTES} octets`,
    );
  if (writes.length > 1) {
    const seen = new Set<string>();
    for (const { key } of writes) {
      if (seen.has(key)) throw new MusterError('E_STORE_LIMIT', `key ${key} is listed twice in one commit`);
      seen.add(key);
    }
  }
}

/** Octets of all values. */
const sizeOf = (writes: readonly Write[]): number =>
  writes.reduce((sum, write) => sum + ('put' in write ? Buffer.byteLength(write.put) : 0), 0);

function checkKey(key: string): void {
  if (key === '') throw new MusterError('E_STORE_LIMIT', 'a key is empty');
  if (exceeds(key, MAX_KEY_BYTES))
    throw new MusterError(
      'E_STORE_LIMIT',
      `a key is longer than ${MAX_KEY_BYTES} octets: ${key.slice(0, 60)}…`,
    );
  if (!key.isWellFormed() || key.includes('\0'))
    throw new MusterError(
      'E_STORE_LIMIT',
      `key ${JSON.stringify(key)} contains NUL or half a surrogate pair`,
    );
}

function checkValue(key: string, value: string): void {
  if (exceeds(value, MAX_VALUE_BYTES))
    throw new MusterError('E_STORE_LIMIT', `the value of ${key} is longer than ${MAX_VALUE_BYTES} octets`);
  if (!value.isWellFormed())
    throw new MusterError(
      'E_STORE_LIMIT',
      `the value of ${key} contains half a surrogate pair, which UTF-8 cannot encode`,
    );
}

/**
 * Whether `text` takes more than `octets` in UTF-8. A UTF-16 unit takes 1 to 3 octets, so they are
 * counted only if the length alone does not decide.
 */
function exceeds(text: string, octets: number): boolean {
  if (text.length > octets) return true;
  return text.length * 3 > octets && Buffer.byteLength(text) > octets;
}

/**
 * Orders keys as their UTF-8 octets do, like etcd and SQLite. JavaScript's `<` compares UTF-16
 * units, which puts U+FFFD after U+1F600.
 */
export function compareKeys(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    // Only surrogates are ordered differently: their UTF-8 octets are above those of every other
    // unit.
    if (x !== y) return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1;
  }
  return a.length - b.length;
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff;

/**
 * The smallest key above every key that begins with `prefix` (etcd's range end); undefined when
 * there is none.
 */
export function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix, (c) => c.codePointAt(0)!);
  while (points.length > 0) {
    const last = points.pop()!;
    if (last === 0x10ffff) continue;
    points.push(last === 0xd7ff ? 0xe000 : last + 1);
    return String.fromCodePoint(...points);
  }
  return undefined;
}

/** Writes that need not be atomic, in commits that keep to the limits. */
export function* inCommits(writes: readonly Write[]): Generator<readonly Write[]> {
  let part: Write[] = [];
  let octets = 0;
  for (const write of writes) {
    const size = sizeOf([write]);
    if (part.length === MAX_OPERATIONS || octets + size > MAX_COMMIT_BYTES) {
      yield part;
      [part, octets] = [[], 0];
    }
    part.push(write);
    octets += size;
  }
  if (part.length > 0) yield part;
}
