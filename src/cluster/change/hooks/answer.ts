/** What a hook is sent and what its answer means. Pure. */
import { fieldsOf, parsed, textOf } from '../../../base/foreign-json.ts';
import type { Answered } from '../../../base/post.socket.ts';
import { printable } from '../../../machines/identity.ts';
import type { HookTime } from '../../../resources/hook-spec.ts';

/** The JSON object that a hook is sent. */
export interface Question {
  readonly cluster: string;
  readonly machine: string;
  /** The name of its Node; null: it has none, as a member of etcd alone. */
  readonly node: string | null;
  /** `upgrade` or `roll`. */
  readonly operation: string;
  /** The id of the change. */
  readonly change: string;
  readonly step: string;
  readonly when: HookTime;
  readonly hook: string;
  /** How often the hooks were asked in this turn, with this time. */
  readonly attempt: number;
  /** When they were asked first in this turn, RFC 3339. */
  readonly since: string;
}

export interface HookAnswer {
  /** Only `pass` lets the change continue; `fail` ends the questions. */
  readonly result: 'pass' | 'wait' | 'fail';
  /** One line, without control characters. */
  readonly reason: string;
  /** The hook's wish when it is asked again, in seconds. */
  readonly retryAfter?: number;
}

/** The most octets that an answer may have. */
export const ANSWER_LIMIT = 16 * 1024;
const REASON_LENGTH = 200;

/**
 * Whatever is not clearly an answer means that the machine waits: a hook that is broken, or cannot
 * be reached, is never taken for one that passes.
 */
export function answerOf({ status, text }: Answered): HookAnswer {
  const waits = (reason: string): HookAnswer => ({ result: 'wait', reason });
  if (status >= 300 && status < 400) return waits(`it answers ${status}, and redirects are not followed`);
  if (status < 200 || status >= 300) return waits(`it answers ${status}`);
  if (text.trim() === '') return { result: 'pass', reason: '' };
  const body = parsed(text);
  if (body === undefined) return waits(`it answers ${status} with something that is not JSON`);
  const { result, reason, retryAfter } = fieldsOf(body);
  const said = printable(textOf(reason), REASON_LENGTH);
  if (result !== 'pass' && result !== 'wait' && result !== 'fail') {
    const shown = typeof result === 'string' ? `the result "${printable(result, 30)}"` : 'no result';
    return waits(`it answers with ${shown}; known are pass, wait and fail`);
  }
  return {
    result,
    reason: said === '' && result !== 'pass' ? 'it gives no reason' : said,
    ...(typeof retryAfter === 'number' && Number.isFinite(retryAfter) && { retryAfter }),
  };
}
