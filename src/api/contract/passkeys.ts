/** Passkeys of operators (WebAuthn): adding them, and logging in with one. */
import { z } from 'zod';
import { client, loggedIn, password } from './accounts.ts';
import { type Contracts, itemsOf, part, time } from './contract.ts';

/** Octets in base64url, as WebAuthn writes them in JSON. */
const octets = (max: number) => z.string().min(1).max(max);

const passkey = z
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
const creation = z.strictObject({
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
const assertionRequest = z.strictObject({
  challenge: z.string(),
  timeout: z.int(),
  rpId: z.string(),
  userVerification: z.literal('required'),
});
export type AssertionRequest = z.infer<typeof assertionRequest>;

/** What browsers answer; they may add fields. */
const credential = { id: octets(1400), rawId: octets(1400), type: z.literal('public-key') };
const created = z.looseObject({
  ...credential,
  response: z.looseObject({
    clientDataJSON: octets(4096),
    attestationObject: octets(8192),
    transports: z.array(z.string().max(32)).max(8).optional(),
  }),
});
export type Created = z.infer<typeof created>;
const asserted = z.looseObject({
  ...credential,
  response: z.looseObject({
    clientDataJSON: octets(4096),
    authenticatorData: octets(4096),
    signature: octets(4096),
    userHandle: octets(128),
  }),
});
export type Asserted = z.infer<typeof asserted>;

export const PASSKEYS = {
  'GET /v1/passkeys': {
    access: 'own',
    summary: 'Lists the passkeys of the operator who asks.',
    query: z.strictObject(part),
    answer: z.strictObject({
      kind: z.literal('PasskeyList'),
      ...itemsOf(passkey),
      page: z.string().optional().meta({ description: 'The address of the page by which they count.' }),
      refused: z
        .strictObject({ code: z.string(), detail: z.string(), fix: z.string() })
        .optional()
        .meta({ description: 'Why the operator cannot add a passkey, if so.' }),
    }),
  },
  'POST /v1/passkeys/begin': {
    access: 'own',
    summary: 'Begins to add a passkey, with the password; the answer is for the browser.',
    body: z.strictObject({ password }),
    answer: creation,
  },
  'POST /v1/passkeys': {
    access: 'own',
    summary: 'Adds a passkey to the account of the operator who asks.',
    body: z.strictObject({
      label: z.string().min(1).max(64).meta({ description: 'What its owner calls it.' }),
      credential: created,
    }),
    answer: passkey,
    statuses: [201],
  },
  'DELETE /v1/passkeys/:id': {
    access: 'own',
    summary: 'Removes a passkey of the operator who asks.',
    answer: passkey,
  },
  'POST /v1/login/passkey': {
    access: 'open',
    unrecorded: true,
    summary: 'Begins a log-in with a passkey; the answer is for the browser.',
    body: z.strictObject({}),
    answer: assertionRequest,
  },
  'POST /v1/login/passkey/finish': {
    access: 'open',
    unrecorded: true,
    summary: 'Logs in the operator whose passkey answered.',
    body: z.strictObject({ credential: asserted, client }),
    answer: loggedIn,
  },
} as const satisfies Contracts;
