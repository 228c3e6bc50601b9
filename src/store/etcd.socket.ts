/**
 * The store of several boot hosts: etcd. One host acts and opens the store. Commits that arrive
 * while one transaction is in flight form the next one.
 *
 * A transaction expects the key of the acting host as its last transaction left it, and writes that
 * key. So no other host can write in between, a transaction that is sent twice is carried out once,
 * and what became of one whose answer was lost can be read.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../base/clock.ts';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import type { Metrics } from '../base/metrics.ts';
import { isRehearsal } from '../base/rehearsal.ts';
import { type Acting, holderOf, type Leaving, startActing, type TakeOver } from './etcd/acting.socket.ts';
import type { Input, Message } from './etcd/api.ts';
import { checkMembers } from './etcd/fitness.socket.ts';
import { Following, type Records } from './etcd/following.socket.ts';
import type { HostSeen } from './etcd/hosts.ts';
import { Keyspace } from './etcd/keyspace.ts';
import { Members, type MembersOptions } from './etcd/members.socket.ts';
import { Presence, type PresenceOptions } from './etcd/presence.socket.ts';
import { conflictsOf, resultIn, txnOf } from './etcd/transaction.ts';
import { watchRange } from './etcd/watch.socket.ts';
import { checkWrites } from './limits.ts';
import { KEPT_REVISIONS } from './memory.ts';
import { rehearseCommit } from './rehearsed.ts';
import type { FileStore } from './sqlite.files.ts';
import { type Change, type CommitResult, MAX_OPERATIONS, type StoredRecord, type Write } from './store.ts';

/** What a boot host tells the others of itself. */
export interface About extends Pick<PresenceOptions, 'version' | 'addresses' | 'sibling' | 'files'> {
  /** Called once, before this host waits for its turn, with what it hears of the others. */
  readonly joined: (presence: Pick<Presence, 'list' | 'soon'>) => void;
}

export interface EtcdStoreOptions extends MembersOptions {
  /** Begins all keys, e.g. `muster/`. */
  readonly prefix: string;
  /** Name of this host, as other hosts show it. */
  readonly host: string;
  /**
   * What the hosts are told of this one while it stands by and acts. Undefined: it is no boot host,
   * and waits for none.
   */
  readonly about: About | undefined;
  readonly metrics: Metrics;
  /** Ends the wait for the turn to act. */
  readonly signal: AbortSignal;
  /** Called with the name of the host that acts when this one begins to wait. */
  readonly standsBy: (acting: string) => void;
  readonly keptRevisions?: number;
  /** As of SQLite's store. */
  readonly failing?: (cause: string | undefined) => void;
  /** Called once when this host does not act any more. Every further call of the store rejects. */
  readonly broken?: (error: MusterError) => void;
  /** Writes all records to a new file of SQLite. */
  readonly copy: (store: EtcdStore, path: string) => Promise<void>;
}

/** Text (UTF-16 units) of the values of one transaction, unless one commit alone has more. */
const GROUP_TEXT = 512 * 1024;
/** How long a read may take with all members. */
const READ_MS = 10_000;
/** Records of one page of a list. */
const PAGE = 500;
const COMPACT_EVERY_MS = 300_000;
/** How long a take-over waits until the watch has shown what was written before it. */
const CAUGHT_UP_MS = 1000;

/** A store of the host that acts. */
export interface EtcdStore extends FileStore {
  /** Milliseconds for which this host acts for certain; 0 or less: it must answer nobody. */
  readonly actingMs: number;
  /** After which host this one acts; undefined when none was seen. */
  readonly takeOver: TakeOver | undefined;
  /** The hosts that share the store, this one first. */
  hosts(): readonly HostSeen[];
  /** Forgets a host that is gone for good. */
  forgetHost(name: string): Promise<boolean>;
  /** The newest revision that this host wrote or read. */
  readonly revision: number;
  /** All records were read: the copy that was followed while standing by is dropped. */
  loaded(): void;
  /** What the next host is told when this one closes the store; `stopped` unless this is called. */
  leaveAs(leaving: Leaving): void;
}

/**
 * Waits until no other host acts, and opens the store.
 *
 * @throws {MusterError} E_STORE_UNFIT when the members are not fit for a store; E_STORE_OPEN when
 *   etcd refuses this host.
 */
