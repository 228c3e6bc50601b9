/** Seals everything in the store again with the vault's first key, record by record. */
import { MusterError } from '../base/errors.ts';
import { KEYS, PKI_PREFIX } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import { rewrapDataKey } from './data-keys.ts';
import { rewrapEncryption } from './encryption.ts';
import { rewrapGiven } from './given-secrets.ts';
import { rewrapKeyset } from './records.ts';
import { rewrapSecret } from './secrets.ts';
import type { Vault } from './vault.ts';

interface ResealDeps {
  readonly store: Pick<Store, 'list' | 'get' | 'commit'>;
  readonly vault: Vault;
}

/** How often a record that another call writes meanwhile is read again. */
const TRIES = 5;

/**
 * The record sealed with the vault's primary key; undefined when it is already, or holds no secret.
 */
async function resealed(key: string, value: string, vault: Vault): Promise<string | undefined> {
  if (KEYS.givenSecret.parse(key)) return rewrapGiven(key, value, vault);
  if (KEYS.dataKey.parse(key)) return rewrapDataKey(key, value, vault);
  if (KEYS.secret.parse(key)) return rewrapSecret(key, value, vault);
  if (KEYS.keyset.parse(key)) return rewrapKeyset(key, value, vault);
  return KEYS.encryption.parse(key) ? rewrapEncryption(key, value, vault) : undefined;
}

async function resealOne({ store, vault }: ResealDeps, key: string): Promise<boolean> {
  for (let tries = 0; tries < TRIES; tries++) {
    const record = await store.get(key);
    const put = record && (await resealed(key, record.value, vault));
    if (record === undefined || put === undefined) return false;
    if ((await store.commit([{ key, put, expect: record.revision }])).ok) return true;
  }
  throw new MusterError('E_CONFLICT', `${key} is being changed all the time; repeat`);
}

/**
 * Seals all records with the vault's primary key. Returns how many were written. A call that was
 * interrupted is finished by another one.
 *
 * @throws {MusterError} E_VAULT_KEY when a record was sealed with a key that the vault lacks, after
 *   the records before it were written; E_VAULT_RECORD, E_PKI for a record that cannot be read;
 *   E_CONFLICT when a record is written by others all the time.
 */
export async function resealAll(deps: ResealDeps): Promise<number> {
  let written = 0;
  for (const { key } of (await deps.store.list(PKI_PREFIX)).records)
    if (await resealOne(deps, key)) written++;
  return written;
}

/** The keys of the vault and the use of each. */
export interface VaultKeys {
  /** The id of the key that seals. */
  readonly primary: string;
  /** Key id → the number of records that it sealed. */
  readonly records: Readonly<Record<string, number>>;
}

/** The keys of the vault, and how many records of the store need each. No record is opened. */
export async function vaultKeysOf({ store, vault }: ResealDeps): Promise<VaultKeys> {
  const { primary, ids: known } = await vault.keys();
  const counts = new Map<string, number>(known.map((id) => [id, 0]));
  for (const { value } of (await store.list(PKI_PREFIX)).records) {
    const ids = new Set([...value.matchAll(/"kid":"([0-9a-f]{16})"/g)].map((found) => found[1]!));
    for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return { primary, records: Object.fromEntries(counts) };
}
