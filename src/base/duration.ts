/** Spans of time that carry their unit in the type, so that units cannot be confused. */

/**
 * Milliseconds: a span, or the time since 1970-01-01 UTC if {@link import('./clock.ts').Clock.now}
 * returned it.
 */
export type Millis = number & { readonly __unit: 'ms' };
/** Whole seconds, as DHCP and HTTP carry them. */
export type Seconds = number & { readonly __unit: 's' };

export const millis = (n: number): Millis => n as Millis;
export const seconds = (n: number): Seconds => n as Seconds;
export const toMillis = (s: Seconds): Millis => (s * 1000) as Millis;
/** Converts to seconds, rounded down, as the remaining time of a lease must be. */
export const toSeconds = (ms: Millis): Seconds => Math.floor(ms / 1000) as Seconds;

const UNIT: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Parses `90s`, `1h30m`, `7d`, `250ms`. Returns undefined for a malformed text, and for a number
 * without a unit.
 */
export function parseDuration(text: string): Millis | undefined {
  if (!/^([0-9]+(ms|s|m|h|d))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/([0-9]+)(ms|s|m|h|d)/g))
    total += Number(amount) * UNIT[unit!]!;
  return Number.isSafeInteger(total) ? (total as Millis) : undefined;
}

/**
 * Formats a span like kubectl's AGE column: the largest unit, or the two largest when the number
 * is small, rounded down: `5s`, `3m20s`, `2h`, `4d`. A negative span is `0s`.
 */
export function spanText(span: number): string {
  const s = Math.max(0, Math.floor(span / 1000));
  if (s < 120) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 10) return s % 60 ? `${m}m${s % 60}s` : `${m}m`;
  if (m < 180) return `${m}m`;
  const h = Math.floor(m / 60);
  if (h < 8) return m % 60 ? `${h}h${m % 60}m` : `${h}h`;
  if (h < 48) return `${h}h`;
  const d = Math.floor(h / 24);
  return d < 8 && h % 24 ? `${d}d${h % 24}h` : `${d}d`;
}

/**
 * Like {@link parseDuration}, for a text that a schema has already accepted.
 *
 * @throws {RangeError} for a malformed text
 */
export function duration(text: string): Millis {
  const span = parseDuration(text);
  if (span === undefined) throw new RangeError(`not a duration: ${text}`);
  return span;
}
