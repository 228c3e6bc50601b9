/** Password hashes as crypt(3) writes them, see crypt(5). */

const RADIX64 = '[./0-9A-Za-z]';

interface Method {
  /** How a hash of the method begins. */
  readonly begins: RegExp;
  readonly whole: RegExp;
}

const method = (begins: string, rest: string): Method => ({
  begins: new RegExp(`^${begins}`),
  whole: new RegExp(`^${begins}${rest}$`),
});

const METHODS: readonly Method[] = [
  // yescrypt, gost-yescrypt, scrypt, bcrypt
  method('\\$g?y\\$', `${RADIX64}+\\$${RADIX64}{0,86}\\$${RADIX64}{43}`),
  method('\\$7\\$', `${RADIX64}{11,97}\\$${RADIX64}{43}`),
  method('\\$2[abxy]\\$', `[0-9]{2}\\$${RADIX64}{53}`),
  // SHA-512, SHA-256, MD5
  method('\\$6\\$', `(rounds=[0-9]{1,9}\\$)?[^$:]{0,16}\\$${RADIX64}{86}`),
  method('\\$5\\$', `(rounds=[0-9]{1,9}\\$)?[^$:]{0,16}\\$${RADIX64}{43}`),
  method('\\$1\\$', `[^$:]{0,8}\\$${RADIX64}{22}`),
  // SHA-1 of NetBSD, MD5 of Sun, NT
  method('\\$sha1\\$', `[0-9]+\\$${RADIX64}{1,64}\\$${RADIX64}{28}`),
  method('\\$md5[$,]', '[^:]{22,}'),
  method('\\$3\\$', '\\$[0-9a-f]{32}'),
  // DES of BSDi
  method('_', `${RADIX64}{19}`),
];
/** DES begins in no way of its own. */
const DES = new RegExp(`^${RADIX64}{13}$`);
/** An account that no password opens. */
const LOCKED = /^[!*]/;

/**
 * Why a text is not a password hash; undefined when it is one, or locks the account. The fault does
 * not repeat the text, which may be a password.
 */
export function passwordHashFault(text: string): string | undefined {
  if (LOCKED.test(text) || DES.test(text)) return undefined;
  const begun = METHODS.find(({ begins }) => begins.test(text));
  if (begun?.whole.test(text)) return undefined;
  return begun
    ? 'this password hash is cut off or changed, so logging in with it fails; copy the whole line that `openssl passwd -6` or `mkpasswd` prints, in single quotes'
    : 'this is not a password hash, so logging in with it fails; write what `openssl passwd -6` prints';
}
