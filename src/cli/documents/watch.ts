/**
 * `muster get --watch`: prints the list, then each document again when it changes, as kubectl does.
 */
import type { Shown } from '../../api/shown.ts';
import type { EventView } from '../../api/times.ts';
import { MusterError } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import { type Kind, PLURAL } from '../../resources/kinds.ts';
import type { ApiClient } from '../client.socket.ts';
import { eventFrames, eventOf } from '../events/events.ts';

export interface Watched {
  readonly client: ApiClient;
  readonly kind: Kind;
  /** Only these documents or machines; an empty list means all of the kind. */
  readonly names: readonly string[];
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /**
   * Called first with the whole list, later with items that are new or have changed; the list is
   * never empty.
   */
  show(items: readonly Shown[]): void;
  /** Called when an item that was shown no longer exists. */
  gone(name: string): void;
}

/**
 * Runs until `signal` aborts or the server ends the stream. An event about a document or machine
 * makes the command fetch that item again. Each keep-alive comment of the stream (every 15 s) makes
 * it fetch everything again, because some changes in a list have no event.
 *
 * @throws {MusterError} E_NOT_FOUND when one of `names` does not exist at the start.
 */
export async function watchDocuments(watched: Watched): Promise<void> {
  const { client, signal } = watched;
  const known = new Map<string, string>();
  let first = true;
  // The stream begins before the list is fetched, so that no change in between is missed.
  const query = { follow: 'true', limit: '0' };
  for await (const frame of eventFrames(client.stream('/v1/events', { query, signal }))) {
    const event = eventOf(frame);
    const name = event && nameIn(event, watched);
    if (event && name === undefined) continue;
    const found = name === undefined ? await fetchAll(watched, first) : await fetchOne(watched, name);
    first = false;
    report(watched, known, found, name === undefined ? [...known.keys()] : [name]);
  }
}

/**
 * Reports items that differ from what was shown. `looked` has the names that were fetched: those of
 * them that are not in `found` no longer exist.
 */
function report(
  watched: Watched,
  known: Map<string, string>,
  found: readonly Shown[],
  looked: readonly string[],
): void {
  const changed = found.filter((item) => known.get(item.metadata.name) !== JSON.stringify(item));
  for (const item of changed) known.set(item.metadata.name, JSON.stringify(item));
  if (changed.length > 0) watched.show(changed);
  const existing = new Set(found.map((item) => item.metadata.name));
  for (const name of looked) if (!existing.has(name) && known.delete(name)) watched.gone(name);
}

/**
 * The name of the document or machine of this kind that an event is about, if that item is watched.
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

/** One item in a list, or an empty list. With `must` a missing item is an error. */
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
