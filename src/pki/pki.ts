/**
 * The keys of all clusters. They are founded once and kept sealed in the store; every certificate
 * is written to the ledger before it is handed out.
 */

import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { KEYS, MUSTER_SCOPE, PKI_PREFIX } from '../store/keys.ts';
import { MAX_OPERATIONS, type Store, type StoredRecord, type Write } from '../store/store.ts';
import {
  decodeEncryption,
  type EncryptionKeyset,
  encodeEncryption,
  foundEncryption,
  rewrapEncryption,
} from './encryption.ts';
import { rewrapGiven } from './given-secrets.ts';
import {
  type AuthorityName,
  CLUSTER_KEYSETS,
  type ClusterNames,
  type Holder,
  isOfMachines,
  type KeysetName,
  type LeafName,
  leafOf,
  MUSTER_KEYSETS,
} from './hierarchy.ts';
import { issueLeaf, newGeneration } from './issue.ts';
import { IssueLimit } from './issue-limit.ts';
import type { KeyAlgorithm, PublicKey } from './keys.ts';
import { foundKeyset, type Keyset, signingPair } from './keyset.ts';
import {
  decodeIssued,
  decodeKeyset,
  encodeIssued,
  encodeKeyset,
  type IssuedCertificate,
  rewrapKeyset,
} from './records.ts';
import { rewrapSecret } from './secrets.ts';
import type { Vault } from './vault.ts';
import { type Signer, type SubjectName, signer } from './x509.ts';

interface PkiDeps {
  readonly store: Store;
  readonly vault: Vault;
  readonly clock: Clock;
}

export type Keysets = ReadonlyMap<KeysetName, Keyset>;

interface IssueOrder {
  readonly leaf: LeafName;
  readonly holder: Holder;
  readonly cluster: ClusterNames;
  readonly publicKey: PublicKey;
  /**
   * Writes that belong to the certificate, e.g. the record that makes it the current one: committed
   * together with the ledger's entry, or not at all.
   */
  readonly also?: (issued: IssuedCertificate) => readonly Write[];
}

export interface Pki {
  /**
   * Makes the keysets of a cluster, including the one that encrypts its Secrets, or Muster's own
   * for `_muster`. Does nothing when the scope has keysets. Returns the keysets of the scope,
   * without the one that encrypts Secrets.
   */
  found(scope: string, algorithm?: KeyAlgorithm): Promise<Keysets>;
  /** Whether the scope has keysets. */
  isFounded(scope: string): Promise<boolean>;
  /**
   * The keysets of a scope.
   *
   * @throws {MusterError} E_NO_KEYS when the scope was not founded.
   */
  keysets(scope: string): Promise<Keysets>;
  /**
   * One step of a rotation: reads the keyset, applies `step` and writes it.
   *
   * @throws {MusterError} E_CONFLICT when another call wrote it meanwhile; E_PKI when there is no
   *   such keyset; and what `step` throws.
   */
  change(scope: string, name: KeysetName, step: (keyset: Keyset) => Keyset): Promise<Keyset>;
  /** The keyset that encrypts the cluster's Secrets; undefined when it was founded without. */
  encryption(scope: string): Promise<EncryptionKeyset | undefined>;
  /** As {@link change}, for the keyset that encrypts Secrets. */
  changeEncryption(
    scope: string,
    step: (keyset: EncryptionKeyset) => EncryptionKeyset,
  ): Promise<EncryptionKeyset>;
  /**
   * Signs a certificate and writes it to the ledger; resolves when the entry is durable.
   *
   * @throws {MusterError} E_CONFLICT when an expectation of `also` does not hold: nothing was
   *   written, and the certificate is not handed out. E_PKI when the scope lacks the CA.
   *   E_CERTIFICATE_LIMIT when the machine got many certificates of this kind lately.
   */
  issue(scope: string, order: IssueOrder): Promise<IssuedCertificate>;
  /** Names of the clusters that have keys, and Muster's own scope. */
  scopes(): Promise<readonly string[]>;
  /** The ledger's entry for this serial number (hexadecimal); undefined when there is none. */
  issuedOne(scope: string, serial: string): Promise<IssuedCertificate | undefined>;
  /** The ledger of a scope, by serial number. */
  issued(scope: string): Promise<readonly IssuedCertificate[]>;
  /**
   * Deletes entries of the ledger whose certificates ended a while ago ({@link KEPT_AFTER_END}),
   * except the newest of its kind that somebody got. Returns how many.
   */
  prune(scope: string): Promise<number>;
  /**
   * Seals all records with the vault's primary key. Returns how many were written.
   *
   * @throws {MusterError} E_CONFLICT when a record changed meanwhile; the call can be repeated.
   */
  rewrap(): Promise<number>;
}

/** How long the ledger shows a certificate that has ended. */
export const KEPT_AFTER_END = duration('7d');

const subjectText = ({ commonName, organizations = [] }: SubjectName): string =>
  [...organizations.map((organization) => `O = ${organization}`), `CN = ${commonName}`].join(', ');

