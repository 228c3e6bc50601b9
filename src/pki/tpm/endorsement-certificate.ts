/**
 * Checks the certificate that a TPM's vendor issued for its endorsement key, against the CAs that
 * the operator gives.
 */
import { X509Certificate } from 'node:crypto';
import type { Millis } from '../../base/duration.ts';
import { DerReader, TAG } from '../der.ts';
import type { EndorsementKey } from './tpm-keys.ts';

/** The longest certificate that is read, in octets. Those of vendors have one to two thousand. */
export const EK_CERTIFICATE_LIMIT = 8 * 1024;

/**
 * Why this certificate does not prove that a vendor made the TPM with this key; undefined when it
 * does. `octets`: DER, with whatever a TPM's storage has behind it. Never throws.
 */
export function endorsementFault(
  octets: Uint8Array | undefined,
  key: EndorsementKey,
  cas: readonly X509Certificate[],
  now: Millis,
): string | undefined {
  if (octets === undefined) return 'the TPM delivered no certificate of its endorsement key';
  if (octets.length > EK_CERTIFICATE_LIMIT)
    return `the certificate of the endorsement key has more than ${EK_CERTIFICATE_LIMIT} octets`;
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(new DerReader(Buffer.from(octets)).next(TAG.sequence).whole);
    if (!certificate.publicKey.export({ type: 'spki', format: 'der' }).equals(key.publicKey.spki))
      return 'the certificate is not that of the endorsement key';
  } catch {
    return 'the certificate of the endorsement key cannot be read';
  }
  const issuer = cas.find((ca) => issued(ca, certificate));
  if (issuer === undefined) return 'none of the vendorCAs issued the certificate of the endorsement key';
  if (!isValidAt(certificate, now) || !isValidAt(issuer, now))
    return 'the certificate of the endorsement key, or that of its CA, is not valid now';
  return undefined;
}

function issued(ca: X509Certificate, certificate: X509Certificate): boolean {
  try {
    return certificate.checkIssued(ca) && certificate.verify(ca.publicKey);
  } catch {
    return false;
  }
}

const isValidAt = (certificate: X509Certificate, now: Millis): boolean =>
  certificate.validFromDate.getTime() <= now && now <= certificate.validToDate.getTime();
