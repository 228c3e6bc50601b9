/**
 * Password hashes as crypt(3) writes them: recognises one, and makes one by SHA-512
 * (https://www.akkadia.org/drepper/SHA-crypt.txt), which every Linux understands.
 */
import { createHash, randomBytes } from 'node:crypto';
import { passwordHashFault } from '../resources/password-hash-text.ts';

/** The password hash in a value; undefined when it is none. A line break at its end is left out. */
export function passwordHashIn(octets: Uint8Array): string | undefined {
  const text = Buffer.from(octets)
    .toString('latin1')
    .replace(/\r?\n$/, '');
  // Anything else would lock its user out, and a password in the clear would be in /etc/shadow.
  return /^\$[!-9;-~]{1,500}$/.test(text) && passwordHashFault(text) === undefined ? text : undefined;
}

const ALPHABET = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** The default of crypt(3), which the text of a hash then does not name. */
const ROUNDS = 5000;
const OCTETS = 64;

/** A salt of 16 random characters, 96 bits. */
export const newSalt = (): string => Array.from(randomBytes(16), (octet) => ALPHABET[octet & 63]).join('');

const sha512 = (...parts: readonly Uint8Array[]): Buffer => {
  const hash = createHash('sha512');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** `block` repeated and cut to so many octets. */
const repeated = (block: Buffer, octets: number): Buffer =>
  Buffer.alloc(octets, block.subarray(0, block.length));

/** The hash of a password: `$6$SALT$…`. The steps have the numbers of the specification. */
export function sha512Crypt(password: string, salt: string): string {
  const key = Buffer.from(password, 'utf8');
  const seed = Buffer.from(salt, 'latin1');
  // Steps 4 to 8.
  const b = sha512(key, seed, key);
  // Steps 1 to 3 and 9 to 12.
  const parts: Uint8Array[] = [key, seed, repeated(b, key.length)];
  for (let left = key.length; left > 0; left >>= 1) parts.push(left & 1 ? b : key);
  let digest = sha512(...parts);
  // Steps 13 to 20.
  const p = repeated(sha512(...Array.from({ length: key.length }, () => key)), key.length);
  const s = repeated(sha512(...Array.from({ length: 16 + digest[0]! }, () => seed)), seed.length);
  // Step 21.
  for (let round = 0; round < ROUNDS; round++) {
    const odd = round % 2 === 1;
    digest = sha512(
      odd ? p : digest,
      ...(round % 3 === 0 ? [] : [s]),
      ...(round % 7 === 0 ? [] : [p]),
      odd ? digest : p,
    );
  }
  return `$6$${salt}$${encoded(digest)}`;
}

/** Step 22: triples of octets in a fixed order, four characters each, the lowest bits first. */
function encoded(digest: Buffer): string {
  let text = '';
  const put = (bits: number, characters: number): void => {
    for (let n = 0; n < characters; n++) text += ALPHABET[(bits >> (6 * n)) & 63];
  };
  let [a, b, c] = [0, 21, 42];
  for (let n = 0; n < 21; n++) {
    put((digest[a]! << 16) | (digest[b]! << 8) | digest[c]!, 4);
    [a, b, c] = [b + 1, c + 1, a + 1];
  }
  put(digest[OCTETS - 1]!, 2);
  return text;
}
