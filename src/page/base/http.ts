/** Requests to the API of the server that the page comes from. */
import { signal } from '@preact/signals';
import { type Args, requestOf } from '../../api/contract/request.ts';
import type { Answer, OperationKey } from '../../api/operations.ts';
import type { Fault } from '../../base/errors.ts';
import { pause } from './clock.ts';

/** A problem (RFC 9457) that the API answered with, or that the network caused. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly fix: string;
  readonly faults: readonly Fault[];
  /** Which of the causes of the code it is. */
  readonly reason: string | undefined;
  constructor(about: {
    status: number;
    code: string;
    detail: string;
    fix?: string;
    errors?: readonly Fault[];
    reason?: string;
  }) {
    super(about.detail);
    this.status = about.status;
    this.code = about.code;
    this.fix = about.fix ?? '';
    this.faults = about.errors ?? [];
    this.reason = about.reason;
  }
}

/** Whether the server refused a request because nobody is logged in: the log-in is shown. */
export const loggedOut = signal(false);
/** Why, where a session has ended. */
export const whyLoggedOut = signal<string | undefined>(undefined);
/** Whether what was on the screen waits for the next log-in. */
export const kept = signal(false);

/** Resolves when somebody has logged in again. */
const loggedIn = (stop: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const end = loggedOut.subscribe((out) => {
      if (!out) queueMicrotask(settle);
    });
    const settle = (): void => {
      end();
      resolve();
    };
    stop?.addEventListener('abort', () => {
      end();
      reject(stop.reason as Error);
    });
  });

/** Who is logged in is asked while nobody is. */
const WHO = '/v1/whoami';

export interface Call {
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly json?: unknown;
  readonly text?: { readonly type: string; readonly body: string };
  /** A piece of a file. */
  readonly blob?: Blob;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

function address(path: string, query: Call['query'] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text === '' ? path : `${path}?${text}`;
}

/**
 * Sends a request. What is only read while the session ends is read after the next log-in, so that
 * views stay as they are; an order is given again by the operator alone. What came too often is
 * asked again when the server says.
 *
 * @throws {Problem} when the server refuses, fails, or cannot be reached
 */
export async function request(method: string, path: string, call: Call = {}): Promise<Response> {
  const headers: Record<string, string> = { ...call.headers };
  let body: string | Blob | undefined = call.blob;
  if (call.json !== undefined) {
    headers['content-type'] = 'application/json';
    body = JSON.stringify(call.json);
  } else if (call.text) {
    headers['content-type'] = call.text.type;
    body = call.text.body;
  }
  let response: Response;
  try {
    response = await fetch(address(path, call.query), {
      method,
      headers,
      credentials: 'same-origin',
      ...(body !== undefined && { body }),
      ...(call.signal && { signal: call.signal }),
    });
  } catch (error) {
    if (call.signal?.aborted) throw error;
    throw new Problem({
      status: 0,
      code: 'E_UNREACHABLE',
      detail: 'The boot host does not answer.',
      fix: 'Check the network, and that `muster serve` runs.',
    });
  }
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.code === 'E_READ_LIMIT') {
    await pause(1000 * Number(response.headers.get('retry-after')), call.signal);
    call.signal?.throwIfAborted();
    return request(method, path, call);
  }
  if (problem.code !== 'E_UNAUTHENTICATED') throw problem;
  loggedOut.value = true;
  whyLoggedOut.value = problem.reason && problem.message;
  if (method !== 'GET' || path === WHO || !kept.value) throw problem;
  await loggedIn(call.signal);
  return request(method, path, call);
}

async function problemOf(response: Response): Promise<Problem> {
  const { status } = response;
  const text = await response.text();
  try {
    const { detail, title, ...rest } = JSON.parse(text) as { detail?: string; title: string; code: string };
    return new Problem({ ...rest, status, detail: sentence(detail ?? title) });
  } catch {
    return new Problem({ status, code: '', detail: `The server answered with status ${status}.` });
  }
}

/** Begins a text with a capital letter, unless it begins with a name, path or field. */
const sentence = (text: string): string =>
  /^[a-z]+( |,)/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;

/**
 * Asks for an operation of the API.
 *
 * @throws {Problem} as {@link request}
 * @example
 * await ask('POST /v1/machines/:name/rearm', { params: { name: 'cp1' }, query: { keep: true } });
 */
export const ask = <O extends OperationKey>(operation: O, ...given: Args<O>): Promise<Answer<O>> =>
  askUntil(undefined, operation, ...given);

/** The same; `stop` ends it. */
export async function askUntil<O extends OperationKey>(
  stop: AbortSignal | undefined,
  operation: O,
  ...given: Args<O>
): Promise<Answer<O>> {
  const { method, path, body } = requestOf(operation, ...given);
  const json = method === 'POST' ? (body ?? {}) : body;
  const response = await request(method, path, {
    ...(json !== undefined && { json }),
    ...(stop && { signal: stop }),
  });
  return (await response.json()) as Answer<O>;
}

/** A part of a path, escaped. */
export const part = encodeURIComponent;
