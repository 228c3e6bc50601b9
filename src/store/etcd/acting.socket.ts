/**
 * The key of the acting host. Its lease ends by itself when the host is dead, silent or cut off,
 * and each commit (src/store/etcd.socket.ts) expects the key as this host left it.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { systemClock } from '../../base/clock.ts';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import type { Input } from './api.ts';
import type { Members } from './members.socket.ts';

/** Another host may act this long after the acting one was last heard. */
export const LEASE_SECONDS = 5;
/** How often the lease is renewed. */
const RENEW_MS = 1200;
/** How long one member may take to renew the lease. */
const RENEWAL_MS = 1000;
/**
 * This host stops so much before its lease can have ended, because clocks of two hosts do not run
 * at exactly the same rate.
 */
const MARGIN_MS = 500;
/** How often a host that stands by asks whether the key is still there. */
const LOOK_MS = 500;

/** Why a host gave the key away. */
export type Leaving = 'stopped' | 'handed_over';

const holder = z.object({
  v: z.literal(1),
  host: z.string(),
  session: z.string(),
  commit: z.int(),
  leaving: z.enum(['stopped', 'handed_over']).optional(),
});

/** Who holds the key, and the number of its newest commit. */
export type Holder = z.output<typeof holder>;

/** The holder that a value of the key names. */
export function holderOf(value: Uint8Array): Holder | undefined {
  const read = holder.safeParse(parsed(Buffer.from(value).toString()));
  return read.success ? read.data : undefined;
}

export interface ActingOptions {
  readonly members: Members;
  /** The key in etcd. */
  readonly key: Uint8Array;
  /** Name of this host. */
  readonly host: string;
  /** Differs for each start of a server. */
  readonly session: string;
  readonly log: Log;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Called with the name of the host that acts when this one begins to wait. */
  readonly standsBy: (acting: string) => void;
  /** Resolves when the key changes, or after so many milliseconds. */
  readonly changed: (withinMs: number) => Promise<void>;
}

/** After which host this one acts. */
interface After {
  readonly from: string;
  /** When its key was gone, by this process's monotonic clock, ms. */
  readonly goneAt: number;
}

/** How this host came to act after another one. */
export interface TakeOver extends After {
  /** `lease_ended`: it was dead, paused, or cut off from etcd. */
  readonly how: Leaving | 'lease_ended';
}

/** Waits until no other host acts, and takes the key. Rejects when `signal` aborts. */
export async function startActing(options: ActingOptions): Promise<Acting> {
  const { members, key, host, log, signal, standsBy, changed } = options;
  let told: string | undefined;
  let last: Holder | undefined;
  for (;;) {
    signal.throwIfAborted();
    try {
      const found = await members.ask('Range', { key }, { withinMs: 4000, signal });
      const other = found.kvs[0];
      if (!other) {
        const after: After | undefined = last && {
          from: last.host,
          goneAt: systemClock.monotonic(),
        };
        const acting = await take(options, after);
        if (acting) return acting;
      } else {
        last = holderOf(other.value) ?? last;
        const name = last?.host ?? 'a host';
        if (told !== name) {
          log.info({ acting: name, host }, `${name} acts; this host stands by`);
          standsBy(name);
        }
        told = name;
      }
    } catch (error) {
      if (signal.aborted || !isUnsure(error)) throw error;
      log.warn({ cause: messageOf(error) }, 'etcd does not answer; this host stands by');
    }
    await changed(LOOK_MS);
  }
}

const isUnsure = (error: unknown): boolean => (error as { code?: string }).code === 'E_STORE_UNSURE';

/** Takes the key if nobody has it. */
async function take(options: ActingOptions, after: After | undefined): Promise<Acting | undefined> {
  const { members, key, host, session, signal } = options;
  const asked = systemClock.monotonic();
  const within = { withinMs: 4000, signal };
  const { id } = await members.ask('LeaseGrant', { ttl: BigInt(LEASE_SECONDS) }, within);
  const value = encodeHolder({ v: 1, host, session, commit: 0 });
  const answer = await members.ask(
    'Txn',
    {
      compare: [{ target: 1, key, createRevision: 0n }],
      success: [{ put: { key, value, lease: id } }],
      failure: [{ range: { key } }],
    },
    within,
  );
  const { header, succeeded, responses } = answer;
  // A try whose answer was lost may have been carried out.
  const mine = responses[0]?.range?.kvs[0];
  if (!succeeded && (!mine || holderOf(mine.value)?.session !== session)) {
    await members.ask('LeaseRevoke', { id }, within);
    return undefined;
  }
  return new Acting(
    { ...options, lease: id, asked, after },
    succeeded ? header!.revision : mine!.modRevision,
  );
}

