/** The order to rescue a machine, as it is stored and as the discovery system reads it. Pure. */
import { z } from 'zod';
import type { Parsed } from '../../base/body.ts';
import { duration, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { sshKeyFault } from '../../resources/ssh-key.ts';

/** How long a rescue lasts that neither an operator nor another boot ends. */
export const RESCUE_LASTS = '4h';
const LONGEST = duration('24h');

export const rescueForm = z.strictObject({
  key: z.string().meta({ description: "The operator's public key, a line of authorized_keys." }),
  until: z.string().meta({ description: 'When it ends at the latest, RFC 3339.' }),
  out: z
    .strictObject({ text: z.string(), by: z.string() })
    .optional()
    .meta({ description: 'It was taken out before: why, and by whom.' }),
  begun: z
    .literal(true)
    .optional()
    .meta({ description: 'The rescue system runs: the boot after it is an ordinary one.' }),
  hostKey: z.string().optional().meta({ description: 'The public key of its SSH server.' }),
  address: z.string().optional().meta({ description: 'Where that was reported from.' }),
});
export type Rescue = Parsed<z.output<typeof rescueForm>>;

/**
 * Reads what an operator ordered.
 *
 * @throws {MusterError} E_USAGE for a key that is none, or a time that is none or too long
 */
export function rescueOf(
  { key, lasts }: { readonly key: string; readonly lasts: string },
  now: number,
): Rescue {
  const line = key.trim();
  const fault = sshKeyFault(line);
  if (fault !== undefined) throw new MusterError('E_USAGE', `the key: ${fault}`);
  const span = parseDuration(lasts);
  if (span === undefined || span <= 0 || span > LONGEST)
    throw new MusterError('E_USAGE', `a rescue lasts at most 24h, not "${lasts}"; write a time such as 4h`);
  return { key: line, until: new Date(now + span).toISOString() };
}

/** Whether a rescue is over; `boots`: the machine asks for another boot. */
export const isOver = (
  { begun, until }: Rescue,
  { now, boots }: { readonly now: number; readonly boots: boolean },
): boolean => now >= Date.parse(until) || (boots && begun === true);

/** The order as images/discovery/rescue.sh reads it: for how many seconds, and for whom. */
export const rescueText = ({ key, until }: Rescue, now: number): string =>
  `seconds ${Math.max(1, Math.round((Date.parse(until) - now) / 1000))}\nkey ${key}\n`;

/** Reads the key of the SSH server from a machine's report; undefined for another text. */
export const readHostKey = (text: string): string | undefined =>
  /^ssh-ed25519 [A-Za-z0-9+/]{68}(?=\s|$)/.exec(text)?.[0];
