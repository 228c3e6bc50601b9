/** Lists of documents: which items a request asks for, and their JSON, batch by batch. Pure. */
import { MusterError } from '../base/errors.ts';
import { API_VERSION, type Kind } from '../resources/kinds.ts';
import type { Part } from './contract/contract.ts';
import { byFields, byLabels } from './selectors.ts';

/** Which items of a list are wanted. */
export interface Wanted<T> {
  readonly fits: (item: T) => boolean;
  /** The most items of one answer. */
  readonly limit: number;
  /** Only items whose names come after this one. */
  readonly after: string;
}

/** @throws {MusterError} E_USAGE for a malformed selector or limit */
export function wantedOf<T extends Parameters<ReturnType<typeof byLabels>>[0]>(query: Part): Wanted<T> {
  const labels = byLabels(query.labels, 'labels');
  const fields = byFields(query.fields, 'fields');
  return {
    fits: (item) => labels(item) && fields(item),
    ...rangeOf(query),
  };
}

/** How many items a request asks for, and after which one. */
const rangeOf = (query: Part) => ({
  limit: query.limit ?? Number.POSITIVE_INFINITY,
  after: query.continue ?? '',
});

type Labels = Readonly<Record<string, string>>;

/**
 * The part of a short list that a request asks for, with `continue` when there is more. The list
 * keeps its order.
 *
 * @param key differs from item to item
 * @param labels of an item; absent for lists whose contract has no parameter `labels`
 * @throws {MusterError} E_USAGE for a malformed selector or limit; E_CONFLICT when the item after
 *   which the list continues is gone
 */
export function partOf<T extends object>(
  query: Part,
  items: readonly T[],
  key: (item: T) => string,
  labels: (item: T) => Labels | undefined = () => undefined,
): { readonly items: readonly T[]; readonly continue?: string } {
  const { limit, after } = rangeOf(query);
  const labelled = byLabels(query.labels, 'labels');
  const fields = byFields(query.fields, 'fields');
  const last = after === '' ? -1 : items.findIndex((item) => key(item) === after);
  if (after !== '' && last < 0)
    throw new MusterError(
      'E_CONFLICT',
      `continue=${after}: the list has no such item any more; list it again`,
    );
  const rest = items.slice(last + 1);
  const fitting = rest.filter((item) => labelled({ metadata: { labels: labels(item) } }) && fields(item));
  const taken = fitting.slice(0, limit);
  const end = taken.at(-1);
  return {
    items: taken,
    ...(taken.length < fitting.length && { continue: end === undefined ? after : key(end) }),
  };
}

/**
 * Items that are formatted without a pause. Between batches other work runs, so that a list of ten
 * thousand machines does not delay DHCP packets.
 */
const LIST_BATCH = 100;

/**
 * Formats a list as JSON. An item that changes meanwhile is shown as it is when its batch is
 * formatted. When the limit is reached before the end, `continue` is the name of the last item.
 *
 * @param names sorted
 */
export async function* listText<T>(
  kind: Kind,
  names: readonly string[],
  show: (name: string) => T | undefined,
  { fits, limit, after }: Wanted<T>,
): AsyncGenerator<string> {
  const rest = after === '' ? names : names.filter((name) => name > after);
  yield `{"apiVersion":"${API_VERSION}","kind":"${kind}List","items":[`;
  let between = '';
  let left = limit;
  let last = '';
  for (let from = 0; from < rest.length && left > 0; from += LIST_BATCH) {
    const items: string[] = [];
    for (const name of rest.slice(from, from + LIST_BATCH)) {
      if (left === 0) break;
      const item = show(name);
      last = name;
      if (item === undefined || !fits(item)) continue;
      items.push(JSON.stringify(item));
      left--;
    }
    if (items.length === 0) {
      yield '';
      continue;
    }
    yield between + items.join(',');
    between = ',';
  }
  const more = last !== rest.at(-1) && rest.length > 0;
  yield more ? `],"continue":${JSON.stringify(last || after)}}\n` : ']}\n';
}
