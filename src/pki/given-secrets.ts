/**
 * Secrets that operators give: values by name and key, sealed in the store by the vault. They are
 * in memory as well, because every poll of a machine that needs one reads it. What this room shows
 * of them is names, sizes, times, and for each machine a tag that tells nothing about the value.
 */
import { createHmac } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import type { Log } from '../base/log.ts';
import { Secret } from '../base/secret.ts';
import { isSecretName, SECRET_KEY } from '../resources/secret-spec.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import type { Envelope } from './sealer.ts';
import type { Secrets } from './secrets.ts';
import { rewrapped, type Vault } from './vault.ts';

/** The longest value, in octets: keys, certificates and small files fit. */
export const MAX_SECRET_OCTETS = 64 * 1024;
/** The most keys of one Secret; so many values are removed in one commit. */
export const MAX_SECRET_KEYS = 64;

/** A key of a Secret, without its value. */
export interface GivenKey {
  readonly key: string;
  readonly octets: number;
  /** When this value was written. */
  readonly since: Millis;
}

export interface GivenSecret {
  readonly name: string;
  /** By key. */
  readonly keys: readonly GivenKey[];
}

export interface GivenSecrets {
  /** All Secrets, by name. */
  list(): readonly GivenSecret[];
  get(name: string): GivenSecret | undefined;
  /** The value; undefined when there is none. It goes into plans of agents and nowhere else. */
  value(name: string, key: string): Buffer | undefined;
  /**
   * A keyed digest of the present value for one machine, which its agent reports when it has
   * applied the value. Equal values have different tags on different machines and under different
   * keys; without this boot host's key, a tag tells nothing.
   */
  tag(machine: string, name: string, key: string): string | undefined;
  /**
   * Writes a value; it is durable when this resolves. An earlier value of the key is replaced.
   *
   * @throws {MusterError} E_SECRET when name, key, size or number of keys is not allowed
   */
  put(name: string, key: string, octets: Uint8Array): Promise<void>;
  /**
   * Removes one key, or the whole Secret.
   *
   * @throws {MusterError} E_NOT_FOUND when there is no such Secret or key
   */
  remove(name: string, key?: string): Promise<void>;
}

const givenRecord = z.strictObject({
  v: z.literal(1),
  since: z.int().transform((value) => value as Millis),
  sealed: z.looseObject({ v: z.int(), kid: z.string() }),
});

/** A value with its time, as it is in the store. */
interface Stored {
  readonly since: Millis;
  readonly sealed: Envelope;
}

/**
 * Reads a record.
 *
 * @throws {MusterError} E_PKI when it is not the record of a Secret in a version known here
 */
export function decodeGiven(record: string, value: string): Stored {
  const read = givenRecord.safeParse(parsed(value));
  if (!read.success)
    throw new MusterError('E_PKI', `${record} is not a Secret's value of a version known here`);
  return { since: read.data.since, sealed: read.data.sealed as Envelope };
}

const encode = ({ since, sealed }: Stored): string => JSON.stringify({ v: 1, since, sealed });

/**
 * The record sealed by the vault's primary key; undefined when it is sealed with it already.
 *
 * @throws {MusterError} as {@link decodeGiven}; E_VAULT_KEY, E_VAULT_RECORD when it cannot be
 *   opened
 */
export async function rewrapGiven(record: string, value: string, vault: Vault): Promise<string | undefined> {
  const { since, sealed } = decodeGiven(record, value);
  const again = await rewrapped(vault, record, sealed);
  return again && encode({ since, sealed: again });
}

interface GivenDeps {
  readonly store: Store;
  readonly vault: Vault;
  /** Keeps the key of the tags. */
  readonly secrets: Pick<Secrets, 'key'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

interface Held {
  readonly since: Millis;
  readonly octets: number;
  readonly base64: Secret;
}

/** Reads all Secrets. A value that cannot be opened is logged and counts as missing. */
export async function openGivenSecrets(deps: GivenDeps): Promise<GivenSecrets> {
  const given = new HeldSecrets(deps, await deps.secrets.key('secret-tags'));
  await given.load();
  return given;
}

class HeldSecrets implements GivenSecrets {
  readonly #deps: GivenDeps;
  readonly #tagKey: Buffer;
  readonly #held = new Map<string, Map<string, Held>>();

