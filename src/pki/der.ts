/**
 * Reads DER strictly, and writes elements. Requests from machines are read by this small reader,
 * not by an X.509 library.
 */
import { ShortInput } from '../base/bytes.ts';

/** Thrown when octets are not DER. Decoders catch it and return a reason. */
export class NotDer extends Error {}

interface Tlv {
  readonly tag: number;
  /** The value. */
  readonly body: Buffer;
  /** Tag, length and value. */
  readonly whole: Buffer;
}

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  oid: 0x06,
  sequence: 0x30,
  set: 0x31,
  context0: 0xa0,
} as const;

/** Reads the elements of a constructed value one after the other. */
export class DerReader {
  readonly #octets: Buffer;
  #at = 0;

  constructor(octets: Buffer) {
    this.#octets = octets;
  }

  get done(): boolean {
    return this.#at === this.#octets.length;
  }

  /** The tag of the next element; undefined at the end. */
  get tag(): number | undefined {
    return this.#octets[this.#at];
  }

  /**
   * Reads the next element, which must have `tag`. Its length must be definite, minimal and inside
   * the input. Throws NotDer or ShortInput.
   */
  next(tag: number): Tlv {
    const from = this.#at;
    if (this.#octets.length - from < 2) throw new ShortInput(2, this.#octets.length - from);
    if (this.#octets[from] !== tag) throw new NotDer(`tag ${this.#octets[from]} where ${tag} belongs`);
    const first = this.#octets[from + 1]!;
    let header = 2;
    let length = first;
    if (first >= 0x80) {
      const count = first & 0x7f;
      if (count === 0 || count > 3) throw new NotDer('a length of no or too many octets');
      if (this.#octets.length - from < 2 + count) throw new ShortInput(2 + count, this.#octets.length - from);
      length = this.#octets.readUIntBE(from + 2, count);
      if (length < 0x80 || (count > 1 && length < 2 ** (8 * (count - 1))))
        throw new NotDer('a length that could be shorter');
      header += count;
    }
    const to = from + header + length;
    if (to > this.#octets.length) throw new ShortInput(to - from, this.#octets.length - from);
    this.#at = to;
    return { tag, body: this.#octets.subarray(from + header, to), whole: this.#octets.subarray(from, to) };
  }

  /** Throws NotDer when anything follows. */
  end(): void {
    if (!this.done) throw new NotDer('octets after the end');
  }
}

/**
 * Encodes an element with these parts as its value; its length has the minimal form. The value has
 * less than 16 MiB.
 */
export function element(tag: number, ...parts: readonly Buffer[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const octets = length < 0x80 ? 0 : length < 0x100 ? 1 : length < 0x10000 ? 2 : 3;
  const header = Buffer.alloc(2 + octets, octets === 0 ? length : 0x80 | octets);
  header[0] = tag;
  if (octets > 0) header.writeUIntBE(length, 2, octets);
  return Buffer.concat([header, ...parts]);
}
