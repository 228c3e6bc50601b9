/** What a change is called, and how far it is, in words and in a colour. Pure. */
import type { ChangeView } from '../../api/operations/changes.ts';
import { moment } from '../base/times.ts';
import type { Tone } from '../fleet/row.ts';

/** The kind of a change as a heading: `own-rotation` is "Own rotation". */
export const titleOf = ({ kind }: Pick<ChangeView, 'kind'>): string =>
  kind.charAt(0).toUpperCase() + kind.slice(1).replaceAll('-', ' ');

/** The tone and the text of its badge. */
export function stateOf({ ended, paused, holding, back }: ChangeView): readonly [Tone, string] {
  if (ended) return [ended.as === 'done' ? 'good' : 'calm', `${ended.as} ${moment(ended.at)}`];
  if (paused) return ['warn', `paused by ${paused.by}`];
  if (holding) return ['bad', 'held'];
  return ['busy', back ? 'rolling back' : 'under way'];
}
