/**
 * Errors as RFC 9457 problem details: one shape for every failure, with our stable code and every
 * fault.
 */
import { ERRORS, type ErrorCode, type Fault, MusterError } from '../base/errors.ts';
import type { ApiResponse } from './handler.ts';

const PROBLEM_TYPE = 'application/problem+json';

/** RFC 9457 §3.1 members, then ours. */
interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  /** What to do. */
  readonly fix: string;
  /** Each fault with its code, path and place. */
  readonly errors: readonly Fault[];
}

/**
 * The problem that an error is. What was not thrown on purpose becomes E_INTERNAL without its text:
 * that is for the log.
 */
export function problemOf(error: unknown, status?: number): Problem {
  const known =
    error instanceof MusterError
      ? error
      : new MusterError('E_INTERNAL', 'the server failed; its log has the particulars');
  const kind = ERRORS[known.code];
  return {
    type: `urn:muster:error:${known.code}`,
    title: kind.title,
    status: status ?? kind.http,
    detail: known.message,
    code: known.code,
    fix: kind.fix,
    errors: known.faults,
  };
}

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

/**
 * Reads a problem that a server sent back into the error that it was; undefined when the text is
 * not one.
 */
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
  return new MusterError(
    problem.code as ErrorCode,
    problem.detail,
    Array.isArray(problem.errors) ? { faults: problem.errors } : {},
  );
}
