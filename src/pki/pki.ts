/**
 * The keys of all clusters. They are founded once and kept sealed in the store; every certificate
 * is written to the ledger before it is handed out.
 */

import { setBounded } from '../base/aged.ts';
import { type Clock, mustKnowTime } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Secret } from '../base/secret.ts';
import { BMC_SCOPE, KEYS, MUSTER_SCOPE, PKI_PREFIX } from '../store/keys.ts';
import type { Store, StoredRecord, Write } from '../store/store.ts';
import { type AdoptedKeys, adoptedGeneration } from './adopted.ts';
import { type DataKeys, openDataKeys } from './data-keys.ts';
import {
  decodeEncryption,
  type EncryptionKeyset,
  encodeEncryption,
  foundEncryption,
  newEncryptionKey,
} from './encryption.ts';
import {
  AUTHORITIES,
  type ClusterNames,
  type Holder,
  isOfMachines,
  isProbe,
  type LeafName,
  leafOf,
} from './hierarchy.ts';
import { IssueLimit } from './issue-limit.ts';
import type { KeyAlgorithm, PublicKey } from './keys.ts';
import {
  type Aged,
  bridgesBehind,
  foundKeyset,
  type Generation,
  type Keyset,
  type KeysetOf,
  type OpenGeneration,
  primaryOf,
} from './keyset.ts';
import {
  ADOPTED,
  type AuthorityName,
  BMC_KEYSETS,
  CLUSTER_KEYSETS,
  isAuthority,
  type KeysetName,
  MUSTER_KEYSETS,
} from './keysets.ts';
import { pruneLedger } from './prune.ts';
import { decodeIssued, decodeKeyset, encodeIssued, encodeKeyset, type IssuedCertificate } from './records.ts';
import { orderRenewal, type RenewalOrder, renewalsOf } from './renewals.ts';
import { resealAll, type VaultKeys, vaultKeysOf } from './reseal.ts';
import {
  applyTransition,
  generationOf,
  givenTo,
  type KeysetState,
  type RotatedKeyset,
  stateOf,
  type Transition,
} from './transitions.ts';
import type { Vault } from './vault.ts';
import { subjectText } from './x509.ts';

interface PkiDeps {
  readonly store: Store;
  readonly vault: Vault;
  readonly clock: Clock;
  /** How long new CAs and leaves are valid, for tests; as hierarchy.ts says by default. */
  readonly lifetimes?: { readonly authority?: Millis };
}

export type Keysets = ReadonlyMap<KeysetName, Keyset>;

