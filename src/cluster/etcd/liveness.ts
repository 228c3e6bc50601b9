/** When each member was last heard. The facts of a silent member may be out of date. Pure. */
import { duration, type Millis, millis, spanText } from '../../base/duration.ts';
import type { ServerLife } from './founding.ts';

/**
 * A member that was not heard for this long counts as silent. The time is longer than in
 * src/machines/heartbeats.ts: without a quorum a machine waits for etcd before each poll, in
 * addition to the interval between polls.
 */
const SILENT_AFTER = duration('60s');

/** How long ago the member was heard; undefined when it was not heard since the server started. */
export function heardAgo({ heard, now }: ServerLife, member: string): Millis | undefined {
  const at = heard.get(member);
  return at === undefined ? undefined : millis(Math.max(0, now - at));
}

/**
 * Whether the member was not heard for so long that it may be off, or cut off from the boot host.
 */
export const isSilent = (life: ServerLife, member: string): boolean =>
  (heardAgo(life, member) ?? Infinity) > SILENT_AFTER;

/** `last heard 3m ago`, or `not heard since the server started`. */
export function heardText(life: ServerLife, member: string): string {
  const ago = heardAgo(life, member);
  return ago === undefined ? 'not heard since the server started' : `last heard ${spanText(ago)} ago`;
}
