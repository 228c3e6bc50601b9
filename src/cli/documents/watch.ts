/**
 * `muster get --watch`: what there is, then each document again when it has changed, as kubectl
 * does.
 */
import type { Shown } from '../../api/documents.ts';
import type { EventView } from '../../api/times.ts';
import { MusterError } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import { type Kind, PLURAL } from '../../resources/kinds.ts';
import type { ApiClient } from '../client.socket.ts';
import { eventFrames, eventOf } from '../events/events.ts';

export interface Watched {
  readonly client: ApiClient;
  readonly kind: Kind;
  /** Only these; empty: all of the kind. */
  readonly names: readonly string[];
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /** All there is at first, later what is new or has changed. Never empty. */
  show(items: readonly Shown[]): void;
  /** One that was shown is not there any more. */
  gone(name: string): void;
}

/**
 * Runs until `signal` aborts or the server ends the stream. Every event about a document or machine
 * makes it be fetched again; with each sign of life of the stream (15 s) everything is, because not
 * all that a list shows has an event of its own. Throws E_NOT_FOUND when one of `names` is not
 * there at first.
 */
export async function watchDocuments(watched: Watched): Promise<void> {
  const { client, signal } = watched;
  const known = new Map<string, string>();
  let first = true;
  // The stream begins before the list is fetched: nothing can happen unseen in between.
  const query = { follow: 'true', limit: '0' };
  for await (const frame of eventFrames(client.stream('/v1/events', { query, signal }))) {
    const event = eventOf(frame);
    const name = event && nameIn(event, watched);
    if (event && name === undefined) continue;
    const found = name === undefined ? await fetchAll(watched, first) : await fetchOne(watched, name);
    first = false;
    tell(watched, known, found, name === undefined ? [...known.keys()] : [name]);
  }
}

/**
 * Shows what differs from what was shown; `looked` are the names that would have been found if they
 * were there.
 */
function tell(
  watched: Watched,
  known: Map<string, string>,
  found: readonly Shown[],
  looked: readonly string[],
): void {
  const changed = found.filter((item) => known.get(item.metadata.name) !== JSON.stringify(item));
  for (const item of changed) known.set(item.metadata.name, JSON.stringify(item));
  if (changed.length > 0) watched.show(changed);
  const there = new Set(found.map((item) => item.metadata.name));
  for (const name of looked) if (!there.has(name) && known.delete(name)) watched.gone(name);
}

/**
 * The document or machine of this kind that an event is about, if it is one of those that are
 * watched.
 */
function nameIn({ subject }: EventView, { kind, names }: Watched): string | undefined {
  const machine = kind === 'Machine' && !subject.includes('/') && parseMac(subject) === undefined;
  const name = subject.startsWith(`${kind}/`)
    ? subject.slice(kind.length + 1)
    : machine
      ? subject
      : undefined;
  return name === undefined || (names.length > 0 && !names.includes(name)) ? undefined : name;
}

async function fetchAll(watched: Watched, first: boolean): Promise<readonly Shown[]> {
  const { client, kind, names, signal } = watched;
  if (names.length > 0)
    return (await Promise.all(names.map((name) => fetchOne(watched, name, first)))).flat();
  return (await client.call<{ items: Shown[] }>('GET', `/v1/${PLURAL[kind]}`, { signal })).items;
}

/** One item, or none; with `must` one that is not there is thrown. */
async function fetchOne(
  { client, kind, signal }: Watched,
  name: string,
  must = false,
): Promise<readonly Shown[]> {
  try {
    return [await client.call<Shown>('GET', `/v1/${PLURAL[kind]}/${encodeURIComponent(name)}`, { signal })];
  } catch (error) {
    if (!must && error instanceof MusterError && error.code === 'E_NOT_FOUND') return [];
    throw error;
  }
}