export const encodeHolder = (value: Holder): Uint8Array => Buffer.from(JSON.stringify(value));

interface Held extends ActingOptions {
  readonly lease: bigint;
  /** When the lease was asked for; it lasts at least {@link LEASE_SECONDS} from then. */
  readonly asked: number;
  readonly after: After | undefined;
}

/** The key while this host has it. */
export class Acting {
  readonly #held: Held;
  readonly #ending = new AbortController();
  #mark: bigint;
  #until: number;
  #commit = 0;
  #lost: ((error: MusterError) => void) | undefined;

  constructor(held: Held, mark: bigint) {
    this.#held = held;
    this.#mark = mark;
    this.#until = lasting(held.asked);
    void this.#renew();
    void this.#watchClock();
  }

  get key(): Uint8Array {
    return this.#held.key;
  }

  get host(): string {
    return this.#held.host;
  }

  /** After which host this one acts; undefined when none was seen. */
  get after(): After | undefined {
    return this.#held.after;
  }

  get lease(): bigint {
    return this.#held.lease;
  }

  get session(): string {
    return this.#held.session;
  }

  /** The revision at which this host last wrote the key. */
  get mark(): bigint {
    return this.#mark;
  }

  /** Milliseconds for which the lease lasts for certain; 0 or less: another host may act. */
  get leftMs(): number {
    return this.#until - systemClock.monotonic();
  }

  /** The value that the next commit gives the key. */
  next(): Uint8Array {
    const { host, session } = this.#held;
    return encodeHolder({ v: 1, host, session, commit: ++this.#commit });
  }

  /** The key was written by a commit of this host. */
  wrote(revision: bigint): void {
    this.#mark = revision;
  }

  /** Calls `listener` once when the key is lost. */
  onLost(listener: (error: MusterError) => void): void {
    this.#lost = listener;
  }

  /** The key is not this host's any more, or may not be. */
  lose(why: string): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    this.#lost?.(new MusterError('E_HOST_NOT_ACTING', why));
  }

  /** Gives the key away, so that another host takes it at once. */
  async close(leaving: Leaving): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    const { members, key, host, session, lease } = this.#held;
    const value = encodeHolder({ v: 1, host, session, commit: this.#commit, leaving });
    const last: Input<'TxnRequest'> = {
      compare: [{ target: 2, key, modRevision: this.#mark }],
      success: [{ put: { key, value, lease } }],
    };
    await members
      .ask('Txn', last, { withinMs: 1000, urgent: true })
      .then(() => members.ask('LeaseRevoke', { id: lease }, { withinMs: 2000, urgent: true }))
      .catch((error: unknown) => {
        this.#held.log.warn({ cause: messageOf(error) }, 'the lease ends by itself');
      });
  }

  async #renew(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const asked = systemClock.monotonic();
      try {
        const ttl = await this.#renewOnce();
        if (signal.aborted) return;
        if (ttl <= 0) return this.lose('the lease of this host has ended');
        this.#until = Math.max(this.#until, lasting(asked));
      } catch (error) {
        this.#held.log.warn({ cause: messageOf(error) }, 'cannot renew the lease of this host');
      }
      const next = asked + RENEW_MS - systemClock.monotonic();
      await wait(Math.max(next, 100), undefined, { signal }).catch(() => {});
    }
  }

  async #renewOnce(): Promise<number> {
    const { members, lease } = this.#held;
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(RENEWAL_MS)]);
    const answered = Promise.withResolvers<void>();
    const input = async function* () {
      yield { id: lease };
      await answered.promise;
    };
    let leave = (_: unknown): void => {};
    try {
      const stream = await members.stream('LeaseKeepAlive', input(), signal);
      leave = stream.leave;
      for await (const { ttl } of stream.answers) return Number(ttl);
      throw new Error('etcd ended the stream');
    } catch (error) {
      if (!this.#ending.signal.aborted) leave(error);
      throw error;
    } finally {
      answered.resolve();
    }
  }

  /** Ends this host's turn when its own clock says that the lease can have ended. */
  async #watchClock(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      if (this.leftMs <= 0) return this.lose('etcd did not renew the lease of this host in time');
      await wait(Math.max(this.leftMs, 1), undefined, { signal }).catch(() => {});
    }
  }
}

const lasting = (asked: number): number => asked + LEASE_SECONDS * 1000 - MARGIN_MS;
