/**
 * Types and helpers of the operators' API, independent of a web framework: requests and responses
 * are values, and a route is a row of a table.
 */
import { bounded } from '../base/bounded.ts';
import { MusterError } from '../base/errors.ts';
import type { PeerCredentials } from '../base/system-calls.socket.ts';
import type { Principal } from './access.ts';
import type { Method, RouteContract } from './contract/contract.ts';

/** A request as handlers get it. */
export interface ApiRequest {
  readonly method: string;
  /** Path parameters by name, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** Header names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The body as it arrives; it can be read once. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Aborts when the client disconnects or the server stops. */
  readonly signal: AbortSignal;
  /** The client process; absent by TCP and with `MUSTER_NATIVE=0`, where it is unknown. */
  readonly peer?: PeerCredentials;
  /** The address of the client; absent on the unix socket. */
  readonly address?: string;
  /** Who asks; absent on the listener for monitoring, where nobody logs in. */
  readonly principal?: Principal;
  /** Why nobody asks, where somebody could have logged in. */
  readonly nobody?: () => MusterError;
  /** The clusters and pools to which the answer is limited; absent: everything. */
  readonly within?: ReadonlySet<string>;
}

/** A response. Its body is a text, or pieces that are sent as they become available. */
export interface ApiResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | AsyncIterable<string | Uint8Array>;
  /**
   * Whether pieces are compressed for clients that take it: for long lists that contain nothing
   * secret, because the length of compressed text says something about it.
   */
  readonly compressible?: boolean;
}

export type Handler<Deps> = (request: ApiRequest, deps: Deps) => ApiResponse | Promise<ApiResponse>;

/**
 * A row of the API's table.
 */
export interface Route<Deps> extends RouteContract {
  readonly method: Method;
  /** `:name` is a parameter: one path segment. */
  readonly path: string;
  /** The server rehearses it when it is asked for `dryRun`. */
  readonly rehearsed?: true;
  readonly handler: Handler<Deps>;
}

/** Makes a JSON answer. It ends with a line break, because people read it with curl. */
export function json(
  value: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): ApiResponse {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: `${JSON.stringify(value)}\n`,
  };
}

/** Makes a text answer. */
export function text(value: string, contentType = 'text/plain; charset=utf-8', status = 200): ApiResponse {
  return { status, headers: { 'content-type': contentType }, body: value };
}

/** Limit of bodies with documents; thousands of machines fit. Assets are not limited by it. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;

/**
 * Reads the whole body.
 *
 * @throws {MusterError} E_TOO_LARGE for a body of more than `limit` octets (the rest is not read)
 */
export async function readOctets(request: Pick<ApiRequest, 'body'>, limit: number): Promise<Buffer> {
  const octets = await bounded(request.body, limit);
  if (octets === undefined) throw new MusterError('E_TOO_LARGE', `the body is larger than ${limit} octets`);
  return octets;
}

/**
 * Reads the whole body as UTF-8 text.
 *
 * @throws {MusterError} E_TOO_LARGE for a body of more than `limit` octets (the rest is not read);
 * E_USAGE when it is not UTF-8
 */
export async function readText(request: Pick<ApiRequest, 'body'>, limit = MAX_BODY_BYTES): Promise<string> {
  const octets = await readOctets(request, limit);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(octets);
  } catch (cause) {
    throw new MusterError('E_USAGE', 'the body is not UTF-8 text', { cause });
  }
}

/**
 * Reads a query parameter that is a switch. It is on when it has no value, `true` or `1`; it is off
 * when it is absent, `false` or `0`.
 *
 * @throws {MusterError} E_USAGE for another value
 */
export function flag(query: URLSearchParams, name: string): boolean {
  const value = query.get(name);
  if (value === null || value === 'false' || value === '0') return false;
  if (value === '' || value === 'true' || value === '1') return true;
  throw new MusterError('E_USAGE', `${name} must be true or false, not "${value}"`);
}
