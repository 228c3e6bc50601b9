/**
 * What a verb may touch of the process: streams, environment, terminal. Passed in, so that verbs
 * can be tested.
 */
import type { Millis } from '../base/duration.ts';
import { ERRORS, type Fault, MusterError, type SourceSpot } from '../base/errors.ts';
import { DEFAULT_SOCKET } from '../base/paths.ts';

export interface Io {
  /** Data. */
  out(text: string): void;
  /** Everything else. */
  err(text: string): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether colours may be used on standard output. */
  readonly color: boolean;
  /** Aborts on SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Waits; ends early when `signal` aborts. */
  pause(span: Millis): Promise<void>;
}

/**
 * Exit codes, as butane and kubectl have them; `diff` uses 1 for "there are differences" and 2 for
 * failure.
 */
export const EXIT = { ok: 0, failure: 1, usage: 2 } as const;

/** The socket that a verb speaks to: flag, then environment, then default. */
export function socketPath(flag: string | undefined, env: Io['env']): string {
  return flag ?? (env.MUSTER_SOCKET || DEFAULT_SOCKET);
}

const spotText = (at: SourceSpot): string => `${at.file}:${at.line}:${at.column}`;

/** `file.yaml:12:5: spec.files[0].mode: what is wrong (E_SCHEMA)`. */
export function faultLine(fault: Fault): string {
  const parts = [fault.at && spotText(fault.at), fault.path, fault.message].filter((part) => part);
  return `${parts.join(': ')} (${fault.code})`;
}

/** Whether a message ends in what to do, as most do: "what is wrong; what to do". */
const saysFix = (message: string): boolean => /; [^;?]+$/.test(message.replace(/ \(and \d+ more\)$/, ''));

/**
 * Faults one a line, then once for each code what to do about it, unless its faults say that
 * themselves.
 */
export function faultsText(faults: readonly Fault[]): string {
  const open = new Set(faults.filter(({ message }) => !saysFix(message)).map(({ code }) => code));
  const fixes = [...open].map((code) => `  ${code}: ${ERRORS[code].fix}\n`);
  return faults.map((fault) => `${faultLine(fault)}\n`).join('') + fixes.join('');
}

/**
 * An error as lines for standard error: its faults with their places, or its message with what to
 * do. What was not thrown on purpose is shown with its stack: it is to be reported.
 */
export function errorText(error: unknown): string {
  if (!(error instanceof MusterError)) {
    const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return `muster: ${ERRORS.E_INTERNAL.title} (E_INTERNAL)\n  ${ERRORS.E_INTERNAL.fix}\n${stack}\n`;
  }
  const { faults } = error;
  if (faults.some((fault) => fault.at ?? fault.path)) return faultsText(faults);
  // Without places: the message, and what lies behind it if that is something else.
  const behind = faults.filter((fault) => fault.message !== error.message);
  const lines = behind.map((fault) => `  ${faultLine(fault)}\n`).join('');
  const fix = error.code === 'E_REFERENCE' && saysFix(error.message) ? '' : `  ${ERRORS[error.code].fix}\n`;
  return `muster: ${error.message} (${error.code})\n${lines}${fix}`;
}

/** Exit code of an error. */
export function exitCodeOf(error: unknown): number {
  return error instanceof MusterError && error.code === 'E_USAGE' ? EXIT.usage : EXIT.failure;
}

export function printWarnings(warnings: readonly Fault[], io: Io): void {
  for (const warning of warnings) io.err(`warning: ${faultLine(warning)}\n`);
}