export async function openEtcdStore(options: EtcdStoreOptions): Promise<EtcdStore> {
  const { host, about, log, signal } = options;
  const members = new Members(options);
  const keys = new Keyspace(options.prefix);
  const session = randomUUID();
  let standing: Standing | undefined;
  try {
    await checkMembers(members, options);
    standing = about && standBy({ ...about, members, keys, host, session, log });
    if (standing) about?.joined(standing.presence);
    const acting = await startActing({
      ...{ members, key: keys.acting, host, session, log, signal },
      standsBy: options.standsBy,
      changed: async (withinMs) =>
        standing ? standing.following.actingChanged(withinMs, signal) : wait(withinMs, undefined, { signal }),
    });
    // The watch shows this host's own key last, so it has shown everything of the one before it.
    const records = await standing?.following.at(Number(acting.mark), CAUGHT_UP_MS);
    const how: TakeOver['how'] = standing?.following.former?.leaving ?? 'lease_ended';
    const takeOver = acting.after && { ...acting.after, how };
    standing?.following.close();
    standing?.presence.acts();
    return new Etcd(options, { members, keys, acting, presence: standing?.presence, records, takeOver });
  } catch (error) {
    standing?.following.close();
    await standing?.presence.close();
    members.close();
    throw error;
  }
}

interface Standing {
  readonly following: Following;
  readonly presence: Presence;
}

function standBy({ joined: _, ...of }: Omit<PresenceOptions, 'revision' | 'read'> & About): Standing {
  const following = new Following(of);
  return {
    following,
    presence: new Presence({ ...of, read: following.read, revision: () => following.revision }),
  };
}

/** What an open store is made of. */
interface Parts {
  readonly members: Members;
  readonly keys: Keyspace;
  readonly acting: Acting;
  readonly presence: Presence | undefined;
  readonly records: Records | undefined;
  readonly takeOver: TakeOver | undefined;
}

interface Pending {
  readonly writes: readonly Write[];
  readonly since: number;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
}

class Etcd implements EtcdStore {
  readonly #options: EtcdStoreOptions;
  readonly #members: Members;
  readonly #keys: Keyspace;
  readonly #acting: Acting;
  readonly takeOver: TakeOver | undefined;
  readonly #presence: Presence | undefined;
  /** All records, until they are read. */
  #records: Records | undefined;
  #leaving: Leaving = 'stopped';
  readonly #closing = new AbortController();
  #pending: Pending[] = [];
  /** Resolves when all commits that were asked for are answered. */
  #settled: Promise<void> = Promise.resolve();
  #writing = false;
  #head: number;
  #failing = false;
  #ended: MusterError | undefined;
  readonly #compacting: NodeJS.Timeout;

  constructor(options: EtcdStoreOptions, parts: Parts) {
    const { members, keys, acting, presence, records, takeOver } = parts;
    this.#options = options;
    this.#members = members;
    this.#keys = keys;
    this.#acting = acting;
    this.#presence = presence;
    this.#records = records;
    this.takeOver = takeOver;
    this.#head = Number(acting.mark);
    acting.onLost((error) => {
      this.#end(error);
      options.broken?.(error);
    });
    this.#compacting = setInterval(() => void this.#forget(), COMPACT_EVERY_MS).unref();
  }

  get actingMs(): number {
    return this.#acting.leftMs;
  }

  get revision(): number {
    return this.#head;
  }

  hosts(): readonly HostSeen[] {
    return this.#presence?.list() ?? [];
  }

