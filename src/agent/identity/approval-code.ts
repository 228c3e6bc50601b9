/**
 * The code by which an operator recognises a machine's key: the machine's console shows it, and
 * `muster machine approve` takes it. Pure. muster-identity.sh computes the same.
 */
import { createHash, randomBytes } from 'node:crypto';

export interface ApprovalCodeOf {
  readonly machine: string;
  /** SHA-256 of the machine's public key (SPKI), hexadecimal. */
  readonly pin: string;
  /** The CA that the machine trusts: the octets of its ca.crt. */
  readonly authority: string;
  /** Drawn by the server after the key arrived, so that no key can be searched that has a code. */
  readonly nonce: string;
}

/** Digits and letters without I, L, O and U, which look or sound like others. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** The code, e.g. `7QK-3FD`: 30 bits. */
export function approvalCode({ machine, pin, authority, nonce }: ApprovalCodeOf): string {
  const ca = createHash('sha256').update(authority).digest('hex');
  const digest = createHash('sha256')
    .update(`muster approval 1\n${machine}\n${pin}\n${ca}\n${nonce}\n`)
    .digest();
  const bits = digest.readUInt32BE(0);
  const text = [27, 22, 17, 12, 7, 2].map((shift) => ALPHABET[(bits >>> shift) & 31]).join('');
  return `${text.slice(0, 3)}-${text.slice(3)}`;
}

/** A new nonce, hexadecimal. */
export const newNonce = (): string => randomBytes(16).toString('hex');

/** Whether `text` is as long as a code; see {@link normalCode}. */
export const isCode = (text: string): boolean => /^[0-9A-HJKMNP-TV-Z]{3}-[0-9A-HJKMNP-TV-Z]{3}$/.test(text);

/** A code as an operator types it, in the form that {@link approvalCode} gives. */
export function normalCode(text: string): string {
  const plain = text.toUpperCase().replace(/[\s-]/g, '').replaceAll('O', '0').replace(/[IL]/g, '1');
  return `${plain.slice(0, 3)}-${plain.slice(3)}`;
}
