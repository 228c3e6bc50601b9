/**
 * The secrets from which tickets are derived: the present one, and for a while the one before, so
 * that machines which boot while it is replaced can redeem the tickets that they have.
 */
import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { parsed } from '../../base/foreign-json.ts';
import { MAX_SESSION_AGE } from '../../machines/sessions.ts';
import type { Secrets } from '../../pki/secrets.ts';

/** Names of the sealed secrets. */
const PRESENT = 'tickets';
const BEFORE = 'tickets-before';

const before = z.strictObject({
  v: z.literal(1),
  /** Base64. */
  key: z.string(),
  /** Ms since 1970. */
  until: z.int(),
});

interface Before {
  readonly key: Buffer;
  readonly until: number;
}

interface TicketKeysDeps {
  readonly secrets: Secrets;
  readonly clock: Pick<Clock, 'now' | 'doubt'>;
}

export interface TicketKeys {
  /** The present secret, then those whose tickets are still accepted. From memory. */
  all(): readonly Uint8Array[];
  /** Names the present secret, without telling it. */
  id(): string;
  /**
   * The secret before, while its tickets are accepted: its name, since when it is not the present
   * one, and its end (ms since 1970).
   */
  before(): { readonly id: string; readonly since: Millis; readonly until: Millis } | undefined;
  /**
   * Makes another secret; tickets of the present one are accepted while boot sessions that carry
   * them may last, or with `atOnce` not any more. Does nothing unless the present one is `from`.
   */
  replace(from: string, how?: { readonly atOnce: boolean }): Promise<void>;
  /** Makes the secret before the present one again. Does nothing unless it is still accepted. */
  takeBack(to: string): Promise<void>;
  /** Deletes the secret before if it is not accepted any more. */
  prune(): Promise<void>;
}

/** Opens the secrets when they are first asked for. */
export function ticketKeysOnDemand(deps: TicketKeysDeps): () => Promise<TicketKeys> {
  let opened: Promise<TicketKeys> | undefined;
  return () => {
    opened ??= openTicketKeys(deps).catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
}

const idOf = (key: Uint8Array): string => createHash('sha256').update(key).digest('hex').slice(0, 16);

/** Reads the secrets of tickets, and makes the first one. Throws as {@link Secrets.get}. */
async function openTicketKeys({ secrets, clock }: TicketKeysDeps): Promise<TicketKeys> {
  let present = await secrets.key(PRESENT);
  let last = readBefore((await secrets.get(BEFORE)) ?? '');

  const accepted = (): Before | undefined => {
    // An end that is further away was set by a clock that was ahead.
    const left = (last?.until ?? 0) - clock.now();
    return left > 0 && left <= MAX_SESSION_AGE ? last : undefined;
  };
  const keep = async (key: Buffer, lasts: number): Promise<void> => {
    const until = clock.now() + lasts;
    await secrets.put(BEFORE, JSON.stringify({ v: 1, key: key.toString('base64'), until }));
    last = { key, until };
  };
  const take = async (key: Buffer): Promise<void> => {
    await secrets.put(PRESENT, key.toString('base64'));
    present = key;
  };
  return {
    all: () => [present, ...(accepted() ? [accepted()!.key] : [])],
    id: () => idOf(present),
    before() {
      const one = accepted();
      if (one === undefined) return undefined;
      const until = one.until as Millis;
      return { id: idOf(one.key), since: (until - MAX_SESSION_AGE) as Millis, until };
    },
    async replace(from, { atOnce } = { atOnce: false }) {
      if (idOf(present) !== from) return;
      // The old one is kept first: a server that dies in between repeats this.
      if (atOnce) await secrets.remove(BEFORE);
      else await keep(present, MAX_SESSION_AGE);
      if (atOnce) last = undefined;
      await take(randomBytes(32));
    },
    async takeBack(to) {
      const one = accepted();
      if (one === undefined || idOf(one.key) !== to) return;
      const newer = present;
      await take(one.key);
      await keep(newer, MAX_SESSION_AGE);
    },
    async prune() {
      if (last === undefined || accepted() || clock.doubt() !== undefined) return;
      await secrets.remove(BEFORE);
      last = undefined;
    },
  };
}

function readBefore(text: string): Before | undefined {
  const read = before.safeParse(parsed(text));
  return read.success ? { key: Buffer.from(read.data.key, 'base64'), until: read.data.until } : undefined;
}