interface IssueOrder {
  readonly leaf: LeafName;
  readonly holder: Holder;
  readonly cluster: ClusterNames;
  readonly publicKey: PublicKey;
  /** See lifetimeOf of hierarchy.ts. */
  readonly lifetime?: Millis | undefined;
  /** The generation that signs, of a probe; the primary signs everything else. */
  readonly generation?: string;
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
  /**
   * Takes over the keys of a cluster that another tool made, and makes the one that encrypts its
   * Secrets. `also`: writes that are committed together with the keysets, or not at all.
   *
   * @throws {MusterError} E_PKI when a pair cannot be used; E_CONFLICT when the scope has keysets,
   *   or an expectation of `also` does not hold
   */
  adopt(scope: string, keys: AdoptedKeys, also: readonly Write[]): Promise<void>;
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
  change(
    scope: string,
    name: KeysetName,
    step: (keyset: Keyset) => Keyset | Promise<Keyset>,
  ): Promise<Keyset>;
  /**
   * Makes a generation of a keyset, or changes the state of one: see {@link Transition}. `also`
   * returns writes that are committed together with the keyset, or not at all; it gets the state
   * after the step, and the id of the generation that the step is about.
   *
   * @throws {MusterError} E_KEYSET when the keyset does not allow the step; E_CONFLICT when another
   *   call wrote it meanwhile, or an expectation of `also` does not hold; E_PKI when there is no
   *   such keyset.
   *
   * @example
   * const { generation } = await pki.transition('blue', 'ca', { do: 'make' });
   * await pki.transition('blue', 'ca', { do: 'trust', generation });
   */
  transition(
    scope: string,
    keyset: RotatedKeyset,
    transition: Transition,
    also?: (after: KeysetState, generation: string) => readonly Write[],
  ): Promise<{ readonly generation: string; readonly state: KeysetState }>;
  /** The keyset that encrypts the cluster's Secrets; undefined when it was founded without. */
  encryption(scope: string): Promise<EncryptionKeyset | undefined>;
  /** As {@link change}, for the keyset that encrypts Secrets. */
  changeEncryption(
    scope: string,
    step: (keyset: EncryptionKeyset) => EncryptionKeyset,
  ): Promise<EncryptionKeyset>;
  /**
   * Signs a certificate and writes it to the ledger; resolves when the entry is durable. Bridges
   * from the other trusted generations follow behind the certificate.
   *
   * @throws {MusterError} E_CLOCK while the host's clock is in doubt. E_CONFLICT when an
   *   expectation of `also` does not hold: nothing was written, and the certificate is not handed
   *   out. E_PKI when the scope lacks the CA. E_CERTIFICATE_LIMIT when the machine got many
   *   certificates of this kind lately.
   */
  issue(scope: string, order: IssueOrder): Promise<IssuedCertificate>;
  /** Seals a key that an operator brought. @throws {MusterError} E_SIGNER_REFUSED */
  take(scope: string, keyset: KeysetName, taken: OpenGeneration): Promise<Generation>;
  /** The generation with another certificate of the same key, which begins now. */
  certify(scope: string, keyset: AuthorityName, generation: Generation): Promise<Generation>;
  /** Any private key, PEM. @throws {MusterError} E_SIGNER_REFUSED */
  exported(scope: string, keyset: KeysetName, generation: Generation): Promise<Secret>;
  /**
   * The private keys with which programs of a control plane sign.
   *
   * @throws {MusterError} E_SIGNER_REFUSED when the machine is not approved as a control plane
   */
  handedOut(scope: string, machine: string, keysets: Keysets): Promise<ReadonlyMap<KeysetName, Secret>>;
  /** The keys of encrypted data filesystems. */
  readonly dataKeys: DataKeys;

  /** The renewals that were ordered in a scope. */
  renewals(scope: string): Promise<readonly RenewalOrder[]>;
  /**
   * Orders that certificates which were issued before now are replaced when their machines ask, and
   * with `newKeys` their keys as well. Throws as orderRenewal of renewals.ts.
   */
  renew(scope: string, what: Omit<RenewalOrder, 'at'>, also?: readonly Write[]): Promise<void>;
  /** Names of the clusters that have keys, and Muster's own scope. */
  scopes(): Promise<readonly string[]>;
  /** The ledger's entry for this serial number (hexadecimal); undefined when there is none. */
  issuedOne(scope: string, serial: string): Promise<IssuedCertificate | undefined>;
  /**
   * The ledger of a scope in the order in which it was issued: dates say nothing about the order if
   * the clock was ever wrong.
   */
  issued(scope: string): Promise<readonly IssuedCertificate[]>;
  /**
   * Deletes entries of the ledger whose certificates ended a while ago (see prune.ts),
   * except the newest of its kind that somebody got. Returns how many.
   */
  prune(scope: string): Promise<number>;
  /** The keys of the vault, and how many records of the store need each. */
  vaultKeys(): Promise<VaultKeys>;
  /** Seals all records with the vault's primary key: see resealAll of reseal.ts. */
  rewrap(): Promise<number>;
}

/** Opens the PKI. It reads the store when a method is called. */
export function openPki(deps: PkiDeps): Pki {
  return new StorePki(deps);
}

/** The scopes that are no clusters. */
const OF_MUSTER: Readonly<Record<string, readonly KeysetName[] | undefined>> = {
  [MUSTER_SCOPE]: MUSTER_KEYSETS,
  [BMC_SCOPE]: BMC_KEYSETS,
};

/** The keysets of which control planes get the private key. */
const HANDED_OUT = CLUSTER_KEYSETS.filter(
  (name) => name === 'sa' || (isAuthority(name) && AUTHORITIES[name].pair?.signsThere),
);
/** More keys than this are not kept in memory: two of each control plane. */
const MOST_HANDED_OUT = 1000;

/** How a keyset is kept in the store. */
interface KeysetRecord<K> {
  readonly key: string;
  readonly decode: (key: string, value: string) => K | Promise<K>;
  readonly encode: (after: K) => string | Promise<string>;
}

