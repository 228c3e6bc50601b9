/** Passkeys of operators (WebAuthn), as browsers and the API write them. */
import { z } from 'zod';
import { type Parsed, time } from './contract.ts';

/** Octets in base64url, as WebAuthn writes them in JSON. */
const octets = (max: number) => z.string().min(1).max(max);

export const passkey = z
  .strictObject({
    id: z.string(),
    label: z.string(),
    createdAt: time,
    usedAt: time.optional().meta({ description: 'When it last logged its owner in.' }),
  })
  .meta({ id: 'Passkey' });

const descriptor = z.strictObject({
  type: z.literal('public-key'),
  id: z.string(),
  transports: z.array(z.string()).readonly(),
});

/** `PublicKeyCredentialCreationOptionsJSON` of WebAuthn level 3, section 5.1.8. */
export const creation = z.strictObject({
  rp: z.strictObject({ id: z.string(), name: z.string() }),
  user: z.strictObject({ id: z.string(), name: z.string(), displayName: z.string() }),
  challenge: z.string(),
  pubKeyCredParams: z.array(z.strictObject({ type: z.literal('public-key'), alg: z.int() })),
  timeout: z.int(),
  excludeCredentials: z.array(descriptor),
  authenticatorSelection: z.strictObject({
    residentKey: z.literal('required'),
    requireResidentKey: z.literal(true),
    userVerification: z.literal('required'),
  }),
  attestation: z.literal('none'),
});
export type Creation = z.infer<typeof creation>;

/** `PublicKeyCredentialRequestOptionsJSON`, section 5.1.9. It names no credential. */
export const assertionRequest = z.strictObject({
  challenge: z.string(),
  timeout: z.int(),
  rpId: z.string(),
  userVerification: z.literal('required'),
});
export type AssertionRequest = z.infer<typeof assertionRequest>;

/** What browsers answer; they may add fields. */
const credential = { id: octets(1400), rawId: octets(1400), type: z.literal('public-key') };
export const created = z.looseObject({
  ...credential,
  response: z.looseObject({
    clientDataJSON: octets(4096),
    attestationObject: octets(8192),
    transports: z.array(z.string().max(32)).max(8).optional(),
  }),
});
export type Created = Parsed<z.infer<typeof created>>;
export const asserted = z.looseObject({
  ...credential,
  response: z.looseObject({
    clientDataJSON: octets(4096),
    authenticatorData: octets(4096),
    signature: octets(4096),
    userHandle: octets(128),
  }),
});
export type Asserted = Parsed<z.infer<typeof asserted>>;
