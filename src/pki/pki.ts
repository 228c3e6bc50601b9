/**
 * The keys of all clusters: founded once, kept sealed in the store, every certificate written to
 * the ledger before it leaves.
 */
import type { Clock } from '../base/clock.ts';
import { MusterError } from '../base/errors.ts';
import { KEYS, MUSTER_SCOPE, PKI_PREFIX } from '../store/keys.ts';
import type { Store, StoredRecord, Write } from '../store/store.ts';
import {
  decodeEncryption,
  type EncryptionKeyset,
  encodeEncryption,
  foundEncryption,
  rewrapEncryption,
} from './encryption.ts';
import {
  type AuthorityName,
  CLUSTER_KEYSETS,
  type ClusterNames,
  type Holder,
  type KeysetName,
  type LeafName,
  leafOf,
  MUSTER_KEYSETS,
} from './hierarchy.ts';
import { issueLeaf, newGeneration } from './issue.ts';
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

export interface PkiDeps {
  readonly store: Store;
  readonly vault: Vault;
  readonly clock: Clock;
}

export type Keysets = ReadonlyMap<KeysetName, Keyset>;

export interface IssueOrder {
  readonly leaf: LeafName;
  readonly holder: Holder;
  readonly cluster: ClusterNames;
  readonly publicKey: PublicKey;
  /**
   * Written with the ledger's entry or not at all: what makes this certificate the one that counts.
   */
  readonly also?: (issued: IssuedCertificate) => readonly Write[];
}

export interface Pki {
  /**
   * Makes the keysets of a cluster, with the one that its Secrets are encrypted with, or those of
   * Muster for `_muster`. Those that are there already are returned as they are.
   */
  found(scope: string, algorithm?: KeyAlgorithm): Promise<Keysets>;
  /** Whether the scope has keysets. */
  isFounded(scope: string): Promise<boolean>;
  /** Throws E_NO_KEYS when the scope was not founded. */
  keysets(scope: string): Promise<Keysets>;
  /**
   * One step of a rotation: reads, applies `step`, writes if nobody else wrote meanwhile
   * (E_CONFLICT otherwise).
   */
  change(scope: string, name: KeysetName, step: (keyset: Keyset) => Keyset): Promise<Keyset>;
  /** What the cluster's Secrets are encrypted with; undefined for one that was founded without. */
  encryption(scope: string): Promise<EncryptionKeyset | undefined>;
  /** As `change`. */
  changeEncryption(
    scope: string,
    step: (keyset: EncryptionKeyset) => EncryptionKeyset,
  ): Promise<EncryptionKeyset>;
  /**
   * Signs and enters into the ledger; the certificate is returned when the entry is durable.
   * E_CONFLICT when an expectation of `also` does not hold: then nothing was written, and the
   * certificate is nobody's.
   */
  issue(scope: string, order: IssueOrder): Promise<IssuedCertificate>;
  /** Clusters that have keys, by name, and Muster's own scope. */
  scopes(): Promise<readonly string[]>;
  /** The ledger's entry of this serial number. */
  issuedOne(scope: string, serial: string): Promise<IssuedCertificate | undefined>;
  /** The ledger of a scope, by serial number. */
  issued(scope: string): Promise<readonly IssuedCertificate[]>;
  /**
   * Seals everything sealed with the vault's primary key. Returns how many records were written.
   */
  rewrap(): Promise<number>;
}

export const subjectText = ({ commonName, organizations = [] }: SubjectName): string =>
  [...organizations.map((organization) => `O = ${organization}`), `CN = ${commonName}`].join(', ');

/**
 * A record with keys, sealed by the vault's primary; undefined when it is already, or holds none.
 */
function rewrapped(key: string, value: string, vault: Vault): string | undefined {
  if (KEYS.secret.parse(key)) return rewrapSecret(key, value, vault);
  if (KEYS.keyset.parse(key)) return rewrapKeyset(key, value, vault);
  return KEYS.encryption.parse(key) ? rewrapEncryption(key, value, vault) : undefined;
}

