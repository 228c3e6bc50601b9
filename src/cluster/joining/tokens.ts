/**
 * Bootstrap tokens of machines that join with one (`spec.kubernetes.joining: token`,
 * docs/decisions/0043). A machine keeps its token until its kubelet has a certificate, and gets a
 * new token when it needs one after that. The public half is stored; the secret half is derived
 * from a key.
 */
import { createHmac, randomInt } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import { Secret } from '../../base/secret.ts';
import type { EventSink } from '../../events/event.ts';
import type { Secrets } from '../../pki/secrets.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';

export interface JoinToken {
  readonly cluster: string;
  readonly machine: string;
  /** The public half: six of [a-z0-9], as Kubernetes requires. */
  readonly id: string;
  /**
   * Whether the machine has a certificate, so that the token is no longer valid. A used token is
   * deleted from the store when it is gone from the API.
   */
  readonly used: boolean;
}

export interface JoinTokens {
  /**
   * The machine's token, `id.secret`; it is durable when this resolves. Each call prolongs the
   * token's life.
   */
  of(cluster: string, machine: string): Promise<Secret>;
  /** Records that the machine's kubelet has a certificate, and ends its token. */
  joined(cluster: string, machine: string): Promise<void>;
  /** The machine with this unused token; undefined when there is none. */
  ownerOf(cluster: string, id: string): string | undefined;
  /** All tokens of a cluster, including used ones. */
  list(cluster: string): readonly JoinToken[];
  /** `id.secret` of a token. */
  text(token: JoinToken): Secret;
  /**
   * How long ago the machine asked for the token; undefined when it did not since the server
   * started.
   */
  askedAgo(token: JoinToken): Millis | undefined;
  /** Deletes the token from the store. */
  forget(token: JoinToken): Promise<void>;
}

interface JoinTokensDeps {
  readonly store: Store;
  readonly secrets: Pick<Secrets, 'key'>;
  readonly clock: Clock;
  readonly events: EventSink;
  readonly log: Log;
}

const keyOf = ({ cluster, machine }: Pick<JoinToken, 'cluster' | 'machine'>): string =>
  KEYS.joinToken.key(cluster, machine);

/** `join-tokens/CLUSTER/MACHINE` in the store. */
const record = z.strictObject({
  v: z.literal(1),
  id: z.string().regex(/^[a-z0-9]{6}$/),
  used: z.boolean(),
});

const DIGITS = 36;
const newId = (): string =>
  randomInt(DIGITS ** 6)
    .toString(DIGITS)
    .padStart(6, '0');

/** Opens the join tokens that the store has. */
export async function openJoinTokens(deps: JoinTokensDeps): Promise<JoinTokens> {
  const { store, clock, events } = deps;
  const key = await deps.secrets.key('join-tokens');
  const tokens = await read(deps);
  const asked = new Map<string, Millis>();
  /** Tokens that are being stored, so that two simultaneous polls get the same token. */
  const making = new Map<string, Promise<JoinToken>>();

  const list = (cluster: string): readonly JoinToken[] =>
    [...tokens.values()].filter((token) => token.cluster === cluster);

  const put = async (token: JoinToken): Promise<JoinToken> => {
    const { id, used } = token;
    await store.commit([{ key: keyOf(token), put: JSON.stringify({ v: 1, id, used }) }]);
    tokens.set(keyOf(token), token);
    return token;
  };

  const make = async (cluster: string, machine: string): Promise<JoinToken> => {
    const taken = new Set(list(cluster).map(({ id }) => id));
    let id = newId();
    while (taken.has(id)) id = newId();
    const token = await put({ cluster, machine, id, used: false });
    events.record({
      kind: 'cluster.join-token',
      subject: machine,
      reason: { code: 'handed-out', text: `${machine} joins ${cluster} with its own token` },
      fields: { cluster, token: id },
    });
    return token;
  };

  const current = (cluster: string, machine: string): Promise<JoinToken> | JoinToken => {
    const at = keyOf({ cluster, machine });
    const known = tokens.get(at);
    if (known && !known.used) return known;
    const made = making.get(at) ?? make(cluster, machine).finally(() => making.delete(at));
    making.set(at, made);
    return made;
  };

  const text = ({ cluster, machine, id }: JoinToken): Secret => {
    const digest = createHmac('sha256', key).update(`muster join token\0${cluster}\0${machine}\0${id}`);
    // The last digits of a much longer number are practically uniformly distributed.
    const secret = BigInt(`0x${digest.digest('hex')}`)
      .toString(DIGITS)
      .padStart(16, '0')
      .slice(-16);
    return new Secret(`${id}.${secret}`);
  };

  return {
    async of(cluster, machine) {
      const token = await current(cluster, machine);
      asked.set(keyOf(token), clock.monotonic());
      return text(token);
    },
    async joined(cluster, machine) {
      const token = tokens.get(keyOf({ cluster, machine }));
      if (token === undefined || token.used) return;
      await put({ ...token, used: true });
      events.record({
        kind: 'cluster.join-token',
        subject: machine,
        reason: {
          code: 'used',
          text: `${machine} has a certificate of ${cluster}; its token is no longer valid`,
        },
        fields: { cluster, token: token.id },
      });
    },
    ownerOf: (cluster, id) => list(cluster).find((token) => token.id === id && !token.used)?.machine,
    list,
    text,
    askedAgo(token) {
      const at = asked.get(keyOf(token));
      return at === undefined ? undefined : ((clock.monotonic() - at) as Millis);
    },
    async forget(token) {
      const at = keyOf(token);
      // A new token may have replaced this one meanwhile.
      if (tokens.get(at)?.id !== token.id) return;
      await store.commit([{ key: at, delete: true }]);
      tokens.delete(at);
      asked.delete(at);
    },
  };
}

async function read({ store, log }: JoinTokensDeps): Promise<Map<string, JoinToken>> {
  const tokens = new Map<string, JoinToken>();
  for (const { key, value } of (await store.list(KEYS.joinToken.prefix())).records) {
    const read = record.safeParse(parsed(value));
    const [cluster, machine] = KEYS.joinToken.parse(key) ?? [];
    if (!read.success || !cluster || !machine)
      log.warn({ key }, 'a stored record cannot be read and is skipped');
    else tokens.set(key, { cluster, machine, id: read.data.id, used: read.data.used });
  }
  return tokens;
}
