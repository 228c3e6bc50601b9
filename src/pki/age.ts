/**
 * Files of age (format age-encryption.org/v1) that a passphrase opens, or the identity that belongs
 * to a recipient, so that `age -d` of every distribution reads what Muster exports. See
 * docs/decisions/0051 and 0073.
 */
import { createHmac, hkdfSync, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { MusterError } from '../base/errors.ts';
import { type Recipient, sharedWith, unwrapping, type X25519Identity } from './age-keys.ts';
import { openedStream, openPiece, sealedStream, sealPiece } from './sealed-stream.ts';

/** log2 of scrypt's work: about a second and 256 MiB, as `age` itself takes. */
const WORK = 18;
/** A file that asks for more is not one of ours. */
const MOST_WORK = 20;
const MAX_MEMORY = 2 ** 31;
const SALT = 16;
const FILE_KEY = 16;
/** A header with twenty recipients has less than 3 KiB. */
const MAX_HEADER = 16 * 1024;
const INTRO = 'age-encryption.org/v1';
const NO_NONCE = Buffer.alloc(12);

/** Who can open a file. */
export type Locks =
  | { readonly passphrase: string }
  | { readonly recipients: readonly [Recipient, ...Recipient[]] };

/** What opens a file. */
export type AgeKey = { readonly passphrase: string } | { readonly identities: readonly X25519Identity[] };

const derived = promisify<string, Buffer, number, object, Buffer>(scrypt);

const wrappingKey = (passphrase: string, salt: Buffer, work: number): Promise<Buffer> =>
  derived(passphrase, Buffer.concat([Buffer.from(`${INTRO}/scrypt`), salt]), 32, {
    N: 2 ** work,
    r: 8,
    p: 1,
    maxmem: MAX_MEMORY,
  });

const keyFor = (fileKey: Buffer, salt: Buffer, info: string): Buffer =>
  Buffer.from(hkdfSync('sha256', fileKey, salt, info, 32));

const base64 = (octets: Buffer): string => octets.toString('base64').replace(/=+$/, '');

const macOf = (fileKey: Buffer, header: string): Buffer =>
  createHmac('sha256', keyFor(fileKey, Buffer.alloc(0), 'header'))
    .update(header)
    .digest();

/** The stanza that gives the file's key to one recipient. */
function stanzaFor(recipient: Recipient, fileKey: Buffer): string {
  const { share, secret } = sharedWith(recipient);
  return `-> X25519 ${base64(share)}\n${base64(sealPiece(secret, NO_NONCE, fileKey))}\n`;
}

async function stanzasFor(locks: Locks, fileKey: Buffer, work: number): Promise<string> {
  if ('recipients' in locks) return locks.recipients.map((one) => stanzaFor(one, fileKey)).join('');
  const salt = randomBytes(SALT);
  const wrapped = sealPiece(await wrappingKey(locks.passphrase, salt, work), NO_NONCE, fileKey);
  return `-> scrypt ${base64(salt)} ${work}\n${base64(wrapped)}\n`;
}

/**
 * Encrypts a stream; yields the file in pieces. `work`: log2 of scrypt's work; tests make it cheap.
 */
export async function* ageSeal(
  plain: AsyncIterable<Uint8Array>,
  locks: Locks,
  work = WORK,
): AsyncGenerator<Buffer> {
  const [fileKey, nonce] = [randomBytes(FILE_KEY), randomBytes(SALT)];
  const header = `${INTRO}\n${await stanzasFor(locks, fileKey, work)}---`;
  yield Buffer.concat([Buffer.from(`${header} ${base64(macOf(fileKey, header))}\n`), nonce]);
  yield* sealedStream(keyFor(fileKey, nonce, 'payload'), plain);
}

/** Encrypts `octets` with a passphrase. */
export async function ageEncrypt(octets: Uint8Array, passphrase: string, work = WORK): Promise<Buffer> {
  return whole(ageSeal(once(octets), { passphrase }, work));
}

interface Stanza {
  readonly type: string;
  readonly words: readonly string[];
  readonly body: Buffer;
}

interface Header {
  readonly stanzas: readonly Stanza[];
  /** What the MAC is made of. */
  readonly text: string;
  readonly mac: Buffer;
  /** Octets of the whole header. */
  readonly size: number;
}

const STANZA = /^-> (X25519|scrypt)((?: [\x21-\x7e]{1,64}){1,4})\n([A-Za-z0-9+/]{43})\n/;
const END = /^---( [A-Za-z0-9+/]{43})\n/;

/**
 * Reads a header; undefined when it is none of a kind known here. `octets`: the file's beginning.
 */
function readHeader(octets: Buffer): Header | undefined {
  const text = octets.subarray(0, MAX_HEADER).toString('latin1');
  if (!text.startsWith(`${INTRO}\n`)) return undefined;
  let at = INTRO.length + 1;
  const stanzas: Stanza[] = [];
  for (let found = STANZA.exec(text.slice(at)); found; found = STANZA.exec(text.slice(at))) {
    const [whole, type = '', words = '', body = ''] = found;
    stanzas.push({ type, words: words.trim().split(' '), body: Buffer.from(body, 'base64') });
    at += whole.length;
  }
  const end = END.exec(text.slice(at));
  if (!end || stanzas.length === 0) return undefined;
  return {
    stanzas,
    text: text.slice(0, at + 3),
    mac: Buffer.from(end[1]!.trim(), 'base64'),
    size: at + end[0].length,
  };
}

const fault = (text: string, cause?: unknown): MusterError =>
  new MusterError('E_EXPORT', text, cause === undefined ? undefined : { cause });

const CLOSED = (key: AgeKey): string =>
  'passphrase' in key
    ? 'the passphrase does not open the file, or the file was changed'
    : 'no identity opens the file, or the file was changed';

async function byPassphrase({ stanzas }: Header, passphrase: string): Promise<Buffer | undefined> {
  const [stanza, more] = stanzas;
  if (stanza?.type !== 'scrypt' || more || stanza.words.length !== 2) return undefined;
  const [salt = '', work = ''] = stanza.words;
  if (!/^[1-9][0-9]?$/.test(work)) return undefined;
  if (Number(work) > MOST_WORK) throw fault('the file asks for too much work to open it');
  return openPiece(
    await wrappingKey(passphrase, Buffer.from(salt, 'base64'), Number(work)),
    NO_NONCE,
    stanza.body,
  );
}

function byIdentity({ stanzas }: Header, identities: readonly X25519Identity[]): Buffer | undefined {
  for (const identity of identities)
    for (const { type, words, body } of stanzas) {
      if (type !== 'X25519') continue;
      try {
        return openPiece(unwrapping(identity, Buffer.from(words[0]!, 'base64')), NO_NONCE, body);
      } catch {
        // It is another recipient's.
      }
    }
  return undefined;
}

async function fileKeyOf(header: Header, key: AgeKey): Promise<Buffer> {
  const fileKey =
    'passphrase' in key ? await byPassphrase(header, key.passphrase) : byIdentity(header, key.identities);
  if (!fileKey || !timingSafeEqual(macOf(fileKey, header.text), header.mac)) throw new Error('not opened');
  return fileKey;
}

/**
 * Decrypts a stream that {@link ageSeal} has made, in pieces. All of it was read only when the
 * iteration has ended.
 *
 * @throws {MusterError} E_EXPORT when the key is another one, or the file was changed or cut.
 */
export async function* ageOpen(file: AsyncIterable<Uint8Array>, key: AgeKey): AsyncGenerator<Buffer> {
  const source = file[Symbol.asyncIterator]();
  let begun: Buffer = Buffer.alloc(0);
  let header: Header | undefined;
  while (header === undefined || begun.length < header.size + SALT) {
    const { done, value } = await source.next();
    if (done) throw fault('this is no file of age that Muster can open');
    begun = Buffer.concat([begun, value]);
    header ??= readHeader(begun);
    if (header === undefined && begun.length >= MAX_HEADER)
      throw fault('this is no file of age that Muster can open');
  }
  const { size } = header;
  const rest = begun.subarray(size + SALT);
  try {
    const payload = keyFor(await fileKeyOf(header, key), begun.subarray(size, size + SALT), 'payload');
    yield* openedStream(payload, joined(rest, source));
  } catch (cause) {
    if (cause instanceof MusterError) throw cause;
    throw fault(CLOSED(key), cause);
  }
}

async function whole(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

async function* once(octets: Uint8Array): AsyncGenerator<Uint8Array> {
  yield octets;
}

async function* joined(first: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
}

/**
 * Decrypts what {@link ageEncrypt} has made.
 *
 * @throws {MusterError} E_EXPORT when the passphrase is another one, or the file was changed.
 */
export async function ageDecrypt(file: Uint8Array, passphrase: string): Promise<Buffer> {
  return whole(ageOpen(once(file), { passphrase }));
}
