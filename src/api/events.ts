/** Handlers for events: a list, or a stream that stays open (server-sent events). */
import { MusterError } from '../base/errors.ts';
import { parseMac } from '../base/mac.ts';
import { didYouMean } from '../base/suggest.ts';
import type { EventLog, MusterEvent } from '../events/event.ts';
import { type Kind, PLURAL } from '../resources/kinds.ts';
import { MAX_LIMIT } from './contract/contract.ts';
import type { ApiDeps } from './deps.ts';
import { follow } from './follow.ts';
import { type ApiRequest, flag, type Handler, json, wholeNumber } from './handler.ts';
import { eventView } from './times.ts';

export const EVENT_STREAM = 'text/event-stream';

/**
 * Lists events. Query: `subject` (machine, MAC in any spelling, or `Kind/name`), `after` (sequence
 * number), `limit` (that many of the newest), `follow`. With `follow` or `Accept:
 * text/event-stream` the answer is a stream: first the kept events, then new ones as they happen;
 * `Last-Event-ID` continues an earlier stream.
 */
export const listEvents: Handler<ApiDeps> = (request, deps) => {
  const { query } = request;
  const subject = query.get('subject');
  const subjects = subject === null ? undefined : knownSubjects(subject, deps);
  const limit = wholeNumber(query, 'limit', MAX_LIMIT);
  const run = deps.daemon.startedAt.toString(36);
  const after = resumePoint(request, deps.events.list({ limit: 1 }).at(-1)?.sequence ?? 0, run);
  const mine = ofClusters(request, deps);
  const filter: Filter = { subjects, after, limit, mine };
  if (!flag(query, 'follow') && !request.headers.accept?.includes(EVENT_STREAM))
    return json({ kind: 'EventList', items: kept(deps.events, filter).map(eventView) });
  return {
    status: 200,
    headers: { 'content-type': EVENT_STREAM, 'cache-control': 'no-store' },
    body: follow(
      {
        kept: () => kept(deps.events, filter),
        subscribe: (listener) => deps.events.subscribe(listener),
        wanted: (event) => (subjects === undefined || subjects.has(event.subject)) && (mine?.(event) ?? true),
        view: eventView,
        after: after ?? 0,
        run,
      },
      deps.clock,
      request.signal,
    ),
  };
};

/**
 * The subjects that `text` names.
 *
 * @throws {MusterError} E_NOT_FOUND for a name that no machine, document or event has. A hardware
 * address is always accepted, because it may be seen later
 */
function knownSubjects(text: string, deps: ApiDeps): ReadonlySet<string> {
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

const KIND_NAMES = Object.keys(PLURAL) as Kind[];

/** `clusters/blue` → `Cluster/blue`: the kind in any case, singular or plural. */
function withKind(text: string): string {
  const [word = '', name] = text.split('/', 2);
  const plain = word.toLowerCase();
  const kind = KIND_NAMES.find((one) => one.toLowerCase() === plain || PLURAL[one] === plain);
  return name === undefined || kind === undefined ? text : `${kind}/${name}`;
}

function isKnown(subject: string, { roster, catalog, events }: ApiDeps): boolean {
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

/** The events of certain clusters and of their machines, for roles that are for these only. */
function ofClusters({ within }: ApiRequest, { agents }: ApiDeps): Filter['mine'] {
  if (within === undefined) return undefined;
  return ({ subject }) => {
    const [kind, name] = subject.split('/', 2);
    if (kind === 'Cluster') return within.has(name ?? '');
    if (name !== undefined && kind !== 'Machine') return false;
    return within.has(agents.agentCluster(name ?? subject) ?? '');
  };
}

/**
 * All subjects under which events of `text` may be recorded. For a machine (by name or by any
 * spelling of an address) these are its names, its addresses (events from before it was
 * recognised), the name that it had before it was accepted, and its document (`Machine/NAME`), also
 * after that was deleted.
 */
export function subjectsOf(
  text: string,
  roster: Pick<ApiDeps['roster'], 'get' | 'byMac'>,
): ReadonlySet<string> {
  const mac = parseMac(text);
  const member = roster.get(text) ?? (mac && roster.byMac(mac));
  const macs = [
    ...(mac ? [mac] : []),
    ...(member?.entry?.document.spec.macs ?? []),
    ...(member?.status.seen.macs ?? []),
  ];
  const recorded = macs.map((one) => `m-${one.replaceAll(':', '')}`);
  const names = [...(mac || text.includes('/') ? [] : [text]), ...(member ? [member.name] : []), ...recorded];
  const documents = names.map((name) => `Machine/${name}`);
  const others = mac || text.includes('/') ? [] : KIND_NAMES.map((kind) => `${kind}/${text}`);
  // Machine/NAME is the same machine as NAME
  const machine = text.startsWith('Machine/')
    ? [...subjectsOf(text.slice('Machine/'.length), roster)].filter(
        (one) => !one.includes('/') || one.startsWith('Machine/'),
      )
    : [];
  return new Set([mac ?? text, ...names, ...macs, ...documents, ...others, ...machine]);
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

/**
 * The sequence number after which a stream continues. Numbers of events begin again with each run
 * of the server, so the ids of their streams name the run: after another one all events are sent.
 * They are also sent after a number beyond the newest event.
 */
export function resumePoint(request: ApiRequest, newest: number, run?: string): number | undefined {
  const [, of, last] =
    /^(?:([0-9a-z]{1,15})\.)?([0-9]{1,15})$/.exec(request.headers['last-event-id'] ?? '') ?? [];
  if (of !== undefined && of !== run) return undefined;
  const after = last === undefined ? wholeNumber(request.query, 'after') : Number(last);
  return after === undefined || after > newest ? undefined : after;
}
