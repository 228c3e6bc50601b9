/** Converts errors to problem details (RFC 9457) with the stable code and all faults, and back. */
import { ERRORS, type ErrorCode, type Fault, MusterError } from '../base/errors.ts';
import type { ApiResponse } from './handler.ts';

const PROBLEM_TYPE = 'application/problem+json';

/** The members of RFC 9457 section 3.1, and `code`, `fix`, `errors`, `reason` of Muster. */
interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  /** What to do about it. */
  readonly fix: string;
  /** All faults, each with its code, path and place. */
  readonly errors: readonly Fault[];
  /** Which of the causes of `code` it is. */
  readonly reason?: string;
}

/**
 * Converts an error to a problem. An unexpected error becomes E_INTERNAL without its text, which
 * only the log gets.
 */
export function problemOf(error: unknown, status?: number): Problem {
  const known =
    error instanceof MusterError
      ? error
      : new MusterError('E_INTERNAL', 'the server failed; its log has the details');
  const kind = ERRORS[known.code];
  return {
    type: `urn:muster:error:${known.code}`,
    title: kind.title,
    status: status ?? kind.http,
    detail: known.message,
    code: known.code,
    fix: kind.fix,
    errors: known.faults,
    ...(known.reason !== undefined && { reason: known.reason }),
  };
}

/** The header that says when the request may succeed. */
export const retryOf = (error: unknown): Readonly<Record<string, string>> =>
  error instanceof MusterError && error.retryAfterSeconds !== undefined
    ? { 'retry-after': String(error.retryAfterSeconds) }
    : {};

/** Makes the answer with a problem; one with status 503 asks the client to retry. */
export function problemResponse(
  problem: Problem,
  headers: Readonly<Record<string, string>> = {},
): ApiResponse {
  const retry: Record<string, string> = problem.status === 503 ? { 'retry-after': '1' } : {};
  return {
    status: problem.status,
    headers: { 'content-type': PROBLEM_TYPE, ...retry, ...headers },
    body: `${JSON.stringify(problem)}\n`,
  };
}

/** Converts the body of a problem back to its error; undefined when it is not a problem. */
export function errorOfProblem(body: string): MusterError | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return undefined;
  }
  const problem = value as Partial<Problem> | null;
  if (typeof problem !== 'object' || problem === null || typeof problem.code !== 'string') return undefined;
  if (!Object.hasOwn(ERRORS, problem.code) || typeof problem.detail !== 'string') return undefined;
  return new MusterError(problem.code as ErrorCode, problem.detail, {
    ...(Array.isArray(problem.errors) && { faults: problem.errors }),
    ...(typeof problem.reason === 'string' && { reason: problem.reason }),
  });
}
