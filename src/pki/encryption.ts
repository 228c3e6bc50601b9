/**
 * The keys that kube-apiserver encrypts Secrets with before they reach etcd: a keyset of symmetric
 * keys. The primary encrypts; the other trusted keys only decrypt. A distrusted key is no longer
 * handed out, and is kept for backups of its time. A rotation is: add a key and wait until every
 * apiserver decrypts with it; promote it and wait until every apiserver encrypts with it; write all
 * Secrets again; distrust the old key.
 *
 * The provider is secretbox (XSalsa20 with Poly1305), docs/decisions/0031: it authenticates, which
 * aescbc does not, and random nonces of 24 octets never run out, as those of aesgcm do after
 * 200,000 writes. The file has the format of Kubernetes' EncryptionConfiguration (v1).
 */
import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { Secret } from '../base/secret.ts';
import { yamlText } from '../base/yaml-text.ts';
import { APISERVER_DIRECTORY, type Role } from './hierarchy.ts';
import {
  type Aged,
  allGenerations,
  foundKeyset,
  type KeysetOf,
  keysetFault,
  primaryFirst,
} from './keyset.ts';
import { rewrappedKeys } from './records.ts';
import type { Vault } from './vault.ts';

/** The file that kube-apiserver reads, and the roles that get it. */
export const ENCRYPTION = {
  path: `${APISERVER_DIRECTORY}/encryption.yaml`,
  roles: ['control-plane'] as readonly Role[],
} as const;

/** Its id is the key's name in etcd, so every record names the key that decrypts it. */
interface EncryptionKey extends Aged {
  /** 32 octets in base64. */
  readonly key: Secret;
}

export type EncryptionKeyset = KeysetOf<'encryption', EncryptionKey>;

const OCTETS = 32;

/** First 16 hexadecimal digits of a hash that identifies the key and reveals nothing about it. */
const idOf = (octets: Uint8Array): string =>
  createHash('sha256').update('muster encryption key id\0').update(octets).digest('hex').slice(0, 16);

/** Makes a random key. `now`: the wall-clock time. */
export function newEncryptionKey(now: Millis): EncryptionKey {
  const octets = randomBytes(OCTETS);
  return { id: idOf(octets), createdAt: now, key: new Secret(octets.toString('base64')) };
}

/** A keyset with one new key. */
export const foundEncryption = (now: Millis): EncryptionKeyset =>
  foundKeyset('encryption', newEncryptionKey(now));

/**
 * The EncryptionConfiguration as YAML; secret. Apiservers can always read plain and encrypted
 * records, so that encryption is turned on or off in one step. Without a keyset (the cluster was
 * founded before Muster had them) nothing is encrypted.
 */
export function encryptionConfig(keyset: EncryptionKeyset | undefined, encrypts: boolean): string {
  const identity = { identity: {} };
  const keys = keyset ? primaryFirst(keyset).map(({ id, key }) => ({ name: id, secret: key.reveal() })) : [];
  const secretbox = keys.length > 0 ? [{ secretbox: { keys } }] : [];
  return yamlText({
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'EncryptionConfiguration',
    resources: [
      {
        providers: encrypts ? [...secretbox, identity] : [identity, ...secretbox],
        resources: ['secrets'],
      },
    ],
  });
}

/** What an API server says about the configuration that it has loaded. */
export const encryptionConfigHash = (text: string): string => createHash('sha256').update(text).digest('hex');

/**
 * The hashes of all configurations that a machine can have from this keyset, now or earlier: with
 * one key, or while a key rotates with that and the next one.
 */
export function everyEncryptionHash(keyset: EncryptionKeyset | undefined): ReadonlySet<string> {
  const keys = (keyset ? allGenerations(keyset) : []).toSorted((a, b) => a.createdAt - b.createdAt);
  const states = keys.flatMap((key, n) => {
    const next = keys[n + 1];
    return next ? [[key], [key, next], [next, key]] : [[key]];
  });
  const keysets = states.map(
    (trusted): EncryptionKeyset => ({ ...foundKeyset('encryption', trusted[0]!), trusted }),
  );
  const texts = [undefined, ...keysets].flatMap((state) =>
    [true, false].map((encrypts) => encryptionConfig(state, encrypts)),
  );
  return new Set(texts.map(encryptionConfigHash));
}

const keyRecord = z.strictObject({
  id: z.string(),
  createdAt: z.int(),
  sealed: z.looseObject({ v: z.int(), kid: z.string() }),
});

const keysetRecord = z.strictObject({
  v: z.literal(1),
  primary: z.string(),
  made: z.array(keyRecord),
  trusted: z.array(keyRecord),
  distrusted: z.array(keyRecord),
});

const sealName = (record: string, id: string): string => `${record}/${id}`;

/**
 * Encodes a keyset as the value of the store's record `record`. Its sealed keys open only under
 * that record's name.
 */
export async function encodeEncryption(
  record: string,
  keyset: EncryptionKeyset,
  vault: Pick<Vault, 'seal'>,
): Promise<string> {
  const stored = (all: readonly EncryptionKey[]) =>
    Promise.all(
      all.map(async ({ id, createdAt, key }) => ({
        id,
        createdAt,
        sealed: await vault.seal(sealName(record, id), key.reveal()),
      })),
    );
  return JSON.stringify({
    v: 1,
    primary: keyset.primary,
    made: await stored(keyset.made),
    trusted: await stored(keyset.trusted),
    distrusted: await stored(keyset.distrusted),
  });
}

/**
 * Reads a keyset from the value of the store's record `record`.
 *
 * @throws {MusterError} E_PKI when the value is not an encryption keyset of a known version;
 *   E_VAULT_KEY, E_VAULT_RECORD when its keys cannot be opened.
 */
export async function decodeEncryption(
  record: string,
  value: string,
  vault: Pick<Vault, 'open'>,
): Promise<EncryptionKeyset> {
  const read = readKeyset(record, value);
  const opened = async ({ id, createdAt, sealed }: z.output<typeof keyRecord>): Promise<EncryptionKey> => {
    const text = await vault.open(sealName(record, id), sealed);
    const octets = Buffer.from(text, 'base64');
    if (octets.length !== OCTETS || idOf(octets) !== id)
      throw new MusterError('E_PKI', `${record}: the key of generation ${id} is another one`);
    return { id, createdAt: createdAt as Millis, key: new Secret(text) };
  };
  const keyset: EncryptionKeyset = {
    name: 'encryption',
    primary: read.primary,
    made: await Promise.all(read.made.map(opened)),
    trusted: await Promise.all(read.trusted.map(opened)),
    distrusted: await Promise.all(read.distrusted.map(opened)),
  };
  const fault = keysetFault(keyset);
  if (fault !== undefined) throw new MusterError('E_PKI', `${record}: ${fault}`);
  return keyset;
}

/**
 * The record's value with every key sealed by the vault's primary key; undefined when all are
 * sealed with it already.
 *
 * @throws {MusterError} as {@link decodeEncryption}.
 */
export async function rewrapEncryption(
  record: string,
  value: string,
  vault: Vault,
): Promise<string | undefined> {
  const read = readKeyset(record, value);
  const all = await rewrappedKeys(record, read, vault);
  return all && JSON.stringify({ ...read, ...all });
}

function readKeyset(record: string, value: string): z.output<typeof keysetRecord> {
  const read = keysetRecord.safeParse(parsed(value));
  if (!read.success)
    throw new MusterError('E_PKI', `${record} is not a keyset of encryption of a version known here`);
  return read.data;
}
