/** Routes with which operators add and remove passkeys, and log in with them. */
import { MusterError } from '../../base/errors.ts';
import { PASSKEYS } from '../contract/passkeys.ts';
import type { ApiDeps } from '../deps.ts';
import { type ApiRequest, type Handler, json } from '../handler.ts';
import { partOf } from '../listing.ts';
import { problemOf } from '../problem.ts';
import { type Timestamp, timestamp } from '../times.ts';
import { networkOf } from './attempts.ts';
import { attempt, bodyOf, loggedIn, NO_STORE } from './logged-in.ts';
import type { Operator } from './operators.ts';
import { siteOf } from './passkey-logins.ts';
import type { Passkey } from './passkeys.ts';

type H = Handler<ApiDeps>;

/** A passkey as the API shows it. */
interface PasskeyView {
  readonly id: string;
  readonly label: string;
  readonly createdAt: Timestamp;
  readonly usedAt?: Timestamp;
}

const view = ({ id, label, createdAt, usedAt }: Passkey): PasskeyView => ({
  id,
  label,
  createdAt: timestamp(createdAt),
  ...(usedAt !== undefined && { usedAt: timestamp(usedAt) }),
});

/**
 * The account of the operator who asks. A token must not add a passkey, which would give all roles
 * of its owner.
 *
 * @throws {MusterError} E_PASSKEY_ACCOUNT
 */
function ownAccount({ principal }: ApiRequest, { accounts }: ApiDeps): Operator {
  const person = principal?.by === 'session' || principal?.by === 'certificate';
  const account = person && principal.subject === undefined && accounts.operators.get(principal.name);
  if (account) return account;
  throw new MusterError('E_PASSKEY_ACCOUNT', 'this log-in is not by an account that can have passkeys');
}

const addressOf = ({ address = '' }: ApiRequest): string => address;
const network = (request: ApiRequest): string => networkOf(addressOf(request));

/** Lists nothing, and says why, where there can be no passkeys. */
const list: H = (request, deps) => {
  const items: PasskeyView[] = [];
  const about = () => {
    try {
      items.push(...deps.accounts.passkeys.of(ownAccount(request, deps)).map(view));
      return { page: siteOf(deps.page).origin };
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
      const { code, detail, fix } = problemOf(error);
      return { refused: { code, detail, fix } };
    }
  };
  const more = about();
  return json(
    { kind: 'PasskeyList', ...partOf(request.query, items, ({ id }) => id), ...more },
    200,
    NO_STORE,
  );
};

const begin: H = async (request, deps) => {
  const { password } = await bodyOf(request, PASSKEYS['POST /v1/passkeys/begin'].body, '{"password": "…"}');
  const site = siteOf(deps.page);
  const { name } = ownAccount(request, deps);
  const operator = await deps.accounts.confirm(name, password, addressOf(request));
  return json(deps.accounts.passkeyLogins.beginAdding(site, operator, network(request)), 200, NO_STORE);
};

const add: H = async (request, deps) => {
  const form = '{"label": "…", "credential": what the browser answered}';
  const { label, credential } = await bodyOf(request, PASSKEYS['POST /v1/passkeys'].body, form);
  const what = { label, credential, network: network(request) };
  const { passkeyLogins } = deps.accounts;
  return json(
    view(await passkeyLogins.add(siteOf(deps.page), ownAccount(request, deps), what)),
    201,
    NO_STORE,
  );
};

const remove: H = async (request, deps) => {
  const { passkeys } = deps.accounts;
  return json(view(await passkeys.remove(ownAccount(request, deps), request.params.id ?? '')));
};

const beginLogIn: H = async (request, { accounts, page }) => {
  await bodyOf(request, PASSKEYS['POST /v1/login/passkey'].body, '{}');
  accounts.checkAddress(addressOf(request));
  return json(accounts.passkeyLogins.begin(siteOf(page), network(request)), 200, NO_STORE);
};

const logIn: H = async (request, deps) => {
  const form = '{"credential": what the browser answered, "client": page or program}';
  const body = await bodyOf(request, PASSKEYS['POST /v1/login/passkey/finish'].body, form);
  const site = siteOf(deps.page);
  const { accounts, clock } = deps;
  const work = async () =>
    (await accounts.passkeyLogins.finish(site, body.credential, network(request))).name;
  const done = await attempt(request, deps, { as: 'unknown', by: 'passkey' }, () =>
    accounts.logInAt(work, addressOf(request)),
  );
  return loggedIn(done!, body.client, clock.now());
};

export const PASSKEY_HANDLERS = {
  'GET /v1/passkeys': list,
  'POST /v1/passkeys/begin': begin,
  'POST /v1/passkeys': add,
  'DELETE /v1/passkeys/:id': remove,
  'POST /v1/login/passkey': beginLogIn,
  'POST /v1/login/passkey/finish': logIn,
} as const;
