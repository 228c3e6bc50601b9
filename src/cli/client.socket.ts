/** The command line's side of the API: HTTP over the server's unix socket. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorOfProblem } from '../api/problem.ts';
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';

// Not by import, which looks at every export of the module: one of them makes Node load a client of
// WebSockets, a third of the time that a short command takes.
const http = process.getBuiltinModule('node:http');

export interface CallOptions {
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text, a value (sent as JSON), or octets as they come. */
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | { readonly json: unknown };
  readonly signal?: AbortSignal;
}

export interface ApiClient {
  /**
   * The body of the answer, parsed when it is JSON. Throws what the server's problem says (with its
   * code and faults); E_UNREACHABLE when nobody answers, E_PERMISSION when this user may not open
   * the socket.
   */
  call<T>(method: string, path: string, options?: CallOptions): Promise<T>;
  /** Pieces of the answer's body as text, as they come; errors as in {@link call}. */
  stream(path: string, options?: CallOptions): AsyncIterable<string>;
}

/**
 * Until the next look at something that changes by itself; the process lives on meanwhile. Ends
 * early with `signal`.
 */
export const pause = (span: Millis, signal: AbortSignal): Promise<void> =>
  sleep(span, undefined, { signal }).catch(() => undefined);

/** A client of the server on `socketPath`; one connection a call. */
export function connectApi(socketPath: string): ApiClient {
  const open = (method: string, path: string, options: CallOptions): Promise<IncomingMessage> => {
    const { body, headers } = encode(options);
    return new Promise((resolve, reject) => {
      const request = http.request({
        socketPath,
        method,
        path: path + queryText(options.query),
        headers: { ...headers, ...options.headers },
        ...(options.signal ? { signal: options.signal } : {}),
      });
      request.once('response', resolve);
      request.once('error', (error: NodeJS.ErrnoException) => reject(connectionError(error, socketPath)));
      if (body instanceof Readable) {
        body.once('error', (error) => {
          // half a body must not pass for the whole, and the server must not wait for the rest
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
        `what answers on ${socketPath} is not Muster (status ${response.statusCode})`,
      )
    );
  };
  return {
    async call<T>(method: string, path: string, options: CallOptions = {}) {
      const response = await open(method, path, options);
      if ((response.statusCode ?? 500) >= 400) return failed(response);
      const body = await textOf(response);
      return (
        response.headers['content-type']?.startsWith('application/json') ? JSON.parse(body) : body
      ) as T;
    },
    async *stream(path, options = {}) {
      const response = await open('GET', path, options);
      if ((response.statusCode ?? 500) >= 400) await failed(response);
      response.setEncoding('utf8');
      try {
        for await (const piece of response) yield piece as string;
      } catch (error) {
        if (options.signal?.aborted) return;
        throw connectionError(error as NodeJS.ErrnoException, socketPath);
      }
    },
  };
}

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

function connectionError(error: NodeJS.ErrnoException, socketPath: string): Error {
  switch (error.code) {
    case 'ENOENT':
    case 'ECONNREFUSED':
      return new MusterError(
        'E_UNREACHABLE',
        `no server answers on ${socketPath}; is \`muster serve\` running?`,
        {
          cause: error,
        },
      );
    case 'EACCES':
    case 'EPERM':
      return new MusterError(
        'E_PERMISSION',
        `you may not open ${socketPath}: you are neither root nor in group muster`,
        { cause: error },
      );
    case 'ECONNRESET':
    case 'EPIPE':
      return new MusterError('E_UNREACHABLE', `the server on ${socketPath} ended while it answered`, {
        cause: error,
      });
    default:
      return error;
  }
}