class StorePki implements Pki {
  readonly dataKeys: DataKeys;
  readonly #store: Store;
  readonly #vault: Vault;
  readonly #clock: Clock;
  readonly #lifetimes: NonNullable<PkiDeps['lifetimes']>;
  readonly #limit = new IssueLimit();
  /** Private keys that were handed out, by machine and generation: they are in each plan. */
  readonly #handedOut = new Map<string, Promise<Secret>>();
  /** Read keysets by record: checking one costs as much as a signature. */
  readonly #opened = new Map<string, { readonly revision: number; readonly keyset: unknown }>();

  constructor({ store, vault, clock, lifetimes = {} }: PkiDeps) {
    this.#lifetimes = lifetimes;
    this.#store = store;
    this.#vault = vault;
    this.#clock = clock;
    this.dataKeys = openDataKeys({ store, vault, clock });
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
    mustKnowTime(this.#clock);
    const now = this.#clock.now();
    const lifetime = this.#lifetimes.authority;
    const options = { now, ...(algorithm && { algorithm }), ...(lifetime && { lifetime }) };
    const ofMuster = OF_MUSTER[scope];
    const names: readonly KeysetName[] = ofMuster ?? CLUSTER_KEYSETS;
    const made = await Promise.all(
      names.map(async (name) =>
        foundKeyset(name, await this.#vault.make({ scope, keyset: name, ...options, bridgesFrom: [] })),
      ),
    );
    const writes = made.map((keyset) => ({
      key: KEYS.keyset.key(scope, keyset.name),
      put: encodeKeyset(keyset),
      expect: 'absent' as const,
    }));
    const encryption = ofMuster ? [] : [await this.#foundEncryption(scope, now)];
    const result = await this.#store.commit([...writes, ...encryption]);
    // Another call founded the scope at the same moment: the keys of that call count.
    return result.ok ? new Map(made.map((keyset) => [keyset.name, keyset])) : this.keysets(scope);
  }

  async adopt(scope: string, keys: AdoptedKeys, also: readonly Write[]): Promise<void> {
    mustKnowTime(this.#clock);
    const now = this.#clock.now();
    const given = ADOPTED.map((name) => ({ name, one: adoptedGeneration(name, keys[name], now) }));
    const writes = given.map(async ({ name, one }) => ({
      key: KEYS.keyset.key(scope, name),
      put: encodeKeyset(foundKeyset(name, await this.take(scope, name, one))),
      expect: 'absent' as const,
    }));
    const encryption = await this.#foundEncryption(scope, now);
    const result = await this.#store.commit([...(await Promise.all(writes)), encryption, ...also]);
    if (!result.ok) throw new MusterError('E_CONFLICT', `${scope} has keys, or was founded, already`);
  }

  take(scope: string, keyset: KeysetName, taken: OpenGeneration): Promise<Generation> {
    return this.#vault.take({ scope, keyset, taken, now: taken.createdAt, bridgesFrom: [] });
  }

  certify(scope: string, keyset: AuthorityName, generation: Generation): Promise<Generation> {
    return this.#vault.certify({ scope, keyset, generation, now: this.#clock.now() });
  }

  exported(scope: string, keyset: KeysetName, generation: Generation): Promise<Secret> {
    return this.#vault.export({ scope, keyset, generation });
  }

  async handedOut(
    scope: string,
    machine: string,
    keysets: Keysets,
  ): Promise<ReadonlyMap<KeysetName, Secret>> {
    const all = HANDED_OUT.flatMap((name) => {
      const keyset = keysets.get(name);
      return keyset ? [{ name, generation: primaryOf(keyset) }] : [];
    });
    const opened = all.map(async ({ name, generation }) => {
      const at = `${scope} ${name} ${generation.id} ${machine}`;
      const known = this.#handedOut.get(at);
      const secret = known ?? this.#vault.handOut({ scope, keyset: name, machine, generation });
      if (known === undefined) {
        setBounded(this.#handedOut, at, secret, MOST_HANDED_OUT);
        secret.catch(() => this.#handedOut.delete(at));
      }
      return [name, await secret] as const;
    });
    return new Map(await Promise.all(opened));
  }

  change(
    scope: string,
    name: KeysetName,
    step: (keyset: Keyset) => Keyset | Promise<Keyset>,
  ): Promise<Keyset> {
    return this.#changed(this.#keysetRecord(scope, name), step);
  }

  async transition(
    scope: string,
    name: RotatedKeyset,
    transition: Transition,
    also?: (after: KeysetState, generation: string) => readonly Write[],
  ): Promise<{ readonly generation: string; readonly state: KeysetState }> {
    mustKnowTime(this.#clock);
    const making = { now: this.#clock.now(), lifetime: this.#lifetimes.authority };
    let generation = '';
    const step =
      <N extends string, G extends Aged>(another: (before: KeysetOf<N, G>) => G | Promise<G>) =>
      async (before: KeysetOf<N, G>): Promise<KeysetOf<N, G>> => {
        const made = await applyTransition(before, transition, () => another(before));
        ({ generation } = made);
        return made.after;
      };
    const writes = (after: KeysetOf<RotatedKeyset, Aged>) => also?.(stateOf(after), generation) ?? [];
    const after =
      name === 'encryption'
        ? await this.#changed(
            this.#encryptionRecord(scope),
            step(() => newEncryptionKey(making.now)),
            writes,
          )
        : await this.#changed(
            this.#keysetRecord(scope, name),
            step((before: Keyset) => this.#another(scope, before, making, givenTo(transition))),
            writes,
          );
    return { generation, state: stateOf(after) };
  }

  async encryption(scope: string): Promise<EncryptionKeyset | undefined> {
    const record = await this.#store.get(KEYS.encryption.key(scope));
    return record && this.#openedOnce(record, (key, value) => decodeEncryption(key, value, this.#vault));
  }

  changeEncryption(
    scope: string,
    step: (keyset: EncryptionKeyset) => EncryptionKeyset,
  ): Promise<EncryptionKeyset> {
    return this.#changed(this.#encryptionRecord(scope), step);
  }

  async issue(
    scope: string,
    { leaf, holder, cluster, publicKey, also, lifetime, ...order }: IssueOrder,
  ): Promise<IssuedCertificate> {
    const row = leafOf(leaf);
    this.#mustKnowTimeOf(row);
    this.#countOne(scope, leaf, holder.name, order.generation);
    if (order.generation !== undefined && !isProbe(leaf))
      throw new MusterError('E_PKI', `only the primary generation signs "${leaf}"`);
    const { signs, behind } = await this.#signerOf(scope, row.parent, order.generation);
    const now = this.#clock.now();
    const what = { leaf, holder, cluster, publicKey, now, lifetime };
    const made = await this.#vault.issue({ scope, generation: signs, ...what });
    const issued: IssuedCertificate = {
      serial: made.serial,
      leaf,
      subject: subjectText(row.subject(holder)),
      to: holder.name,
      issuer: { keyset: row.parent, generation: signs.id },
      publicKey: publicKey.pin(),
      notBefore: made.notBefore,
      notAfter: made.notAfter,
      issuedAt: now,
      // A bridge would let a listener accept the probe that does not know the probe's generation.
      certificate: isProbe(leaf) ? made.pem : made.pem + behind,
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

  renewals(scope: string): Promise<readonly RenewalOrder[]> {
    return renewalsOf(this.#store, scope);
  }

  async renew(scope: string, what: Omit<RenewalOrder, 'at'>, also?: readonly Write[]): Promise<void> {
    mustKnowTime(this.#clock);
    return orderRenewal(this.#store, scope, { ...what, at: this.#clock.now() }, also);
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
    return records
      .toSorted((a, b) => a.revision - b.revision)
      .map(({ key, value }) => decodeIssued(key, value));
  }

  async prune(scope: string): Promise<number> {
    if (this.#clock.doubt() !== undefined) return 0;
    return pruneLedger(this.#store, scope, this.#clock.now());
  }

  rewrap(): Promise<number> {
    return resealAll({ store: this.#store, vault: this.#vault });
  }

  vaultKeys(): Promise<VaultKeys> {
    return vaultKeysOf({ store: this.#store, vault: this.#vault });
  }

  /**
   * A leaf of the transport CA begins in the year 2000, so only its end depends on the clock, and
   * agents that have none cannot tell what time it is: they get one unless the clock is
   * contradicted.
   *
   * @throws {MusterError} E_CLOCK while the host's clock is in doubt
   */
  #mustKnowTimeOf({ begins }: ReturnType<typeof leafOf>): void {
    if (begins === 'transport' && this.#clock.doubt()?.contradicted !== true) return;
    mustKnowTime(this.#clock);
  }

  /** @throws {MusterError} E_CERTIFICATE_LIMIT when a machine got many of these lately. */
  #countOne(scope: string, leaf: LeafName, to: string, generation = ''): void {
    if (!isOfMachines(leaf)) return;
    const wait = this.#limit.take(`${scope} ${leaf} ${to} ${generation}`, this.#clock.monotonic());
    if (wait === undefined) return;
    const minutes = Math.ceil(wait / 60_000);
    throw new MusterError(
      'E_CERTIFICATE_LIMIT',
      `${to} got many certificates "${leaf}" lately; the next one in ${minutes} min`,
    );
  }

  /** The write of a cluster's first encryption keyset. */
  async #foundEncryption(scope: string, now: Millis) {
    const key = KEYS.encryption.key(scope);
    const put = await encodeEncryption(key, foundEncryption(now), this.#vault);
    return { key, put, expect: 'absent' as const };
  }

  async #openedOnce<K>(
    { key, value, revision }: StoredRecord,
    decode: KeysetRecord<K>['decode'],
  ): Promise<K> {
    const known = this.#opened.get(key);
    if (known?.revision === revision) return known.keyset as K;
    const keyset = await decode(key, value);
    this.#opened.set(key, { revision, keyset });
    return keyset;
  }

  async #read(scope: string): Promise<Keysets> {
    const { records } = await this.#store.list(KEYS.keyset.prefix(scope));
    const keysets = records.map((record) => this.#openedOnce(record, decodeKeyset));
    return new Map((await Promise.all(keysets)).map((keyset) => [keyset.name, keyset]));
  }

  /**
   * Another generation of a keyset: the given one, or one with the algorithm of the primary. A CA
   * has a bridge from each trusted generation that has room for one.
   */
  #another(
    scope: string,
    before: Keyset,
    making: { readonly now: Millis; readonly lifetime: Millis | undefined },
    given: OpenGeneration | undefined,
  ): Promise<Generation> {
    const order = { scope, keyset: before.name, ...making, bridgesFrom: before.trusted };
    return given
      ? this.#vault.take({ ...order, taken: given })
      : this.#vault.make({ ...order, algorithm: primaryOf(before).publicKey.algorithm });
  }

  #keysetRecord(scope: string, name: KeysetName): KeysetRecord<Keyset> {
    return {
      key: KEYS.keyset.key(scope, name),
      decode: decodeKeyset,
      encode: encodeKeyset,
    };
  }

  #encryptionRecord(scope: string): KeysetRecord<EncryptionKeyset> {
    return {
      key: KEYS.encryption.key(scope),
      decode: (key, value) => decodeEncryption(key, value, this.#vault),
      encode: (after) => encodeEncryption(KEYS.encryption.key(scope), after, this.#vault),
    };
  }

  /** Applies `step` to one record, and fails if another call wrote it meanwhile. */
  async #changed<K>(
    { key, decode, encode }: KeysetRecord<K>,
    step: (before: K) => K | Promise<K>,
    also: (after: K) => readonly Write[] = () => [],
  ): Promise<K> {
    const record = await this.#store.get(key);
    if (record === undefined) throw new MusterError('E_PKI', `there is no ${key}`);
    const after = await step(await this.#openedOnce(record, decode));
    const write: Write = { key, put: await encode(after), expect: record.revision };
    const result = await this.#store.commit([write, ...also(after)]);
    if (result.ok) return after;
    const keys = result.conflicts.map((conflict) => conflict.key).join(', ');
    throw new MusterError('E_CONFLICT', `${keys} was changed meanwhile`);
  }

  /** The generation that signs, by default the primary, and the bridges behind its leaves. */
  async #signerOf(scope: string, name: AuthorityName, id?: string) {
    const record = await this.#store.get(KEYS.keyset.key(scope, name));
    if (record === undefined) throw new MusterError('E_PKI', `${scope} has no ${name}`);
    const keyset = await this.#openedOnce(record, decodeKeyset);
    const signs = id === undefined ? primaryOf(keyset) : generationOf(keyset, id);
    return { signs, behind: bridgesBehind(keyset, signs) };
  }
}
