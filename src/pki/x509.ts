/** Certificates written: the only file that knows the X.509 library (docs/decisions/0022). */
import 'reflect-metadata';
import { randomBytes, type webcrypto } from 'node:crypto';
import * as x509 from '@peculiar/x509';
import type { Millis } from '../base/duration.ts';
import { parseIp } from '../base/ip.ts';
import type { PrivateKey, PublicKey } from './keys.ts';

/** Encoded as O…, CN: the order in which Go writes it. */
export interface SubjectName {
  readonly commonName: string;
  readonly organizations?: readonly string[];
}

export interface AlternativeNames {
  readonly dns: readonly string[];
  /** Of both families, as text. */
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
  readonly notBefore: Millis;
  readonly notAfter: Millis;
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
  readonly notBefore: Millis;
  readonly notAfter: Millis;
}

const ECDSA = { name: 'ECDSA', hash: 'SHA-256', namedCurve: 'P-256' } as const;
const RSA = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' } as const;

const algorithmOf = (key: PrivateKey): typeof ECDSA | typeof RSA => (key.isRsa ? RSA : ECDSA);
const signingKeyOf = (key: PrivateKey): webcrypto.CryptoKey =>
  key.object.toCryptoKey(algorithmOf(key), false, ['sign']);

/** 127 random bits, positive and always of 16 octets (RFC 5280 4.1.2.2 allows 20). */
function newSerial(): string {
  const octets = randomBytes(16);
  octets[0] = (octets[0]! & 0x7f) | 0x40;
  return octets.toString('hex');
}

/** As JSON, so that nothing in a value is read as syntax of a distinguished name. */
const nameOf = (subject: SubjectName): x509.Name =>
  new x509.Name([
    ...(subject.organizations ?? []).map((organization) => ({ O: [organization] })),
    { CN: [subject.commonName] },
  ]);

/**
 * The key identifier: the first 20 octets of the SHA-256 over the SubjectPublicKeyInfo (RFC 7093, method 4). Two generations of a
 * CA carry one name; this tells them apart.
 */
export const keyIdOf = (key: PublicKey): string => key.pin().slice(0, 40);

function extensionsOf(facts: CertificateFacts, issuerKeyId: string | undefined): x509.Extension[] {
  const isRsa = facts.publicKey.object.asymmetricKeyType === 'rsa';
  const usage =
    x509.KeyUsageFlags.digitalSignature |
    // An ECDSA key encrypts nothing; kubeadm sets the bit all the same (deviations.ts).
    (isRsa ? x509.KeyUsageFlags.keyEncipherment : 0) |
    (facts.ca ? x509.KeyUsageFlags.keyCertSign : 0);
  const extensions: x509.Extension[] = [new x509.KeyUsagesExtension(usage, true)];
  if (facts.purposes.length > 0)
    extensions.push(
      new x509.ExtendedKeyUsageExtension(
        facts.purposes.map((purpose) => x509.ExtendedKeyUsage[purpose]),
        false,
      ),
    );
  extensions.push(new x509.BasicConstraintsExtension(facts.ca, undefined, true));
  if (facts.ca) extensions.push(new x509.SubjectKeyIdentifierExtension(keyIdOf(facts.publicKey)));
  if (issuerKeyId !== undefined) extensions.push(new x509.AuthorityKeyIdentifierExtension(issuerKeyId));
  const names = [
    ...facts.sans.dns.map((value) => ({ type: 'dns' as const, value })),
    ...facts.sans.ips.map((value) => ({ type: 'ip' as const, value })),
  ];
  for (const { type, value } of names)
    if (type === 'ip' && parseIp(value) === undefined) throw new RangeError(`not an IP address: ${value}`);
  if (names.length > 0) extensions.push(new x509.SubjectAlternativeNameExtension(names, false));
  return extensions;
}

/** X.509 counts whole seconds. */
const date = (at: Millis): Date => new Date(Math.floor(at / 1000) * 1000);

async function write(
  facts: CertificateFacts,
  issuer: { readonly name: x509.Name; readonly keyId?: string },
  signing: { readonly key: webcrypto.CryptoKey; readonly algorithm: typeof ECDSA | typeof RSA },
): Promise<IssuedPem> {
  const serial = newSerial();
  const notBefore = date(facts.notBefore);
  const notAfter = date(facts.notAfter);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serial,
    subject: nameOf(facts.subject),
    issuer: issuer.name,
    notBefore,
    notAfter,
    signingAlgorithm: signing.algorithm,
    publicKey: new x509.PublicKey(facts.publicKey.spki),
    signingKey: signing.key,
    extensions: extensionsOf(facts, issuer.keyId),
  });
  return {
    pem: `${certificate.toString('pem').trim()}\n`,
    serial,
    notBefore: notBefore.getTime() as Millis,
    notAfter: notAfter.getTime() as Millis,
  };
}

/** A CA's own certificate. */
export function selfSign(facts: CertificateFacts, key: PrivateKey): Promise<IssuedPem> {
  const signing = { key: signingKeyOf(key), algorithm: algorithmOf(key) };
  return write(facts, { name: nameOf(facts.subject) }, signing);
}

/**
 * A CA from its certificate and key. What it issues lies within its own validity: a leaf that outlives its CA is a surprise on the
 * day the CA ends.
 */
export function signer(certificatePem: string, key: PrivateKey): Signer {
  const own = new x509.X509Certificate(certificatePem);
  const notBefore = own.notBefore.getTime() as Millis;
  const notAfter = own.notAfter.getTime() as Millis;
  const issuer = { name: own.subjectName, keyId: keyIdOf(key.publicKey()) };
  const signing = { key: signingKeyOf(key), algorithm: algorithmOf(key) };
  return {
    notBefore,
    notAfter,
    issue: (facts) =>
      write(
        {
          ...facts,
          notBefore: Math.max(facts.notBefore, notBefore) as Millis,
          notAfter: Math.min(facts.notAfter, notAfter) as Millis,
        },
        issuer,
        signing,
      ),
  };
}