/** What two certificates have in common of which the newer one replaces the older. */
const kindOf = ({ leaf, to }: IssuedCertificate): string => `${leaf} ${to}`;

/**
 * The record sealed with the vault's primary key; undefined when it is already, or holds no secret.
 */
function rewrapped(key: string, value: string, vault: Vault): string | undefined {
  if (KEYS.givenSecret.parse(key)) return rewrapGiven(key, value, vault);
  if (KEYS.secret.parse(key)) return rewrapSecret(key, value, vault);
  if (KEYS.keyset.parse(key)) return rewrapKeyset(key, value, vault);
  return KEYS.encryption.parse(key) ? rewrapEncryption(key, value, vault) : undefined;
}

/** Opens the PKI. It reads the store when a method is called. */
export function openPki(deps: PkiDeps): Pki {
  return new StorePki(deps);
}

class StorePki implements Pki {
  readonly #store: Store;
  readonly #vault: Vault;
  readonly #clock: Clock;
  readonly #limit = new IssueLimit();
  /** By generation; a generation never changes. */
  readonly #signers = new Map<string, Signer>();
  /** Opened keysets by record: unsealing and checking one costs as much as a signature. */
  readonly #opened = new Map<string, { readonly revision: number; readonly keyset: Keyset }>();

  constructor({ store, vault, clock }: PkiDeps) {
    this.#store = store;
    this.#vault = vault;
    this.#clock = clock;
  }

  async keysets(scope: string): Promise<Keysets> {
    const found = await this.#read(scope);
    if (found.size === 0) throw new MusterError('E_NO_KEYS', `${scope} has no keys yet`);
    return found;
  }

