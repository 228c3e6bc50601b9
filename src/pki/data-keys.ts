/**
 * The keys of encrypted data filesystems that the boot host keeps (`encrypt: boot-host`), sealed in
 * the store by the vault. A key belongs to one filesystem of one machine.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { Secret } from '../base/secret.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import type { Envelope } from './sealer.ts';
import { rewrapped, type Vault } from './vault.ts';

/**
 * How many keys a machine has at most. An agent that is cut off while it makes its filesystem asks
 * for one more. Beyond this number none is made: whoever has the agent's identity for a second
 * could otherwise push out the key of a disk that is in use.
 */
export const MAX_DATA_KEYS = 16;

/** A UUID, as blkid and cryptsetup write it. */
export const FILESYSTEM_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const dataKeyRecord = z.strictObject({
  v: z.literal(1),
  since: z.int(),
  sealed: z.looseObject({ v: z.int(), kid: z.string() }),
});

interface Stored {
  /** Ms since 1970. */
  readonly since: number;
  readonly sealed: Envelope;
}

/**
 * Reads a record.
 *
 * @throws {MusterError} E_PKI when it is not the record of such a key in a version known here
 */
export function decodeDataKey(record: string, value: string): Stored {
  const read = dataKeyRecord.safeParse(parsed(value));
  if (!read.success)
    throw new MusterError('E_PKI', `${record} is not the key of a data filesystem in a version known here`);
  return { since: read.data.since, sealed: read.data.sealed as Envelope };
}

const encode = ({ since, sealed }: Stored): string => JSON.stringify({ v: 1, since, sealed });

/**
 * The record sealed by the vault's primary key; undefined when it is sealed with it already.
 *
 * @throws {MusterError} as {@link decodeDataKey}; E_VAULT_KEY, E_VAULT_RECORD when it cannot be
 *   opened
 */
export async function rewrapDataKey(
  record: string,
  value: string,
  vault: Vault,
): Promise<string | undefined> {
  const { since, sealed } = decodeDataKey(record, value);
  const again = await rewrapped(vault, record, sealed);
  return again && encode({ since, sealed: again });
}

/** A key and whose it is. */
export interface DataKey {
  readonly machine: string;
  readonly filesystem: string;
  /** When it was made, ms since 1970. */
  readonly since: number;
  /** Base64 of 32 random octets; cryptsetup gets this text as its key. */
  readonly key: Secret;
}

export interface DataKeys {
  /**
   * The key of a machine's filesystem; undefined when there is none.
   *
   * @throws {MusterError} E_VAULT_KEY, E_VAULT_RECORD, E_PKI when it cannot be opened
   */
  get(machine: string, filesystem: string): Promise<Secret | undefined>;
  /**
   * The same, but makes a key that does not exist; it is durable when this resolves.
   *
   * @throws {MusterError} as {@link get}; E_DATA_KEY when the machine has as many as are allowed
   */
  getOrMake(machine: string, filesystem: string): Promise<Secret>;
  /** All keys in the clear, for a copy that a passphrase opens. Throws as {@link get}. */
  all(): Promise<readonly DataKey[]>;
  /** `MACHINE/FILESYSTEM` of all keys. */
  ids(): Promise<readonly string[]>;
  /** The filesystems of a machine that have one. */
  of(machine: string): Promise<readonly Pick<DataKey, 'filesystem' | 'since'>[]>;
  /** Removes a key; what it encrypts is lost. False when there is none. */
  remove(machine: string, filesystem: string): Promise<boolean>;
}

interface DataKeysDeps {
  readonly store: Store;
  readonly vault: Vault;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * Opens the keys. They are read from the store when a method is called.
 *
 * @throws {MusterError} as its methods say
 */
export function openDataKeys({ store, vault, clock }: DataKeysDeps): DataKeys {
  const opened = async (record: string, value: string) => {
    const { since, sealed } = decodeDataKey(record, value);
    return { since, key: new Secret(await vault.open(record, sealed)) };
  };

  const get: DataKeys['get'] = async (machine, filesystem) => {
    const record = KEYS.dataKey.key(machine, filesystem);
    const stored = await store.get(record);
    return stored && (await opened(record, stored.value)).key;
  };

  return {
    get,
    async getOrMake(machine, filesystem) {
      const before = await get(machine, filesystem);
      if (before !== undefined) return before;
      const { records } = await store.list(KEYS.dataKey.prefix(machine));
      if (records.length >= MAX_DATA_KEYS)
        throw new MusterError(
          'E_DATA_KEY',
          `${machine} has ${MAX_DATA_KEYS} keys of filesystems already; \`muster machine data-keys ${machine}\` lists them, and removes those that no disk uses`,
        );
      const record = KEYS.dataKey.key(machine, filesystem);
      const made = randomBytes(32).toString('base64');
      const put = encode({ since: clock.now(), sealed: await vault.seal(record, made) });
      const result = await store.commit([{ key: record, put, expect: 'absent' }]);
      return result.ok ? new Secret(made) : (await get(machine, filesystem))!;
    },
    async ids() {
      const { records } = await store.list(KEYS.dataKey.prefix());
      return records.map(({ key }) => KEYS.dataKey.parse(key)!.join('/'));
    },
    async of(machine) {
      const { records } = await store.list(KEYS.dataKey.prefix(machine));
      return records.map(({ key, value }) => ({
        filesystem: KEYS.dataKey.parse(key)![1]!,
        since: decodeDataKey(key, value).since,
      }));
    },
    async remove(machine, filesystem) {
      const record = KEYS.dataKey.key(machine, filesystem);
      if ((await store.get(record)) === undefined) return false;
      await store.commit([{ key: record, delete: true }]);
      return true;
    },
    async all() {
      const { records } = await store.list(KEYS.dataKey.prefix());
      const all = records.map(async ({ key, value }) => {
        const [machine, filesystem] = KEYS.dataKey.parse(key) ?? [];
        return machine === undefined || filesystem === undefined
          ? []
          : [{ machine, filesystem, ...(await opened(key, value)) }];
      });
      return (await Promise.all(all)).flat();
    },
  };
}
