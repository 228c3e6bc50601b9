/** Operators' actions: each request that changes something, with who asked, in the security log. */
import type { Clock } from '../base/clock.ts';
import { seconds, toMillis } from '../base/duration.ts';
import { ERRORS, type ErrorCode } from '../base/errors.ts';
import { plainAddress } from '../base/ip.ts';
import type { PeerCredentials } from '../base/system-calls.socket.ts';
import { type Acting, type Actor, UNKNOWN_ACTOR } from '../events/actor.ts';
import type { EventSink } from '../events/event.ts';
import type { SecurityLog } from '../events/security-log.files.ts';
import type { Principal } from './access.ts';

/** What became of a request. */
export interface Action {
  readonly method: string;
  /** The route's path, with its parameters unfilled. */
  readonly route: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly status: number;
  /** The error that was answered, if one was. */
  readonly code?: string | undefined;
  /** What the route does, in a sentence. */
  readonly summary: string;
  /** Whether it took more than a role: the log is signed at once. */
  readonly signed?: boolean;
}

export interface Actions {
  /**
   * Who is at the other end of a connection: the operator who logged in, as `operator NAME`, or the
   * user of the process at the other end of the socket.
   */
  actor(peer: PeerCredentials | undefined, principal?: Principal): Actor;
  /** Runs a request in the name of `actor`: events that it causes name him. */
  run<T>(actor: Actor, work: () => Promise<T>): Promise<T>;
  /**
   * Records the action, and resolves when it is on the disk. A disk that does not take it holds no
   * answer back for longer than {@link LONGEST_WAIT}.
   */
  record(action: Action): Promise<void>;
  /**
   * Records that a request for a change was refused before anybody was known. Nothing of the
   * request itself is kept, and few of one address: anybody who reaches the port may send it.
   */
  refused(address: string | undefined, code: string | undefined): void;
}

export interface ActionDeps {
  readonly acting: Acting;
  readonly events: EventSink;
  readonly security: Pick<SecurityLog, 'checkpoint' | 'durable'>;
  /** The name of a user; undefined when it is not known. */
  readonly userName: (uid: number) => string | undefined;
  readonly clock: Pick<Clock, 'after'>;
}

const LONGEST_WAIT = toMillis(seconds(5));
/** Longer queries are cut. */
const MAX_QUERY = 500;

export function createActions({ acting, events, security, userName, clock }: ActionDeps): Actions {
  return {
    actor: (peer, principal) =>
      principal !== undefined && principal.by !== 'socket'
        ? { user: `operator ${principal.name}` }
        : peer === undefined
          ? UNKNOWN_ACTOR
          : { uid: peer.uid, user: userName(peer.uid) ?? UNKNOWN_ACTOR.user, pid: peer.pid },
    run: (actor, work) => acting.run(actor, work),
    async record({ method, route, params, query, status, code, summary, signed }) {
      const asked = query.toString().slice(0, MAX_QUERY);
      const reason =
        code === undefined
          ? { code: status < 400 ? 'done' : 'failed', text: summary }
          : { code, text: titleOf(code) ?? summary };
      events.record({
        kind: 'operator.action',
        subject: subjectOf(route, params),
        reason,
        fields: { action: `${method} ${route}`, status, ...(asked !== '' && { query: asked }) },
      });
      await within(clock, signed ? security.checkpoint() : security.durable());
    },
    refused(address, code = 'E_UNAUTHENTICATED') {
      const reason = { code, text: titleOf(code) ?? code };
      events.record({ kind: 'operator.refused', subject: plainAddress(address) || 'unknown', reason });
    },
  };
}

const titleOf = (code: string): string | undefined =>
  Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode].title : undefined;

/** What an action is about: a machine by its name, otherwise `KIND/NAME` as in the path. */
function subjectOf(route: string, params: Readonly<Record<string, string>>): string {
  const parts = route.split('/').slice(2);
  const filled = parts.map((part) => (part.startsWith(':') ? (params[part.slice(1)] ?? part) : part));
  if (!parts.some((part) => part.startsWith(':'))) return filled.join('/');
  const [noun = '', name] = filled;
  if (name === undefined) return noun;
  return noun === 'machines' ? name : noun === 'clusters' ? `Cluster/${name}` : filled.slice(0, 2).join('/');
}

const within = (clock: Pick<Clock, 'after'>, work: Promise<unknown>): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const cancel = clock.after(LONGEST_WAIT, () => resolve(undefined));
    work.then(resolve, reject).finally(cancel);
  });
