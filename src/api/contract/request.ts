/** Requests of the typed client: path, query and body. Pure and small, because the page has it. */
import type { Body, OperationKey, Params, Query } from '../operations.ts';

type Needed<Key extends string, T> = [T] extends [never]
  ? { readonly [K in Key]?: undefined }
  : Record<string, never> extends T
    ? { readonly [K in Key]?: T }
    : { readonly [K in Key]: T };

/** What an operation needs besides its name. */
export type Given<O extends OperationKey> = Needed<'params', Params<O>> &
  Needed<'query', Query<O>> &
  Needed<'body', Body<O>>;

/** `[]` where everything that the operation takes may be left out. */
export type Args<O extends OperationKey> = Record<string, never> extends Given<O> ? [Given<O>?] : [Given<O>];

export interface ClientRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
}

/**
 * Makes the request of an operation.
 *
 * @example
 * requestOf('GET /v1/machines/:name/plan', { params: { name: 'cp1' } });
 * // { method: 'GET', path: '/v1/machines/cp1/plan' }
 */
export function requestOf<O extends OperationKey>(operation: O, ...[given]: Args<O>): ClientRequest {
  const {
    params = {},
    query = {},
    body,
  } = (given ?? {}) as {
    params?: Readonly<Record<string, string>>;
    query?: Readonly<Record<string, string | number | boolean | undefined>>;
    body?: unknown;
  };
  const [method = '', pattern = ''] = operation.split(' ');
  const path = pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  );
  const text = pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`;
  return { method, path: path + text, ...(body !== undefined && { body }) };
}
