/**
 * Keysets and the ledger of issued certificates as records of the store (their keys are in
 * src/store/keys.ts). Private keys are sealed; everything else is public.
 */
import { z } from 'zod';
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { LEAF_NAMES, type LeafName } from './hierarchy.ts';
import { PublicKey } from './keys.ts';
import { type Generation, generationId, type Keyset, keysetFault } from './keyset.ts';
import { AUTHORITY_NAMES, KEYSET_NAMES } from './keysets.ts';
import type { Envelope } from './sealer.ts';
import { rewrapped, type Vault } from './vault.ts';

const millis = z.int().transform((value) => value as Millis);

const generationRecord = z.strictObject({
  id: z.string(),
  createdAt: millis,
  publicKey: z.string(),
  certificate: z.string().optional(),
  bridges: z.array(z.strictObject({ issuer: z.string(), certificate: z.string() })).optional(),
  sealed: z.looseObject({ v: z.int(), kid: z.string() }),
});

const keysetRecord = z.strictObject({
  v: z.literal(1),
  name: z.enum(KEYSET_NAMES),
  primary: z.string(),
  made: z.array(generationRecord),
  trusted: z.array(generationRecord),
  distrusted: z.array(generationRecord),
});

const issuedRecord = z.strictObject({
  v: z.literal(1),
  serial: z.string(),
  leaf: z.enum(LEAF_NAMES),
  /** As openssl prints it. */
  subject: z.string(),
  /** The machine, user or host that it was handed to. */
  to: z.string(),
  /** Keyset and generation that signed. */
  issuer: z.strictObject({ keyset: z.enum(AUTHORITY_NAMES), generation: z.string() }),
  /** Pin of the public key. */
  publicKey: z.string(),
  notBefore: millis,
  notAfter: millis,
  issuedAt: millis,
  certificate: z.string(),
});

/** A certificate that was handed out. */
export type IssuedCertificate = Omit<z.output<typeof issuedRecord>, 'v' | 'leaf'> & {
  readonly leaf: LeafName;
};

/** The record name that a sealed key is bound to. */
const sealName = (record: string, id: string): string => `${record}/${id}`;

/** Encodes a keyset as its record in the store. */
export function encodeKeyset(keyset: Keyset): string {
  const generation = ({ id, createdAt, publicKey, certificate, bridges, sealed }: Generation) => ({
    id,
    createdAt,
    publicKey: publicKey.pem(),
    certificate,
    bridges,
    sealed,
  });
  return JSON.stringify({
    v: 1,
    name: keyset.name,
    primary: keyset.primary,
    made: keyset.made.map(generation),
    trusted: keyset.trusted.map(generation),
    distrusted: keyset.distrusted.map(generation),
  });
}

/**
 * Reads a keyset's record. Its private keys stay sealed.
 *
 * @throws {MusterError} E_PKI when the value is not a keyset of a known version
 */
export function decodeKeyset(record: string, value: string): Keyset {
  const read = keysetRecord.safeParse(json(record, value));
  if (!read.success) throw new MusterError('E_PKI', `${record} is not a keyset of a version known here`);
  const generation = (stored: z.output<typeof generationRecord>): Generation => {
    const publicKey = PublicKey.fromPem(stored.publicKey);
    if (generationId(publicKey) !== stored.id)
      throw new MusterError('E_PKI', `${record}: the keys of generation ${stored.id} do not belong together`);
    const { id, createdAt, certificate, bridges } = stored;
    return {
      id,
      createdAt,
      publicKey,
      sealed: stored.sealed as Envelope,
      ...(certificate !== undefined && { certificate }),
      ...(bridges !== undefined && { bridges }),
    };
  };
  const keyset: Keyset = {
    name: read.data.name,
    primary: read.data.primary,
    made: read.data.made.map(generation),
    trusted: read.data.trusted.map(generation),
    distrusted: read.data.distrusted.map(generation),
  };
  const fault = keysetFault(keyset);
  if (fault !== undefined) throw new MusterError('E_PKI', `${record}: ${fault}`);
  return keyset;
}

/**
 * Seals every key of a keyset's record with the vault's primary key. Undefined when all of them are
 * sealed with it already.
 *
 * @throws {MusterError} E_PKI when the record is not a keyset of a known version; E_VAULT_KEY and
 * E_VAULT_RECORD when a key does not open
 */
export async function rewrapKeyset(record: string, value: string, vault: Vault): Promise<string | undefined> {
  const read = keysetRecord.safeParse(json(record, value));
  if (!read.success) throw new MusterError('E_PKI', `${record} is not a keyset of a version known here`);
  const { made, trusted, distrusted } = read.data;
  const all = await rewrappedKeys(record, { made, trusted, distrusted }, vault);
  return all && JSON.stringify({ ...read.data, ...all });
}

/** The stored keys of a keyset under the vault's first key; undefined when that sealed them all. */
export async function rewrappedKeys<
  G extends { readonly id: string; readonly sealed: { readonly kid: string } },
>(
  record: string,
  keys: Readonly<Record<'made' | 'trusted' | 'distrusted', readonly G[]>>,
  vault: Vault,
): Promise<Readonly<Record<'made' | 'trusted' | 'distrusted', readonly G[]>> | undefined> {
  let changed = false;
  const again = (all: readonly G[]) =>
    Promise.all(
      all.map(async (stored) => {
        const sealed = await rewrapped(vault, sealName(record, stored.id), stored.sealed as Envelope);
        changed ||= sealed !== undefined;
        return sealed === undefined ? stored : { ...stored, sealed };
      }),
    );
  const { made, trusted, distrusted } = keys;
  const all = {
    made: await again(made),
    trusted: await again(trusted),
    distrusted: await again(distrusted),
  };
  return changed ? all : undefined;
}

export const encodeIssued = (issued: IssuedCertificate): string => JSON.stringify({ v: 1, ...issued });

/**
 * Decodes the record of an issued certificate; `record` names it in the error.
 *
 * @throws {MusterError} E_PKI when it is not a certificate's record of a known version
 */
export function decodeIssued(record: string, value: string): IssuedCertificate {
  const read = issuedRecord.safeParse(json(record, value));
  if (!read.success)
    throw new MusterError('E_PKI', `${record} is not a certificate's record of a version known here`);
  const { v: _, ...issued } = read.data;
  return issued as IssuedCertificate;
}

function json(record: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    throw new MusterError('E_PKI', `${record} is not JSON`);
  }
}