  async isFounded(scope: string): Promise<boolean> {
    return (await this.#store.list(KEYS.keyset.prefix(scope))).records.length > 0;
  }

  async found(scope: string, algorithm?: KeyAlgorithm): Promise<Keysets> {
    const existing = await this.#read(scope);
    if (existing.size > 0) return existing;
    const now = this.#clock.now();
    const names: readonly KeysetName[] = scope === MUSTER_SCOPE ? MUSTER_KEYSETS : CLUSTER_KEYSETS;
    const made = await Promise.all(
      names.map(async (name) =>
        foundKeyset(name, await newGeneration(name, { now, ...(algorithm && { algorithm }) })),
      ),
    );
    const writes = made.map((keyset) => ({
      key: KEYS.keyset.key(scope, keyset.name),
      put: encodeKeyset(scope, keyset, this.#vault),
      expect: 'absent' as const,
    }));
    const encryption = scope === MUSTER_SCOPE ? [] : [this.#foundEncryption(scope, now)];
    const result = await this.#store.commit([...writes, ...encryption]);
    // Another call founded the scope at the same moment: the keys of that call count.
    return result.ok ? new Map(made.map((keyset) => [keyset.name, keyset])) : this.keysets(scope);
  }

  change(scope: string, name: KeysetName, step: (keyset: Keyset) => Keyset): Promise<Keyset> {
    return this.#changed(
      KEYS.keyset.key(scope, name),
      step,
      (key, value) => decodeKeyset(key, value, this.#vault),
      (after) => encodeKeyset(scope, after, this.#vault),
    );
  }

  async encryption(scope: string): Promise<EncryptionKeyset | undefined> {
    const record = await this.#store.get(KEYS.encryption.key(scope));
    return record && decodeEncryption(record.key, record.value, this.#vault);
  }

  changeEncryption(
    scope: string,
    step: (keyset: EncryptionKeyset) => EncryptionKeyset,
  ): Promise<EncryptionKeyset> {
    return this.#changed(
      KEYS.encryption.key(scope),
      step,
      (key, value) => decodeEncryption(key, value, this.#vault),
      (after) => encodeEncryption(KEYS.encryption.key(scope), after, this.#vault),
    );
  }

  async issue(
    scope: string,
    { leaf, holder, cluster, publicKey, also }: IssueOrder,
  ): Promise<IssuedCertificate> {
    const row = leafOf(leaf);
    this.#countOne(scope, leaf, holder.name);
    const { signs, generation } = await this.#signerOf(scope, row.parent);
    const now = this.#clock.now();
    const made = await issueLeaf(signs, { leaf, holder, cluster, publicKey, now });
    const issued: IssuedCertificate = {
      serial: made.serial,
      leaf,
      subject: subjectText(row.subject(holder)),
      to: holder.name,
      issuer: { keyset: row.parent, generation },
      publicKey: publicKey.pin(),
      notBefore: made.notBefore,
      notAfter: made.notAfter,
      issuedAt: now,
      certificate: made.pem,
    };
    const write: Write = {
      key: KEYS.issued.key(scope, made.serial),
      put: encodeIssued(issued),
      expect: 'absent',
    };
    const result = await this.#store.commit([write, ...(also?.(issued) ?? [])]);
    if (result.ok) return issued;
    const keys = result.conflicts.map(({ key }) => key).join(', ');
    throw new MusterError('E_CONFLICT', `somebody else was first: ${keys}`);
  }

  async scopes(): Promise<readonly string[]> {
    const { records } = await this.#store.list(PKI_PREFIX);
    const scopes = records.flatMap(({ key }) => KEYS.keyset.parse(key)?.[0] ?? []);
    return [...new Set(scopes)];
  }

  async issuedOne(scope: string, serial: string): Promise<IssuedCertificate | undefined> {
    const record = await this.#store.get(KEYS.issued.key(scope, serial));
    return record && decodeIssued(record.key, record.value);
  }

  async issued(scope: string): Promise<readonly IssuedCertificate[]> {
    const { records } = await this.#store.list(KEYS.issued.prefix(scope));
    return records.map(({ key, value }) => decodeIssued(key, value));
  }

  async prune(scope: string): Promise<number> {
    const before = this.#clock.now() - KEPT_AFTER_END;
    const { records } = await this.#store.list(KEYS.issued.prefix(scope));
    const all = records.map(({ key, value }) => ({ key, issued: decodeIssued(key, value) }));
    const newest = new Map<string, Millis>();
    for (const { issued } of all)
      newest.set(kindOf(issued), Math.max(newest.get(kindOf(issued)) ?? 0, issued.issuedAt) as Millis);
    const over = all.filter(
      ({ issued }) => issued.notAfter < before && issued.issuedAt < newest.get(kindOf(issued))!,
    );
    for (let from = 0; from < over.length; from += MAX_OPERATIONS)
      await this.#store.commit(
        over.slice(from, from + MAX_OPERATIONS).map(({ key }) => ({ key, delete: true })),
      );
    return over.length;
  }

  async rewrap(): Promise<number> {
    let written = 0;
    const { records } = await this.#store.list(PKI_PREFIX);
    for (const { key, value, revision } of records) {
      const put = rewrapped(key, value, this.#vault);
      if (put === undefined) continue;
      const result = await this.#store.commit([{ key, put, expect: revision }]);
      if (!result.ok) throw new MusterError('E_CONFLICT', `${key} was changed meanwhile; repeat`);
      written++;
    }
    return written;
  }

  /** @throws {MusterError} E_CERTIFICATE_LIMIT when a machine got many of these lately. */
  #countOne(scope: string, leaf: LeafName, to: string): void {
    if (!isOfMachines(leaf)) return;
    const wait = this.#limit.take(`${scope} ${leaf} ${to}`, this.#clock.monotonic());
    if (wait === undefined) return;
    const minutes = Math.ceil(wait / 60_000);
    throw new MusterError(
      'E_CERTIFICATE_LIMIT',
      `${to} got many certificates "${leaf}" lately; the next one in ${minutes} min`,
    );
  }

  /** The write of a cluster's first encryption keyset. */
  #foundEncryption(scope: string, now: Millis) {
    const key = KEYS.encryption.key(scope);
    const put = encodeEncryption(key, foundEncryption(now), this.#vault);
    return { key, put, expect: 'absent' as const };
  }

  #keysetOf({ key, value, revision }: StoredRecord): Keyset {
    const known = this.#opened.get(key);
    if (known?.revision === revision) return known.keyset;
    const keyset = decodeKeyset(key, value, this.#vault);
    this.#opened.set(key, { revision, keyset });
    return keyset;
  }

  async #read(scope: string): Promise<Keysets> {
    const { records } = await this.#store.list(KEYS.keyset.prefix(scope));
    const keysets = records.map((record) => this.#keysetOf(record));
    return new Map(keysets.map((keyset) => [keyset.name, keyset]));
  }

  /** Applies `step` to one record, and fails if another call wrote it meanwhile. */
  async #changed<K>(
    key: string,
    step: (before: K) => K,
    decode: (key: string, value: string) => K,
    encode: (after: K) => string,
  ): Promise<K> {
    const record = await this.#store.get(key);
    if (record === undefined) throw new MusterError('E_PKI', `there is no ${key}`);
    const after = step(decode(key, record.value));
    const result = await this.#store.commit([{ key, put: encode(after), expect: record.revision }]);
    if (!result.ok) throw new MusterError('E_CONFLICT', `${key} was changed meanwhile`);
    return after;
  }

  async #signerOf(
    scope: string,
    name: AuthorityName,
  ): Promise<{ readonly signs: Signer; readonly generation: string }> {
    const record = await this.#store.get(KEYS.keyset.key(scope, name));
    if (record === undefined) throw new MusterError('E_PKI', `${scope} has no ${name}`);
    const keyset = this.#keysetOf(record);
    const generation = keyset.primary;
    const known = this.#signers.get(generation);
    if (known) return { signs: known, generation };
    const { certificate, key } = signingPair(keyset);
    const signs = signer(certificate, key);
    this.#signers.set(generation, signs);
    return { signs, generation };
  }
}
