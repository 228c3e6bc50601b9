/** Events and entries of the security log: a list, or server-sent events. */
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import { didYouMean } from '../../base/suggest.ts';
import type { AuditEntry } from '../../events/audit-chain.ts';
import type { EventLog, MusterEvent } from '../../events/event.ts';
import type { SecurityLog } from '../../events/security-log.files.ts';
import type { Roster } from '../../machines/roster.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { type Kind, PLURAL } from '../../resources/kinds.ts';
import { count, MAX_LIMIT, on, raw as rawType, reason, time, word } from '../contract/contract.ts';
import { actor, details, event } from '../contract/events.ts';
import type { Daemon } from '../daemon.ts';
import { placing } from '../find-machine.ts';
import { follow, stream, streams } from '../follow.ts';
import type { ApiRequest } from '../handler.ts';
import { operation, raw } from '../operation.ts';
import type { ServedAgents } from '../served-agents.ts';
import { KIND_NAMES, subjectsOf } from '../subjects.ts';
import { eventView } from '../times.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  readonly roster: Roster;
  readonly agents: ServedAgents;
  readonly events: EventLog;
  readonly security: Pick<SecurityLog, 'status' | 'list' | 'subscribe' | 'checkpoint' | 'read'>;
  readonly daemon: Daemon;
  readonly clock: Clock;
}

type EventDeps = Pick<Deps, 'events' | 'roster' | 'catalog' | 'agents' | 'daemon' | 'clock'>;
type AuditDeps = Pick<Deps, 'security' | 'roster' | 'clock'>;

const entry = z
  .strictObject({
    sequence: z.int(),
    at: time,
    kind: z.string().meta({ description: 'A kind of event, or `audit.…`.' }),
    subject: z.string(),
    session: z.string().optional(),
    network: z.string().optional(),
    reason: reason.optional(),
    fields: details.optional(),
    actor: actor.optional(),
    prev: z.string(),
    hash: z.string(),
  })
  .meta({ id: 'AuditEntry' });

const query = z.strictObject({
  subject: word('A machine, a hardware address in any spelling, or `Kind/name`.'),
  after: count('Only those after this sequence number.', Number.MAX_SAFE_INTEGER),
  limit: count('At most so many of the newest.', MAX_LIMIT),
  follow: on('Streams them, and those that come (server-sent events); Last-Event-ID continues a stream.'),
});

const place = { sequence: z.int(), hash: z.string() };

/**
 * The subjects that `text` names.
 *
 * @throws {MusterError} E_NOT_FOUND for a name that no machine, document or event has. A hardware
 * address is always accepted, because it may be seen later
 */
function knownSubjects(text: string, deps: EventDeps): ReadonlySet<string> {
  const subjects = subjectsOf(withKind(text), deps.roster);
  if (parseMac(text) || [...subjects].some((one) => isKnown(one, deps))) return subjects;
  const names = [
    ...deps.roster.list().map(({ name }) => name),
    ...KIND_NAMES.flatMap((kind) => deps.catalog.list(kind).map(({ document }) => document.metadata.name)),
  ];
  const meant =
    didYouMean(text.split('/').at(-1)!, names) || '; `muster events` shows the events of all subjects';
  throw new MusterError('E_NOT_FOUND', `no machine, document or event has the name "${text}"${meant}`);
}

/** `clusters/blue` → `Cluster/blue`: the kind in any case, singular or plural. */
function withKind(text: string): string {
  const [word = '', name] = text.split('/', 2);
  const plain = word.toLowerCase();
  const kind = KIND_NAMES.find((one) => one.toLowerCase() === plain || PLURAL[one] === plain);
  return name === undefined || kind === undefined ? text : `${kind}/${name}`;
}

function isKnown(subject: string, { roster, catalog, events }: EventDeps): boolean {
  if (events.list({ subject, limit: 1 }).length > 0) return true;
  const [kind = '', name] = subject.split('/', 2);
  if (name === undefined) return roster.get(subject) !== undefined;
  return KIND_NAMES.includes(kind as Kind) && catalog.get(kind as Kind, name) !== undefined;
}

interface Filter {
  readonly subjects: ReadonlySet<string> | undefined;
  readonly after: number | undefined;
  readonly limit: number | undefined;
  /** Whether the operator may see it; undefined: everything. */
  readonly mine: ((event: MusterEvent) => boolean) | undefined;
}

/** The events of certain clusters, of their machines and of pools, for roles that are for these. */
function ofClusters(
  { within }: Pick<ApiRequest, 'within'>,
  deps: Pick<Deps, 'agents' | 'roster'>,
): Filter['mine'] {
  if (within === undefined) return undefined;
  const placeOf = placing(deps);
  return ({ subject }) => {
    const [kind, name] = subject.split('/', 2);
    if (kind === 'Cluster') return within.has(name ?? '');
    if (name !== undefined && kind !== 'Machine') return false;
    return within.has(placeOf(name ?? subject) ?? '');
  };
}

