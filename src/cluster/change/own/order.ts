/** What is ordered of a rotation of Muster's own keys, and what its steps observe. */
import { z } from 'zod';
import { emergency, keysets, requestFor } from '../request.ts';

export const ownRequest = requestFor('own-rotation', { keysets, emergency });
export type OwnRequest = z.output<typeof ownRequest>;

export const ownOrder = z.strictObject({
  /** The transport CA; absent: it stays as it is. */
  ca: z
    .strictObject({
      /** The generation that signed when the rotation was ordered. */
      from: z.string(),
      /** The generations that there were then; the one that is not among them is the new one. */
      known: z.array(z.string()),
      /** The new generation; absent until it is made. */
      to: z.string().optional(),
    })
    .optional(),
  /** The name of the secret from which tickets were derived; absent: it stays as it is. */
  tickets: z.strictObject({ from: z.string() }).optional(),
  /** The old keys are in the wrong hands: they end at once. */
  emergency: z.literal(true).optional(),
});
export type OwnOrder = z.output<typeof ownOrder>;

/** What the boot host sees of its own keys and its agents. */
export interface OwnSeen {
  /** SHA-256 of the CA certificates that machines get now. */
  readonly trust: string;
  /** Machine → the generation that signed the certificate with which its agent last asked. */
  readonly certificates: ReadonlyMap<string, string>;
  /** Until when tickets of the secret before are accepted, ms since 1970; absent: they are not. */
  readonly oldTicketsUntil?: number;
}
