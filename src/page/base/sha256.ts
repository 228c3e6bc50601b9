/**
 * SHA-256 in pieces (FIPS 180-4 section 6.2), because files of images are larger than what a
 * browser hashes at once (`crypto.subtle.digest` takes a whole buffer). Pure.
 */

/** The first `n` primes. */
function primes(n: number): readonly number[] {
  const found: number[] = [];
  for (let one = 2; found.length < n; one++) if (found.every((prime) => one % prime !== 0)) found.push(one);
  return found;
}

/** The first 32 bits of the fractional part. */
const fraction = (value: number): number => ((value - Math.floor(value)) * 2 ** 32) | 0;

const ROUND = Int32Array.from(primes(64), (prime) => fraction(Math.cbrt(prime)));
const BEGIN = Int32Array.from(primes(8), (prime) => fraction(Math.sqrt(prime)));
const BLOCK = 64;

export class Sha256 {
  readonly #state = Int32Array.from(BEGIN);
  readonly #words = new Int32Array(64);
  readonly #rest = new Uint8Array(BLOCK);
  #kept = 0;
  #octets = 0;

  /** Takes the next piece. */
  update(piece: Uint8Array): this {
    this.#octets += piece.length;
    let at = 0;
    if (this.#kept > 0) {
      at = Math.min(BLOCK - this.#kept, piece.length);
      this.#rest.set(piece.subarray(0, at), this.#kept);
      this.#kept += at;
      if (this.#kept < BLOCK) return this;
      this.#block(this.#rest, 0);
      this.#kept = 0;
    }
    for (; at + BLOCK <= piece.length; at += BLOCK) this.#block(piece, at);
    this.#rest.set(piece.subarray(at));
    this.#kept = piece.length - at;
    return this;
  }

  /** Returns the hash of all pieces, hexadecimal. Nothing can be added afterwards. */
  digest(): string {
    const octets = this.#octets;
    const padding = new Uint8Array((this.#kept < 56 ? 56 : 120) - this.#kept + 8);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(octets / 2 ** 29));
    view.setUint32(padding.length - 4, (octets * 8) >>> 0);
    this.update(padding);
    return [...this.#state].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #block(from: Uint8Array, at: number): void {
    const words = this.#words;
    for (let n = 0; n < 16; n++) {
      const to = at + n * 4;
      words[n] = (from[to]! << 24) | (from[to + 1]! << 16) | (from[to + 2]! << 8) | from[to + 3]!;
    }
    for (let n = 16; n < 64; n++) {
      const [x, y] = [words[n - 15]!, words[n - 2]!];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      words[n] = (words[n - 16]! + s0 + words[n - 7]! + s1) | 0;
    }
    const state = this.#state;
    let [a, b, c, d, e, f, g, h] = state as unknown as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    for (let n = 0; n < 64; n++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[n]! + words[n]!) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    for (const [n, add] of [a, b, c, d, e, f, g, h].entries()) state[n] = (state[n]! + add) | 0;
  }
}
