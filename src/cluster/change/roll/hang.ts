/**
 * A machine that hangs while it reboots for a roll: it is switched off and on once through its BMC,
 * and the roll is held with the name of what happened where that did not help. Pure.
 */
import type { Millis } from '../../../base/duration.ts';
import type { Order } from '../../../bmc/order.ts';
import type { NodeSeen } from '../nodes.ts';
import { REBOOTS_WITHIN } from '../turn.ts';

/** What is known of a machine that was ordered to reboot and shows no other boot yet. */
export interface Rebooting {
  /** How long ago it was ordered to. */
  readonly rebootsFor: Millis;
  /** For how long nothing of it was heard: no report, and no boot of its firmware. */
  readonly quiet: Millis;
  /** The order about its power that was given since then, by whomever. */
  readonly order: Order | undefined;
  readonly now: number;
}

/** The name by which the roll of a cluster orders power. */
export const rollOf = (cluster: string): string => `roll.${cluster}`;

/**
 * What is to be seen of it, or `cycle`: its time is over, and nobody has restarted it yet.
 * Undefined: that it is silent says enough.
 */
export function hangOf({
  rebootsFor,
  quiet,
  order,
  now,
}: Rebooting): Partial<NodeSeen> | 'cycle' | undefined {
  if (order === undefined && quiet >= REBOOTS_WITHIN) return 'cycle';
  // One that boots again and again is named by its silence in the end.
  if (order === undefined)
    return rebootsFor < 2 * REBOOTS_WITHIN ? { restarts: true, text: 'it reboots' } : undefined;
  const { want, by, end } = order;
  const was = `${by} ordered ${want === 'cycle' ? 'off and on again' : want}`;
  if (end === undefined) return { restarts: true, text: `it hangs while it reboots; ${was}` };
  if (!end.proved) return { hangs: `${was}, and that ended as ${end.code}: ${end.text}` };
  if (now - end.at < REBOOTS_WITHIN)
    return { restarts: true, text: `it hung while it reboots; ${was}, and it starts` };
  return { hangs: `${was}, it started, and its agent is not heard` };
}
