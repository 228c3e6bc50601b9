/**
 * Which machine that hangs is switched off and on again, and why the others are not: `recover` of a
 * Profile. Pure.
 *
 * Silence of the agent proves little: the machine may serve while its path to the boot host, or the
 * agent alone, is dead. So nothing else may answer either, its cluster must be able to do without
 * it, and where several fall silent together, what they share is what broke.
 */
import type { Millis } from '../base/duration.ts';
import type { PowerState } from './bmc.ts';

/** What a Profile allows. */
export interface RecoverRule {
  /** How long a machine is silent before it is restarted. */
  readonly after: Millis;
  /** How often one machine is restarted in an hour. */
  readonly perHour: number;
  /** With more silent machines than this at the boot host, none is restarted. */
  readonly silentAtMost: number;
}

/** A machine that should be up, and is silent. */
export interface Silent {
  readonly rule: RecoverRule | undefined;
  readonly silentFor: Millis;
  /** What its BMC said last. */
  readonly power: PowerState;
  /** How often it was restarted like this in the last hour. */
  readonly restarts: number;
  /** An order about its power has not ended. */
  readonly isOrdered: boolean;
}

export const RECOVER_REASONS = {
  restarted: 'nothing of it answers, so it is switched off and on again',
  'many-silent': 'so many machines are silent that what they share is what failed',
  'not-on': 'its BMC does not say that it is on',
  often: 'it was restarted as often as its Profile allows; look at its console',
  answers: 'it answers on the network, so it is not restarted for the silence of its agent',
  needed: 'its cluster cannot do without it now, if it still serves',
} as const;
export type RecoverReason = keyof typeof RECOVER_REASONS;

/** Why a machine is not restarted, as far as the silence itself says; undefined: it may be. */
export function staysSilent(one: Silent, silent: number): RecoverReason | 'wait' | undefined {
  const { rule, silentFor, power, restarts, isOrdered } = one;
  if (rule === undefined || isOrdered || silentFor < rule.after) return 'wait';
  if (silent > rule.silentAtMost) return 'many-silent';
  // A machine that is off was switched off, here or by hand; "unknown" is no reason for anything.
  if (power !== 'on' && power !== 'paused') return 'not-on';
  if (restarts >= rule.perHour) return 'often';
  return undefined;
}
