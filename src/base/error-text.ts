/**
 * The text of an error where operators read why something waits or is held. Errors that Muster
 * expects (its own, refusals of API servers and etcd, the system's) keep their texts, which are
 * written for people. An error of the program itself helps nobody but its authors: the log gets it
 * with its stack, and the operator reads a sentence with the stable code.
 */
import { ERRORS } from './errors.ts';
import type { Log } from './log.ts';

/** The message of whatever was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const FAULTS_OF_THE_PROGRAM: ReadonlySet<string> = new Set([
  'AssertionError',
  'EvalError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'TypeError',
  'URIError',
  'ZodError',
]);

/** Whether the error is a fault of Muster's program, whose text is not for operators. */
const isUnexpected = (error: unknown): boolean =>
  !(error instanceof Error) || FAULTS_OF_THE_PROGRAM.has(error.name) || error.message === '';

/** What operators read instead of the text of an unexpected error. */
export const UNEXPECTED = `${ERRORS.E_INTERNAL.title.replace(/\.$/, '')} (E_INTERNAL); its log has the error`;

/** The text of an expected error; throws an unexpected one again, for a caller that has a log. */
export function expectedText(error: unknown): string {
  if (isUnexpected(error)) throw error;
  return messageOf(error);
}

/** What is logged of one kind of error, before further ones are not. */
const REMEMBERED = 100;

/**
 * Returns the function that makes such a text. What fails once a second is logged once; `about`
 * goes into the log beside the error.
 *
 * @example
 * const textOf = errorTexts(log);
 * textOf(new MusterError('E_CHANGE', 'the Cluster is incomplete'), { cluster });
 * // 'the Cluster is incomplete'
 * textOf(new TypeError('x is not a function'), { cluster });
 * // 'Muster failed in an unexpected way (E_INTERNAL); its log has the error'
 */
export function errorTexts(log: Pick<Log, 'error'>): (error: unknown, about: object) => string {
  const logged = new Set<string>();
  return (error, about) => {
    if (!isUnexpected(error)) return messageOf(error);
    const stack = error instanceof Error ? (error.stack ?? error.name) : String(error);
    if (!logged.has(stack) && logged.size < REMEMBERED) {
      logged.add(stack);
      log.error({ ...about, err: error, code: 'E_INTERNAL' }, ERRORS.E_INTERNAL.title);
    }
    return UNEXPECTED;
  };
}
