/** Formats times of the API for tables: local, with their offset from UTC. */
import type { Timestamp } from '../api/times.ts';

/**
 * Formats a time in the zone of this process (TZ): `2026-11-26 01:45:12+01:00`; in UTC it ends in
 * `Z`.
 */
export function timeText(time: Timestamp): string {
  const at = new Date(time);
  return `${dateText(at)} ${clockText(at)}`;
}

/**
 * Like {@link timeText}, but without the date if it is the date of `now` (milliseconds since 1970).
 * Used for events that are printed as they happen.
 */
export function followedTime(time: Timestamp, now: number): string {
  const at = new Date(time);
  return dateText(at) === dateText(new Date(now)) ? clockText(at) : timeText(time);
}

/** Milliseconds from `time` to `now` (milliseconds since 1970). */
export const millisSince = (time: Timestamp, now: number): number => now - new Date(time).getTime();

const two = (value: number): string => String(value).padStart(2, '0');

const dateText = (at: Date): string => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

function clockText(at: Date): string {
  const minutes = -at.getTimezoneOffset();
  const span = Math.abs(minutes);
  const offset =
    minutes === 0 ? 'Z' : `${minutes < 0 ? '-' : '+'}${two(Math.floor(span / 60))}:${two(span % 60)}`;
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${offset}`;
}
