/** Who sends a request over a listener, whether the route is for them, and for how long. */
import type http from 'node:http';
import type express from 'express';
import type { Clock } from '../base/clock.ts';
import { seconds, toMillis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { PeerCredentials } from '../base/system-calls.socket.ts';
import { checkProof, decideAccess, type PlaceOf, type Principal } from './access.ts';
import type { CostlyReads } from './costly.ts';
import { type ApiRequest, flag, type Route } from './handler.ts';

/** The principal of a request, or why it has none. */
export type Asker = Pick<ApiRequest, 'principal' | 'nobody'>;

/** How a listener finds out who asks, and what limits that. */
export interface AccessDeps {
  /** `unused`: only looks whether somebody still is logged in. */
  readonly authenticate: (
    request: http.IncomingMessage,
    peer: PeerCredentials | undefined,
    unused?: boolean,
  ) => Asker | Promise<Asker>;
  readonly placeOf: PlaceOf;
  /** Whether a machine has this name. */
  readonly isMachine: (name: string) => boolean;
  readonly costly: CostlyReads;
  /** Times how often a stream is checked: whether its reader may still have it. */
  readonly clock: Pick<Clock, 'after'>;
}

/** A stream ends this soon after its reader lost the right to it. */
const LOOK_AGAIN = toMillis(seconds(5));

/**
 * Ends a stream when the credential with which it was asked for has ended, or the roles of its
 * owner changed. Returns what ends the watch.
 */
export function watch(
  route: Route<never>,
  request: express.Request,
  peer: PeerCredentials | undefined,
  principal: Principal | undefined,
  access: AccessDeps,
  end: () => void,
): () => void {
  const grants = JSON.stringify(principal?.grants);
  const look = async (): Promise<void> => {
    const now = await asker(access, request, peer, true);
    const same = 'principal' in now && JSON.stringify(now.principal?.grants) === grants;
    if (same || route.access === 'open') cancel = access.clock.after(LOOK_AGAIN, look);
    else end();
  };
  let cancel = access.clock.after(LOOK_AGAIN, look);
  return () => cancel();
}

/** Who asks; an error, which is the answer, when the request may not be sent like this. */
export async function asker(
  access: AccessDeps | undefined,
  request: http.IncomingMessage,
  peer: PeerCredentials | undefined,
  unused = false,
): Promise<Asker | { readonly error: unknown }> {
  try {
    return (await access?.authenticate(request, peer, unused)) ?? {};
  } catch (error) {
    return { error };
  }
}

/**
 * Returns to which clusters the answer is limited.
 *
 * @throws {MusterError} E_UNAUTHENTICATED, E_FORBIDDEN when the principal may not use the route;
 *   as {@link checkProof} and {@link CostlyReads}
 */
export function permit(
  route: Route<never>,
  { params, query }: ApiRequest,
  { principal, nobody }: Asker,
  { placeOf, costly }: AccessDeps,
): Pick<ApiRequest, 'within'> {
  const decision = decideAccess(route, params, principal, placeOf);
  if (decision.do === 'authenticate')
    throw nobody?.() ?? new MusterError('E_UNAUTHENTICATED', 'nobody is logged in with this request');
  if (decision.do === 'refuse')
    throw new MusterError('E_FORBIDDEN', `${principal?.name} may not do that: ${decision.text}`);
  // A preview gives nothing away.
  const preview = route.query?.shape.dryRun !== undefined && flag(query, 'dryRun');
  if (!preview) checkProof(route.takes, principal);
  if (principal && (route.costly === true || (preview && route.costly))) costly.take(principal);
  return decision.within === undefined ? {} : { within: decision.within };
}
