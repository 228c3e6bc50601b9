/**
 * The code by which a new boot host joins: where the acting host is, the certificate that it has to
 * show, and a secret. Pure.
 */
import { createHash } from 'node:crypto';
import { MusterError } from '../../base/errors.ts';
import { formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';

export interface JoinCode {
  /** IPv4 addresses of the acting host. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** SHA-256 of its certificate, hexadecimal. */
  readonly fingerprint: string;
  /** {@link SECRET_OCTETS} random octets, hexadecimal. */
  readonly secret: string;
}

export const SECRET_OCTETS = 16;
const FORM = 1;
const FINGERPRINT_OCTETS = 32;
/** Shows a slip in copying before anybody is asked. */
const CHECK_OCTETS = 4;

const checkOf = (octets: Uint8Array): Buffer =>
  createHash('sha256').update(octets).digest().subarray(0, CHECK_OCTETS);

/** Writes a code as operators copy it. */
export function writeCode({ addresses, port, fingerprint, secret }: JoinCode): string {
  const places = addresses.map((one) => {
    const octets = Buffer.alloc(4);
    octets.writeUInt32BE(parseIpv4(one)!);
    return octets;
  });
  const head = Buffer.from([FORM, port >> 8, port & 0xff, places.length]);
  const octets = Buffer.concat([head, ...places, Buffer.from(fingerprint + secret, 'hex')]);
  return Buffer.concat([octets, checkOf(octets)]).toString('base64url');
}

/**
 * Reads a code.
 *
 * @throws {MusterError} E_USAGE when it is none
 */
export function readCode(text: string): JoinCode {
  const all = Buffer.from(text.trim(), 'base64url');
  const octets = all.subarray(0, -CHECK_OCTETS);
  const count = octets[3] ?? 0;
  const length = 4 + count * 4 + FINGERPRINT_OCTETS + SECRET_OCTETS;
  if (octets.length !== length || !checkOf(octets).equals(all.subarray(-CHECK_OCTETS)) || octets[0] !== FORM)
    throw new MusterError('E_USAGE', 'that is no code of `muster host invite`; copy all of it');
  const rest = octets.subarray(4 + count * 4);
  return {
    addresses: Array.from({ length: count }, (_, n) => formatIpv4(octets.readUInt32BE(4 + n * 4) as Ipv4)),
    port: octets.readUInt16BE(1),
    fingerprint: rest.subarray(0, FINGERPRINT_OCTETS).toString('hex'),
    secret: rest.subarray(FINGERPRINT_OCTETS).toString('hex'),
  };
}
