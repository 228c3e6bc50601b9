/** The settings of a Webhook: where events are sent, which, and how they are signed. */
import { z } from 'zod';
import { EVENT_KINDS } from '../events/event.ts';
import { secretReference } from './secret-spec.ts';

const KINDS_OF_EVENTS = Object.keys(EVENT_KINDS);

/** Whether a pattern of a Webhook (`machine.held`, `machine.*`, `*`) selects a kind of event. */
export const selects = (pattern: string, kind: string): boolean =>
  pattern.endsWith('*') ? kind.startsWith(pattern.slice(0, -1)) : kind === pattern;

const pattern = z
  .string()
  .refine(
    (text) => KINDS_OF_EVENTS.some((kind) => selects(text, kind)),
    'selects no event; docs/events.md lists their kinds, and a pattern may end with *, e.g. "machine.*"',
  );

function urlFault(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    return 'not an address; write it like "https://alerts.example/muster"';
  if (url.username !== '' || url.password !== '')
    return 'has a login, which everybody who reads documents would see; requests are signed instead';
  return undefined;
}

/** The URL of a server to which signed requests are sent. */
export const serverUrl = z
  .string()
  .max(2000)
  .superRefine((text, context) => {
    const message = urlFault(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });

export const webhookSpec = z.strictObject({
  url: serverUrl.meta({
    description: 'Where each event is sent, by POST, as JSON. Redirects are not followed.',
  }),
  secret: secretReference.meta({
    description:
      'The Secret with the key of the signature (HMAC-SHA256, as standardwebhooks.com describes it): `whsec_` and base64, or any text of at least 24 octets.',
  }),
  events: z.array(pattern).min(1).meta({
    description: 'Which kinds of event are sent: names, or beginnings followed by *.',
  }),
});