export function openPki({ store, vault, clock }: PkiDeps): Pki {
  /** By generation; a generation never changes. */
  const signers = new Map<string, Signer>();
  /** Opened keysets by record: unsealing and checking one costs as much as a signature. */
  const opened = new Map<string, { readonly revision: number; readonly keyset: Keyset }>();

  const keysetOf = ({ key, value, revision }: StoredRecord): Keyset => {
    const known = opened.get(key);
    if (known?.revision === revision) return known.keyset;
    const keyset = decodeKeyset(key, value, vault);
    opened.set(key, { revision, keyset });
    return keyset;
  };

  const read = async (scope: string): Promise<Keysets> => {
    const { records } = await store.list(KEYS.keyset.prefix(scope));
    return new Map(records.map(keysetOf).map((keyset) => [keyset.name, keyset]));
  };

  const keysets = async (scope: string): Promise<Keysets> => {
    const found = await read(scope);
    if (found.size === 0) throw new MusterError('E_NO_KEYS', `${scope} has no keys yet`);
    return found;
  };

  /** One record through one step, unless somebody else wrote it meanwhile. */
  const changed = async <K>(
    key: string,
    step: (before: K) => K,
    decode: (key: string, value: string) => K,
    encode: (after: K) => string,
  ): Promise<K> => {
    const record = await store.get(key);
    if (record === undefined) throw new MusterError('E_PKI', `there is no ${key}`);
    const after = step(decode(key, record.value));
    const result = await store.commit([{ key, put: encode(after), expect: record.revision }]);
    if (!result.ok) throw new MusterError('E_CONFLICT', `${key} was changed meanwhile`);
    return after;
  };

  const signerOf = async (scope: string, name: AuthorityName) => {
    const record = await store.get(KEYS.keyset.key(scope, name));
    if (record === undefined) throw new MusterError('E_PKI', `${scope} has no ${name}`);
    const keyset = keysetOf(record);
    const ready = signers.get(keyset.primary);
    if (ready) return { ready, generation: keyset.primary };
    const { certificate, key } = signingPair(keyset);
    const made = signer(certificate, key);
    signers.set(keyset.primary, made);
    return { ready: made, generation: keyset.primary };
  };

  return {
    keysets,

    async isFounded(scope) {
      return (await store.list(KEYS.keyset.prefix(scope))).records.length > 0;
    },

    async found(scope, algorithm) {
      const there = await read(scope);
      if (there.size > 0) return there;
      const now = clock.now();
      const names: readonly KeysetName[] = scope === MUSTER_SCOPE ? MUSTER_KEYSETS : CLUSTER_KEYSETS;
      const made = await Promise.all(
        names.map(async (name) =>
          foundKeyset(name, await newGeneration(name, { now, ...(algorithm && { algorithm }) })),
        ),
      );
      const encryption = KEYS.encryption.key(scope);
      const result = await store.commit([
        ...made.map((keyset) => ({
          key: KEYS.keyset.key(scope, keyset.name),
          put: encodeKeyset(scope, keyset, vault),
          expect: 'absent' as const,
        })),
        ...(scope === MUSTER_SCOPE
          ? []
          : [
              {
                key: encryption,
                put: encodeEncryption(encryption, foundEncryption(now), vault),
                expect: 'absent' as const,
              },
            ]),
      ]);
      // Somebody else founded it at the same moment: theirs are the keys.
      return result.ok ? new Map(made.map((keyset) => [keyset.name, keyset])) : keysets(scope);
    },

    change: (scope, name, step) =>
      changed(
        KEYS.keyset.key(scope, name),
        step,
        (key, value) => decodeKeyset(key, value, vault),
        (after) => encodeKeyset(scope, after, vault),
      ),

    async encryption(scope) {
      const record = await store.get(KEYS.encryption.key(scope));
      return record && decodeEncryption(record.key, record.value, vault);
    },

    changeEncryption: (scope, step) =>
      changed(
        KEYS.encryption.key(scope),
        step,
        (key, value) => decodeEncryption(key, value, vault),
        (after) => encodeEncryption(KEYS.encryption.key(scope), after, vault),
      ),

    async issue(scope, { leaf, holder, cluster, publicKey, also }) {
      const row = leafOf(leaf);
      const { ready, generation } = await signerOf(scope, row.parent);
      const now = clock.now();
      const made = await issueLeaf(ready, { leaf, holder, cluster, publicKey, now });
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
      const result = await store.commit([write, ...(also?.(issued) ?? [])]);
      if (result.ok) return issued;
      const keys = result.conflicts.map(({ key }) => key).join(', ');
      throw new MusterError('E_CONFLICT', `somebody else was first: ${keys}`);
    },

    async scopes() {
      const { records } = await store.list(PKI_PREFIX);
      const scopes = records.flatMap(({ key }) => KEYS.keyset.parse(key)?.[0] ?? []);
      return [...new Set(scopes)];
    },

    async issuedOne(scope, serial) {
      const record = await store.get(KEYS.issued.key(scope, serial));
      return record && decodeIssued(record.key, record.value);
    },

    async issued(scope) {
      const { records } = await store.list(KEYS.issued.prefix(scope));
      return records.map(({ key, value }) => decodeIssued(key, value));
    },

    async rewrap() {
      let written = 0;
      const { records } = await store.list(PKI_PREFIX);
      for (const { key, value, revision } of records) {
        const again = rewrapped(key, value, vault);
        if (again === undefined) continue;
        const result = await store.commit([{ key, put: again, expect: revision }]);
        if (!result.ok) throw new MusterError('E_CONFLICT', `${key} was changed meanwhile; repeat`);
        written++;
      }
      return written;
    },
  };
}
