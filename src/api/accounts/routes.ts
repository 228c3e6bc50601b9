/** Routes with which operators log in and out, and administrators manage operators and tokens. */
import { duration, type Millis, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Grant } from '../access.ts';
import { ACCOUNTS } from '../contract/accounts.ts';
import type { ApiDeps } from '../deps.ts';
import { type Handler, json } from '../handler.ts';
import { partOf } from '../listing.ts';
import { type Timestamp, timestamp } from '../times.ts';
import { COOKIE, narrowed } from './accounts.ts';
import { linkOf } from './first-link.ts';
import { attempt, bodyOf, loggedIn, NO_STORE } from './logged-in.ts';
import { checkGrants, type Operator, type OperatorToken } from './operators.ts';

type H = Handler<ApiDeps>;

/** An operator as the API shows it. */
export interface OperatorView {
  readonly name: string;
  readonly grants: readonly Grant[];
  readonly createdAt: Timestamp;
  /** Whether a password is set, so that the operator can log in. */
  readonly password: boolean;
  /** The end of an invitation that was not redeemed. */
  readonly invitedUntil?: Timestamp;
}

/** A token as the API shows it. */
export interface TokenView {
  readonly id: string;
  readonly operator: string;
  readonly label: string;
  readonly grants: readonly Grant[];
  readonly createdAt: Timestamp;
  readonly until: Timestamp;
}

const operatorView = ({ name, grants, createdAt, password, invitation }: Operator): OperatorView => ({
  name,
  grants,
  createdAt: timestamp(createdAt),
  password: password !== undefined,
  ...(invitation && { invitedUntil: timestamp(invitation.until) }),
});

const tokenView = ({ hash: _hash, createdAt, until, ...rest }: OperatorToken): TokenView => ({
  ...rest,
  createdAt: timestamp(createdAt),
  until: timestamp(until),
});

const logIn: H = async (request, deps) => {
  const form = '{"operator", "password", "client": page or program}';
  const body = await bodyOf(request, ACCOUNTS['POST /v1/login'].body, form);
  const address = request.address ?? '';
  const done = await attempt(request, deps, { as: body.operator, by: 'password' }, () =>
    deps.accounts.logIn(body.operator, body.password, address),
  );
  return loggedIn(done, body.client, deps.clock.now());
};

const redeem: H = async (request, deps) => {
  const form = '{"invitation", "password", "client": page or program}';
  const body = await bodyOf(request, ACCOUNTS['POST /v1/invitation'].body, form);
  const address = request.address ?? '';
  const done = await attempt(request, deps, { as: 'invited', by: 'invitation' }, () =>
    deps.accounts.redeem(body.invitation, body.password, address),
  );
  return loggedIn(done, body.client, deps.clock.now());
};

const logOut: H = (request, { accounts }) => {
  accounts.logOut(request.headers);
  return json({}, 200, {
    ...NO_STORE,
    'set-cookie': `${COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0`,
  });
};

const whoAmI: H = ({ principal }) => {
  if (principal === undefined) throw new MusterError('E_UNAUTHENTICATED', 'nobody is logged in');
  return json({ name: principal.name, by: principal.by, grants: principal.grants }, 200, NO_STORE);
};

const listOperators: H = ({ query }, { accounts }) => {
  const items = accounts.operators.list().map(operatorView);
  return json({ kind: 'OperatorList', ...partOf(query, items, ({ name }) => name) });
};

const putOperator: H = async (request, { accounts }) => {
  const body = await bodyOf(request, ACCOUNTS['PUT /v1/operators/:name'].body, '{"grants": […]}');
  const name = request.params.name ?? '';
  const existed = accounts.operators.get(name) !== undefined;
  const operator = await accounts.operators.put(name, checkGrants(body.grants));
  accounts.endSessions(name);
  return json(operatorView(operator), existed ? 200 : 201);
};

const removeOperator: H = async ({ params }, { accounts }) => {
  const name = params.name ?? '';
  await accounts.operators.remove(name);
  await accounts.passkeys.removeAll(name);
  accounts.endSessions(name);
  return json({ name });
};

const invite: H = async ({ params }, { accounts, page }) => {
  const { text, until } = await accounts.operators.invite(params.name ?? '');
  const invitation = text.reveal();
  const link = page === undefined ? {} : { link: linkOf(page, invitation) };
  return json({ name: params.name, invitation, ...link, until: timestamp(until) }, 201, NO_STORE);
};

const listTokens: H = ({ query }, { accounts }) => {
  const items = accounts.operators.tokens().map(tokenView);
  return json({ kind: 'TokenList', ...partOf(query, items, ({ id }) => id) });
};

const LONGEST_TOKEN = duration('366d');

const addToken: H = async (request, { accounts, clock }) => {
  const form = '{"operator", "label", "grants", "expires": a duration such as 30d}';
  const body = await bodyOf(request, ACCOUNTS['POST /v1/tokens'].body, form);
  const owner = accounts.operators.get(body.operator);
  if (owner === undefined) throw new MusterError('E_NOT_FOUND', `there is no operator "${body.operator}"`);
  const grants = checkGrants(body.grants);
  if (narrowed(grants, owner.grants).length < grants.length)
    throw new MusterError('E_USAGE', `${owner.name} does not have all of these roles`);
  const life = parseDuration(body.expires);
  if (!life || life > LONGEST_TOKEN)
    throw new MusterError('E_USAGE', 'expires: write a duration of at most 366d, such as 30d');
  const until = (clock.now() + life) as Millis;
  const { token, text } = await accounts.operators.addToken({
    operator: owner.name,
    label: body.label,
    grants,
    until,
  });
  return json({ ...tokenView(token), token: text.reveal() }, 201, NO_STORE);
};

const removeToken: H = async ({ params }, { accounts }) =>
  json(tokenView(await accounts.operators.removeToken(params.id ?? '')));

export const ACCOUNT_HANDLERS = {
  'POST /v1/login': logIn,
  'POST /v1/invitation': redeem,
  'POST /v1/logout': logOut,
  'GET /v1/whoami': whoAmI,
  'GET /v1/operators': listOperators,
  'PUT /v1/operators/:name': putOperator,
  'DELETE /v1/operators/:name': removeOperator,
  'POST /v1/operators/:name/invite': invite,
  'GET /v1/tokens': listTokens,
  'POST /v1/tokens': addToken,
  'DELETE /v1/tokens/:id': removeToken,
} as const;
