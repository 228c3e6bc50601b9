/** CAs that operators bring: what is checked before one signs for a cluster. Pure. */
import { X509Certificate } from 'node:crypto';
import { duration, type Millis, spanText } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { PrivateKey } from './keys.ts';
import { generationId, type OpenGeneration } from './keyset.ts';
import { parsePem } from './pem.ts';
import { type AuthorityCertificate, readAuthority } from './x509.ts';

/** OIDs of the purposes that leaves of a cluster have (RFC 5280, 4.2.1.12). */
const PURPOSES = { serverAuth: '1.3.6.1.5.5.7.3.1', clientAuth: '1.3.6.1.5.5.7.3.2' } as const;
const ANY_PURPOSE = '2.5.29.37.0';

/** A CA that ends sooner than this is not worth a rotation. */
const LEAST_LIFE = duration('30d');

export interface ImportedAuthority {
  readonly generation: OpenGeneration;
  /** What an operator should know about it. */
  readonly notes: readonly string[];
}

const refuse = (why: string, path: 'certificate' | 'key' = 'certificate'): never => {
  throw new MusterError('E_CA_IMPORT', why, { faults: [{ code: 'E_CA_IMPORT', message: why, path }] });
};

/**
 * Reads and checks a CA's certificate and private key, both in PEM.
 *
 * @throws {MusterError} E_CA_IMPORT, which says what is wrong with it; the path of its fault is
 *   `certificate` or `key`
 */
export function readImported(certificate: string, key: string, now: Millis): ImportedAuthority {
  const pem = oneCertificate(certificate);
  const { facts, spki } = certificateOf(pem);
  const fault = faultOf(facts, now);
  if (fault !== undefined) refuse(fault);
  const own = readKey(key);
  const publicKey = own.publicKey();
  if (!publicKey.spki.equals(spki)) refuse('the key is not that of the certificate');
  return {
    generation: { id: generationId(publicKey), createdAt: now, publicKey, key: own, certificate: pem },
    notes: notesOf(facts),
  };
}

function oneCertificate(text: string): string {
  const blocks = parsePem(text);
  if (blocks === undefined || blocks.length === 0) return refuse('the certificate is not in PEM');
  if (blocks.some(({ label }) => label !== 'CERTIFICATE'))
    return refuse(
      `the file of the certificate holds a ${blocks.find(({ label }) => label !== 'CERTIFICATE')!.label}`,
    );
  if (blocks.length > 1)
    return refuse(
      'the file holds several certificates, a chain or an old and a new CA; give the certificate of the CA that signs alone: it is trusted itself, and nothing beside it',
    );
  return text.slice(text.indexOf('-----BEGIN')).trim().concat('\n');
}

/** The facts of a certificate and its SubjectPublicKeyInfo in DER, or a refusal. */
function certificateOf(pem: string): { readonly facts: AuthorityCertificate; readonly spki: Buffer } {
  try {
    const { publicKey } = new X509Certificate(pem);
    return { facts: readAuthority(pem), spki: publicKey.export({ type: 'spki', format: 'der' }) };
  } catch {
    return refuse('the certificate cannot be read');
  }
}

function readKey(text: string): PrivateKey {
  try {
    return PrivateKey.fromPem(text);
  } catch (error) {
    return refuse(`the key: ${error instanceof MusterError ? error.message : 'it cannot be read'}`, 'key');
  }
}

function faultOf(facts: AuthorityCertificate, now: Millis): string | undefined {
  const date = (at: Millis): string => new Date(at).toISOString();
  const lacking = Object.entries(PURPOSES).filter(
    ([, oid]) => facts.purposes && !facts.purposes.includes(oid) && !facts.purposes.includes(ANY_PURPOSE),
  );
  if (!facts.isCa) return 'the certificate is not that of a CA (basic constraints)';
  if (!facts.maySign) return 'the certificate does not let its key sign certificates (key usage)';
  if (facts.notAfter <= now) return `the CA ended at ${date(facts.notAfter)}`;
  if (facts.notBefore > now) return `the CA is valid only from ${date(facts.notBefore)}`;
  if (facts.notAfter - now < LEAST_LIFE)
    return `the CA ends in ${spanText((facts.notAfter - now) as Millis)}; a CA has to be good for 30 days at least`;
  if (lacking.length > 0)
    return `the CA may not certify ${lacking.map(([name]) => name).join(' and ')} (extended key usage)`;
  if (facts.constrainsNames) return 'the CA may certify some names alone (name constraints)';
  if (facts.keyId === undefined)
    return 'the certificate has no subject key identifier, so nobody could tell which CA signed a leaf';
  return undefined;
}

function notesOf({ selfIssued, pathLength }: AuthorityCertificate): readonly string[] {
  return [
    ...(selfIssued
      ? []
      : [
          'an intermediate CA: it is trusted itself, and the CA above it is not, so that others of its CAs count for nothing',
        ]),
    ...(pathLength === 0
      ? [
          'its path length is 0, so it cannot sign a bridge: when it is replaced, its successor is trusted everywhere before it signs, which restarts etcd twice',
        ]
      : []),
  ];
}
