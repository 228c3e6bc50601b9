/** The client of the server's API: HTTP over the server's unix socket, or HTTPS after a log-in. */
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Args, requestOf } from '../api/contract/request.ts';
import type { Answer, OperationKey } from '../api/operations.ts';
import { errorOfProblem } from '../api/problem.ts';
import { duration, type Millis, parseDuration, spanText } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { type Io, socketPath } from './io.ts';
import { type Context, currentContext } from './login/contexts.files.ts';

// An import of node:http would read all of its exports, and one of them makes Node load its
// WebSocket client, which takes a third of the time of a short command.
const http = process.getBuiltinModule('node:http');

export interface CallOptions {
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text, a value (sent as JSON), or octets that are sent as they arrive. */
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | { readonly json: unknown };
  readonly signal?: AbortSignal;
  /** Set for calls that work before they answer: they may take minutes. */
  readonly works?: true;
}

/** What a request of an operation may have besides what its contract names. */
export type AskOptions = Pick<CallOptions, 'headers' | 'signal' | 'works'> & {
  /** The body of an operation that takes something else than JSON. */
  readonly content?: string | Uint8Array | AsyncIterable<Uint8Array>;
};

export interface ApiClient {
  /**
   * Asks for an operation of the table of contracts: the compiler checks its path, query and body,
   * and knows its answer. Throws the errors of {@link call}.
   *
   * @example
   * const { items } = await client.ask('GET /v1/leases', { query: { network: 'lan' } });
   */
  ask<O extends OperationKey>(operation: O, ...given: [...Args<O>, AskOptions?]): Promise<Answer<O>>;
  /**
   * Returns the body of the answer, parsed when it is JSON.
   *
   * @throws {MusterError} the server's error with its code and faults; E_UNREACHABLE when nothing
   *   answers in time; E_PERMISSION when this user may not open the socket.
   */
  call<T>(method: string, path: string, options?: CallOptions): Promise<T>;
  /** Yields the answer's body as text, as it arrives. Throws the errors of {@link call}. */
  stream(path: string, options?: CallOptions): AsyncIterable<string>;
  /** Yields the octets of the answer's body, as they arrive. Throws the errors of {@link call}. */
  download(method: string, path: string, options?: CallOptions): AsyncIterable<Uint8Array>;
}

/** Where a server is: its socket on this host, or its address and what is known of it. */
export type Target = string | Pick<Context, 'url' | 'authority' | 'session' | 'certificate' | 'key'>;

/** The options of every verb that calls the server. */
export interface ServerOptions {
  /** The path of the server's socket; `socketPath` has the default. */
  readonly socket?: string;
  /** How long the server may take to begin its answer, such as `90s`. */
  readonly timeout?: string;
}

/** How long the server may take to accept a request and to begin its answer. */
const FIRST_BYTE = duration('30s');
/**
 * The same limit for calls that work before they answer: probes of a cluster, or hashing gigabytes
 * again. It ends commands that nobody watches; an operator who watches can press Ctrl-C.
 */
const FIRST_BYTE_OF_WORK = duration('15m');

/**
 * Waits for `span`, or until `signal` aborts. The process stays alive meanwhile.
 */
export const pause = (span: Millis, signal: AbortSignal): Promise<void> =>
  sleep(span, undefined, { signal }).catch(() => undefined);

/**
 * Makes a client of the server that the options of a verb name. All of its calls end when the
 * process gets a signal.
 *
 * @throws {MusterError} E_USAGE when `--timeout` is not a duration.
 */
export function openClient(options: ServerOptions, io: Pick<Io, 'env' | 'signal'>): ApiClient {
  const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout);
  if (options.timeout !== undefined && !timeout)
    throw new MusterError('E_USAGE', `--timeout ${options.timeout}: write a duration, such as 90s or 5m`);
  const remote = options.socket === undefined ? currentContext(io.env) : undefined;
  return connectApi(remote ?? socketPath(options.socket, io.env), {
    signal: io.signal,
    waits: true,
    ...(timeout === undefined ? {} : { timeout }),
  });
}

/**
 * Makes a client of the server on `target`, with one connection for each call. `timeout` limits the
 * time to the first byte of every answer, even where a call sets no limit; `signal` ends every
 * call. With `waits`, a request that came too often is sent again when the server says.
 */