/** The kept events of all subjects together, newest last. */
function kept(events: EventLog, { subjects, after, limit, mine }: Filter): readonly MusterEvent[] {
  const since = after === undefined ? {} : { after };
  const bounds = { ...since, ...(limit === undefined ? {} : { limit }) };
  if (subjects === undefined) {
    if (mine === undefined) return events.list(bounds);
    const all = events.list(since).filter(mine);
    return limit === undefined ? all : all.slice(all.length - Math.min(limit, all.length));
  }
  let found = [...subjects].flatMap((subject) => events.list({ ...bounds, subject }));
  if (mine !== undefined) found = found.filter(mine);
  found.sort((a, b) => a.sequence - b.sequence);
  return limit === undefined ? found : found.slice(found.length - Math.min(limit, found.length));
}

interface Resumed {
  readonly query: { readonly after?: number };
  readonly headers: ApiRequest['headers'];
}

/**
 * The sequence number after which a stream continues. Numbers of events begin again with each run
 * of the server, so the ids of their streams name the run: after another one all events are sent.
 * They are also sent after a number beyond the newest event.
 */
export function resumePoint({ query, headers }: Resumed, newest: number, run?: string): number | undefined {
  const [, of, last] = /^(?:([0-9a-z]{1,15})\.)?([0-9]{1,15})$/.exec(headers['last-event-id'] ?? '') ?? [];
  if (of !== undefined && of !== run) return undefined;
  const after = last === undefined ? query.after : Number(last);
  return after === undefined || after > newest ? undefined : after;
}

export const EVENTS = [
  operation(
    'GET /v1/events',
    {
      access: 'view',
      costly: true,
      within: true,
      summary: 'Lists events, newest last, or streams them: those that are kept, then those that happen.',
      query,
      answer: z.strictObject({ kind: z.literal('EventList'), items: z.array(event) }),
      streams: true,
    },
    (asked, deps: EventDeps) => {
      const { subject, limit } = asked.query;
      const subjects = subject === undefined ? undefined : knownSubjects(subject, deps);
      const run = deps.daemon.startedAt.toString(36);
      const after = resumePoint(asked, deps.events.list({ limit: 1 }).at(-1)?.sequence ?? 0, run);
      const mine = ofClusters(asked, deps);
      const filter: Filter = { subjects, after, limit, mine };
      if (!streams(asked.query, asked.headers))
        return { kind: 'EventList' as const, items: kept(deps.events, filter).map(eventView) };
      const followed = {
        kept: () => kept(deps.events, filter),
        subscribe: (listener: (event: MusterEvent) => void) => deps.events.subscribe(listener),
        wanted: (one: MusterEvent) =>
          (subjects === undefined || subjects.has(one.subject)) && (mine?.(one) ?? true),
        view: eventView,
        after: after ?? 0,
        run,
      };
      return stream(follow(followed, deps.clock, asked.signal));
    },
  ),
  operation(
    'GET /v1/audit',
    {
      access: 'audit',
      summary: 'Shows the security log: public key, newest entry, newest checkpoint, size.',
      answer: z.strictObject({
        kind: z.literal('AuditStatus'),
        key: z.strictObject({ id: z.string(), pem: z.string() }),
        head: z.strictObject(place).optional(),
        checkpoint: z.strictObject({ ...place, signature: z.string() }).optional(),
        first: z.int().optional(),
        octets: z.int(),
        segments: z.int(),
        failing: z.boolean(),
      }),
    },
    async (_asked, { security }: Pick<AuditDeps, 'security'>) => {
      await security.checkpoint();
      return { kind: 'AuditStatus' as const, ...security.status() };
    },
  ),
  operation(
    'GET /v1/audit/entries',
    {
      access: 'audit',
      costly: true,
      summary: 'Lists the newest entries of the security log, newest last, or streams them.',
      query,
      answer: z.strictObject({ kind: z.literal('AuditEntryList'), items: z.array(entry) }),
      streams: true,
    },
    (asked, { security, roster, clock }: AuditDeps) => {
      const { subject, limit } = asked.query;
      const subjects = subject === undefined ? undefined : subjectsOf(subject, roster);
      const after = resumePoint(asked, security.status().head?.sequence ?? 0);
      const wanted = (one: AuditEntry): boolean => subjects === undefined || subjects.has(one.subject);
      const found = (): readonly AuditEntry[] => {
        const all = security.list(after === undefined ? {} : { after }).filter(wanted);
        if (limit === undefined || limit >= all.length) return all;
        return after === undefined ? all.slice(all.length - limit) : all.slice(0, limit);
      };
      if (!streams(asked.query, asked.headers)) return { kind: 'AuditEntryList' as const, items: found() };
      const subscribe = (listener: (one: AuditEntry) => void) => security.subscribe(listener);
      const followed = { kept: found, subscribe, wanted, view: (one: AuditEntry) => one, after: after ?? 0 };
      return stream(follow(followed, clock, asked.signal));
    },
  ),
  operation(
    'GET /v1/audit/export',
    {
      access: 'audit',
      costly: true,
      summary: 'Exports all of its lines, oldest first; the last is a checkpoint.',
      answer: rawType('application/jsonl', 'One entry or checkpoint a line.'),
    },
    async (_asked, { security }: Pick<AuditDeps, 'security'>) => {
      await security.checkpoint();
      return raw({ status: 200, headers: { 'content-type': 'application/jsonl' }, body: security.read() });
    },
  ),
] as const;
