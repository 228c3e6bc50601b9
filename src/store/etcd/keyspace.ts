/** Where the records are among the keys of etcd. */
import { prefixEnd } from '../limits.ts';
import type { StoredRecord } from '../store.ts';
import type { Message } from './api.ts';

export class Keyspace {
  readonly #records: string;
  readonly #hosts: string;
  /** The key of the acting host. */
  readonly acting: Uint8Array;
  /** The range of all keys. */
  readonly all: KeyRange;

  /** `prefix` begins all keys. */
  constructor(prefix: string) {
    this.#records = `${prefix}record/`;
    this.#hosts = `${prefix}host/`;
    this.acting = Buffer.from(`${prefix}acting`);
    this.all = rangeOf(prefix);
  }

  record(key: string): Uint8Array {
    return Buffer.from(this.#records + key);
  }

  /** The range of the records whose keys begin with `prefix`. */
  range(prefix: string): KeyRange {
    return rangeOf(this.#records + prefix);
  }

  /** The name of a record. */
  name(key: Uint8Array): string {
    return Buffer.from(key).toString().slice(this.#records.length);
  }

  /** The name of the record that a key of etcd has; undefined when it has none. */
  recordIn(key: string): string | undefined {
    return key.startsWith(this.#records) ? key.slice(this.#records.length) : undefined;
  }

  isRecord(key: Uint8Array): boolean {
    return this.recordIn(Buffer.from(key).toString()) !== undefined;
  }

  /** What a host says of itself. */
  host(name: string): Uint8Array {
    return Buffer.from(this.#hosts + name);
  }

  /** The range of what all hosts say. */
  get hosts(): KeyRange {
    return rangeOf(this.#hosts);
  }

  stored({ key, value, modRevision }: Message<'Record'>): StoredRecord {
    return { key: this.name(key), value: Buffer.from(value).toString(), revision: Number(modRevision) };
  }
}

export interface KeyRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

/** The range of all keys with a prefix. */
export const rangeOf = (prefix: string): KeyRange => ({
  key: Buffer.from(prefix),
  // The prefix of a store ends in `/`, so there is a key above.
  rangeEnd: Buffer.from(prefixEnd(prefix)!),
});
