/**
 * Orders that cannot be undone wait for a second person, where the site asks for that. They are in
 * memory: a restart forgets them, and they are ordered again. The local socket needs no second
 * person, because it is the way in when all else fails.
 */
import { parsed } from '../base/foreign-json.ts';
import type { Takes } from './access.ts';
import { type ApiRequest, flag, type Route, readOctets } from './handler.ts';
import type { PendingOrders } from './pending-orders.ts';

/** What orders that wait need of other rooms. */
export interface SecondDeps {
  /** Where orders wait for a second person; undefined where the site does not ask for one. */
  readonly pending?: PendingOrders | undefined;
}

/** Bodies of these orders are small. */
const MAX_BODY = 64 * 1024;

/** Whether an order with this body needs a second person. */
function needsSecond({ takes }: Pick<Route<never>, 'takes'>, body: string): boolean {
  if (typeof takes !== 'object') return isFinal(takes);
  const fields = parsed(body);
  if (typeof fields !== 'object' || fields === null) return false;
  const value = (fields as Record<string, unknown>)[takes.second];
  return value !== undefined && value !== '' && value !== false;
}

const isFinal = (takes: Takes | undefined): boolean => takes === 'second' || takes === 'both';

/** A route whose handler is called only for orders that need no second person, or are confirmed. */
export const withSecond = <D extends SecondDeps>(route: Route<D>): Route<D> =>
  typeof route.takes !== 'object' && !isFinal(route.takes)
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
async function heldForSecond<D extends SecondDeps>(
  route: Route<D>,
  request: ApiRequest,
  deps: D,
): Promise<ApiRequest> {
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
