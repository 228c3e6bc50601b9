/** Reads binary data; a field that is cut short is an error. Every decoder uses this. */

/**
 * Thrown by {@link ByteReader} when the input ends before the field does. Decoders catch it and
 * return a reason.
 */
export class ShortInput extends Error {
  constructor(wanted: number, left: number) {
    super(`wanted ${wanted} octets, ${left} left`);
    this.name = 'ShortInput';
  }
}

/** A cursor over octets; every read either returns the whole field or throws {@link ShortInput}. */
export class ByteReader {
  readonly #view: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Octets not yet read. */
  get left(): number {
    return this.#view.length - this.#at;
  }

  #take(octets: number): number {
    if (octets > this.left) throw new ShortInput(octets, this.left);
    const from = this.#at;
    this.#at += octets;
    return from;
  }

  uint8(): number {
    return this.#view.readUInt8(this.#take(1));
  }

  uint16(): number {
    return this.#view.readUInt16BE(this.#take(2));
  }

  uint32(): number {
    return this.#view.readUInt32BE(this.#take(4));
  }

  /** A view (not a copy) of the next `octets` octets. */
  bytes(octets: number): Buffer {
    const from = this.#take(octets);
    return this.#view.subarray(from, from + octets);
  }
}

/** Lower-case hexadecimal without separators. */
export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}
