/** Passkeys of operators: adding and removing them, and logging in with one. */
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventLog } from '../../events/event.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { networkOf } from '../accounts/attempts.ts';
import { attempt, loggedIn as loggedInAs } from '../accounts/logged-in.ts';
import type { Operator } from '../accounts/operators.ts';
import { siteOf } from '../accounts/passkey-logins.ts';
import type { Passkey } from '../accounts/passkeys.ts';
import type { Actions } from '../actions.ts';
import { client, loggedIn, password } from '../contract/accounts.ts';
import { itemsOf, part } from '../contract/contract.ts';
import { asserted, assertionRequest, created, creation, passkey } from '../contract/passkeys.ts';
import type { ApiRequest } from '../handler.ts';
import { partOf } from '../listing.ts';
import { operation, reply } from '../operation.ts';
import { problemOf } from '../problem.ts';
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

type PasskeyDeps = Pick<Deps, 'accounts' | 'page'>;

const view = ({ id, label, createdAt, usedAt }: Passkey) => ({
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
function ownAccount(
  { principal }: Pick<ApiRequest, 'principal'>,
  { accounts }: Pick<PasskeyDeps, 'accounts'>,
): Operator {
  const person = principal?.by === 'session' || principal?.by === 'certificate';
  const account = person && principal.subject === undefined && accounts.operators.get(principal.name);
  if (account) return account;
  throw new MusterError('E_PASSKEY_ACCOUNT', 'this log-in is not by an account that can have passkeys');
}

const addressOf = ({ address = '' }: Pick<ApiRequest, 'address'>): string => address;
const network = (asked: Pick<ApiRequest, 'address'>): string => networkOf(addressOf(asked));

export const PASSKEYS = [
  operation(
    'GET /v1/passkeys',
    {
      access: 'own',
      summary: 'Lists the passkeys of the operator who asks; none, and why, where there can be none.',
      query: z.strictObject(part),
      answer: z.strictObject({
        kind: z.literal('PasskeyList'),
        ...itemsOf(passkey),
        page: z.string().optional().meta({ description: 'The address of the page by which they count.' }),
        refused: z
          .strictObject({ code: z.string(), detail: z.string(), fix: z.string() })
          .optional()
          .meta({ description: 'Why the operator cannot add a passkey, if so.' }),
      }),
    },
    (asked, deps: PasskeyDeps) => {
      const items: ReturnType<typeof view>[] = [];
      const about = () => {
        try {
          items.push(...deps.accounts.passkeys.of(ownAccount(asked, deps)).map(view));
          return { page: siteOf(deps.page).origin };
        } catch (error) {
          if (!(error instanceof MusterError)) throw error;
          const { code, detail, fix } = problemOf(error);
          return { refused: { code, detail, fix } };
        }
      };
      const more = about();
      const shown = partOf(asked.query, items, ({ id }) => id);
      return { kind: 'PasskeyList' as const, ...shown, ...more };
    },
  ),
  operation(
    'POST /v1/passkeys/begin',
    {
      access: 'own',
      takes: 'role',
      summary: 'Begins to add a passkey, with the password; the answer is for the browser.',
      body: z.strictObject({ password }),
      answer: creation,
    },
    async (asked, deps: PasskeyDeps) => {
      const site = siteOf(deps.page);
      const { name } = ownAccount(asked, deps);
      const operator = await deps.accounts.confirm(name, asked.body.password, addressOf(asked));
      return deps.accounts.passkeyLogins.beginAdding(site, operator, network(asked));
    },
  ),
  operation(
    'POST /v1/passkeys',
    {
      access: 'own',
      takes: 'role',
      summary: 'Adds a passkey to the account of the operator who asks.',
      body: z.strictObject({
        label: z.string().min(1).max(64).meta({ description: 'What its owner calls it.' }),
        credential: created,
      }),
      answer: passkey,
      statuses: [201],
    },
    async (asked, deps: PasskeyDeps) => {
      const what = { ...asked.body, network: network(asked) };
      const { passkeyLogins } = deps.accounts;
      const added = await passkeyLogins.add(siteOf(deps.page), ownAccount(asked, deps), what);
      return reply(view(added), 201);
    },
  ),
  operation(
    'DELETE /v1/passkeys/:id',
    { access: 'own', takes: 'role', summary: 'Removes a passkey of the operator who asks.', answer: passkey },
    async (asked, deps: PasskeyDeps) =>
      view(await deps.accounts.passkeys.remove(ownAccount(asked, deps), asked.params.id)),
  ),
  operation(
    'POST /v1/login/passkey',
    {
      access: 'open',
      unrecorded: true,
      summary: 'Begins a log-in with a passkey; the answer is for the browser.',
      body: z.strictObject({}),
      answer: assertionRequest,
    },
    (asked, { accounts, page }: PasskeyDeps) => {
      accounts.checkAddress(addressOf(asked));
      return accounts.passkeyLogins.begin(siteOf(page), network(asked));
    },
  ),
  operation(
    'POST /v1/login/passkey/finish',
    {
      access: 'open',
      unrecorded: true,
      summary: 'Logs in the operator whose passkey answered.',
      body: z.strictObject({ credential: asserted, client }),
      answer: loggedIn,
    },
    async (asked, deps: PasskeyDeps & Pick<Deps, 'events' | 'metrics' | 'actions' | 'clock'>) => {
      const { credential, client } = asked.body;
      const site = siteOf(deps.page);
      const { accounts, clock } = deps;
      const work = async () => (await accounts.passkeyLogins.finish(site, credential, network(asked))).name;
      const done = await attempt(asked, deps, { as: 'unknown', by: 'passkey' }, () =>
        accounts.logInAt(work, addressOf(asked)),
      );
      return loggedInAs(done!, client, clock.now());
    },
  ),
] as const;
