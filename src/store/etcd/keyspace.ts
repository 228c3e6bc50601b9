/** Where the records are among the keys of etcd. */
import { prefixEnd } from '../limits.ts';
import type { StoredRecord } from '../store.ts';
import type { Message } from './api.ts';

export class Keyspace {
  readonly #records: string;
  /** The key of the acting host. */
  readonly acting: Uint8Array;

  /** `prefix` begins all keys. */
  constructor(prefix: string) {
    this.#records = `${prefix}record/`;
    this.acting = Buffer.from(`${prefix}acting`);
  }

  record(key: string): Uint8Array {
    return Buffer.from(this.#records + key);
  }

  /** The range of the records whose keys begin with `prefix`. */
  range(prefix: string): { key: Uint8Array; rangeEnd: Uint8Array } {
    return rangeOf(this.#records + prefix);
  }

  /** The name of a record. */
  name(key: Uint8Array): string {
    return Buffer.from(key).toString().slice(this.#records.length);
  }

  stored({ key, value, modRevision }: Message<'Record'>): StoredRecord {
    return { key: this.name(key), value: Buffer.from(value).toString(), revision: Number(modRevision) };
  }
}

/** The range of all keys with a prefix. */
export const rangeOf = (prefix: string): { key: Uint8Array; rangeEnd: Uint8Array } => ({
  key: Buffer.from(prefix),
  // The prefix of a store ends in `/`, so there is a key above.
  rangeEnd: Buffer.from(prefixEnd(prefix)!),
});