  async forgetHost(name: string): Promise<boolean> {
    return (await this.#presence?.forget(name)) ?? false;
  }

  leaveAs(leaving: Leaving): void {
    this.#leaving = leaving;
  }

  loaded(): void {
    this.#records = undefined;
  }

  commit(writes: readonly Write[]): Promise<CommitResult> {
    if (writes.length > 0 && isRehearsal()) return rehearseCommit(this, writes);
    const { promise, resolve, reject } = Promise.withResolvers<CommitResult>();
    try {
      if (this.#ended) throw this.#ended;
      checkWrites(writes);
      this.#pending.push({ writes, since: systemClock.monotonic(), resolve, reject });
      const done = promise.then(
        () => {},
        () => {},
      );
      this.#settled = Promise.all([this.#settled, done]).then(() => {});
      if (!this.#writing) {
        this.#writing = true;
        setImmediate(() => void this.#write());
      }
    } catch (error) {
      reject(error);
    }
    return promise;
  }

  /** Writes group after group until no commit waits. */
  async #write(): Promise<void> {
    while (this.#pending.length > 0) {
      const group = this.#nextGroup();
      const outcome = await this.#send(group).catch((error: unknown) => error as Error);
      if (this.#records && !(outcome instanceof Error))
        for (const [i, result] of outcome.entries())
          if (result.ok) this.#records.wrote(group[i]!.writes, result.revision);
      this.#count(group, outcome);
      group.forEach(({ resolve, reject }, i) => {
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome[i]!);
      });
    }
    this.#writing = false;
  }

  /**
   * The next commits that fit into one transaction: no key is in two of them, because etcd takes a
   * key once, and a transaction with n commits may have as many fewer operations in each.
   */
  #nextGroup(): Pending[] {
    const keys = new Set<string>();
    let [text, longest, count] = [0, 0, 0];
    for (const { writes } of this.#pending) {
      if (count > 0) {
        if (writes.some(({ key }) => keys.has(key))) break;
        longest = Math.max(longest, writes.length);
        if (count + longest > MAX_OPERATIONS || text > GROUP_TEXT) break;
      }
      for (const write of writes) {
        keys.add(write.key);
        if ('put' in write) text += write.put.length;
      }
      longest = Math.max(longest, writes.length);
      count++;
      if (text > GROUP_TEXT) break;
    }
    return this.#pending.splice(0, count);
  }

  async #send(group: readonly Pending[]): Promise<CommitResult[]> {
    if (this.#ended?.code === 'E_HOST_NOT_ACTING') throw this.#ended;
    const acting = this.#acting;
    const value = acting.next();
    const before = acting.mark;
    const txn: Input<'TxnRequest'> = {
      compare: [{ target: 2, key: acting.key, modRevision: before }],
      success: [
        { put: { key: acting.key, value, lease: acting.lease } },
        ...group.map(({ writes }) => ({ txn: txnOf(writes, this.#keys) })),
      ],
      failure: [{ range: { key: acting.key } }],
    };
    const answer = await this.#members.ask('Txn', txn, { withinMs: () => acting.leftMs, urgent: true });
    if (answer.succeeded) {
      acting.wrote(answer.header!.revision);
      this.#head = Number(answer.header!.revision);
      return group.map(({ writes }, i) =>
        resultIn(writes, answer.responses[i + 1]!.txn!, this.#head, this.#keys),
      );
    }
    return this.#whatBecame(group, value, answer.responses[0]?.range?.kvs[0]);
  }

  /** The results of a group whose answer was lost; the key of the acting host tells. */
  async #whatBecame(
    group: readonly Pending[],
    value: Uint8Array,
    found: Message<'Record'> | undefined,
  ): Promise<CommitResult[]> {
    if (!found || Buffer.compare(found.value, value) !== 0) {
      const other = found && holderOf(found.value)?.host;
      this.#acting.lose(other ? `${other} acts` : 'the lease of this host has ended');
      throw new MusterError('E_STORE_UNSURE', 'this host does not act any more');
    }
    const revision = found.modRevision;
    this.#acting.wrote(revision);
    this.#head = Number(revision);
    const results: CommitResult[] = [];
    for (const { writes } of group) {
      const actual = new Map<string, number | 'absent'>();
      for (const { key } of writes) {
        const range = { key: this.#keys.record(key), revision: revision - 1n, keysOnly: true };
        const [record] = (await this.#members.ask('Range', range, { withinMs: READ_MS })).kvs;
        actual.set(key, record ? Number(record.modRevision) : 'absent');
      }
      const conflicts = conflictsOf(writes, actual);
      results.push(conflicts.length > 0 ? { ok: false, conflicts } : { ok: true, revision: this.#head });
    }
    return results;
  }

  #count(group: readonly Pending[], outcome: readonly CommitResult[] | Error): void {
    const { metrics, log, failing } = this.#options;
    const failed = outcome instanceof Error;
    for (let i = 0; i < group.length; i++) {
      const result = failed ? 'failed' : outcome[i]!.ok ? 'committed' : 'conflict';
      metrics.add('muster_store_commits_total', { outcome: result });
      metrics.observe('muster_store_commit_seconds', (systemClock.monotonic() - group[i]!.since) / 1000);
    }
    if (failed === this.#failing) return;
    this.#failing = failed;
    if (failed) log.error({ code: 'E_STORE_WRITE', cause: outcome.message }, 'the store cannot write');
    else log.info({}, 'the store can write again');
    failing?.(failed ? outcome.message : undefined);
  }

  async get(key: string): Promise<StoredRecord | undefined> {
    await this.#ready();
    if (this.#records) return this.#records.get(key);
    const { kvs } = await this.#ask({ key: this.#keys.record(key) });
    return kvs[0] && this.#keys.stored(kvs[0]);
  }

  async list(
    prefix: string,
  ): Promise<{ readonly records: readonly StoredRecord[]; readonly revision: number }> {
    await this.#ready();
    if (this.#records) return { records: this.#records.list(prefix), revision: this.#head };
    for (;;) {
      try {
        return await this.#listOnce(prefix);
      } catch (error) {
        // The revision of the first page was compacted while later pages were read.
        if ((error as { code?: string }).code !== 'E_STORE_COMPACTED') throw error;
      }
    }
  }

  async #listOnce(prefix: string) {
    const records: StoredRecord[] = [];
    let { key, rangeEnd } = this.#keys.range(prefix);
    let revision = 0n;
    for (;;) {
      const page = await this.#ask({ key, rangeEnd, limit: BigInt(PAGE), revision });
      if (revision === 0n) revision = page.header!.revision;
      for (const record of page.kvs) records.push(this.#keys.stored(record));
      if (!page.more) return { records, revision: Number(revision) };
      key = Buffer.concat([page.kvs.at(-1)!.key, Buffer.of(0)]);
    }
  }

  #ask(range: Input<'RangeRequest'>): Promise<Message<'RangeResponse'>> {
    // A member that was paused may answer from before this host's last commit (etcd issue 20418).
    const counts = (revision: number): boolean => revision >= this.#head;
    return this.#members.ask('Range', range, { withinMs: READ_MS, counts });
  }

  async #ready(): Promise<void> {
    if (this.#ended) throw this.#ended;
    await this.#settled;
  }

  watch(prefix: string, after: number, signal: AbortSignal): AsyncIterable<readonly Change[]> {
    if (this.#ended) throw this.#ended;
    const ending = AbortSignal.any([signal, this.#closing.signal]);
    const deps = { members: this.#members, log: this.#options.log };
    return this.#named(watchRange(deps, this.#keys.range(prefix), after, ending));
  }

  async *#named(batches: AsyncIterable<readonly Change[]>): AsyncGenerator<readonly Change[]> {
    for await (const batch of batches)
      yield batch.map((change) => ({ ...change, key: this.#keys.recordIn(change.key)! }));
  }

  async compact(revision: number): Promise<void> {
    await this.#ready();
    const upto = Math.min(revision, this.#head);
    if (upto < 1) return;
    await this.#members.ask('Compact', { revision: BigInt(upto) }, { withinMs: READ_MS }).catch((error) => {
      // It is compacted further already.
      if ((error as { code?: string }).code !== 'E_STORE_COMPACTED') throw error;
    });
  }

  /** Forgets old history, so that the members need no setting for it. */
  async #forget(): Promise<void> {
    const upto = this.#head - (this.#options.keptRevisions ?? KEPT_REVISIONS);
    await this.compact(upto).catch((error: unknown) => {
      this.#options.log.warn({ cause: messageOf(error) }, 'cannot compact the history of the store');
    });
  }

  copyTo(path: string): Promise<void> {
    return this.#options.copy(this, path);
  }

  async close(): Promise<void> {
    this.#ended ??= new MusterError('E_STORE_CLOSED', 'the store is closed');
    this.#closing.abort();
    clearInterval(this.#compacting);
    await this.#settled;
    await this.#acting.close(this.#leaving);
    await this.#presence?.close();
    this.#members.close();
  }

  #end(error: MusterError): void {
    this.#ended ??= error;
    this.#closing.abort();
    clearInterval(this.#compacting);
  }
}
