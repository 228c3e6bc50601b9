/** Asks the REST API of NetBox. */
import { z } from 'zod';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { inParts } from '../../base/parts.ts';
import { byProxy, fetchOutside } from '../outside.socket.ts';
import { type NetboxDevice, type NetboxInterface, netboxDevice, netboxInterface } from './netbox.ts';

/** How many items one answer may have; NetBox answers with fewer where its own limit is lower. */
const PAGE = 500;
/** Devices in one question about interfaces: their numbers are in the URL. */
const DEVICES = 100;
/** The most items of a list. A site has fewer; a loop over pages has to end. */
const MOST = 1_000_000;

interface Source {
  /** Where NetBox is, such as `https://netbox.example`. */
  readonly url: string;
  readonly token: string;
  readonly signal: AbortSignal;
}

/**
 * All devices that a query of NetBox selects, with their interfaces.
 *
 * @param filter as in NetBox's own lists, such as `site=ams1&role=server`
 * @throws {MusterError} E_FETCH_REFUSED when NetBox does not answer or refuses; E_FETCH when it
 *   answers with something else
 */
export async function readNetbox(
  source: Source,
  filter: string,
): Promise<{ readonly devices: readonly NetboxDevice[]; readonly interfaces: readonly NetboxInterface[] }> {
  const devices = await list(source, 'dcim/devices', new URLSearchParams(filter), netboxDevice);
  const interfaces: NetboxInterface[] = [];
  for (const part of inParts(devices, DEVICES)) {
    const query = new URLSearchParams(part.map(({ id }) => ['device_id', String(id)]));
    interfaces.push(...(await list(source, 'dcim/interfaces', query, netboxInterface)));
  }
  return { devices, interfaces };
}

/** All items of a list, page by page. The address of the next page is not taken from the answer. */
async function list<T extends z.ZodType>(
  source: Source,
  path: string,
  query: URLSearchParams,
  item: T,
): Promise<readonly z.output<T>[]> {
  const answer = z.looseObject({ count: z.int(), results: z.array(item) });
  const items: z.output<T>[] = [];
  while (items.length < MOST) {
    const asked = new URLSearchParams(query);
    asked.set('limit', String(PAGE));
    asked.set('offset', String(items.length));
    const url = new URL(`api/${path}/?${asked}`, source.url.endsWith('/') ? source.url : `${source.url}/`);
    const { count, results } = read(answer, await ask(url, source), url);
    items.push(...results);
    if (items.length >= count || results.length === 0) return items;
  }
  throw new MusterError('E_FETCH', `${source.url}: its list ${path} does not end; select with --filter`);
}

function read<T extends z.ZodType>(schema: T, value: unknown, url: URL): z.output<T> {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const [issue] = error.issues;
  throw new MusterError(
    'E_FETCH',
    `${url.origin}${url.pathname}: not an answer of NetBox: ${issue?.path.join('.')}: ${issue?.message}`,
  );
}

/** Tokens of version 2 name themselves. */
const authorization = (token: string): string =>
  token.startsWith('nbt_') ? `Bearer ${token}` : `Token ${token}`;

async function ask(url: URL, { token, signal }: Source): Promise<unknown> {
  const at = `${url.origin}${url.pathname}`;
  const failed = (why: string, cause?: unknown): MusterError =>
    new MusterError('E_FETCH_REFUSED', `${at}: ${why}`, cause === undefined ? {} : { cause });
  let response: Response;
  try {
    response = await fetchOutside(url, {
      headers: { accept: 'application/json', authorization: authorization(token) },
      signal,
      // A token goes to nobody whom the operator did not name.
      redirect: 'manual',
    });
  } catch (cause) {
    const why = (cause as { readonly cause?: unknown }).cause ?? cause;
    throw failed(`${messageOf(why)}${byProxy(url.href)}`, cause);
  }
  if (response.status >= 300 && response.status < 400)
    throw failed(`it answers from ${response.headers.get('location')}; name that address`);
  if (response.status === 401 || response.status === 403)
    throw failed(`NetBox refuses the token (${response.status}); it needs the right to view devices`);
  if (!response.ok) throw failed(`status ${response.status}: ${(await response.text()).slice(0, 200)}`);
  try {
    return await response.json();
  } catch (cause) {
    throw failed('the answer is no JSON; is this NetBox?', cause);
  }
}
