/**
 * Muster's own secrets that are not keysets, sealed in the store: the key that tickets are derived
 * from, and the listener's private key.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import type { Envelope } from './sealer.ts';
import { rewrapped, type Vault } from './vault.ts';

const secretRecord = z.strictObject({
  v: z.literal(1),
  sealed: z.looseObject({ v: z.int(), kid: z.string() }),
});

function sealedIn(record: string, value: string): Envelope {
  const read = secretRecord.safeParse(parsed(value));
  if (!read.success) throw new MusterError('E_PKI', `${record} is not a sealed text of a version known here`);
  return read.data.sealed as Envelope;
}

const encode = (sealed: Envelope): string => JSON.stringify({ v: 1, sealed });

/**
 * The record's value sealed by the vault's primary key; undefined when it is sealed with it
 * already.
 *
 * @throws {MusterError} E_PKI when the value is not a sealed text; E_VAULT_KEY, E_VAULT_RECORD when
 *   it cannot be opened.
 */
export async function rewrapSecret(record: string, value: string, vault: Vault): Promise<string | undefined> {
  const again = await rewrapped(vault, record, sealedIn(record, value));
  return again && encode(again);
}

export interface Secrets {
  /**
   * A secret; undefined when there is none of this name.
   *
   * @throws {MusterError} E_VAULT_KEY, E_VAULT_RECORD when it cannot be opened; E_PKI when the
   *   record is not a sealed text.
   */
  get(name: string): Promise<string | undefined>;
  /** Stores a secret, and replaces one of the same name. */
  put(name: string, text: string): Promise<void>;
  /** Deletes a secret, if there is one of this name. */
  remove(name: string): Promise<void>;
  /** A secret of 32 random octets, which the first call makes. Throws as {@link get}. */
  key(name: string): Promise<Buffer>;
}

/** Opens the secrets. They are read from the store at each call. */
export function openSecrets({
  store,
  vault,
}: {
  readonly store: Store;
  readonly vault: Pick<Vault, 'seal' | 'open'>;
}): Secrets {
  const get = async (name: string): Promise<string | undefined> => {
    const record = await store.get(KEYS.secret.key(name));
    return record && vault.open(record.key, sealedIn(record.key, record.value));
  };
  return {
    get,
    async put(name, text) {
      const key = KEYS.secret.key(name);
      await store.commit([{ key, put: encode(await vault.seal(key, text)) }]);
    },
    async remove(name) {
      await store.commit([{ key: KEYS.secret.key(name), delete: true }]);
    },
    async key(name) {
      const stored = await get(name);
      if (stored !== undefined) return Buffer.from(stored, 'base64');
      const made = randomBytes(32);
      const key = KEYS.secret.key(name);
      const sealed = encode(await vault.seal(key, made.toString('base64')));
      const result = await store.commit([{ key, put: sealed, expect: 'absent' }]);
      return result.ok ? made : Buffer.from((await get(name))!, 'base64');
    },
  };
}
