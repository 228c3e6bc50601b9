/**
 * Who may use which route: the roles of operators, what each allows, and for which clusters. Pure.
 */

import { type Millis, seconds, toMillis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { clusterOfScope } from '../store/keys.ts';

/** What a route needs. Every route names one. */
export const ACCESS = {
  open: 'Everybody, also without logging in.',
  own: 'Shows and changes what belongs to the operator who asks.',
  view: 'Shows state; answers contain no secrets.',
  operate: 'Changes machines and clusters in ways that can be undone.',
  administer: 'Issues credentials, removes machines and data, or changes who may do what.',
  audit: 'Reads the security log.',
} as const;
export type Access = keyof typeof ACCESS;

/** What an order takes besides the role. Every operation that changes something names one. */
export const TAKES = {
  role: 'Nothing more: it can be undone, or concerns its sender alone.',
  proof: 'A log-in of the last five minutes, because it gives out keys or takes them in.',
  second: 'A second person, where the site asks for one, because it cannot be undone.',
  both: 'A log-in of the last five minutes, and a second person where the site asks for one.',
  socket: 'The local socket of the boot host, because it gives out all keys in the clear.',
} as const;
/** With a field: a second person if the body has this field. */
export type Takes = keyof typeof TAKES | { readonly second: string };

/** How long a log-in proves who it is. */
const PROOF_LASTS = toMillis(seconds(300));

/**
 * Refuses a principal who has not proved enough for an order. A token proves nothing afresh: it is
 * a text that lies somewhere.
 *
 * @throws {MusterError} E_LOCAL_ONLY, E_PROOF
 */
export function checkProof(takes: Takes | undefined, principal: Principal | undefined): void {
  if (takes === undefined || principal === undefined || principal.by === 'socket') return;
  if (takes === 'socket')
    throw new MusterError('E_LOCAL_ONLY', 'it gives out keys in the clear, which the network never carries');
  if (takes !== 'proof' && takes !== 'both') return;
  if (principal.by !== 'session')
    throw new MusterError('E_PROOF', `a ${principal.by} does not prove that ${principal.name} is there`);
  const age = principal.age ?? Number.POSITIVE_INFINITY;
  if (age > PROOF_LASTS)
    throw new MusterError('E_PROOF', `${principal.name} logged in ${Math.floor(age / 60_000)} minutes ago`);
}

/** The part of a route that decides who may use it. */
interface Guarded {
  readonly path: string;
  readonly access: Access;
  /** Whether roles for certain clusters get a part of its answer. */
  readonly within?: true;
}

/** The roles of operators. A role allows what its row lists and nothing else. */
export const ROLES = {
  viewer: {
    about: 'sees everything apart from secrets and the security log',
    allows: ['open', 'own', 'view'],
  },
  operator: {
    about: 'also registers, accepts, approves and changes machines, and grows clusters',
    allows: ['open', 'own', 'view', 'operate'],
  },
  admin: {
    about: 'also gets credentials of clusters, removes machines, and manages operators',
    allows: ['open', 'own', 'view', 'operate', 'administer'],
  },
  auditor: { about: 'reads the security log, and nothing else', allows: ['open', 'own', 'audit'] },
} as const satisfies Record<string, { about: string; allows: readonly Access[] }>;
export type Role = keyof typeof ROLES;

export const isRole = (text: string): text is Role => Object.hasOwn(ROLES, text);

/** Whether a role allows everything that another one allows. */
export const covers = (role: Role, other: Role): boolean =>
  ROLES[other].allows.every((access) => (ROLES[role].allows as readonly Access[]).includes(access));

/** A role for everything, or only for the clusters and pools that are named. */
export interface Grant {
  readonly role: Role;
  readonly clusters?: readonly string[];
  /** Pools of machines that are in no cluster. */
  readonly pools?: readonly string[];
}

/** The part of a grant that limits it, as records and requests have it. */
interface Limits {
  readonly clusters?: readonly string[] | undefined;
  readonly pools?: readonly string[] | undefined;
}

/** A grant with the limits that are given. */
export const grantOf = (role: Role, { clusters, pools }: Limits): Grant => ({
  role,
  ...(clusters && { clusters }),
  ...(pools && { pools }),
});

/** A pool as a place beside clusters, whose names have no slash. */
export const poolPlace = (pool: string): string => `pool/${pool}`;

/** The clusters and pools to which a role is limited; undefined: it counts everywhere. */
export const placesOf = ({ clusters, pools }: Grant): readonly string[] | undefined =>
  clusters === undefined && pools === undefined
    ? undefined
    : [...(clusters ?? []), ...(pools ?? []).map(poolPlace)];

/** Finds where a machine belongs: its cluster, else its pool; undefined when it has neither. */
export type PlaceOf = (machine: string) => string | undefined;

/** Who sends a request. */
export interface Principal {
  /** The name of the operator, or of the user at the other end of the socket. */
  readonly name: string;
  /** How it was authenticated. */
  readonly by: 'socket' | 'session' | 'token' | 'certificate';
  /** How long ago somebody logged in; of a session only. */
  readonly age?: Millis;
  /** The identity provider's own name for the person, which does not change. */
  readonly subject?: string;
  readonly grants: readonly Grant[];
}

/** Everything: the local socket, which is the way in when all else fails. */
export const EVERYTHING: readonly Grant[] = [{ role: 'admin' }, { role: 'auditor' }];

export type AccessDecision =
  /** `within`: with what belongs to these clusters and pools only. Absent: with everything. */
  | { readonly do: 'answer'; readonly within?: ReadonlySet<string> }
  /** Nobody is logged in: 401. */
  | { readonly do: 'authenticate' }
  /** The principal may not: 403. `text` says what is needed. */
  | { readonly do: 'refuse'; readonly text: string };

/** The cluster or machine that a path names; undefined for a route about the whole site. */
function subjectOfRoute(
  { path, within }: Pick<Guarded, 'path' | 'within'>,
  params: Readonly<Record<string, string>>,
): { readonly cluster: string } | { readonly machine: string } | undefined {
  const [, , noun = '', ...rest] = path.split('/');
  if (noun === 'clusters' && rest[0] === ':name') return { cluster: clusterOfScope(params.name ?? '') };
  if (noun === 'pki' && rest[0] === ':cluster') return { cluster: params.cluster ?? '' };
  if (noun === 'machines' && rest[0] === ':name') return { machine: params.name ?? '' };
  if (noun === ':kind' && rest[0] === ':name' && within) {
    if (params.kind === 'clusters') return { cluster: params.name ?? '' };
    if (params.kind === 'machines') return { machine: params.name ?? '' };
  }
  if (noun === 'render' && rest[0] === ':machine') return { machine: params.machine ?? '' };
  return undefined;
}

/**
 * Decides about a request. A grant for certain clusters or pools counts for routes about these
 * clusters and their machines, and for a part of the lists that say so; documents that are applied
 * together need a grant without such a limit. The answer about a machine does not depend on whether
 * it exists, or whose it is.
 *
 * @example
 * const grants: Grant[] = [{ role: 'operator', clusters: ['blue'] }];
 * const add = { path: '/v1/clusters/:name/add-node', access: 'operate' };
 * decideAccess(add, { name: 'blue' }, { name: 'ada', by: 'token', grants }, placeOf);
 * // { do: 'answer' }
 */
export function decideAccess(
  route: Guarded,
  params: Readonly<Record<string, string>>,
  principal: Principal | undefined,
  placeOf: PlaceOf,
): AccessDecision {
  if (route.access === 'open') return { do: 'answer' };
  if (principal === undefined) return { do: 'authenticate' };
  const subject = subjectOfRoute(route, params);
  const place =
    subject === undefined ? undefined : 'cluster' in subject ? subject.cluster : placeOf(subject.machine);
  const places = principal.grants
    .filter(({ role }) => (ROLES[role].allows as readonly Access[]).includes(route.access))
    .map(placesOf);
  const allowed = places.some(
    (limits) =>
      route.access === 'own' || limits === undefined || (place !== undefined && limits.includes(place)),
  );
  if (allowed) return { do: 'answer' };
  const within = new Set(places.flatMap((limits = []) => limits));
  if (route.within && subject === undefined && within.size > 0) return { do: 'answer', within };
  return { do: 'refuse', text: needed(route.access, subject) };
}

/**
 * Refuses what does not belong to the clusters and pools to which the answer is limited.
 *
 * @param place of what is asked for; undefined when it belongs to none
 * @throws {MusterError} E_FORBIDDEN
 */
export function checkWithin(within: ReadonlySet<string> | undefined, place: string | undefined): void {
  if (within === undefined || (place !== undefined && within.has(place))) return;
  throw new MusterError('E_FORBIDDEN', `your roles are for ${[...within].join(', ')} only`);
}

/**
 * Checks that a request may bring a machine into this cluster: the path names the machine only, and
 * a role for one cluster must not reach another one.
 *
 * @throws {MusterError} E_FORBIDDEN
 */
export function checkJoins(principal: Principal | undefined, cluster: string): void {
  const joins = { path: '/v1/clusters/:name', access: 'operate' } as const;
  const decision = decideAccess(joins, { name: cluster }, principal, () => undefined);
  if (principal !== undefined && decision.do === 'refuse')
    throw new MusterError('E_FORBIDDEN', `${principal.name} may not do that: ${decision.text}`);
}

/**
 * Checks that a request may change these machines, which its body names. A role for a cluster takes
 * a machine of no cluster only from a pool that the role is for, too.
 *
 * @throws {MusterError} E_FORBIDDEN, the same for a machine that does not exist
 */
export function checkMachines(
  access: Access,
  machines: readonly string[],
  principal: Principal | undefined,
  placeOf: PlaceOf,
): void {
  if (principal === undefined) return;
  for (const name of machines) {
    const decision = decideAccess({ path: '/v1/machines/:name', access }, { name }, principal, placeOf);
    if (decision.do === 'refuse')
      throw new MusterError('E_FORBIDDEN', `${principal.name} may not do that: ${decision.text}`);
  }
}

const APPROVE = { path: '/v1/machines/:name/approve', access: 'operate' } as const;

/** Whether somebody may approve the key of a machine that waits, and so may see its code. */
export const mayApprove = (principal: Principal | undefined, machine: string, placeOf: PlaceOf): boolean =>
  principal === undefined || decideAccess(APPROVE, { name: machine }, principal, placeOf).do === 'answer';

/**
 * Refuses what a machine says while its key waits for an approval: anybody who speaks for it could
 * show the code of another key.
 *
 * @throws {MusterError} E_FORBIDDEN
 */
export function checkWaits(
  principal: Principal | undefined,
  machine: string,
  agents: {
    waits(machine: string): unknown;
  },
  placeOf: PlaceOf,
): void {
  if (agents.waits(machine) === undefined || mayApprove(principal, machine, placeOf)) return;
  throw new MusterError(
    'E_FORBIDDEN',
    `a key of ${machine} waits for its approval; until then those who may approve it see its console`,
  );
}

function needed(access: Access, subject: ReturnType<typeof subjectOfRoute>): string {
  const roles = (Object.keys(ROLES) as Role[]).filter((role) =>
    (ROLES[role].allows as readonly Access[]).includes(access),
  );
  const where =
    subject === undefined
      ? 'for the whole site'
      : 'cluster' in subject
        ? `for cluster ${subject.cluster}`
        : `for the cluster or pool of the machine "${subject.machine}"`;
  return `this needs the role ${roles.join(' or ')} ${where}`;
}

/** The headers by which browsers say from where a request comes. */
interface Origins {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
  readonly 'sec-fetch-site'?: string | string[] | undefined;
  readonly 'sec-fetch-mode'?: string | string[] | undefined;
}

/**
 * Whether a browser sends the request for another site than this server's page. Browsers add the
 * cookie also to requests that another port of this host caused. A change by cookie must name the
 * page as its origin; a log-in without a cookie must not name another one, because that would log a
 * person in to somebody else's account. Programs send none of these headers. Links to the page may
 * come from anywhere.
 */
export function isForeign(method: string, headers: Origins, byCookie: boolean): boolean {
  const { host, origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode } = headers;
  const elsewhere = site !== undefined && site !== 'same-origin' && site !== 'none';
  if (method === 'GET' || method === 'HEAD') return byCookie && elsewhere && mode !== 'navigate';
  const named = origin === undefined ? !byCookie : origin === `https://${host}`;
  return elsewhere || !named;
}
