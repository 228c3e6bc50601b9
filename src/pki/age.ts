/**
 * Files of age (https://age-encryption.org/v1) that a passphrase opens, or the identity that
 * belongs to a recipient, so that `age -d` of every distribution reads what Muster exports. The
 * package `age-encryption` writes and reads them; see docs/decisions/0156.
 */
import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from 'age-encryption';
import { MusterError } from '../base/errors.ts';

/** The text of a public X25519 key, `age1…`. */
export type Recipient = string & { readonly __age: 'recipient' };
/** The text of its secret key, `AGE-SECRET-KEY-1…`. */
export type Identity = string & { readonly __age: 'identity' };

/** Who can open a file. */
export type Locks =
  | { readonly passphrase: string }
  | { readonly recipients: readonly [Recipient, ...Recipient[]] };

/** What opens a file. */
export type AgeKey = { readonly passphrase: string } | { readonly identities: readonly Identity[] };

/** log2 of scrypt's work: about a second and 256 MiB, as `age` itself takes. */
const WORK = 18;

/** Keys of other types are longer: they belong to plugins, or resist quantum computers. */
const RECIPIENT_LENGTH = 62;

/**
 * Reads a recipient, `age1…`.
 *
 * @throws {MusterError} E_USAGE when it is not one, or was mistyped
 */
export function readRecipient(text: string): Recipient {
  const trimmed = text.trim();
  if (trimmed.length === RECIPIENT_LENGTH && takes(() => new Encrypter().addRecipient(trimmed)))
    return trimmed as Recipient;
  throw new MusterError(
    'E_USAGE',
    `"${text.slice(0, 80)}" is not a recipient of age; write one that \`age-keygen\` prints: age1…`,
  );
}

/**
 * Reads the identities of a file that `age-keygen` wrote; other lines are comments.
 *
 * @throws {MusterError} E_USAGE when there is none; the text itself is not shown
 */
export function readIdentities(text: string): readonly Identity[] {
  const found = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('AGE-SECRET-KEY-1') && takes(() => new Decrypter().addIdentity(line)));
  if (found.length === 0)
    throw new MusterError('E_USAGE', 'the file holds no identity of age (AGE-SECRET-KEY-1…)');
  return found as Identity[];
}

/** Makes an identity, and its recipient. */
export async function newIdentity(): Promise<{ readonly identity: Identity; readonly recipient: Recipient }> {
  const identity = await generateX25519Identity();
  return { identity: identity as Identity, recipient: (await identityToRecipient(identity)) as Recipient };
}

function takes(add: () => void): boolean {
  try {
    add();
    return true;
  } catch {
    return false;
  }
}

/**
 * Encrypts a stream; yields the file in pieces. `work`: log2 of scrypt's work; tests make it cheap.
 */
export async function* ageSeal(
  plain: AsyncIterable<Uint8Array>,
  locks: Locks,
  work = WORK,
): AsyncGenerator<Uint8Array> {
  const encrypter = new Encrypter();
  encrypter.setScryptWorkFactor(work);
  if ('passphrase' in locks) encrypter.setPassphrase(locks.passphrase);
  else for (const one of locks.recipients) encrypter.addRecipient(one);
  yield* await encrypter.encrypt(ReadableStream.from(plain));
}

/** As {@link ageSeal}, for octets that are in memory. */
export async function ageEncrypt(octets: Uint8Array, locks: Locks, work = WORK): Promise<Buffer> {
  return whole(ageSeal(once(octets), locks, work));
}

/**
 * Decrypts a stream that {@link ageSeal} has made, in pieces. All of it was read only when the
 * iteration has ended.
 *
 * @throws {MusterError} E_EXPORT when the key is another one, or the file was changed or cut.
 */
export async function* ageOpen(file: AsyncIterable<Uint8Array>, key: AgeKey): AsyncGenerator<Uint8Array> {
  const decrypter = new Decrypter();
  if ('passphrase' in key) decrypter.addPassphrase(key.passphrase);
  else for (const one of key.identities) decrypter.addIdentity(one);
  let unread: unknown;
  const source = async function* (): AsyncGenerator<Uint8Array> {
    try {
      yield* file;
    } catch (error) {
      unread = error;
      throw error;
    }
  };
  try {
    yield* await decrypter.decrypt(ReadableStream.from(source()));
  } catch (cause) {
    if (unread !== undefined) throw unread;
    const opener = 'passphrase' in key ? 'the passphrase does not open' : 'no identity opens';
    throw new MusterError('E_EXPORT', `${opener} the file, or it was changed, or is no file of age`, {
      cause,
    });
  }
}

/**
 * Decrypts what {@link ageEncrypt} has made.
 *
 * @throws {MusterError} E_EXPORT when the key is another one, or the file was changed.
 */
export async function ageDecrypt(file: Uint8Array, key: AgeKey): Promise<Buffer> {
  return whole(ageOpen(once(file), key));
}

async function whole(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

async function* once(octets: Uint8Array): AsyncGenerator<Uint8Array> {
  yield octets;
}
