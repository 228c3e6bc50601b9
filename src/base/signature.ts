/**
 * Signatures of events that are sent to Webhooks.
 *
 * @see https://www.standardwebhooks.com
 */
import { createHmac } from 'node:crypto';

/** Keys shorter than this are refused: Standard Webhooks asks for 24 octets. */
export const MIN_KEY_OCTETS = 24;

/**
 * The key in the value of a Secret: the base64 after `whsec_`, or the text itself, without the line
 * break that editors add. Undefined when it is too short.
 */
export function keyOf(secret: Buffer): Buffer | undefined {
  const text = secret.toString('latin1').replace(/\r?\n$/, '');
  const key = text.startsWith('whsec_') ? Buffer.from(text.slice(6), 'base64') : Buffer.from(text, 'latin1');
  return key.length < MIN_KEY_OCTETS ? undefined : key;
}

/** The headers that identify and sign a body. `seconds`: the time of this attempt, since 1970. */
export function signedHeaders(
  key: Buffer,
  { id, seconds, body }: { readonly id: string; readonly seconds: number; readonly body: string },
): Readonly<Record<string, string>> {
  const mac = createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': `v1,${mac}`,
  };
}
