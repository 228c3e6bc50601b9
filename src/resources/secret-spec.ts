/**
 * The form in which a document names a value of a Secret, which operators gave Muster apart from
 * all documents (`muster secret put`). The values are in `src/pki/given-secrets.ts`; no document,
 * and nothing that is made from documents alone, has them.
 */
import { z } from 'zod';
import { name } from './fields.ts';

/** Keys inside a Secret. A colon or slash would be ambiguous where name and key are joined. */
export const SECRET_KEY = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,62}$/;

const secretKey = z
  .string()
  .regex(SECRET_KEY, 'not a key of a Secret: letters, digits, ".", "_", "-"; at most 63');

/** Written in the place of a value: the value itself is in a Secret. */
export const secretReference = z.strictObject({
  valueFrom: z
    .strictObject({
      secret: name.meta({ description: 'Name of the Secret.' }),
      key: secretKey.meta({ description: 'Key of the value in the Secret.' }),
    })
    .meta({ description: "The Secret that holds the value; the machine's agent brings it." }),
});

/** `{valueFrom: {secret, key}}` in the place of a value. */
export type SecretReference = z.output<typeof secretReference>;

/** Checks a name as `muster secret put` gets it. */
export const isSecretName = (text: string): boolean => name.safeParse(text).success;

/** The reference that stands in the place of a value; undefined for a value. */
export const referenceIn = (
  value: string | SecretReference | undefined,
): SecretReference['valueFrom'] | undefined => (typeof value === 'object' ? value.valueFrom : undefined);

/** Whether a value of a document that did not fit its field was meant as a reference. */
export const meansSecret = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, 'valueFrom');

/** Says of a field that cannot take a Secret why not, and what to do instead. */
export const NO_SECRET_HERE =
  'a Secret cannot be used here, because this is in the first configuration or read before the agent runs; Secrets fill config.files[].content, config.users[].passwordHash and the passwords of registries';
