/**
 * Seals with the vault's key, in the process that has it. Private keys at rest: AES-256-GCM with a
 * key that is not in the store. An envelope names the key that sealed it and is bound to its
 * record: under another record's name it does not open.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { MusterError } from '../base/errors.ts';

export const envelopeSchema = z.strictObject({
  v: z.literal(1),
  /** Id of the vault key that sealed it. */
  kid: z.string().regex(/^[0-9a-f]{16}$/),
  iv: z.base64(),
  /** Ciphertext and tag. */
  ct: z.base64(),
});
export type Envelope = z.output<typeof envelopeSchema>;

export interface Sealer {
  /** Id of the key that seals. */
  readonly primary: string;
  /** Ids of all keys that can open. */
  readonly ids: readonly string[];
  /** Seals a text. `record` is the name of the store's record; opening needs the same name. */
  seal(record: string, plaintext: string): Envelope;
  /**
   * Returns the sealed text.
   *
   * @throws {MusterError} E_VAULT_KEY when it was sealed with a key that this vault does not have,
   * E_VAULT_RECORD when the envelope was changed or belongs to another record.
   */
  open(record: string, envelope: unknown): string;
  /**
   * The text sealed with the primary key: the same envelope when it is sealed with that key
   * already. Throws as {@link open}.
   */
  rewrap(record: string, envelope: Envelope): Envelope;
  /** 32 octets that follow from the primary key and `purpose`, and tell nothing about the key. */
  derive(purpose: string): Buffer;
}

const IV_OCTETS = 12;
const TAG_OCTETS = 16;
const LINE = /^muster-vault-1:([A-Za-z0-9+/]{43}=)$/;

/** A new vault key as the line that its file holds. */
export const newVaultKey = (): string => `muster-vault-1:${randomBytes(32).toString('base64')}`;

/** A key's id, which reveals nothing about the key. */
const keyIdOf = (key: Buffer): string =>
  createHash('sha256').update('muster vault key id\0').update(key).digest('hex').slice(0, 16);

/** The data that an envelope is bound to. */
const bound = (kid: string, record: string): Buffer => Buffer.from(`muster-vault\0${1}\0${kid}\0${record}`);

/**
 * Reads a sealer from the text of its key file, which has a key on each line: the first one seals,
 * the others only open. To rotate: put a new line first, restart, `muster pki reseal`, remove the
 * old line. `source` names the file in errors.
 *
 * @throws {MusterError} E_VAULT_KEY when a line is not a vault key, or there is none
 */
export function sealerFrom(text: string, source: string): Sealer {
  const keys = new Map<string, Buffer>();
  for (const [n, line] of text.split('\n').entries()) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) continue;
    const encoded = LINE.exec(trimmed)?.[1];
    if (encoded === undefined)
      throw new MusterError(
        'E_VAULT_KEY',
        `${source}:${n + 1} is not a vault key; a line is "muster-vault-1:" and 44 characters`,
      );
    const key = Buffer.from(encoded, 'base64');
    keys.set(keyIdOf(key), key);
  }
  const primary = keys.keys().next().value;
  if (primary === undefined) throw new MusterError('E_VAULT_KEY', `${source} holds no vault key`);
  return makeSealer(primary, keys, source);
}

function makeSealer(primary: string, keys: ReadonlyMap<string, Buffer>, source: string): Sealer {
  const seal = (record: string, plaintext: string): Envelope => {
    const iv = randomBytes(IV_OCTETS);
    const cipher = createCipheriv('aes-256-gcm', keys.get(primary)!, iv).setAAD(bound(primary, record));
    const ct = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return { v: 1, kid: primary, iv: iv.toString('base64'), ct: ct.toString('base64') };
  };
  const open = (record: string, value: unknown): string => {
    const read = envelopeSchema.safeParse(value);
    if (!read.success)
      throw new MusterError('E_VAULT_RECORD', `${record}: not a sealed key of a version known here`);
    const { kid, iv, ct } = read.data;
    const key = keys.get(kid);
    if (key === undefined)
      throw new MusterError(
        'E_VAULT_KEY',
        `${record} is sealed with vault key ${kid}; ${source} has ${[...keys.keys()].join(', ')}`,
      );
    const octets = Buffer.from(ct, 'base64');
    try {
      const at = octets.length - TAG_OCTETS;
      const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(iv, 'base64'), {
        authTagLength: TAG_OCTETS,
      })
        .setAAD(bound(kid, record))
        .setAuthTag(octets.subarray(at));
      return Buffer.concat([decipher.update(octets.subarray(0, at)), decipher.final()]).toString('utf8');
    } catch {
      throw new MusterError(
        'E_VAULT_RECORD',
        `${record}: the sealed key was changed, or belongs to another record`,
      );
    }
  };
  return {
    primary,
    ids: [...keys.keys()],
    seal,
    open,
    rewrap: (record, envelope) =>
      envelope.kid === primary ? envelope : seal(record, open(record, envelope)),
    derive: (purpose) =>
      createHmac('sha256', keys.get(primary)!).update(`muster vault derives\0${purpose}`).digest(),
  };
}
