/** What documents say about TPMs: endorsement keys of machines, and CAs of their vendors. */
import { createHash, createPublicKey, X509Certificate } from 'node:crypto';
import { z } from 'zod';

/**
 * SHA-256 of an endorsement key (SPKI, hexadecimal) that a document gives as PEM or `sha256:…`;
 * undefined when the text is neither, or the key is of a kind that agents do not use.
 */
export function endorsementPin(text: string): string | undefined {
  const given = /^sha256:([0-9a-f]{64})$/.exec(text.trim())?.[1];
  if (given !== undefined) return given;
  if (!/^\s*-----BEGIN PUBLIC KEY-----\s[^-]+-----END PUBLIC KEY-----\s*$/.test(text)) return undefined;
  try {
    const key = createPublicKey(text);
    const { modulusLength, namedCurve } = key.asymmetricKeyDetails ?? {};
    if (modulusLength !== 2048 && namedCurve !== 'prime256v1') return undefined;
    return createHash('sha256')
      .update(key.export({ type: 'spki', format: 'der' }))
      .digest('hex');
  } catch {
    return undefined;
  }
}

/** The CA certificates of these texts, PEM; undefined when one of them is not only of such. */
export function vendorCas(texts: readonly string[]): readonly X509Certificate[] | undefined {
  const cas: X509Certificate[] = [];
  for (const text of texts) {
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    if (blocks.length === 0 || blocks.reduce((rest, block) => rest.replace(block, ''), text).trim() !== '')
      return undefined;
    try {
      for (const block of blocks) cas.push(new X509Certificate(block));
    } catch {
      return undefined;
    }
  }
  return cas.every(({ ca }) => ca) ? cas : undefined;
}

export const machineTpm = z
  .strictObject({
    endorsementKey: z
      .string()
      .max(4096)
      .refine(
        (text) => endorsementPin(text) !== undefined,
        'not an endorsement key; write its public key (RSA-2048 or P-256) in PEM, or sha256: and the SHA-256 of that key in DER as 64 lower-case digits; `muster get machine NAME -o yaml` shows the one that a machine has',
      )
      .meta({
        description:
          'Public endorsement key of its TPM 2.0, as PEM or `sha256:` of the key in DER. From then on only this TPM gets the certificate of the machine, at every tier of trust.',
      }),
  })
  .meta({ description: 'The TPM of the machine.' });

export const vendorTpm = z
  .strictObject({
    vendorCAs: z
      .array(z.string().max(64 * 1024))
      .min(1)
      .max(64)
      .refine(
        (texts) => vendorCas(texts) !== undefined,
        'not certificates of CAs in PEM; give those that sign the certificates of endorsement keys',
      )
      .meta({
        description:
          'CAs of the vendors of TPMs, PEM: those that sign the certificates of endorsement keys. A TPM that no document and no earlier boot names then needs a certificate of one of them.',
      }),
  })
  .meta({ description: 'TPMs that are taken.' });
