/** Log-ins other than by password: at the site's identity provider. */
import { z } from 'zod';
import { loggedIn } from './accounts.ts';
import { type Contracts, raw, time, word } from './contract.ts';

const sealed = z.string().max(4096);

export const LOG_IN = {
  'GET /v1/login': {
    access: 'open',
    summary: 'Shows in which ways operators can log in.',
    answer: z.strictObject({
      provider: z
        .strictObject({ name: z.string() })
        .optional()
        .meta({ description: 'The identity provider, where the site has one.' }),
      passkeys: z
        .strictObject({ page: z.string() })
        .optional()
        .meta({ description: 'The address of the page by which passkeys count, where there are any.' }),
    }),
  },
  'GET /v1/login/provider': {
    access: 'open',
    summary: 'Sends the browser to the identity provider (OpenID Connect, authorization code with PKCE).',
    answer: raw('text/plain', 'The address is in the header Location.'),
    statuses: [303],
  },
  'GET /v1/login/provider/return': {
    access: 'open',
    summary: 'Where the identity provider sends the browser back; logs in, and sends it to the page.',
    // Providers add parameters of their own.
    query: z.looseObject({ code: word('The code.'), state: word('The state of the log-in.') }),
    answer: raw('text/plain', 'The address is in the header Location.'),
    statuses: [303],
  },
  'POST /v1/login/device': {
    access: 'open',
    unrecorded: true,
    summary: 'Begins a log-in of a program at the identity provider (device flow, RFC 8628).',
    body: z.strictObject({}),
    answer: z.strictObject({
      device: z.string().meta({ description: 'Secret; the program keeps it.' }),
      code: z.string().meta({ description: 'What the person compares or types.' }),
      url: z.string().meta({ description: 'Where the person logs in.' }),
      complete: z.string().optional().meta({ description: 'The same, with the code in it.' }),
      until: time,
      interval: z.int().meta({ description: 'Milliseconds between two questions.' }),
    }),
  },
  'POST /v1/login/device/finish': {
    access: 'open',
    unrecorded: true,
    summary: 'Asks once whether the person has logged in; 202 when not.',
    body: z.strictObject({ device: sealed }),
    answer: z.union([loggedIn, z.strictObject({ waits: z.literal(true), slower: z.boolean() })]),
    statuses: [200, 202],
  },
} as const satisfies Contracts;
