/** Accounts of operators: log-in, roles, tokens. */
import { z } from 'zod';
import { type Contracts, listOf, part, time } from './contract.ts';

export const grant = z
  .strictObject({
    role: z.enum(['viewer', 'operator', 'admin', 'auditor']),
    clusters: z
      .array(z.string())
      .min(1)
      .max(100)
      .optional()
      .meta({ description: 'Only for these clusters; absent: everywhere.' }),
  })
  .meta({ id: 'Grant' });
const grants = z.array(grant);

const operator = z
  .strictObject({
    name: z.string(),
    grants,
    createdAt: time,
    password: z.boolean().meta({ description: 'Whether a password is set.' }),
    invitedUntil: time.optional(),
  })
  .meta({ id: 'Operator' });

const token = z.strictObject({
  id: z.string(),
  operator: z.string(),
  label: z.string(),
  grants,
  createdAt: time,
  until: time,
});

export const loggedIn = z
  .strictObject({
    operator: z.string(),
    grants,
    until: time,
    session: z.string().optional().meta({ description: 'For programs, which send it as a bearer token.' }),
  })
  .meta({ id: 'LoggedIn' });

export const client = z
  .enum(['page', 'program'])
  .default('program')
  .meta({ description: '`page`: the session is in a cookie. `program`: it is in the answer.' });
export const password = z.string().max(2048);
const orders = z.array(z.unknown()).meta({ description: 'A list of grants.' });

export const ACCOUNTS = {
  'POST /v1/login': {
    access: 'open',
    unrecorded: true,
    summary: 'Logs an operator in.',
    body: z.strictObject({ operator: z.string().max(64), password, client }),
    answer: loggedIn,
  },
  'POST /v1/invitation': {
    access: 'open',
    unrecorded: true,
    summary: 'Redeems an invitation, once; sets the password.',
    body: z.strictObject({ invitation: z.string().max(256), password, client }),
    answer: loggedIn,
  },
  'POST /v1/logout': {
    access: 'open',
    unrecorded: true,
    summary: 'Ends the session of the request.',
    answer: z.strictObject({}),
  },
  'GET /v1/whoami': {
    access: 'open',
    summary: 'Shows who is logged in, and with which roles.',
    answer: z.strictObject({
      name: z.string(),
      by: z.enum(['socket', 'session', 'token', 'certificate']),
      grants,
    }),
  },
  'GET /v1/operators': {
    access: 'administer',
    summary: 'Lists operators with their roles.',
    query: z.strictObject(part),
    answer: listOf('OperatorList', operator),
  },
  'PUT /v1/operators/:name': {
    access: 'administer',
    summary: 'Makes an operator or changes its roles. Its sessions end.',
    body: z.strictObject({ grants: orders }),
    answer: operator,
    statuses: [200, 201],
  },
  'DELETE /v1/operators/:name': {
    access: 'administer',
    summary: 'Removes an operator, with sessions and tokens.',
    answer: z.strictObject({ name: z.string() }),
  },
  'POST /v1/operators/:name/invite': {
    access: 'administer',
    summary: 'Makes an invitation for a day, with which the operator sets a password; it is secret.',
    answer: z.strictObject({
      name: z.string(),
      invitation: z.string(),
      link: z.string().optional(),
      until: time,
    }),
    statuses: [201],
  },
  'GET /v1/tokens': {
    access: 'administer',
    summary: 'Lists tokens of operators, without their texts.',
    query: z.strictObject(part),
    answer: listOf('TokenList', token),
  },
  'POST /v1/tokens': {
    access: 'administer',
    summary: 'Makes a token. Its text is shown once.',
    body: z.strictObject({
      operator: z.string(),
      label: z.string().min(1).max(100),
      grants: orders,
      expires: z.string().meta({ description: 'A duration of at most 366d, such as 30d.' }),
    }),
    answer: token.extend({ token: z.string() }),
    statuses: [201],
  },
  'DELETE /v1/tokens/:id': {
    access: 'administer',
    summary: 'Ends a token.',
    answer: token,
  },
} as const satisfies Contracts;