export function connectApi(
  target: Target,
  {
    timeout,
    signal: stop,
    waits = false,
  }: { readonly timeout?: Millis; readonly signal?: AbortSignal; readonly waits?: boolean } = {},
): ApiClient {
  const place = typeof target === 'string' ? target : target.url;
  const open = async (method: string, path: string, options: CallOptions): Promise<IncomingMessage> => {
    const response = await send(method, path, options);
    if (response.statusCode !== 429) return response;
    const seconds = Number(response.headers['retry-after']);
    const error = await failed(response).catch((thrown: unknown) => thrown);
    // What was read of a file is not there any more.
    const again = waits && seconds > 0 && !isStreamed(options);
    if (!again || !(error instanceof MusterError) || error.code !== 'E_READ_LIMIT') throw error;
    await sleep(1000 * seconds, undefined, stop && { signal: stop });
    return open(method, path, options);
  };
  const send = (method: string, path: string, options: CallOptions): Promise<IncomingMessage> => {
    const { body, headers } = encode(options);
    const limit = timeout ?? (options.works ? FIRST_BYTE_OF_WORK : FIRST_BYTE);
    const signals = [stop, options.signal].filter((one) => one !== undefined);
    return new Promise((resolve, reject) => {
      const request = requestTo(target, {
        method,
        path: path + queryText(options.query),
        headers: { ...headers, ...options.headers },
        ...(signals.length > 0 ? { signal: AbortSignal.any(signals) } : {}),
      });
      const late = (): void => {
        const error = new MusterError(
          'E_UNREACHABLE',
          `the server on ${place} did not answer within ${spanText(limit)}; it may hang: look at its log, or wait longer with --timeout`,
        );
        request.destroy(error);
      };
      let timer = setTimeout(late, limit);
      request.once('close', () => clearTimeout(timer));
      request.once('response', (response) => {
        clearTimeout(timer);
        resolve(response);
      });
      request.once('error', (error: NodeJS.ErrnoException) => reject(connectionError(error, place)));
      if (body instanceof Readable) {
        // While a file is being sent, the limit applies to each piece.
        body.on('data', () => {
          clearTimeout(timer);
          timer = setTimeout(late, limit);
        });
        body.once('error', (error) => {
          // Half a body must not be taken for the whole, and the server must not wait for the rest.
          request.destroy();
          reject(error);
        });
        body.pipe(request);
      } else request.end(body);
    });
  };
  const failed = async (response: IncomingMessage): Promise<never> => {
    const body = await textOf(response);
    throw (
      errorOfProblem(body) ??
      new MusterError(
        'E_UNREACHABLE',
        `what answers on ${place} is not Muster (status ${response.statusCode})`,
      )
    );
  };
  const call = async <T>(method: string, path: string, options: CallOptions = {}): Promise<T> => {
    const response = await open(method, path, options);
    if ((response.statusCode ?? 500) >= 400) return failed(response);
    const body = await textOf(response);
    return (response.headers['content-type']?.startsWith('application/json') ? JSON.parse(body) : body) as T;
  };
  return {
    call,
    ask: async (operation, ...given) => {
      const [taken, { content, ...options } = {}] = given as unknown as [object?, AskOptions?];
      const { method, path, body } = requestOf(operation, ...([taken] as never));
      const sent = content ?? (body === undefined ? undefined : { json: body });
      return call(method, path, { ...options, ...(sent !== undefined && { body: sent }) });
    },
    async *download(method, path, options = {}) {
      const response = await open(method, path, options);
      if ((response.statusCode ?? 500) >= 400) await failed(response);
      try {
        for await (const piece of response) yield piece as Uint8Array;
      } catch (error) {
        throw connectionError(error as NodeJS.ErrnoException, place);
      }
    },
    async *stream(path, options = {}) {
      const response = await open('GET', path, options);
      if ((response.statusCode ?? 500) >= 400) await failed(response);
      response.setEncoding('utf8');
      try {
        for await (const piece of response) yield piece as string;
      } catch (error) {
        if (options.signal?.aborted || stop?.aborted) return;
        throw connectionError(error as NodeJS.ErrnoException, place);
      }
    },
  };
}

function requestTo(target: Target, options: RequestOptions): ClientRequest {
  // A kept connection would have ended meanwhile, where a command works for seconds in between.
  if (typeof target === 'string') return http.request({ ...options, socketPath: target, agent: false });
  const { url, authority, session, certificate, key } = target;
  const { hostname, port } = new URL(url);
  return process.getBuiltinModule('node:https').request({
    ...options,
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 443 : Number(port),
    headers: {
      ...(options.headers as Record<string, string>),
      ...(session === undefined ? {} : { authorization: `Bearer ${session}` }),
    },
    ...(authority === undefined ? {} : { ca: authority }),
    ...(certificate === undefined || key === undefined
      ? {}
      : { cert: readOwn(certificate), key: readOwn(key) }),
    agent: false,
  });
}

/** @throws {MusterError} E_UNREADABLE */
function readOwn(file: string): string {
  try {
    return process.getBuiltinModule('node:fs').readFileSync(file, 'utf8');
  } catch (cause) {
    throw new MusterError('E_UNREADABLE', `${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

const isStreamed = ({ body }: CallOptions): boolean =>
  typeof body === 'object' && Symbol.asyncIterator in body;

function encode(options: CallOptions): {
  body: string | Uint8Array | Readable | undefined;
  headers: Record<string, string>;
} {
  const { body } = options;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array)
    return { body, headers: {} };
  if (Symbol.asyncIterator in body) return { body: Readable.from(body, { objectMode: false }), headers: {} };
  return { body: JSON.stringify(body.json), headers: { 'content-type': 'application/json' } };
}

function queryText(query: CallOptions['query'] = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return given.length > 0 ? `?${new URLSearchParams(given)}` : '';
}

async function textOf(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return Buffer.concat(parts).toString('utf8');
}

function connectionError(error: NodeJS.ErrnoException, place: string): Error {
  if (/CERT|SELF_SIGNED|ALTNAME|UNABLE_TO_/.test(error.code ?? ''))
    return new MusterError(
      'E_UNREACHABLE',
      `the certificate of ${place} is not trusted: ${error.message}; run \`muster login ${place}\` again`,
      { cause: error },
    );
  switch (error.code) {
    case 'ENOENT':
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
      return new MusterError(
        'E_UNREACHABLE',
        place.startsWith('https:')
          ? `no server answers on ${place}: ${error.message}`
          : `no server answers on ${place}; is \`muster serve\` running? --socket names another socket`,
        { cause: error },
      );
    case 'EACCES':
    case 'EPERM':
      return new MusterError(
        'E_PERMISSION',
        `you may not open ${place}: you are neither root nor in group muster`,
        { cause: error },
      );
    case 'ECONNRESET':
    case 'EPIPE':
      return new MusterError('E_UNREACHABLE', `the server on ${place} ended while it answered`, {
        cause: error,
      });
    default:
      return error;
  }
}
