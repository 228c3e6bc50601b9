/**
 * Orders that cannot be undone wait for a second person, where the site asks for that. They are in
 * memory: a restart forgets them, and they are ordered again. The local socket needs no second
 * person, because it is the way in when all else fails.
 */
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { beforeChange } from '../base/rehearsal.ts';
import { decideAccess, type Principal } from './access.ts';
import type { ApiDeps } from './deps.ts';
import {
  type ApiRequest,
  type ApiResponse,
  flag,
  type Handler,
  json,
  type Route,
  readOctets,
} from './handler.ts';
import { partOf } from './listing.ts';
import type { Pending, PendingOrders } from './pending-orders.ts';
import { timestamp } from './times.ts';

type H = Handler<ApiDeps>;

/** Bodies of these orders are small. */
const MAX_BODY = 64 * 1024;

/** Whether an order with this body needs a second person. */
function needsSecond({ second }: Pick<Route<never>, 'second'>, body: string): boolean {
  if (second === undefined || second === true) return second === true;
  const fields = parsed(body);
  if (typeof fields !== 'object' || fields === null) return false;
  const value = (fields as Record<string, unknown>)[second];
  return value !== undefined && value !== '' && value !== 'false';
}

/** A route whose handler is called only for orders that need no second person, or are confirmed. */
export const withSecond = (route: Route<ApiDeps>): Route<ApiDeps> =>
  route.second === undefined
    ? route
    : {
        ...route,
        handler: async (request, deps) => route.handler(await heldForSecond(route, request, deps), deps),
      };

/**
 * Reads the body of an order and keeps the order if it needs a second person. Returns the request
 * with the body that was read.
 *
 * @throws {MusterError} E_SECOND_PERSON when the order waits now; E_TOO_LARGE
 */
async function heldForSecond(route: Route<ApiDeps>, request: ApiRequest, deps: ApiDeps): Promise<ApiRequest> {
  const { pending } = deps;
  const { principal } = request;
  if (!pending || principal === undefined || principal.by === 'socket') return request;
  if (route.query?.shape.dryRun !== undefined && flag(request.query, 'dryRun')) return request;
  const body = await readOctets(request, MAX_BODY);
  const carryOut = (signal: AbortSignal) => route.handler({ ...request, body: again(body), signal }, deps);
  if (needsSecond(route, body.toString()))
    pending.hold({ route, params: request.params, body, carryOut }, principal);
  return { ...request, body: again(body) };
}

async function* again(body: Buffer): AsyncGenerator<Uint8Array> {
  if (body.length > 0) yield body;
}

const view = ({ id, principal, at, until, route, params, body }: Pending) => ({
  id,
  by: principal.name,
  at: timestamp(at),
  until: timestamp(until),
  route: `${route.method} ${route.path}`,
  path: route.path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? ''),
  body: parsed(body.toString()) ?? {},
});

const needed = ({ pending }: ApiDeps): PendingOrders => {
  if (pending) return pending;
  throw new MusterError('E_NOT_FOUND', 'no order waits: this site does not ask for a second person');
};

const list: H = ({ query }, { pending }) =>
  json({ kind: 'PendingOrderList', ...partOf(query, (pending?.list() ?? []).map(view), ({ id }) => id) });

/** Somebody may get another name at the identity provider between order and confirmation. */
const isSame = (one: Principal, other: Principal): boolean =>
  one.name === other.name || (one.subject !== undefined && one.subject === other.subject);

/**
 * Carries out an order that waits. Both persons must be allowed to give it now.
 *
 * @throws {MusterError} E_FORBIDDEN for the person who ordered it, and for one who may not order it
 */
const confirm: H = async ({ params, principal, signal }, deps): Promise<ApiResponse> => {
  const pending = needed(deps);
  const order = pending.get(params.id ?? '');
  const { id, principal: first } = order;
  if (principal !== undefined && principal.by !== 'socket' && isSame(principal, first))
    throw new MusterError('E_FORBIDDEN', `${first.name} ordered it; another operator confirms it`);
  const grants = deps.accounts.grantsNow(first.name);
  const still = grants && { ...first, grants };
  for (const one of [still, principal]) {
    const decision = decideAccess(order.route, order.params, one, deps.agents.agentCluster);
    if (decision.do === 'answer') continue;
    const why = decision.do === 'refuse' ? decision.text : 'the account is gone';
    throw new MusterError('E_FORBIDDEN', `${one?.name ?? first.name} may not do that: ${why}`);
  }
  beforeChange(`carry out order/${id}`);
  // It counts once, also when two persons confirm it at the same time.
  pending.remove(id);
  return order.carryOut(signal);
};

const withdraw: H = ({ params }, deps) => {
  const order = needed(deps).get(params.id ?? '');
  beforeChange(`delete order/${order.id}`);
  needed(deps).remove(order.id);
  return json(view(order));
};

export const PENDING_HANDLERS = {
  'GET /v1/pending': list,
  'POST /v1/pending/:id/confirm': confirm,
  'DELETE /v1/pending/:id': withdraw,
} as const;
