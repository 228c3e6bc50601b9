/** What all log-ins share: their bodies, their records, and their answers. */
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventLog } from '../../events/event.ts';
import type { Actions } from '../actions.ts';
import type { ApiRequest } from '../handler.ts';
import { reply } from '../operation.ts';
import { timestamp } from '../times.ts';
import { COOKIE, type LoggedIn } from './accounts.ts';

interface Deps {
  readonly events: EventLog;
  /** Records who asked for what. */
  readonly actions: Actions;
  readonly metrics: Metrics;
}

/** Answers a log-in: for the page, the session is in a cookie that no script can read. */
export function loggedIn(done: LoggedIn, kind: 'page' | 'program', now: Millis) {
  const { principal, session, until } = done;
  const view = { operator: principal.name, grants: principal.grants, until: timestamp(until) };
  if (kind === 'program') return reply({ ...view, session: session.reveal() });
  return reply(view, 200, { 'set-cookie': sessionCookie(done, now) });
}

export function sessionCookie({ session, until }: LoggedIn, now: Millis): string {
  const seconds = Math.floor((until - now) / 1000);
  return `${COOKIE}=${session.reveal()}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=${seconds}`;
}

/** Errors that refuse a log-in, as opposed to those that only stop it. */
const REFUSALS = ['E_LOGIN', 'E_PASSKEY_LOGIN', 'E_PROVIDER_LOGIN', 'E_FORBIDDEN'];

/**
 * Logs in, and records whether that succeeded: in the name of the operator, or of nobody.
 *
 * @param as what was claimed, for the record of a refusal
 * @param by how it was shown
 */
export async function attempt<T extends LoggedIn | undefined>(
  request: Pick<ApiRequest, 'address'>,
  { events, metrics, actions }: Pick<Deps, 'events' | 'metrics' | 'actions'>,
  { as, by }: { readonly as: string; readonly by: string },
  work: () => Promise<T>,
): Promise<T> {
  const from = request.address ?? 'unknown';
  try {
    const done = await work();
    // The person has not logged in yet.
    if (done === undefined) return done;
    const { principal } = done;
    metrics.add('muster_logins_total', { result: 'accepted' });
    await actions.run(actions.actor(undefined, principal), async () =>
      events.record({
        kind: 'operator.login',
        subject: `Operator/${principal.name}`,
        reason: { code: 'accepted', text: `An operator logged in from ${from} by ${by}.` },
        fields: { by, ...(principal.subject !== undefined && { subject: printed(principal.subject) }) },
      }),
    );
    return done;
  } catch (error) {
    metrics.add('muster_logins_total', { result: 'refused' });
    if (error instanceof MusterError && REFUSALS.includes(error.code))
      events.record({
        kind: 'operator.login-refused',
        subject: `address/${from}`,
        reason: { code: 'refused', text: `A log-in as "${printed(as)}" from ${from} by ${by} was refused.` },
        ...(error.code !== 'E_LOGIN' && { fields: { because: becauseOf(error).slice(0, 300) } }),
      });
    throw error;
  }
}

/** A stranger does not learn why a passkey was refused; administrators do. */
const becauseOf = ({ code, message, cause }: MusterError): string =>
  code === 'E_PASSKEY_LOGIN' && cause instanceof Error ? cause.message : message;

/** What somebody typed, for a log: nothing in it can be mistaken for something else. */
const printed = (text: string): string => text.replace(/[^A-Za-z0-9._@+-]/g, '?').slice(0, 64);
