/** Orders that wait for a second person. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import type { Roster } from '../../machines/roster.ts';
import { decideAccess, type Principal } from '../access.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { listOf, part, time } from '../contract/contract.ts';
import { placing } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation, raw } from '../operation.ts';
import type { Pending, PendingOrders } from '../pending-orders.ts';
import type { ServedAgents } from '../served-agents.ts';
import { timestamp } from '../times.ts';

interface Deps {
  readonly agents: ServedAgents;
  readonly roster: Pick<Roster, 'get'>;
  /** Operators, their sessions and tokens. */
  readonly accounts: Accounts;
  /** Where orders wait for a second person; undefined where the site does not ask for one. */
  readonly pending?: PendingOrders | undefined;
}

type PendingDeps = Pick<Deps, 'pending' | 'accounts' | 'agents' | 'roster'>;

const pendingOrder = z
  .strictObject({
    id: z.string(),
    by: z.string().meta({ description: 'Who ordered it.' }),
    at: time,
    until: time.meta({ description: 'Then it is forgotten.' }),
    route: z.string(),
    path: z.string().meta({ description: 'With the names of cluster and machine.' }),
    body: z.looseObject({}).meta({ description: 'What exactly was ordered, without private keys.' }),
  })
  .meta({ id: 'PendingOrder' });

/** Every viewer sees orders that wait; a key that one brings stays with it. */
const withoutKeys = (name: string, value: unknown): unknown =>
  typeof value === 'string' && (name === 'key' || value.includes('PRIVATE KEY')) ? '…' : value;

const view = ({ id, principal, at, until, route, params, body }: Pending) => ({
  id,
  by: principal.name,
  at: timestamp(at),
  until: timestamp(until),
  route: `${route.method} ${route.path}`,
  path: route.path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? ''),
  body: parsed(JSON.stringify(parsed(body.toString()) ?? {}, withoutKeys)) as object,
});

const needed = ({ pending }: Pick<PendingDeps, 'pending'>): PendingOrders => {
  if (pending) return pending;
  throw new MusterError('E_NOT_FOUND', 'no order waits: this site does not ask for a second person');
};

/** Somebody may get another name at the identity provider between order and confirmation. */
const isSame = (one: Principal, other: Principal): boolean =>
  one.name === other.name || (one.subject !== undefined && one.subject === other.subject);

/**
 * The first person could have made an account or a token for the confirmation. It comes from a
 * person who was there before the order.
 *
 * @throws {MusterError} E_FORBIDDEN
 */
function checkConfirms(order: Pending, principal: Principal | undefined, accounts: Accounts): void {
  if (principal === undefined || principal.by === 'socket') return;
  if (principal.by === 'token')
    throw new MusterError('E_FORBIDDEN', 'a token confirms nothing: log in, and confirm the order yourself');
  const account = accounts.operators.get(principal.name);
  if (account !== undefined && account.createdAt > order.at)
    throw new MusterError('E_FORBIDDEN', `the account ${principal.name} is younger than the order`);
}

export const PENDING = [
  operation(
    'GET /v1/pending',
    {
      access: 'view',
      summary: 'Lists orders that wait for a second person, where the site asks for one.',
      query: z.strictObject(part),
      answer: listOf('PendingOrderList', pendingOrder),
    },
    ({ query }, { pending }: Pick<PendingDeps, 'pending'>) => ({
      kind: 'PendingOrderList' as const,
      ...partOf(query, (pending?.list() ?? []).map(view), ({ id }) => id),
    }),
  ),
  operation(
    'POST /v1/pending/:id/confirm',
    {
      access: 'administer',
      takes: 'role',
      summary:
        'Carries out the order of another operator; answers as that order does. Both must be allowed to give it now.',
      answer: z.looseObject({}),
    },
    async ({ params, principal, signal }, deps: PendingDeps) => {
      const pending = needed(deps);
      const order = pending.get(params.id);
      const { id, principal: first } = order;
      if (principal !== undefined && principal.by !== 'socket' && isSame(principal, first))
        throw new MusterError('E_FORBIDDEN', `${first.name} ordered it; another operator confirms it`);
      checkConfirms(order, principal, deps.accounts);
      const grants = deps.accounts.grantsNow(first.name);
      const still = grants && { ...first, grants };
      for (const one of [still, principal]) {
        const decision = decideAccess(order.route, order.params, one, placing(deps));
        if (decision.do === 'answer') continue;
        const why = decision.do === 'refuse' ? decision.text : 'the account is gone';
        throw new MusterError('E_FORBIDDEN', `${one?.name ?? first.name} may not do that: ${why}`);
      }
      beforeChange(`carry out order/${id}`);
      // It counts once, also when two persons confirm it at the same time.
      pending.remove(id);
      return raw(await order.carryOut(signal));
    },
  ),
  operation(
    'DELETE /v1/pending/:id',
    { access: 'administer', takes: 'role', summary: 'Withdraws an order that waits.', answer: pendingOrder },
    ({ params }, deps: Pick<PendingDeps, 'pending'>) => {
      const order = needed(deps).get(params.id);
      beforeChange(`delete order/${order.id}`);
      needed(deps).remove(order.id);
      return view(order);
    },
  ),
] as const;
