/**
 * All keys of the store as they are now, followed by a watch while this host stands by. So a
 * take-over reads nothing from etcd, and a key of the acting host that is gone is noticed at once.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { messageOf } from '../../base/error-text.ts';
import type { Log } from '../../base/log.ts';
import { compareKeys } from '../limits.ts';
import type { Change, StoredRecord, Write } from '../store.ts';
import { type Holder, holderOf } from './acting.socket.ts';
import type { Keyspace } from './keyspace.ts';
import type { Members } from './members.socket.ts';
import { watchRange } from './watch.socket.ts';

const PAGE = 500;
const READ_MS = 10_000;
const AGAIN_MS = 1000;

/** Records in memory. */
export class Records {
  readonly #records = new Map<string, StoredRecord>();

  get(key: string): StoredRecord | undefined {
    return this.#records.get(key);
  }

  /** Ordered by key. */
  list(prefix: string): StoredRecord[] {
    const found: StoredRecord[] = [];
    for (const record of this.#records.values()) if (record.key.startsWith(prefix)) found.push(record);
    return found.sort((a, b) => compareKeys(a.key, b.key));
  }

  take({ key, value, revision }: Change): void {
    if (value === undefined) this.#records.delete(key);
    else this.#records.set(key, { key, value, revision });
  }

  /** Takes the writes of a commit that was carried out. */
  wrote(writes: readonly Write[], revision: number): void {
    for (const write of writes)
      this.take({ key: write.key, value: 'put' in write ? write.put : undefined, revision });
  }
}

interface Deps {
  readonly members: Members;
  readonly keys: Keyspace;
  /** The session of this host. */
  readonly session: string;
  readonly log: Log;
}

export class Following {
  readonly #deps: Deps;
  readonly #ending = new AbortController();
  readonly #acting: string;
  #records = new Records();
  /** Everything up to here is in the records; 0: nothing was read yet. */
  #revision = 0;
  #former: Holder | undefined;
  readonly #read = Promise.withResolvers<void>();
  #wake = Promise.withResolvers<void>();
  #wakeActing = Promise.withResolvers<void>();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#acting = Buffer.from(deps.keys.acting).toString();
    void this.#follow();
  }

  /** Resolves when all records were read for the first time. */
  get read(): Promise<void> {
    return this.#read.promise;
  }

  /** What the last other host that acted wrote into its key. */
  get former(): Holder | undefined {
    return this.#former;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Resolves when the key of the acting host changes, or after `withinMs`. */
  async actingChanged(withinMs: number, signal: AbortSignal): Promise<void> {
    const late = new AbortController();
    const changed = this.#wakeActing.promise;
    await Promise.race([
      changed,
      wait(withinMs, undefined, { signal: AbortSignal.any([signal, late.signal]) }),
    ])
      .catch(() => {})
      .finally(() => late.abort());
    signal.throwIfAborted();
  }

  /**
   * The records once everything up to `revision` is in them; undefined when that takes too long.
   */
  async at(revision: number, withinMs: number): Promise<Records | undefined> {
    const late = AbortSignal.timeout(withinMs);
    const ended = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve()));
    while (this.#revision < revision) {
      if (late.aborted || this.#revision === 0) return undefined;
      await Promise.race([this.#wake.promise, ended]);
    }
    return this.#records;
  }

  close(): void {
    this.#ending.abort();
  }

  async #follow(): Promise<void> {
    const { signal } = this.#ending;
    const { keys, log } = this.#deps;
    while (!signal.aborted) {
      try {
        await this.#list();
        for await (const batch of watchRange(this.#deps, keys.all, this.#revision, signal))
          for (const change of batch) this.#take(change);
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ cause: messageOf(error) }, 'the store is read again from its beginning');
        await wait(AGAIN_MS, undefined, { signal }).catch(() => {});
      }
    }
  }

  async #list(): Promise<void> {
    const { members, keys } = this.#deps;
    const records = new Records();
    let { key, rangeEnd } = keys.all;
    let revision = 0n;
    for (;;) {
      const range = { key, rangeEnd, limit: BigInt(PAGE), revision };
      const page = await members.ask('Range', range, { withinMs: READ_MS, signal: this.#ending.signal });
      if (revision === 0n) revision = page.header!.revision;
      for (const record of page.kvs) if (keys.isRecord(record.key)) records.take(keys.stored(record));
      if (!page.more) break;
      key = Buffer.concat([page.kvs.at(-1)!.key, Buffer.of(0)]);
    }
    this.#records = records;
    this.#moveTo(Number(revision));
  }

  #take(change: Change): void {
    const name = this.#deps.keys.recordIn(change.key);
    if (name !== undefined) this.#records.take({ ...change, key: name });
    if (change.key === this.#acting) {
      const holder = change.value === undefined ? undefined : holderOf(Buffer.from(change.value));
      if (holder !== undefined && holder.session !== this.#deps.session) this.#former = holder;
      this.#wakeActing.resolve();
      this.#wakeActing = Promise.withResolvers();
    }
    this.#moveTo(change.revision);
  }

  #moveTo(revision: number): void {
    this.#revision = revision;
    this.#read.resolve();
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }
}
