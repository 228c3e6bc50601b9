/**
 * The rescue of a machine: it boots the discovery system once, where an operator looks at it by
 * SSH, and is then what it was before.
 */
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import type { EventSink } from '../../events/event.ts';
import type { Life } from '../machine.ts';
import type { Member, Roster } from '../roster.ts';
import { isOver } from './rescue-order.ts';

/** The machine after its rescue: in use (undefined), or taken out as before. */
export const afterRescue = ({ rescue }: Life, now: Millis): Life | undefined =>
  rescue?.out && { at: now, state: 'taken-out', ...rescue.out };

/** Whether a machine does not belong to its cluster now; one that is rescued for a while does. */
export const isOut = (life: Life | undefined): life is Life =>
  life !== undefined && (life.state !== 'rescue' || life.rescue?.out !== undefined);

/**
 * Ends a rescue whose time has passed, or after which the machine boots again (`boots`). True when
 * that changed something.
 */
export function endsRescue(
  { roster, clock, events }: { readonly roster: Roster; readonly clock: Clock; readonly events: EventSink },
  member: Member,
  boots: boolean,
): boolean {
  const { life } = member.status;
  if (life?.state !== 'rescue' || life.rescue === undefined) return false;
  if (!isOver(life.rescue, { now: clock.now(), boots })) return false;
  const after = afterRescue(life, clock.now());
  roster.change(member, { life: after });
  events.record({
    kind: 'machine.life',
    subject: member.name,
    reason: { code: after?.state ?? 'in-use', text: 'Its rescue is over.' },
    fields: { by: life.by },
  });
  return true;
}
