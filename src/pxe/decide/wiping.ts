/**
 * Answers machines that are to be wiped, in the discovery system: what they wipe, and what becomes
 * of their reports. Only the machine's own address in its own session is believed.
 */
import { plainAddress } from '../../base/ip.ts';
import { readReport, type WipeCertificate, wipedBy } from '../../machines/life/wipe.ts';
import { orderText, type Wipe } from '../../machines/life/wipe-order.ts';
import type { Life } from '../../machines/machine.ts';
import type { Member } from '../../machines/roster.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import { KEYS } from '../../store/keys.ts';
import type { WipeOrderAnswer, WipeReportAnswer } from '../boot.ts';
import type { BootContext } from './boot-context.ts';
import { speaksFor } from './machine-reports.ts';

/** A machine that carries out an order in the discovery system. */
interface Ordered {
  readonly live: LiveSession;
  readonly member: Member;
  readonly life: Life;
}

/**
 * The machine that a session is for, if its life is in this state; undefined when the session or
 * the address is not believed.
 */
export function orderedIn(
  context: BootContext,
  id: string,
  peer: string,
  state: Life['state'],
): Ordered | undefined {
  const { sessions } = context.roster;
  const live = sessions.get(id);
  const member = live && context.roster.get(live.session.machine);
  const life = member?.status.life;
  if (live?.session.discovery !== true || !sessions.isLive(live)) return undefined;
  if (member?.entry === undefined || life?.state !== state) return undefined;
  return speaksFor(context, live, plainAddress(peer)) ? { live, member, life } : undefined;
}

/** The wipe that a session is for. */
function wipingIn(
  context: BootContext,
  id: string,
  peer: string,
): (Ordered & { readonly wipe: Wipe }) | undefined {
  const found = orderedIn(context, id, peer, 'wiping');
  return found?.life.wipe && { ...found, wipe: found.life.wipe };
}

/** What a machine wipes. From now on the order cannot be called off. */
export async function wipeOrder(context: BootContext, id: string, peer: string): Promise<WipeOrderAnswer> {
  const found = wipingIn(context, id, peer);
  if (found === undefined) return 'refused';
  const { wipe } = found;
  await begins(context, found, wipe.begun !== true && { wipe: { ...wipe, begun: true } }, {
    level: wipe.level,
  });
  return { text: orderText(wipe) };
}

/** A machine got its order. `begun`: what it has not begun before. */
export async function begins(
  { roster, events }: BootContext,
  { live, member, life }: Ordered,
  begun: false | Pick<Life, 'wipe' | 'test'>,
  fields?: Readonly<Record<string, string>>,
): Promise<void> {
  if (begun) {
    // It is on, and switches itself off afterwards: nobody has to do that by hand any more.
    const { byHand: _, ...rest } = life;
    roster.change(member, { life: { ...rest, ...begun } });
    events.record({
      kind: 'machine.life',
      subject: member.name,
      session: live.session.id,
      reason: { code: life.state, text: 'It got the order, and begins.' },
      ...(fields && { fields }),
    });
  }
  await roster.commit([member], [live]);
}

/** Judges the report of a wipe, and keeps its certificate. */
export async function wipeReport(
  context: BootContext,
  { id, text, peer }: { readonly id: string; readonly text: string; readonly peer: string },
): Promise<WipeReportAnswer> {
  const found = wipingIn(context, id, peer);
  if (found === undefined || !found.wipe.begun) return 'refused';
  const report = readReport(text);
  if (report === undefined) return 'unreadable';
  const { live, member, life, wipe } = found;
  const { state, failed, open, wipe: proved } = wipedBy(wipe, report);
  const { serial, product } = member.status.seen;
  const certificate: WipeCertificate = {
    ...{ v: 1, id: wipe.id, machine: member.name, level: wipe.level, reason: life.text, by: life.by },
    ...(serial !== undefined && { serial }),
    ...(product !== undefined && { product }),
    ...{ orderedAt: life.at, at: context.clock.now() },
    ...(failed !== undefined && { failed }),
    disks: [...report.disks],
  };
  const count = report.disks.filter(({ result }) => result === 'done').length;
  const left = open.length > 0 ? `; not wiped: ${open.join(', ')}` : '';
  const why = failed ?? `${count} disks, ${wipe.level}${left}`;
  context.roster.change(member, {
    life: { ...life, state, at: context.clock.now(), text: `${why}. ${life.text}`, wipe: proved },
    // What was installed is gone.
    ...(failed === undefined && { install: undefined }),
  });
  const put = { key: KEYS.wipe.key(member.name, wipe.id), put: JSON.stringify(certificate) };
  await context.roster.commit([member], [live], [put]);
  context.events.record({
    kind: 'machine.life',
    subject: member.name,
    session: live.session.id,
    reason: { code: state, text: why },
    fields: { by: life.by, level: wipe.level },
  });
  return 'kept';
}
