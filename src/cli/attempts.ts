/** Repeats failed transfers: decides whether and when, and prints what happens. */
import { type Millis, millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Io } from './io.ts';

/** The parts of the process that a transfer may use. */
export type TransferIo = Pick<Io, 'err' | 'pause' | 'signal'>;

/** After this many failed attempts in a row without progress, a transfer ends. */
const ATTEMPTS = 5;
/**
 * The same limit for a server that has never answered: its name or address may be wrong, and nobody
 * should wait half a minute to learn that.
 */
const ATTEMPTS_UNANSWERED = 2;

/** Codes of Node and its HTTP client for a server that was not reached at all. */
const UNREACHED = new Set([
  ...['ENOTFOUND', 'EAI_AGAIN', 'EAI_NODATA', 'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'],
  ...['EHOSTDOWN', 'ENETDOWN', 'EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT'],
]);

/** Whether no connection was made. undici puts the code into the cause of a cause. */
function unreached(error: MusterError): boolean {
  const { cause } = (error.cause ?? {}) as { readonly cause?: NodeJS.ErrnoException };
  return UNREACHED.has(cause?.code ?? '');
}

/** The failures so far. */
export interface Failures {
  /** Failures in a row since the file last grew. */
  readonly inRow: number;
  /** Whether any octet has come since the command began. */
  readonly begun: boolean;
}

/**
 * How long to wait before the next attempt; undefined when another attempt would not help. Pure.
 */
export function againAfter(error: unknown, { inRow, begun }: Failures): Millis | undefined {
  if (!(error instanceof MusterError)) return undefined;
  // The asset is busy when the server has not yet noticed that the last attempt ended.
  const passes = error.code === 'E_FETCH' || (error.code === 'E_ASSET_BUSY' && (begun || inRow > 1));
  const most = !begun && unreached(error) ? ATTEMPTS_UNANSWERED : ATTEMPTS;
  return passes && inRow < most ? millis(1000 * 2 ** inRow) : undefined;
}

/**
 * Runs `attempt`, with its number from 1 on, until it succeeds or another attempt would not help.
 * Each failure is printed with the time until the next attempt. `octets` returns how many octets
 * have arrived since the command began.
 *
 * @throws what the last attempt threw, and the reason of `io.signal`.
 */
export async function inAttempts<T>(
  attempt: (n: number) => Promise<T>,
  octets: () => number,
  io: TransferIo,
): Promise<T> {
  let inRow = 0;
  for (let n = 1; ; n++) {
    const before = octets();
    try {
      return await attempt(n);
    } catch (error) {
      inRow = octets() > before ? 0 : inRow + 1;
      const wait = againAfter(error, { inRow, begun: octets() > 0 });
      if (wait === undefined) throw error;
      io.err(`attempt ${n} failed: ${(error as MusterError).message}; next attempt in ${wait / 1000} s\n`);
      await io.pause(wait);
      io.signal.throwIfAborted();
    }
  }
}
