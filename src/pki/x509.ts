/** Writes certificates; the only file that uses the X.509 library (docs/decisions/0022). */
import { randomBytes, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { AsnConvert, OctetString } from '@peculiar/asn1-schema';
import * as asn from '@peculiar/asn1-x509';
import { setBounded } from '../base/aged.ts';
import type { Millis } from '../base/duration.ts';
import { parseIp } from '../base/ip.ts';
import { element, TAG } from './der.ts';
import type { PrivateKey, PublicKey } from './keys.ts';
import { formatPem, parsePem } from './pem.ts';

/** A subject, encoded as O…, CN: the order in which Go writes it. */
export interface SubjectName {
  readonly commonName: string;
  readonly organizations?: readonly string[];
}

/** A subject as people read it: `O = ORGANIZATION, CN = NAME`. */
export const subjectText = ({ commonName, organizations = [] }: SubjectName): string =>
  [...organizations.map((organization) => `O = ${organization}`), `CN = ${commonName}`].join(', ');

export interface AlternativeNames {
  readonly dns: readonly string[];
  /** IPv4 and IPv6 addresses as text. */
  readonly ips: readonly string[];
}

export type Purpose = 'serverAuth' | 'clientAuth';

export interface CertificateFacts {
  readonly subject: SubjectName;
  readonly sans: AlternativeNames;
  readonly publicKey: PublicKey;
  /** Empty for a CA. */
  readonly purposes: readonly Purpose[];
  readonly ca: boolean;
  /** How many CAs may follow below this CA; absent: any number. */
  readonly pathLength?: number;
  readonly notBefore: Millis;
  readonly notAfter: Millis;
}

/** The parts of a CA's certificate that decide what it can sign. */
export interface AuthorityCertificate {
  readonly isCa: boolean;
  /** The name that signed it is its own. */
  readonly selfIssued: boolean;
  /** May sign certificates; true without a key usage. */
  readonly maySign: boolean;
  /** Purposes that its leaves may have, as OIDs; absent: any. */
  readonly purposes?: readonly string[];
  readonly pathLength?: number;
  readonly constrainsNames: boolean;
  readonly notBefore: Millis;
  readonly notAfter: Millis;
  /** Subject key identifier in hexadecimal: what its leaves name as their issuer. */
  readonly keyId?: string;
}

export interface IssuedPem {
  readonly pem: string;
  /** Hexadecimal, lower case. */
  readonly serial: string;
  readonly notBefore: Millis;
  readonly notAfter: Millis;
}

/** A CA that is ready to sign. */
export interface Signer {
  issue(facts: CertificateFacts): Promise<IssuedPem>;
  /**
   * Signs the name and key of another CA: a bridge, below which leaves alone may follow. It is
   * valid at the time when both are.
   */
  bridgeTo(authority: string, key: PublicKey): Promise<IssuedPem>;
  readonly notBefore: Millis;
  readonly notAfter: Millis;
}

/**
 * ecdsa-with-SHA256 has no parameters (RFC 5758 3.2), sha256WithRSAEncryption has NULL (RFC 4055
 * 5).
 */
const ECDSA = new asn.AlgorithmIdentifier({ algorithm: '1.2.840.10045.4.3.2' });
const RSA = new asn.AlgorithmIdentifier({ algorithm: '1.2.840.113549.1.1.11', parameters: null });

const NO_UNUSED_BITS = Buffer.from([0]);

/** Signs on a thread of Node's pool. */
const signed = promisify(sign);

/** 127 random bits, positive and always of 16 octets (RFC 5280 4.1.2.2 allows 20). */
function newSerial(): Buffer {
  const octets = randomBytes(16);
  octets[0] = (octets[0]! & 0x7f) | 0x40;
  return octets;
}

/** Copies a Buffer, which may be a view into a larger one. */
const copyOf = (octets: Uint8Array): ArrayBuffer => new Uint8Array(octets).buffer;

/**
 * The texts that a PrintableString can hold (X.680, 41.4). Go and OpenSSL use it for these, too.
 */
const PRINTABLE = /^[A-Za-z0-9 '()+,./:=?-]*$/;

const ORGANIZATION = '2.5.4.10';
const COMMON_NAME = '2.5.4.3';

const attribute = (type: string, text: string): asn.RelativeDistinguishedName =>
  new asn.RelativeDistinguishedName([
    new asn.AttributeTypeAndValue({
      type,
      value: new asn.AttributeValue(PRINTABLE.test(text) ? { printableString: text } : { utf8String: text }),
    }),
  ]);

const nameOf = ({ commonName, organizations = [] }: SubjectName): asn.Name =>
  new asn.Name([
    ...organizations.map((one) => attribute(ORGANIZATION, one)),
    attribute(COMMON_NAME, commonName),
  ]);

/**
 * The key identifier: the first 20 octets of the SHA-256 over the SubjectPublicKeyInfo (RFC 7093,
 * method 4). Two generations of a CA have the same name; this distinguishes them.
 */
export const keyIdOf = (key: PublicKey): string => key.pin().slice(0, 40);

const PURPOSES: Readonly<Record<Purpose, string>> = {
  serverAuth: asn.id_kp_serverAuth,
  clientAuth: asn.id_kp_clientAuth,
};

const critical = (extnID: string, value: unknown): asn.Extension =>
  new asn.Extension({ extnID, critical: true, extnValue: new OctetString(AsnConvert.serialize(value)) });
const plain = (extnID: string, value: unknown): asn.Extension =>
  new asn.Extension({ extnID, extnValue: new OctetString(AsnConvert.serialize(value)) });

function extensionsOf(
  facts: CertificateFacts,
  keyId: string | undefined,
  issuerKeyId: string | undefined,
): asn.Extension[] {
  const isRsa = facts.publicKey.object.asymmetricKeyType === 'rsa';
  const usage =
    asn.KeyUsageFlags.digitalSignature |
    // Only for RSA, because an ECDSA key encrypts nothing. kubeadm sets the bit for both
    // (deviations.ts).
    (isRsa ? asn.KeyUsageFlags.keyEncipherment : 0) |
    (facts.ca ? asn.KeyUsageFlags.keyCertSign : 0);
  const extensions = [critical(asn.id_ce_keyUsage, new asn.KeyUsage(usage))];
  if (facts.purposes.length > 0)
    extensions.push(
      plain(asn.id_ce_extKeyUsage, new asn.ExtendedKeyUsage(facts.purposes.map((one) => PURPOSES[one]))),
    );
  const constraints = new asn.BasicConstraints({
    cA: facts.ca,
    ...(facts.pathLength !== undefined && { pathLenConstraint: facts.pathLength }),
  });
  extensions.push(critical(asn.id_ce_basicConstraints, constraints));
  const octets = (hex: string) => copyOf(Buffer.from(hex, 'hex'));
  if (keyId !== undefined)
    extensions.push(plain(asn.id_ce_subjectKeyIdentifier, new asn.SubjectKeyIdentifier(octets(keyId))));
  if (issuerKeyId !== undefined) {
    const keyIdentifier = new asn.KeyIdentifier(octets(issuerKeyId));
    extensions.push(
      plain(asn.id_ce_authorityKeyIdentifier, new asn.AuthorityKeyIdentifier({ keyIdentifier })),
    );
  }
  const names = namesOf(facts.sans);
  if (names.length > 0)
    extensions.push(plain(asn.id_ce_subjectAltName, new asn.SubjectAlternativeName(names)));
  return extensions;
}

function namesOf({ dns, ips }: AlternativeNames): asn.GeneralName[] {
  for (const value of ips)
    if (parseIp(value) === undefined) throw new RangeError(`not an IP address: ${value}`);
  return [
    ...dns.map((dNSName) => new asn.GeneralName({ dNSName })),
    ...ips.map((iPAddress) => new asn.GeneralName({ iPAddress })),
  ];
}

/** X.509 counts whole seconds. */
const date = (at: Millis): Date => new Date(Math.floor(at / 1000) * 1000);

/** A name and a key identifier as a certificate has them. */
interface Named {
  readonly name: asn.Name;
  readonly keyId?: string | undefined;
}

async function write(
  facts: CertificateFacts,
  issuer: Named,
  key: PrivateKey,
  subject: Named = { name: nameOf(facts.subject), keyId: keyIdOf(facts.publicKey) },
): Promise<IssuedPem> {
  const serial = newSerial();
  const notBefore = date(facts.notBefore);
  const notAfter = date(facts.notAfter);
  const signatureAlgorithm = key.isRsa ? RSA : ECDSA;
  const tbsCertificate = new asn.TBSCertificate({
    version: asn.Version.v3,
    serialNumber: copyOf(serial),
    signature: signatureAlgorithm,
    issuer: issuer.name,
    validity: new asn.Validity({ notBefore, notAfter }),
    subject: subject.name,
    subjectPublicKeyInfo: AsnConvert.parse(facts.publicKey.spki, asn.SubjectPublicKeyInfo),
    extensions: new asn.Extensions(extensionsOf(facts, subject.keyId, issuer.keyId)),
  });
  // The signed octets are put into the certificate unchanged: encoding them again would double the
  // cost.
  const toBeSigned = Buffer.from(AsnConvert.serialize(tbsCertificate));
  const signature = await signed('sha256', toBeSigned, key.object);
  const certificate = element(
    TAG.sequence,
    toBeSigned,
    Buffer.from(AsnConvert.serialize(signatureAlgorithm)),
    element(TAG.bits, NO_UNUSED_BITS, signature),
  );
  return {
    pem: formatPem({ label: 'CERTIFICATE', octets: certificate }),
    serial: serial.toString('hex'),
    notBefore: notBefore.getTime() as Millis,
    notAfter: notAfter.getTime() as Millis,
  };
}

/**
 * Makes a CA's own certificate, signed with `key`.
 *
 * @throws {RangeError} when one of `sans.ips` is not an IP address.
 */
export const selfSign = (facts: CertificateFacts, key: PrivateKey): Promise<IssuedPem> =>
  write(facts, { name: nameOf(facts.subject) }, key);

/**
 * Makes a CA from its certificate and key. Its leaves end no later than the CA itself: a leaf that
 * outlived its CA would fail on the day when the CA ends.
 *
 * @throws {RangeError} for a text that is not one certificate
 */
export function signer(certificatePem: string, key: PrivateKey): Signer {
  const { subject: name } = parsedCertificate(certificatePem);
  const { keyId, notBefore, notAfter } = readAuthority(certificatePem);
  const within = <F extends { readonly notBefore: Millis; readonly notAfter: Millis }>(facts: F): F => ({
    ...facts,
    notBefore: Math.max(facts.notBefore, notBefore) as Millis,
    notAfter: Math.min(facts.notAfter, notAfter) as Millis,
  });
  return {
    notBefore,
    notAfter,
    issue: (facts) => write(within(facts), { name, keyId }, key),
    bridgeTo(authority, publicKey) {
      const to = readAuthority(authority);
      const facts = within({
        subject: { commonName: '' },
        sans: { dns: [], ips: [] },
        publicKey,
        purposes: [],
        ca: true,
        pathLength: 0,
        notBefore: to.notBefore,
        notAfter: to.notAfter,
      });
      const subject = { name: parsedCertificate(authority).subject, keyId: to.keyId };
      return write(facts, { name, keyId }, key, subject);
    },
  };
}

function parsedCertificate(pem: string): asn.TBSCertificate {
  const [block, ...more] = parsePem(pem) ?? [];
  if (block === undefined || more.length > 0) throw new RangeError('not one certificate in PEM');
  return AsnConvert.parse(block.octets, asn.Certificate).tbsCertificate;
}

const hex = (octets: ArrayBuffer | { readonly buffer: ArrayBuffer }): string =>
  Buffer.from(octets instanceof ArrayBuffer ? octets : octets.buffer).toString('hex');

/** The value of an extension, parsed as its type; undefined when the certificate has none. */
function extension<T>({ extensions }: asn.TBSCertificate, id: string, type: new () => T): T | undefined {
  const found = extensions?.find(({ extnID }) => extnID === id);
  return found && AsnConvert.parse(found.extnValue.buffer, type);
}

/** Each plan and each look at a rotation reads the same few CAs, and parsing one is slow. */
const memoAuthorities = new Map<string, AuthorityCertificate>();
const REMEMBERED = 200;

/**
 * Reads the certificate of a CA.
 *
 * @throws {RangeError} for a text that is not one certificate; other errors for one whose
 *   extensions are malformed.
 */
export function readAuthority(pem: string): AuthorityCertificate {
  const known = memoAuthorities.get(pem);
  if (known !== undefined) return known;
  const read = parsedAuthority(pem);
  setBounded(memoAuthorities, pem, read, REMEMBERED);
  return read;
}

function parsedAuthority(pem: string): AuthorityCertificate {
  const own = parsedCertificate(pem);
  const constraints = extension(own, asn.id_ce_basicConstraints, asn.BasicConstraints);
  const usage = extension(own, asn.id_ce_keyUsage, asn.KeyUsage);
  const purposes = extension(own, asn.id_ce_extKeyUsage, asn.ExtendedKeyUsage);
  const keyId = extension(own, asn.id_ce_subjectKeyIdentifier, asn.SubjectKeyIdentifier);
  return {
    isCa: constraints?.cA ?? false,
    selfIssued: hex(AsnConvert.serialize(own.subject)) === hex(AsnConvert.serialize(own.issuer)),
    maySign: usage === undefined || (usage.toNumber() & asn.KeyUsageFlags.keyCertSign) !== 0,
    ...(purposes && { purposes: [...purposes] }),
    ...(constraints?.pathLenConstraint !== undefined && { pathLength: constraints.pathLenConstraint }),
    constrainsNames: own.extensions?.some(({ extnID }) => extnID === asn.id_ce_nameConstraints) ?? false,
    notBefore: own.validity.notBefore.getTime().getTime() as Millis,
    notAfter: own.validity.notAfter.getTime().getTime() as Millis,
    ...(keyId && { keyId: hex(keyId) }),
  };
}

/** The identifier of the key that signed a certificate, in hexadecimal, if it names one. */
export function issuerKeyIdOf(pem: string): string | undefined {
  const found = extension(
    parsedCertificate(pem),
    asn.id_ce_authorityKeyIdentifier,
    asn.AuthorityKeyIdentifier,
  );
  return found?.keyIdentifier && hex(found.keyIdentifier);
}
