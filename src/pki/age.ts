/**
 * Files of age that a passphrase opens (format age-encryption.org/v1, recipient type scrypt), so
 * that `age -d` of every distribution reads what Muster exports. See docs/decisions/0051.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  scrypt,
  timingSafeEqual,
} from 'node:crypto';
import { promisify } from 'node:util';
import { MusterError } from '../base/errors.ts';

/** log2 of scrypt's work: about a second and 256 MiB, as `age` itself takes. */
const WORK = 18;
/** A file that asks for more is not one of ours. */
const MOST_WORK = 20;
const MAX_MEMORY = 2 ** 31;
const CHUNK = 64 * 1024;
const TAG = 16;
const SALT = 16;
const FILE_KEY = 16;

const derived = promisify<string, Buffer, number, object, Buffer>(scrypt);

const wrappingKey = (passphrase: string, salt: Buffer, work: number): Promise<Buffer> =>
  derived(passphrase, Buffer.concat([Buffer.from('age-encryption.org/v1/scrypt'), salt]), 32, {
    N: 2 ** work,
    r: 8,
    p: 1,
    maxmem: MAX_MEMORY,
  });

const keyFor = (fileKey: Buffer, salt: Buffer, info: string): Buffer =>
  Buffer.from(hkdfSync('sha256', fileKey, salt, info, 32));

const base64 = (octets: Buffer): string => octets.toString('base64').replace(/=+$/, '');

const cipher = 'chacha20-poly1305';

function sealed(key: Buffer, nonce: Buffer, octets: Uint8Array): Buffer {
  const made = createCipheriv(cipher, key, nonce, { authTagLength: TAG });
  return Buffer.concat([made.update(octets), made.final(), made.getAuthTag()]);
}

function opened(key: Buffer, nonce: Buffer, octets: Buffer): Buffer {
  const made = createDecipheriv(cipher, key, nonce, { authTagLength: TAG });
  made.setAuthTag(octets.subarray(-TAG));
  return Buffer.concat([made.update(octets.subarray(0, -TAG)), made.final()]);
}

/** The nonce of a chunk: its number in 11 octets, and whether it is the last. */
function chunkNonce(number: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUIntBE(number, 5, 6);
  nonce[11] = last ? 1 : 0;
  return nonce;
}

/** Applies `each` to pieces of `size` octets; no octets are one empty piece. */
function inPieces(octets: Uint8Array, size: number, each: (piece: Buffer, nonce: Buffer) => Buffer): Buffer {
  const count = Math.max(1, Math.ceil(octets.length / size));
  return Buffer.concat(
    Array.from({ length: count }, (_, n) =>
      each(Buffer.from(octets.subarray(n * size, (n + 1) * size)), chunkNonce(n, n === count - 1)),
    ),
  );
}

/** Encrypts `octets` with a passphrase. `work`: log2 of scrypt's work; tests make it cheap. */
export async function ageEncrypt(octets: Uint8Array, passphrase: string, work = WORK): Promise<Buffer> {
  const [fileKey, salt, nonce] = [randomBytes(FILE_KEY), randomBytes(SALT), randomBytes(SALT)];
  const wrapped = sealed(await wrappingKey(passphrase, salt, work), Buffer.alloc(12), fileKey);
  const header = `age-encryption.org/v1\n-> scrypt ${base64(salt)} ${work}\n${base64(wrapped)}\n---`;
  const mac = createHmac('sha256', keyFor(fileKey, Buffer.alloc(0), 'header'))
    .update(header)
    .digest();
  const key = keyFor(fileKey, nonce, 'payload');
  const body = inPieces(octets, CHUNK, (piece, chunk) => sealed(key, chunk, piece));
  return Buffer.concat([Buffer.from(`${header} ${base64(mac)}\n`), nonce, body]);
}

const HEADER =
  /^(age-encryption\.org\/v1\n-> scrypt ([A-Za-z0-9+/]{22}) ([1-9][0-9]?)\n([A-Za-z0-9+/]{43})\n---) ([A-Za-z0-9+/]{43})\n/;

/**
 * Decrypts what {@link ageEncrypt} has made.
 *
 * @throws {MusterError} E_EXPORT when the passphrase is another one, or the file was changed.
 */
export async function ageDecrypt(file: Uint8Array, passphrase: string): Promise<Buffer> {
  const octets = Buffer.from(file);
  const found = HEADER.exec(octets.subarray(0, 256).toString('latin1'));
  if (found === null)
    throw new MusterError('E_EXPORT', 'this is no file of age that a passphrase of Muster opens');
  const [whole, header, salt, work, wrapped, mac] = found as unknown as readonly [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  if (Number(work) > MOST_WORK)
    throw new MusterError('E_EXPORT', 'the file asks for too much work to open it');
  try {
    const wrapping = await wrappingKey(passphrase, Buffer.from(salt, 'base64'), Number(work));
    const fileKey = opened(wrapping, Buffer.alloc(12), Buffer.from(wrapped, 'base64'));
    const wanted = createHmac('sha256', keyFor(fileKey, Buffer.alloc(0), 'header'))
      .update(header)
      .digest();
    if (!timingSafeEqual(wanted, Buffer.from(mac, 'base64'))) throw new Error('the header was changed');
    const nonce = octets.subarray(whole.length, whole.length + SALT);
    const key = keyFor(fileKey, nonce, 'payload');
    const body = octets.subarray(whole.length + SALT);
    return inPieces(body, CHUNK + TAG, (piece, chunk) => opened(key, chunk, piece));
  } catch (cause) {
    throw new MusterError('E_EXPORT', 'the passphrase does not open the file, or the file was changed', {
      cause,
    });
  }
}
