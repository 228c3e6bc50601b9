/** Certificates that operators write into documents as text. */
import { X509Certificate } from 'node:crypto';
import { z } from 'zod';

const BLOCK = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** Why a text is not a list of PEM certificates; undefined when it is one. */
export function certificatesFault(text: string): string | undefined {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text))
    return 'this is a private key; write the certificate only';
  const blocks = text.match(BLOCK) ?? [];
  if (blocks.length === 0)
    return 'not a certificate; write PEM, from "-----BEGIN CERTIFICATE-----" to "-----END CERTIFICATE-----"';
  // A block without its end, or with another name, would be left out without a word.
  if ((text.match(/-----BEGIN /g) ?? []).length !== blocks.length)
    return 'a block of this is cut off or is no certificate; write whole PEM certificates only';
  const unreadable = blocks.findIndex((block) => !isCertificate(block));
  return unreadable < 0
    ? undefined
    : `certificate ${unreadable + 1} of this cannot be read; it is cut off or changed`;
}

function isCertificate(block: string): boolean {
  try {
    new X509Certificate(block);
    return true;
  } catch {
    return false;
  }
}

/** One certificate or several, as PEM; kept with one line break at the end. */
export const certificates = z
  .string()
  .max(256 * 1024)
  .overwrite((text) => `${text.trim()}\n`)
  .superRefine((text, context) => {
    const message = certificatesFault(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });
