/**
 * Which members are there: when each said its last word. What a silent one has may have changed
 * since. Pure.
 */
import { duration, type Millis, millis, spanText } from '../../base/duration.ts';
import type { ServerLife } from './founding.ts';

/**
 * Longer than a machine counts as alive (heartbeats.ts): without a quorum each poll waits for etcd
 * first, beside the time between two.
 */
const SILENT_AFTER = duration('60s');

/**
 * How long ago the member said its last word; undefined when it has not since the server started.
 */
export function heardAgo({ heard, now }: ServerLife, member: string): Millis | undefined {
  const at = heard.get(member);
  return at === undefined ? undefined : millis(Math.max(0, now - at));
}

/** It has to be taken for off, or cut off from here. */
export const isSilent = (life: ServerLife, member: string): boolean =>
  (heardAgo(life, member) ?? Infinity) > SILENT_AFTER;

/** `last heard 3m ago`, or that it was not. */
export function heardText(life: ServerLife, member: string): string {
  const ago = heardAgo(life, member);
  return ago === undefined ? 'not heard since the server started' : `last heard ${spanText(ago)} ago`;
}
