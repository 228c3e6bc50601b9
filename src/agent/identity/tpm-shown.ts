/**
 * Reads what a machine's TPM shows of itself, as the agent posts it: lines of a
 * word and base64, `ek` and `ak` (TPM2B_PUBLIC), and `certificate` if the vendor stored one. Pure.
 */
import { EK_CERTIFICATE_LIMIT } from '../../pki/tpm/endorsement-certificate.ts';
import { PUBLIC_AREA_LIMIT } from '../../pki/tpm/public-area.ts';
import {
  type AttestationKey,
  type EndorsementKey,
  readAttestationKey,
  readEndorsementKey,
} from '../../pki/tpm/tpm-keys.ts';

/** What a TPM shows. Nothing of it is proven until the TPM opened a challenge. */
export interface ShownTpm {
  readonly ek: EndorsementKey;
  readonly ak: AttestationKey;
  /** The vendor's certificate of the endorsement key, DER with what follows it in the TPM. */
  readonly certificate: Buffer | undefined;
}

type ShownTpmResult =
  | { readonly ok: true; readonly tpm: ShownTpm }
  | { readonly ok: false; readonly text: string };

/** The words, and the largest value of each in octets. */
const FIELDS: Readonly<Record<string, number>> = {
  ek: PUBLIC_AREA_LIMIT,
  ak: PUBLIC_AREA_LIMIT,
  certificate: EK_CERTIFICATE_LIMIT,
};

/** The longest text, in characters. */
const LIMIT = 20 * 1024;

const refuse = (text: string): ShownTpmResult => ({ ok: false, text });

/** Reads the text, or says what is wrong with it. Never throws. */
export function readShownTpm(text: string): ShownTpmResult {
  if (text.length > LIMIT) return refuse(`more than ${LIMIT} characters`);
  const found = new Map<string, Buffer>();
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, name, base64] = /^([a-z]{2,12}) ([A-Za-z0-9+/]{4,16384}={0,2})$/.exec(line) ?? [];
    const most = name === undefined || !Object.hasOwn(FIELDS, name) ? undefined : FIELDS[name];
    if (name === undefined || base64 === undefined || most === undefined)
      return refuse('a line that is not known');
    if (found.has(name)) return refuse(`${name} is there twice`);
    const octets = Buffer.from(base64, 'base64');
    if (octets.length > most) return refuse(`${name} has more than ${most} octets`);
    found.set(name, octets);
  }
  const [ek, ak] = [found.get('ek'), found.get('ak')];
  if (ek === undefined || ak === undefined) return refuse('no endorsement key or no attestation key');
  const endorsement = readEndorsementKey(ek);
  if (!endorsement.ok) return endorsement;
  const attestation = readAttestationKey(ak);
  if (!attestation.ok) return attestation;
  return {
    ok: true,
    tpm: { ek: endorsement.key, ak: attestation.key, certificate: found.get('certificate') },
  };
}
