/**
 * What each boot host says of itself, in a key of its own that it writes every ten seconds. All
 * hosts read all of them.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../base/clock.ts';
import { messageOf } from '../../base/error-text.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import type { Input, Message } from './api.ts';
import { type FilesSaid, type HostSeen, type Said, type SiblingSaid, said } from './hosts.ts';
import type { Keyspace } from './keyspace.ts';
import type { Members } from './members.socket.ts';
import { watchRange } from './watch.socket.ts';

/** How often a host writes. */
const EVERY_MS = 10_000;
const READ_MS = 4000;

export interface PresenceOptions {
  readonly members: Members;
  readonly keys: Keyspace;
  readonly host: string;
  readonly session: string;
  readonly version: string;
  /** This host's own addresses. */
  readonly addresses: () => readonly string[];
  /** Where the others ask this host for files. */
  readonly sibling: () => SiblingSaid | undefined;
  readonly files: () => FilesSaid | undefined;
  readonly revision: () => number;
  /** Resolves when the store was read: the others are not told of this host before. */
  readonly read: Promise<void>;
  readonly log: Log;
}

interface Heard {
  readonly said: Said;
  readonly monotonic: number;
  readonly skewMs: number | undefined;
}

export class Presence {
  readonly #options: PresenceOptions;
  readonly #ending = new AbortController();
  #role: Said['role'] = 'standby';
  #since = systemClock.now();
  readonly #heard = new Map<string, Heard>();
  #next = new AbortController();
  readonly #saying: Promise<void>;

  constructor(options: PresenceOptions) {
    this.#options = options;
    this.#saying = this.#say();
    void this.#hear();
  }

  /** This host acts from now on. */
  acts(): void {
    this.#role = 'acting';
    this.#since = systemClock.now();
    this.#next.abort();
  }

  /** Tells the others at once what has changed. */
  soon(): void {
    this.#next.abort();
  }

  /** All hosts, this one first. */
  list(): readonly HostSeen[] {
    const own = this.#own();
    const now = systemClock.monotonic();
    const others = [...this.#heard.values()].filter(({ said: { host } }) => host !== own.host);
    return [
      { ...own, agoMs: 0, skewMs: 0 },
      ...others
        .map(({ said: { v: _v, at: _at, ...rest }, monotonic, skewMs }) => ({
          ...rest,
          agoMs: now - monotonic,
          skewMs,
        }))
        .toSorted((a, b) => (a.host < b.host ? -1 : 1)),
    ];
  }

  /** Forgets a host that is gone for good. Resolves to false when none has the name. */
  async forget(host: string): Promise<boolean> {
    const known = this.#heard.delete(host);
    await this.#remove(host);
    return known;
  }

  /** Takes what this host said away: it was stopped in order. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#next.abort();
    await this.#saying;
    await this.#remove(this.#options.host).catch(() => {});
  }

  #own(): Omit<Said, 'v' | 'at'> {
    const { host, session, version, addresses, revision, sibling, files } = this.#options;
    return {
      ...{ host, session, version, role: this.#role, since: this.#since },
      ...{ addresses: [...addresses()], revision: revision(), sibling: sibling(), files: files() },
    };
  }

  async #remove(host: string): Promise<void> {
    const { members, keys } = this.#options;
    await members.ask('Txn', { success: [{ delete: { key: keys.host(host) } }] }, { withinMs: 1000 });
  }

  async #say(): Promise<void> {
    const { members, keys, host, log, read } = this.#options;
    const { signal } = this.#ending;
    await Promise.race([read, new Promise((resolve) => signal.addEventListener('abort', resolve))]);
    while (!signal.aborted) {
      this.#next = new AbortController();
      const value = Buffer.from(JSON.stringify({ v: 1, ...this.#own(), at: systemClock.now() }));
      const txn: Input<'TxnRequest'> = { success: [{ put: { key: keys.host(host), value } }] };
      await members.ask('Txn', txn, { withinMs: READ_MS, signal }).catch((error: unknown) => {
        if (!signal.aborted)
          log.debug({ cause: messageOf(error) }, 'this host cannot tell the others that it is there');
      });
      await wait(EVERY_MS, undefined, { signal: this.#next.signal }).catch(() => {});
    }
  }

  /** Follows what the other hosts say until the end. */
  async #hear(): Promise<void> {
    const { members, keys, log } = this.#options;
    const { signal } = this.#ending;
    while (!signal.aborted) {
      try {
        const { header, kvs } = await members.ask('Range', keys.hosts, { withinMs: READ_MS, signal });
        this.#found(kvs);
        for await (const batch of watchRange({ members, log }, keys.hosts, Number(header!.revision), signal))
          for (const { key, value } of batch) this.#take(key, value);
      } catch (error) {
        if (signal.aborted) return;
        log.debug({ cause: messageOf(error) }, 'the other boot hosts are read again');
        await wait(1000, undefined, { signal }).catch(() => {});
      }
    }
  }

  /** What hosts wrote while this one did not listen: how old it is, only clocks tell. */
  #found(records: readonly Message<'Record'>[]): void {
    const there = new Set<string>();
    for (const { value } of records) {
      const read = said.safeParse(parsed(Buffer.from(value).toString()));
      if (!read.success) continue;
      const { host, at } = read.data;
      there.add(host);
      if (this.#heard.get(host)?.said.at === at) continue;
      const monotonic = systemClock.monotonic() - Math.max(0, systemClock.now() - at);
      this.#heard.set(host, { said: read.data, monotonic, skewMs: undefined });
    }
    for (const host of this.#heard.keys()) if (!there.has(host)) this.#heard.delete(host);
  }

  #take(key: string, value: string | undefined): void {
    if (value === undefined) {
      for (const host of this.#heard.keys())
        if (Buffer.from(this.#options.keys.host(host)).toString() === key) this.#heard.delete(host);
      return;
    }
    const read = said.safeParse(parsed(value));
    if (!read.success) return;
    const { host, session, at } = read.data;
    const { host: own, session: mine, log } = this.#options;
    if (host === own && session !== mine)
      log.error({ host }, 'another boot host has the name of this one; give each its own --host-name');
    const skewMs = at - systemClock.now();
    this.#heard.set(host, { said: read.data, monotonic: systemClock.monotonic(), skewMs });
  }
}
