/**
 * The parts of the process that a verb may use: streams, environment, terminal. They are passed in,
 * so that tests can run verbs.
 */
import type { Millis } from '../base/duration.ts';
import { ERRORS, type ErrorCode, type Fault, MusterError, type SourceSpot } from '../base/errors.ts';
import { DEFAULT_SOCKET } from '../base/paths.ts';
import { painted } from './color.ts';

export interface Io {
  /** Writes data to standard output. */
  out(text: string): void;
  /** Writes everything else to standard error. */
  err(text: string): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether colours may be used on standard output. */
  readonly color: boolean;
  /** Whether colours may be used on standard error. */
  readonly colorErr: boolean;
  /** Width of the terminal, in columns; undefined when standard output is not a terminal. */
  readonly columns: number | undefined;
  /** Height of the terminal, in lines; undefined when standard output is not a terminal. */
  readonly rows?: number | undefined;
  /** log2 of scrypt's work for a file that a passphrase opens; undefined: as `age` has it. */
  readonly scryptWork: number | undefined;
  /** Aborts on SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Asks a person at the terminal for a line; undefined when standard input is no terminal. */
  ask(question: string): Promise<string | undefined>;
  /** Waits; ends early when `signal` aborts. */
  pause(span: Millis): Promise<void>;
}

/**
 * Exit codes, the same as those of butane and kubectl. `diff` uses 1 when there are differences,
 * and 2 for a failure.
 */
export const EXIT = { ok: 0, failure: 1, usage: 2 } as const;

/**
 * The path of the server's socket: from the flag, otherwise from the environment, otherwise the
 * default.
 */
export function socketPath(flag: string | undefined, env: Io['env']): string {
  return flag ?? (env.MUSTER_SOCKET || DEFAULT_SOCKET);
}

const spotText = (at: SourceSpot): string => `${at.file}:${at.line}:${at.column}`;

/** A fault as one line: `file.yaml:12:5: spec.files[0].mode: what is wrong (E_SCHEMA)`. */
export function faultLine(fault: Fault): string {
  const parts = [fault.at && spotText(fault.at), fault.path, fault.message].filter((part) => part);
  return `${parts.join(': ')} (${fault.code})`;
}

/** Codes whose general advice adds nothing to a message that says what to do. */
const SAYS_FIX: ReadonlySet<ErrorCode> = new Set([
  'E_REFERENCE',
  'E_NOT_FOUND',
  'E_CONFLICT',
  'E_CLUSTER',
  'E_CONFIG',
  'E_TRUST',
]);

/** Whether a message already says what to do. Most messages do: "what is wrong; what to do". */
const saysFix = (message: string): boolean => /; [^;?]+$/.test(message.replace(/ \(and \d+ more\)$/, ''));

/**
 * Faults, one on each line, and then the fix for each code once, unless the faults themselves say
 * what to do.
 */
export function faultsText(faults: readonly Fault[]): string {
  const open = new Set(faults.filter(({ message }) => !saysFix(message)).map(({ code }) => code));
  const fixes = [...open].map((code) => `  ${code}: ${ERRORS[code].fix}\n`);
  return faults.map((fault) => `${faultLine(fault)}\n`).join('') + fixes.join('');
}

/**
 * An error as lines for standard error: its faults with their places, or its message with what to
 * do. An error that is not a MusterError is a bug, and is shown with its stack. `path` is the
 * command that failed, such as `muster get`.
 */
export function errorText(error: unknown, path = 'muster'): string {
  if (!(error instanceof MusterError)) {
    const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return `muster: ${ERRORS.E_INTERNAL.title} (E_INTERNAL)\n  ${ERRORS.E_INTERNAL.fix}\n${stack}\n`;
  }
  const { faults } = error;
  if (faults.some((fault) => fault.at ?? fault.path)) return faultsText(faults);
  // No fault has a place: the message is shown, and then those faults whose text differs from it.
  const behind = faults.filter((fault) => fault.message !== error.message);
  const lines = behind.map((fault) => `  ${faultLine(fault)}\n`).join('');
  const fix = fixText(error, path);
  return `muster: ${error.message} (${error.code})\n${lines}${fix}`;
}

/** The fix for an error, as a line; empty when the message already says what to do. */
function fixText({ code, message }: MusterError, path: string): string {
  if (code === 'E_USAGE') return `  See \`${path} --help\`.\n`;
  if (SAYS_FIX.has(code) && /; [^;]+$/.test(message)) return '';
  return `  ${ERRORS[code].fix}\n`;
}

/** Prints an error; on a terminal its first word is red. */
export function printError(error: unknown, io: Pick<Io, 'err' | 'colorErr'>, path?: string): void {
  io.err(errorText(error, path).replace(/^muster:/, (word) => painted(word, 'red', io.colorErr)));
}

/** The exit code for an error: 2 for a wrong command line, otherwise 1. */
export function exitCodeOf(error: unknown): number {
  return error instanceof MusterError && error.code === 'E_USAGE' ? EXIT.usage : EXIT.failure;
}

/** Prints warnings, one on each line. */
export function printWarnings(warnings: readonly Fault[], io: Io): void {
  for (const warning of warnings)
    io.err(`${painted('warning:', 'yellow', io.colorErr)} ${faultLine(warning)}\n`);
}
