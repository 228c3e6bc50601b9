/**
 * Certificate requests for tests: made by openssl, or put together from parts with an invalid
 * signature.
 */
import { execFileSync } from 'node:child_process';
import { element, TAG } from '../../../src/pki/der.ts';
import { formatPem } from '../../../src/pki/pem.ts';
import { temporary } from './kit.ts';

export interface Wanted {
  readonly commonName: string;
  readonly organizations?: readonly string[];
  /** In openssl's syntax: `DNS:a`, `IP:10.0.0.1`, `email:a@b`, `URI:u`. */
  readonly sans?: readonly string[];
  readonly keyUsage?: string;
  readonly extendedKeyUsage?: string;
  /** More lines for the section with the extensions. */
  readonly more?: string;
}

/**
 * A request by openssl for a new P-256 key. The texts may not contain the syntax of its
 * configuration.
 */
export function requestOf(wanted: Wanted): string {
  const { commonName, organizations = [], sans = [], keyUsage, extendedKeyUsage, more = '' } = wanted;
  using directory = temporary();
  const names = [
    ...organizations.map((one, n) => `${n}.O = ${one}`),
    ...(commonName === '' ? [] : [`CN = ${commonName}`]),
  ];
  const extensions = [
    ...(sans.length > 0 ? [`subjectAltName = ${sans.join(',')}`] : []),
    ...(keyUsage === undefined ? [] : [`keyUsage = ${keyUsage}`]),
    ...(extendedKeyUsage === undefined ? [] : [`extendedKeyUsage = ${extendedKeyUsage}`]),
    ...(more === '' ? [] : [more]),
  ];
  const config = directory.write(
    'req.cnf',
    `[req]\nprompt = no\nutf8 = yes\nstring_mask = utf8only\ndistinguished_name = dn\n[dn]\n${names.join('\n')}\n[x]\n${extensions.join('\n')}\n`,
  );
  const key = directory.write('key.pem', '');
  execFileSync('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', key]);
  const options = ['-new', '-utf8', '-key', key, '-config', config, '-sha256'];
  const asks = extensions.length > 0 ? ['-reqexts', 'x'] : [];
  return execFileSync('openssl', ['req', ...options, ...asks], { encoding: 'utf8' });
}

/** The DER of an OID, without its tag; parts below 2^28. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const octets = [first * 40 + second, ...rest].flatMap((part) => {
    const digits = [part & 0x7f];
    for (let left = part >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80);
    return digits;
  });
  return element(TAG.oid, Buffer.from(octets));
}

export const pairOf = (type: string, text: Buffer, tag = 0x0c): Buffer =>
  element(TAG.sequence, oid(type), element(tag, text));

export const extension = (id: string, value: Buffer, ...between: readonly Buffer[]): Buffer =>
  element(TAG.sequence, oid(id), ...between, element(TAG.octets, value));

export const EXTENSION_REQUEST = '1.2.840.113549.1.9.14';

export const attribute = (type: string, ...values: readonly Buffer[]): Buffer =>
  element(TAG.sequence, oid(type), element(TAG.set, ...values));

export interface Parts {
  /** The SETs of the Name. */
  readonly subject?: readonly Buffer[];
  readonly attributes?: readonly Buffer[];
  readonly version?: number;
}

/** A request made of these parts; its key and signature are filler. */
export function assembled({ subject = [], attributes = [], version = 0 }: Parts): string {
  const info = element(
    TAG.sequence,
    element(TAG.integer, Buffer.from([version])),
    element(TAG.sequence, ...subject),
    element(TAG.sequence),
    element(TAG.context0, ...attributes),
  );
  const algorithm = element(TAG.sequence, oid('1.2.840.10045.4.3.2'));
  const octets = element(TAG.sequence, info, algorithm, element(TAG.bits, Buffer.from([0, 1])));
  return formatPem({ label: 'CERTIFICATE REQUEST', octets });
}
