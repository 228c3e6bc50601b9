/**
 * A snapshot that is arriving: its octets are sealed, and checked against the SHA-256 that etcd
 * appends to every snapshot (etcd's client/v3/snapshot).
 */
import { createHash } from 'node:crypto';
import { streamSealer } from '../../pki/sealed-stream.ts';

/** Octets of the SHA-256 at the end of a snapshot. */
const TRAILER = 32;
/** etcd's database consists of whole pages, so only a whole snapshot leaves that remainder. */
const PAGE = 512;

/** Checks whether octets that come in pieces are a whole snapshot of etcd. */
export class SnapshotCheck {
  readonly #hash = createHash('sha256');
  #tail: Buffer = Buffer.alloc(0);
  #size = 0;

  /** Octets that came. */
  get size(): number {
    return this.#size;
  }

  /** The SHA-256 is known only at the end, so the last octets are not hashed yet. */
  push(octets: Uint8Array): void {
    this.#size += octets.length;
    if (octets.length >= TRAILER) {
      this.#hash.update(this.#tail).update(octets.subarray(0, -TRAILER));
      this.#tail = Buffer.from(octets.subarray(-TRAILER));
      return;
    }
    const joined = Buffer.concat([this.#tail, octets]);
    const settled = Math.max(0, joined.length - TRAILER);
    this.#hash.update(joined.subarray(0, settled));
    this.#tail = joined.subarray(settled);
  }

  /** Why it is not a whole snapshot; undefined when it is. Call it once, at the end. */
  fault(): string | undefined {
    if (this.#size % PAGE !== TRAILER) return `it was cut off after ${this.#size} octets`;
    return this.#hash.digest().equals(this.#tail) ? undefined : 'its SHA-256 is not the one at its end';
  }
}

/** Checks and seals a snapshot. */
export class Received {
  readonly #sealer: ReturnType<typeof streamSealer>;
  readonly #check = new SnapshotCheck();

  constructor(key: Uint8Array) {
    this.#sealer = streamSealer(key);
  }

  get size(): number {
    return this.#check.size;
  }

  /** Adds octets; returns what can be written. */
  push(octets: Uint8Array): readonly Buffer[] {
    this.#check.push(octets);
    return this.#sealer.push(octets);
  }

  /** Ends it; returns the last octets to write. */
  end(): Buffer {
    return this.#sealer.end();
  }

  /** See {@link SnapshotCheck.fault}. */
  fault(): string | undefined {
    return this.#check.fault();
  }
}
