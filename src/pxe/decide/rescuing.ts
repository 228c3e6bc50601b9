/**
 * Answers machines that are rescued, in the discovery system. Only the machine's own address in its
 * own session is believed.
 */
import { plainAddress } from '../../base/ip.ts';
import { isOver, readHostKey, rescueText } from '../../machines/life/rescue-order.ts';
import type { RescueAnswer } from '../boot.ts';
import type { BootContext } from './boot-context.ts';
import { speaksFor } from './machine-reports.ts';

/**
 * Takes the key of the SSH server of the rescue system, and answers who may log in and for how
 * long. Another key in the same rescue is refused: two systems cannot both be the machine.
 */
export async function rescueOrder(
  context: BootContext,
  { id, text, peer }: { readonly id: string; readonly text: string; readonly peer: string },
): Promise<RescueAnswer> {
  const { roster, clock, events } = context;
  const live = roster.sessions.get(id);
  const member = live && roster.get(live.session.machine);
  const life = member?.status.life;
  if (live?.session.discovery !== true || !roster.sessions.isLive(live)) return 'refused';
  if (member?.entry === undefined || life?.state !== 'rescue' || life.rescue === undefined) return 'refused';
  const address = plainAddress(peer);
  if (!speaksFor(context, live, address)) return 'refused';
  const { rescue } = life;
  if (isOver(rescue, { now: clock.now(), boots: false })) return 'refused';
  const hostKey = readHostKey(text);
  if (hostKey === undefined) return 'unreadable';
  if (rescue.hostKey !== undefined && rescue.hostKey !== hostKey) return 'refused';
  if (rescue.hostKey === undefined) {
    const { byHand: _, ...rest } = life;
    roster.change(member, { life: { ...rest, rescue: { ...rescue, begun: true, hostKey, address } } });
    events.record({
      kind: 'machine.life',
      subject: member.name,
      session: live.session.id,
      reason: { code: 'rescue', text: 'The rescue system runs.' },
      fields: { by: life.by, address, key: hostKey },
    });
  }
  await roster.commit([member], [live]);
  return { text: rescueText(rescue, clock.now()) };
}
