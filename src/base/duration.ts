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

/** Formats a span in its largest unit, rounded down: `45s`, `3m`, `2h`, `9d`. */
export function spanText(span: Millis): string {
  const unit = (['d', 'h', 'm'] as const).find((one) => span >= UNIT[one]!) ?? 's';
  return `${Math.floor(span / UNIT[unit]!)}${unit}`;
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
