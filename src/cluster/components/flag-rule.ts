/** What a rule between flags is, and how rules read the values of flags. */

import type { Component, ResolvedCluster } from '../model/resolved-cluster.ts';
import { goMilliseconds, goTruth } from './flag-values.ts';

/** The value of a flag of the component: the last, or an empty text. */
export type Flag = (name: string) => string;

export interface FlagRule {
  readonly component: Component;
  /** The flag at which the fault is reported; the rule is asked only where it is set. */
  readonly flag: string;
  readonly fault: (value: string, flag: Flag, resolved: ResolvedCluster) => string | undefined;
}

export const isTrue = (text: string): boolean => goTruth(text) === true;
export const isFalse = (text: string): boolean => goTruth(text) === false;
export const whole = (text: string, otherwise: number): number => (text === '' ? otherwise : Number(text));
export const time = (text: string, otherwise: number): number => goMilliseconds(text) ?? otherwise;

export const rule =
  (component: Component) =>
  (flag: string, fault: FlagRule['fault']): FlagRule => ({ component, flag, fault });
