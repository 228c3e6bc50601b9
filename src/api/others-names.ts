/** Keeps the names of machines of other places out of what a limited role gets to read. Pure. */
import { type PlaceOf, type Principal, placesOf } from './access.ts';
import type { ApiResponse } from './handler.ts';

/** Whether a word is the name of a machine that the reader may not see. */
export type IsOthers = (word: string) => boolean;

/** What stands instead of a name. */
const ANOTHER = 'another-machine';

/** Fields whose whole value is the name of a machine, or several. */
const NAMING: ReadonlySet<string> = new Set([
  'name',
  'machine',
  'machines',
  'asked',
  'subject',
  'holder',
  'by',
]);

/**
 * Makes what recognises names that the principal may not read: those of all machines outside of
 * the clusters and pools of its roles. Undefined when one of its roles counts everywhere.
 *
 * @param isMachine whether a machine has this name
 * @param said what the request says itself: an answer that kept it back would say what there is
 */
export function othersOf(
  principal: Principal | undefined,
  placeOf: PlaceOf,
  isMachine: (name: string) => boolean,
  said: readonly string[],
): IsOthers | undefined {
  const limits = principal?.grants.map(placesOf);
  if (limits === undefined || limits.includes(undefined)) return undefined;
  const mine = new Set(limits.flat());
  return (word) => isMachine(word) && !mine.has(placeOf(word)) && !said.includes(word);
}

/**
 * A response without the names of others' machines. Reasons and faults about a machine name what
 * it is in conflict with, wherever that belongs. Plain texts stay: they are what the machine
 * itself says, or gets.
 */
export function withoutOthers(response: ApiResponse, isOthers: IsOthers): ApiResponse {
  const type = response.headers?.['content-type'] ?? '';
  const { body } = response;
  // A refusal repeats what was asked, whether there is such a machine or not.
  if (body === undefined || response.status === 403) return response;
  if (type.startsWith('text/event-stream') && typeof body !== 'string')
    return { ...response, body: framesWithout(body, isOthers) };
  if (!/^application\/(problem\+)?json/.test(type)) return response;
  return typeof body === 'string'
    ? { ...response, body: jsonWithout(body, isOthers) }
    : { ...response, body: wholeWithout(body, isOthers) };
}

/** JSON in pieces is a list that belongs to a limited role: it is short enough to be held. */
async function* wholeWithout(
  body: AsyncIterable<string | Uint8Array>,
  isOthers: IsOthers,
): AsyncGenerator<string> {
  const pieces: Buffer[] = [];
  for await (const piece of body) pieces.push(Buffer.from(piece as string));
  yield jsonWithout(Buffer.concat(pieces).toString(), isOthers);
}

async function* framesWithout(
  body: AsyncIterable<string | Uint8Array>,
  isOthers: IsOthers,
): AsyncGenerator<string> {
  for await (const frames of body)
    yield String(frames).replace(
      /^data: (.*)$/gm,
      (_, data: string) => `data: ${jsonWithout(data, isOthers).trimEnd()}`,
    );
}

const jsonWithout = (text: string, isOthers: IsOthers): string =>
  `${JSON.stringify(valueWithout(JSON.parse(text), isOthers, false))}\n`;

/** @param naming whether a text without a blank is the name of a machine, and no word of the API */
function valueWithout(value: unknown, isOthers: IsOthers, naming: boolean): unknown {
  if (typeof value === 'string')
    return naming || value.includes(' ')
      ? value.replace(/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/g, (word) => (isOthers(word) ? ANOTHER : word))
      : value;
  if (Array.isArray(value)) return value.map((one) => valueWithout(one, isOthers, naming));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(
    ([key, one]) => [key, valueWithout(one, isOthers, NAMING.has(key))] as const,
  );
  return Object.fromEntries(entries);
}
