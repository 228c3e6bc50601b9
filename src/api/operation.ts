/**
 * An operation of the operators' API: what it takes and answers, as data, and what it does. The
 * server reads query and body by their schemas before it calls; what does not fit is refused with
 * the path of each field.
 */
import { z } from 'zod';
import { type Fault, MusterError } from '../base/errors.ts';
import { misfits } from '../resources/document.ts';
import {
  type Answerable,
  isRehearsed,
  type Method,
  type Params,
  type Parsed,
  type RouteContract,
  type RouteKey,
  rehearsed,
} from './contract/contract.ts';
import { checkQuery } from './contract/query.ts';
import { type ApiRequest, type ApiResponse, json, type Route, readText } from './handler.ts';

type Output<C, K extends string, Absent> =
  C extends Readonly<Record<K, infer S extends z.ZodType>> ? Parsed<z.output<S>> : Absent;

/** The body of an operation: its JSON; with `rawBody` what arrives, or one of both. */
type BodyOf<C> = C extends { readonly rawBody: unknown }
  ? C extends { readonly body: infer S extends z.ZodType }
    ? { readonly json: Parsed<z.output<S>> } | { readonly text: string }
    : AsyncIterable<Uint8Array>
  : Output<C, 'body', undefined>;

/** A request as an operation gets it. */
export interface Asked<K extends RouteKey, C> extends Omit<ApiRequest, 'params' | 'query' | 'body'> {
  /** The parameters of the path, decoded. */
  readonly params: Params<K>;
  readonly query: Output<C, 'query', Readonly<Record<string, never>>>;
  readonly body: BodyOf<C>;
}

/** What the answer of an operation may be made of. */
type AnswerOf<C> = C extends { readonly answer: infer S extends z.ZodType } ? Answerable<z.input<S>> : never;

/**
 * A row of the API's table.
 *
 * `Deps` are the parts of other rooms that it uses, which `src/wiring` brings.
 */
export interface Operation<K extends RouteKey, C extends RouteContract, Deps> extends Route<Deps> {
  readonly key: K;
  readonly contract: C;
}

/**
 * Makes an operation.
 *
 * @param key `METHOD /path`; `:name` is a parameter
 * @param does returns the JSON of the answer, or a response where there is more to say: a status, a
 *   header, a stream
 * @example
 * operation(
 *   'GET /v1/networks/:name/version',
 *   {
 *     access: 'view',
 *     summary: 'Shows the version of a network.',
 *     answer: z.strictObject({ version: z.string() }),
 *   },
 *   ({ params }, { daemon }: { daemon: Daemon }) => ({ version: daemon.versionOf(params.name) }),
 * );
 */
export function operation<const K extends RouteKey, const C extends RouteContract, Deps>(
  key: K,
  contract: C,
  does: (asked: Asked<K, C>, deps: Deps) => Response<AnswerOf<C>> | Promise<Response<AnswerOf<C>>>,
): Operation<K, C, Deps> {
  const [method, path] = key.split(' ') as [Method, string];
  const whole = isRehearsed(method, contract)
    ? { ...contract, query: rehearsed(contract), rehearsed: true as const }
    : contract;
  return {
    ...whole,
    key,
    contract,
    method,
    path,
    handler: async (request, deps) => {
      const query = readQuery(whole.query, request.query);
      const body = await readBody(contract, request);
      const answer = await does({ ...request, query, body } as Asked<K, C>, deps);
      return answer instanceof Reply ? answer : json(answer);
    },
  };
}

/** A response that is more than JSON with status 200. */
export class Reply<T> implements ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | AsyncIterable<string | Uint8Array>;
  readonly compressible?: boolean;
  declare readonly of: T;

  constructor({ status, headers = {}, body, compressible }: ApiResponse) {
    this.status = status;
    this.headers = headers;
    if (body !== undefined) this.body = body;
    if (compressible) this.compressible = true;
  }
}

type Response<T> = T | Reply<T>;

/** A JSON answer with another status or headers. */
export const reply = <T>(value: T, status = 200, headers: Readonly<Record<string, string>> = {}): Reply<T> =>
  new Reply(json(value, status, headers));

/** An answer that is not JSON, or JSON in pieces. */
export const raw = (response: ApiResponse): Reply<never> => new Reply(response);

/** What may be in a body before anybody has logged in. */
const OPEN_LIMIT = 16 * 1024;

/**
 * Reads the query by its schema: switches are on with no value, `true` or `1`.
 *
 * @throws {MusterError} E_USAGE with a fault for each parameter that is unknown or does not fit
 */
export function readQuery(schema: z.ZodObject | undefined, query: URLSearchParams): unknown {
  checkQuery(schema, query);
  const given = Object.fromEntries(
    [...query].map(([name, text]) => [
      name,
      readParameter(schema?.shape[name] as z.ZodType | undefined, text),
    ]),
  );
  return schema === undefined ? {} : fitting(schema, given, 'the query');
}

/** A parameter as the schema has it; a text that is no such value is left to the schema. */
function readParameter(schema: z.ZodType | undefined, text: string): unknown {
  let inner = schema;
  while (inner instanceof z.ZodOptional || inner instanceof z.ZodDefault) inner = inner.unwrap() as z.ZodType;
  if (inner instanceof z.ZodBoolean)
    return text === '' || text === 'true' || text === '1'
      ? true
      : text === 'false' || text === '0'
        ? false
        : text;
  if (inner instanceof z.ZodNumber) return /^[0-9]{1,16}$/.test(text) ? Number(text) : text;
  return text;
}

/**
 * Reads the body by its schema. Without a body, the schema decides about an empty object.
 *
 * @throws {MusterError} E_USAGE for what is no JSON or does not fit; E_TOO_LARGE
 */
async function readBody({ body, rawBody, access }: RouteContract, request: ApiRequest): Promise<unknown> {
  if (body === undefined) return rawBody === undefined ? undefined : request.body;
  const text = await readText(request, access === 'open' ? OPEN_LIMIT : undefined);
  if (rawBody === undefined) return fitting(body, jsonOf(text), 'the body');
  if (!request.headers['content-type']?.startsWith('application/json')) return { text };
  const value = jsonOf(text);
  // Another JSON is the raw body: documents may be JSON as well.
  const names = Object.keys((body as z.ZodObject).shape);
  return names.some((name) => Object.hasOwn(value as object, name))
    ? { json: fitting(body, value, 'the body') }
    : { text };
}

function jsonOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch (cause) {
    // V8's message shows a part of the text, which may be a password.
    throw new MusterError('E_USAGE', 'the body is not JSON', { cause });
  }
}

function fitting<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const faults: Fault[] = misfits(read.error, schema, value).map(({ message, path }) => ({
    code: 'E_USAGE',
    message,
    ...(path !== '' && { path }),
  }));
  const [first] = faults;
  const rest = faults.length > 1 ? `, and ${faults.length - 1} more` : '';
  const where = first?.path === undefined ? what : `${what}, ${first.path}`;
  throw new MusterError('E_USAGE', `${where}: ${first?.message}${rest}`, { faults });
}
