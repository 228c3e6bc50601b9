/**
 * Encrypts and decrypts streams of any length in chunks, as the payload of an age file
 * (https://age-encryption.org/v1, "Payload"): ChaCha20-Poly1305 over 64 KiB each, with the chunk's
 * number and whether it is the last one as nonce. A stream that was cut, reordered or changed does
 * not open.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto';

const CIPHER = 'chacha20-poly1305';
export const KEY_OCTETS = 32;
const CHUNK = 64 * 1024;
const TAG = 16;

/** Encrypts one piece with a nonce of 12 octets; the tag is at the end. */
function sealPiece(key: Uint8Array, nonce: Uint8Array, octets: Uint8Array): Buffer {
  const made = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG });
  return Buffer.concat([made.update(octets), made.final(), made.getAuthTag()]);
}

/** Decrypts what {@link sealPiece} has made. Throws when key or nonce differ, or it was changed. */
function openPiece(key: Uint8Array, nonce: Uint8Array, octets: Uint8Array): Buffer {
  const made = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG });
  made.setAuthTag(octets.subarray(-TAG));
  return Buffer.concat([made.update(octets.subarray(0, -TAG)), made.final()]);
}

/** The nonce of a chunk: its number in 11 octets, and whether it is the last. */
function chunkNonce(number: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUIntBE(number, 5, 6);
  nonce[11] = last ? 1 : 0;
  return nonce;
}

/** Cuts a stream into chunks of one size, and passes each to `each`; the last may be shorter. */
class Chunks {
  readonly #each: (chunk: Buffer, nonce: Buffer) => Buffer;
  readonly #chunk: Buffer;
  #filled = 0;
  #number = 0;

  constructor(size: number, each: (chunk: Buffer, nonce: Buffer) => Buffer) {
    this.#each = each;
    this.#chunk = Buffer.allocUnsafeSlow(size);
  }

  /** Adds octets; returns the chunks that became complete and are not the last. */
  push(octets: Uint8Array): Buffer[] {
    const done: Buffer[] = [];
    for (let at = 0; at < octets.length; ) {
      if (this.#filled === this.#chunk.length) done.push(this.#next(false));
      const piece = octets.subarray(at, at + this.#chunk.length - this.#filled);
      this.#chunk.set(piece, this.#filled);
      this.#filled += piece.length;
      at += piece.length;
    }
    return done;
  }

  /** Ends the stream; returns its last chunk. */
  end(): Buffer {
    return this.#next(true);
  }

  #next(last: boolean): Buffer {
    const nonce = chunkNonce(this.#number++, last);
    const made = this.#each(this.#chunk.subarray(0, this.#filled), nonce);
    this.#filled = 0;
    return made;
  }
}

/** Encrypts a stream. A key must be used for one stream only. */
export const streamSealer = (key: Uint8Array): Chunks =>
  new Chunks(CHUNK, (chunk, nonce) => sealPiece(key, nonce, chunk));

/** Decrypts a stream; `push` and `end` throw when it was changed, cut, or has another key. */
const streamOpener = (key: Uint8Array): Chunks =>
  new Chunks(CHUNK + TAG, (chunk, nonce) => openPiece(key, nonce, chunk));

/** The plaintext of a sealed stream, in pieces. Throws when it was changed or has another key. */
export async function* openedStream(
  key: Uint8Array,
  sealed: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  const opener = streamOpener(key);
  for await (const part of sealed) yield* opener.push(part);
  yield opener.end();
}
