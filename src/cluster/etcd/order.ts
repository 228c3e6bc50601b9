/** The result of an operator's order: the record that should be stored, or a refusal. */
import { randomId } from '../../base/ids.ts';
import type { FoundingRecord } from './founding.ts';

/** When an order or an opening takes effect. */
export interface Moment {
  /** Ms since 1970. */
  readonly now: number;
  /** A random id for a founding, used if one opens. */
  readonly id: string;
}

/** The record as it should be stored, or why the order is refused. */
export type Ordered =
  | { readonly ok: true; readonly record: FoundingRecord }
  | { readonly ok: false; readonly text: string };

/** Makes a refusal; `text` completes "CLUSTER: …". */
export const refused = (text: string): Ordered => ({ ok: false, text });

/** A new random id. It begins with a letter, because words of a plan must not begin with `-`. */
export const newFoundingId = (): string => `f${randomId()}`;