  constructor(deps: GivenDeps, tagKey: Buffer) {
    this.#deps = deps;
    this.#tagKey = tagKey;
  }

  async load(): Promise<void> {
    const { store, vault, log } = this.#deps;
    for (const { key: record, value } of (await store.list(KEYS.givenSecret.prefix())).records) {
      const [name, key] = KEYS.givenSecret.parse(record) ?? [];
      if (name === undefined || key === undefined) continue;
      try {
        const { since, sealed } = decodeGiven(record, value);
        this.#hold(name, key, since, Buffer.from(await vault.open(record, sealed), 'base64'));
      } catch (error) {
        if (!(error instanceof MusterError)) throw error;
        log.error({ code: error.code, secret: name, key }, error.message);
      }
    }
  }

  #hold(name: string, key: string, since: Millis, octets: Buffer): void {
    const keys = this.#held.get(name) ?? new Map<string, Held>();
    this.#held.set(name, keys);
    keys.set(key, { since, octets: octets.length, base64: new Secret(octets.toString('base64')) });
  }

  list(): readonly GivenSecret[] {
    return [...this.#held.keys()].sort().map((name) => this.get(name)!);
  }

  get(name: string): GivenSecret | undefined {
    const keys = this.#held.get(name);
    if (keys === undefined) return undefined;
    return {
      name,
      keys: [...keys]
        .map(([key, { octets, since }]): GivenKey => ({ key, octets, since }))
        .sort((a, b) => (a.key < b.key ? -1 : 1)),
    };
  }

  value(name: string, key: string): Buffer | undefined {
    const held = this.#held.get(name)?.get(key);
    return held && Buffer.from(held.base64.reveal(), 'base64');
  }

  tag(machine: string, name: string, key: string): string | undefined {
    const value = this.value(name, key);
    if (value === undefined) return undefined;
    // None of the names contains NUL, so no two triples give the same text.
    return createHmac('sha256', this.#tagKey)
      .update(`${machine}\0${name}\0${key}\0`)
      .update(value)
      .digest('hex')
      .slice(0, 32);
  }

  async put(name: string, key: string, octets: Uint8Array): Promise<void> {
    const refuse = (text: string): never => {
      throw new MusterError('E_SECRET', text);
    };
    if (!isSecretName(name))
      refuse(`"${name.slice(0, 80)}" is not a name: lower-case letters, digits and dashes, at most 63`);
    if (!SECRET_KEY.test(key))
      refuse(`"${key.slice(0, 80)}" is not a key: letters, digits, ".", "_", "-"; at most 63`);
    if (octets.length === 0) refuse(`the value of ${name}/${key} is empty`);
    if (octets.length > MAX_SECRET_OCTETS)
      refuse(`the value of ${name}/${key} is longer than ${MAX_SECRET_OCTETS} octets`);
    const keys = this.#held.get(name);
    if (keys && !keys.has(key) && keys.size >= MAX_SECRET_KEYS)
      refuse(`Secret "${name}" has ${MAX_SECRET_KEYS} keys already; write a second Secret`);
    const { store, vault, clock } = this.#deps;
    const record = KEYS.givenSecret.key(name, key);
    const value = Buffer.from(octets);
    const since = clock.now();
    const sealed = await vault.seal(record, value.toString('base64'));
    await store.commit([{ key: record, put: encode({ since, sealed }) }]);
    this.#hold(name, key, since, value);
  }

  async remove(name: string, key?: string): Promise<void> {
    const keys = this.#held.get(name);
    if (keys === undefined || (key !== undefined && !keys.has(key)))
      throw new MusterError(
        'E_NOT_FOUND',
        key === undefined ? `there is no Secret "${name}"` : `Secret "${name}" has no key "${key}"`,
      );
    const gone = key === undefined ? [...keys.keys()] : [key];
    await this.#deps.store.commit(
      gone.map((one) => ({ key: KEYS.givenSecret.key(name, one), delete: true as const })),
    );
    for (const one of gone) keys.delete(one);
    if (keys.size === 0) this.#held.delete(name);
  }
}
