/** Operators: log-in by password, roles, invitations, tokens. */
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventLog } from '../../events/event.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { COOKIE, narrowed } from '../accounts/accounts.ts';
import { linkOf } from '../accounts/first-link.ts';
import { attempt, loggedIn as loggedInAs } from '../accounts/logged-in.ts';
import { checkGrants, type Operator, type OperatorToken } from '../accounts/operators.ts';
import type { SessionView } from '../accounts/sessions.ts';
import type { Actions } from '../actions.ts';
import { client, grants, loggedIn, password } from '../contract/accounts.ts';
import { listOf, type Parsed, part, time } from '../contract/contract.ts';
import type { ApiRequest } from '../handler.ts';
import { partOf } from '../listing.ts';
import { operation, reply } from '../operation.ts';
import { timestamp } from '../times.ts';

interface Deps {
  readonly events: EventLog;
  /** Operators, their sessions and tokens. */
  readonly accounts: Accounts;
  /** Where operators log in, `https://HOST:PORT`; undefined without an HTTPS listener. */
  readonly page?: string | undefined;
  /** Records who asked for what. */
  readonly actions: Actions;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

type LogInDeps = Pick<Deps, 'accounts' | 'events' | 'metrics' | 'actions' | 'clock'>;
type AccountDeps = Pick<Deps, 'accounts'>;

const operator = z
  .strictObject({
    name: z.string(),
    grants,
    createdAt: time,
    password: z.boolean().meta({ description: 'Whether a password is set.' }),
    invitedUntil: time.optional(),
  })
  .meta({ id: 'Operator' });

export type OperatorView = Parsed<z.output<typeof operator>>;

const token = z.strictObject({
  id: z.string(),
  operator: z.string(),
  label: z.string(),
  grants,
  createdAt: time,
  until: time,
});

export type TokenView = Parsed<z.output<typeof token>>;

const session = z.strictObject({
  id: z.string(),
  operator: z.string(),
  begun: time,
  used: time.meta({ description: 'When somebody used it last.' }),
});

export type ShownSession = Parsed<z.output<typeof session>>;

const ownSession = session.omit({ operator: true }).extend({
  here: z.boolean().meta({ description: 'The request was sent in this session.' }),
});

const orders = z.array(z.unknown()).meta({ description: 'A list of grants.' });

const operatorView = ({ name, grants, createdAt, password, invitation }: Operator) => ({
  name,
  grants,
  createdAt: timestamp(createdAt),
  password: password !== undefined,
  ...(invitation && { invitedUntil: timestamp(invitation.until) }),
});

const tokenView = ({ hash: _hash, createdAt, until, ...rest }: OperatorToken) => ({
  ...rest,
  createdAt: timestamp(createdAt),
  until: timestamp(until),
});

const sessionView = ({ id, operator, begun, idle }: SessionView, now: Millis) => ({
  ...{ id, operator },
  begun: timestamp(begun),
  used: timestamp((now - idle) as Millis),
});

/**
 * The name of a person who is logged in. A token of the person must not change how he logs in.
 *
 * @throws {MusterError} E_FORBIDDEN
 */
function person({ principal }: Pick<ApiRequest, 'principal'>): string {
  if (principal?.by === 'session') return principal.name;
  throw new MusterError('E_FORBIDDEN', 'only a person who is logged in has sessions and a password');
}

const LONGEST_TOKEN = duration('366d');

export const OPERATORS = [
  operation(
    'POST /v1/login',
    {
      access: 'open',
      unrecorded: true,
      summary: 'Logs an operator in.',
      body: z.strictObject({ operator: z.string().max(64), password, client }),
      answer: loggedIn,
    },
    async (asked, deps: LogInDeps) => {
      const { operator, password, client } = asked.body;
      const done = await attempt(asked, deps, { as: operator, by: 'password' }, () =>
        deps.accounts.logIn(operator, password, asked.address ?? ''),
      );
      return loggedInAs(done, client, deps.clock.now());
    },
  ),
  operation(
    'POST /v1/invitation',
    {
      access: 'open',
      unrecorded: true,
      summary: 'Redeems an invitation, once; sets the password.',
      body: z.strictObject({ invitation: z.string().max(256), password, client }),
      answer: loggedIn,
    },
    async (asked, deps: LogInDeps) => {
      const { invitation, password, client } = asked.body;
      const done = await attempt(asked, deps, { as: 'invited', by: 'invitation' }, () =>
        deps.accounts.redeem(invitation, password, asked.address ?? ''),
      );
      return loggedInAs(done, client, deps.clock.now());
    },
  ),
  operation(
    'POST /v1/logout',
    {
      access: 'open',
      unrecorded: true,
      summary: 'Ends the session of the request.',
      answer: z.strictObject({}),
    },
    async ({ headers }, { accounts }: AccountDeps) => {
      await accounts.logOut(headers);
      return reply({}, 200, {
        'set-cookie': `${COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0`,
      });
    },
  ),
  operation(
    'GET /v1/whoami',
    {
      access: 'open',
      summary: 'Shows who is logged in, and with which roles.',
      answer: z.strictObject({
        name: z.string(),
        by: z.enum(['socket', 'session', 'token', 'certificate']),
        grants,
      }),
    },
    ({ principal, nobody }, _deps: unknown) => {
      if (principal === undefined)
        throw nobody?.() ?? new MusterError('E_UNAUTHENTICATED', 'nobody is logged in');
      const { name, by, grants } = principal;
      return { name, by, grants };
    },
  ),
  operation(
    'PUT /v1/whoami/password',
    {
      access: 'own',
      takes: 'role',
      summary: 'Sets another password for the operator who asks; all other sessions of his end.',
      body: z.strictObject({
        password: password.meta({ description: 'The present one.' }),
        next: password.meta({ description: 'The one from now on.' }),
        client,
      }),
      answer: loggedIn,
    },
    async (asked, deps: LogInDeps) => {
      const name = person(asked);
      const { password, next, client } = asked.body;
      const done = await attempt(asked, deps, { as: name, by: 'password' }, () =>
        deps.accounts.changePassword(name, password, next, asked.address ?? ''),
      );
      return loggedInAs(done, client, deps.clock.now());
    },
  ),
  operation(
    'GET /v1/whoami/sessions',
    {
      access: 'own',
      summary: 'Lists the sessions of the person who asks.',
      query: z.strictObject(part),
      answer: listOf('OwnSessionList', ownSession),
    },
    (asked, { accounts, clock }: Pick<Deps, 'accounts' | 'clock'>) => {
      const [name, here] = [person(asked), accounts.sessionOf(asked.headers)];
      const items = accounts.sessions
        .list()
        .filter(({ operator }) => operator === name)
        .map((one) => {
          const { operator: _, ...view } = sessionView(one, clock.now());
          return { ...view, here: one.id === here };
        });
      return { kind: 'OwnSessionList' as const, ...partOf(asked.query, items, ({ id }) => id) };
    },
  ),
  operation(
    'DELETE /v1/whoami/sessions/:id',
    { access: 'own', takes: 'role', summary: 'Ends a session of the person who asks.', answer: session },
    async (asked, { accounts, clock }: Pick<Deps, 'accounts' | 'clock'>) => {
      const name = person(asked);
      const { id } = asked.params;
      // Whether somebody else has such a session is not said.
      if (!accounts.sessions.list().some((one) => one.id === id && one.operator === name))
        throw new MusterError('E_NOT_FOUND', `you have no session "${id}"`);
      return sessionView(await accounts.sessions.endById(id), clock.now());
    },
  ),
  operation(
    'GET /v1/operators',
    {
      access: 'administer',
      summary: 'Lists operators with their roles.',
      query: z.strictObject(part),
      answer: listOf('OperatorList', operator),
    },
    ({ query }, { accounts }: AccountDeps) => {
      const items = accounts.operators.list().map(operatorView);
      return { kind: 'OperatorList' as const, ...partOf(query, items, ({ name }) => name) };
    },
  ),
  operation(
    'PUT /v1/operators/:name',
    {
      access: 'administer',
      takes: 'both',
      summary: 'Makes an operator or changes its roles. Its sessions end.',
      body: z.strictObject({ grants: orders }),
      answer: operator,
      statuses: [200, 201],
    },
    async ({ params: { name }, body }, { accounts }: AccountDeps) => {
      const existed = accounts.operators.get(name) !== undefined;
      const made = await accounts.operators.put(name, checkGrants(body.grants));
      await accounts.sessions.endAll(name, 'roles');
      return reply(operatorView(made), existed ? 200 : 201);
    },
  ),
  operation(
    'DELETE /v1/operators/:name',
    {
      access: 'administer',
      takes: 'both',
      summary: 'Removes an operator, with sessions and tokens.',
      answer: z.strictObject({ name: z.string() }),
    },
    async ({ params: { name } }, { accounts }: AccountDeps) => {
      await accounts.operators.remove(name);
      await accounts.passkeys.removeAll(name);
      await accounts.sessions.endAll(name, 'removed');
      return { name };
    },
  ),
  operation(
    'POST /v1/operators/:name/invite',
    {
      access: 'administer',
      takes: 'both',
      summary: 'Makes an invitation for a day, with which the operator sets a password; it is secret.',
      answer: z.strictObject({
        name: z.string(),
        invitation: z.string(),
        link: z.string().optional(),
        until: time,
      }),
      statuses: [201],
    },
    async ({ params: { name } }, { accounts, page }: Pick<Deps, 'accounts' | 'page'>) => {
      const { text, until } = await accounts.operators.invite(name);
      const invitation = text.reveal();
      const link = page === undefined ? {} : { link: linkOf(page, invitation) };
      return reply({ name, invitation, ...link, until: timestamp(until) }, 201);
    },
  ),
  operation(
    'GET /v1/sessions',
    {
      access: 'administer',
      summary: 'Lists the sessions of operators who are logged in.',
      query: z.strictObject(part),
      answer: listOf('SessionList', session),
    },
    ({ query }, { accounts, clock }: Pick<Deps, 'accounts' | 'clock'>) => {
      const items = accounts.sessions.list().map((one) => sessionView(one, clock.now()));
      return { kind: 'SessionList' as const, ...partOf(query, items, ({ id }) => id) };
    },
  ),
  operation(
    'DELETE /v1/sessions/:id',
    { access: 'administer', takes: 'role', summary: 'Ends a session.', answer: session },
    async ({ params }, { accounts, clock }: Pick<Deps, 'accounts' | 'clock'>) =>
      sessionView(await accounts.sessions.endById(params.id), clock.now()),
  ),
  operation(
    'GET /v1/tokens',
    {
      access: 'administer',
      summary: 'Lists tokens of operators, without their texts.',
      query: z.strictObject(part),
      answer: listOf('TokenList', token),
    },
    ({ query }, { accounts }: AccountDeps) => {
      const items = accounts.operators.tokens().map(tokenView);
      return { kind: 'TokenList' as const, ...partOf(query, items, ({ id }) => id) };
    },
  ),
  operation(
    'POST /v1/tokens',
    {
      access: 'administer',
      takes: 'proof',
      summary: 'Makes a token of the operator who asks; on the boot host, of any. Its text is shown once.',
      body: z.strictObject({
        operator: z.string(),
        label: z.string().min(1).max(100),
        grants: orders,
        expires: z.string().meta({ description: 'A duration of at most 366d, such as 30d.' }),
      }),
      answer: token.extend({ token: z.string() }),
      statuses: [201],
    },
    async ({ body, principal }, { accounts, clock }: Pick<Deps, 'accounts' | 'clock'>) => {
      if (principal?.by !== 'socket' && principal?.name !== body.operator)
        throw new MusterError('E_FORBIDDEN', 'a token is made by its owner, or on the boot host');
      const owner = accounts.operators.get(body.operator);
      if (owner === undefined)
        throw new MusterError('E_NOT_FOUND', `there is no operator "${body.operator}"`);
      const grants = checkGrants(body.grants);
      if (narrowed(grants, owner.grants).length < grants.length)
        throw new MusterError('E_USAGE', `${owner.name} does not have all of these roles`);
      const life = parseDuration(body.expires);
      if (!life || life > LONGEST_TOKEN)
        throw new MusterError('E_USAGE', 'expires: write a duration of at most 366d, such as 30d');
      const until = (clock.now() + life) as Millis;
      const made = await accounts.operators.addToken({
        operator: owner.name,
        label: body.label,
        grants,
        until,
      });
      return reply({ ...tokenView(made.token), token: made.text.reveal() }, 201);
    },
  ),
  operation(
    'DELETE /v1/tokens/:id',
    { access: 'administer', takes: 'role', summary: 'Ends a token.', answer: token },
    async ({ params }, { accounts }: AccountDeps) =>
      tokenView(await accounts.operators.removeToken(params.id)),
  ),
] as const;
