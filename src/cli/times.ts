/** Times as tables show them: local, with their offset from UTC. */

/** A time of the API: milliseconds since 1970, or RFC 3339. */
export type Time = number | string;

/**
 * `2026-11-26 01:45:12+01:00`; in UTC it ends in `Z`. The zone is that of this process (TZ).
 */
export function timeText(time: Time): string {
  const at = new Date(time);
  return `${dateText(at)} ${clockText(at)}`;
}

/**
 * Like {@link timeText}, without the date when that is today's: for lines that come as it happens.
 */
export function followedTime(time: Time, now: Time): string {
  const at = new Date(time);
  return dateText(at) === dateText(new Date(now)) ? clockText(at) : timeText(time);
}

/** How long ago `time` was, in milliseconds. */
export const millisSince = (time: Time, now: number): number => now - new Date(time).getTime();

const two = (value: number): string => String(value).padStart(2, '0');

const dateText = (at: Date): string => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

function clockText(at: Date): string {
  const minutes = -at.getTimezoneOffset();
  const span = Math.abs(minutes);
  const offset =
    minutes === 0 ? 'Z' : `${minutes < 0 ? '-' : '+'}${two(Math.floor(span / 60))}:${two(span % 60)}`;
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${offset}`;
}
