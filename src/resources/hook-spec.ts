/** The setting `hooks` of a Cluster: operators' own checks before and after a machine's turn. */
import { z } from 'zod';
import { duration as span } from '../base/duration.ts';
import { certificates } from './certificate-text.ts';
import { duration, name } from './fields.ts';
import { secretReference } from './secret-spec.ts';
import { serverUrl } from './webhook-spec.ts';

/** The kinds of change whose turns hooks can stop. */
const OPERATIONS = ['upgrade', 'roll'] as const;

/** A shorter limit ends before a hook was asked twice; a longer one is one that nobody notices. */
const LEAST = span('1m');
const MOST = span('7d');
/** How long a machine waits for a hook that sets no limit. */
export const DEFAULT_WITHIN = '10m';

const hook = z.strictObject({
  name: name.meta({ description: 'Its name, in messages and in what it is sent.' }),
  when: z.enum(['before', 'after']).meta({
    description:
      'before: asked when a machine has its turn, before its node is drained and before any program restarts. after: asked when the machine has shown that it works again, before the next one gets its turn.',
  }),
  url: serverUrl.meta({
    description: 'Where it is asked, by POST, with a JSON object. Redirects are not followed.',
  }),
  secret: secretReference.meta({
    description:
      'The Secret with the key of the signature of requests (HMAC-SHA256, as standardwebhooks.com describes it): `whsec_` and base64, or any text of at least 24 octets.',
  }),
  ca: certificates.optional().meta({
    description:
      'The CA of an https server, PEM; no other is believed then. Absent: the CAs that Node.js trusts.',
  }),
  within: duration
    .refine((text) => span(text) >= LEAST && span(text) <= MOST, 'a machine waits for a hook for 1m to 7d')
    .optional()
    .meta({
      description: `For how long a machine waits for it, before the change is held and an operator has to act: from 1m to 7d. Default ${DEFAULT_WITHIN}.`,
    }),
  operations: z.array(z.enum(OPERATIONS)).min(1).optional().meta({
    description: 'The changes in which it is asked. Absent: upgrades of Kubernetes, and rolls.',
  }),
  roles: z
    .array(z.enum(['control-plane', 'etcd', 'worker']))
    .min(1)
    .optional()
    .meta({
      description: 'It is asked for machines with one of these roles only. Absent: for all machines.',
    }),
});

export const hooksSpec = z
  .array(hook)
  .min(1)
  .max(16)
  .superRefine((hooks, context) => {
    for (const [n, one] of hooks.entries())
      if (hooks.findIndex(({ name: other }) => other === one.name) !== n)
        context.addIssue({
          code: 'custom',
          message: `another hook is named "${one.name}" as well`,
          path: [n, 'name'],
        });
  });

export type HookSpec = z.output<typeof hook>;
export type HookTime = HookSpec['when'];
