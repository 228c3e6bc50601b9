/**
 * Answers machines that wait in the discovery system. Their sessions permit two things: to ask
 * whether they still wait, and to report what they are made of.
 */
import { duration, millis } from '../../base/duration.ts';
import { plainAddress } from '../../base/ip.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import { readInventory } from '../../machines/inventory.ts';
import type { OutState } from '../../machines/life/life.ts';
import { endsRescue } from '../../machines/life/rescue.ts';
import type { Member } from '../../machines/roster.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import { isDiskImage } from '../assets/assets.ts';
import type { DiscoveryAnswer, InventoryAnswer } from '../boot.ts';
import type { BootContext } from './boot-context.ts';
import { speaksFor } from './machine-reports.ts';

/** A waiting machine reports again after this time: links come up, disks are put in. */
const REPORT_EVERY = duration('1h');
/** A machine whose report was refused or lost is asked for it again after this time. */
const REPORT_AGAIN = duration('10s');
/** How many reports are taken at once, and then per second, from all machines together. */
const REPORTS = { burst: 500, perSecond: 50 } as const;

/**
 * Answers a machine that waits in the discovery system. Constant time. A machine that got a
 * document, or whose record is gone, reboots.
 */
export function discoveryAnswer(context: BootContext, id: string): DiscoveryAnswer {
  const { roster, events, clock } = context;
  const { sessions } = roster;
  const live = sessions.get(id);
  if (live?.given && sessions.isLive(live) && live.session.discovery !== true) {
    const image = context.catalog.get('Image', live.session.image ?? '')?.document.spec;
    if (isDiskImage(image)) return { do: 'install', name: live.session.machine };
  }
  if (live?.session.discovery !== true) return { do: 'gone' };
  const { machine } = live.session;
  const member = roster.get(machine);
  if (member !== undefined && member.entry === undefined) {
    if (!sessions.isLive(live)) return { do: 'gone' };
    heard(context, live, member);
    const reported = live.inventoryAt;
    const due = reported === undefined || clock.monotonic() - reported >= REPORT_EVERY;
    return { do: due ? 'report' : 'wait', name: machine };
  }
  if (member !== undefined) endsRescue(context, member, false);
  const { state } = member?.status.life ?? {};
  if (member !== undefined && state !== undefined) {
    if (!sessions.isLive(live)) return { do: 'gone' };
    works(context, live, member);
    return { do: WORK[state] ?? 'off', name: machine };
  }
  if (live.session.closed === undefined) {
    sessions.close(live, 'superseded');
    roster.saveLater(live);
    events.record({ kind: 'machine.restarts', subject: machine, session: id });
  }
  return { do: 'reboot', name: machine };
}

/** What a machine does in the discovery system in these states of its life. */
const WORK: Readonly<Partial<Record<OutState, 'wipe' | 'test' | 'rescue'>>> = {
  wiping: 'wipe',
  testing: 'test',
  rescue: 'rescue',
};

/** Notes that a machine waits. */
function heard({ roster, events }: BootContext, live: LiveSession, member: Member): void {
  roster.sessions.touch(live);
  roster.see(member, {});
  if (live.session.steps.some(({ step }) => step === 'kernel')) return;
  roster.sessions.mark(live, 'kernel');
  roster.saveLater(live);
  roster.change(member, { bootsWithoutReady: 0 });
  events.record({ kind: 'machine.waits', subject: member.name, session: live.session.id });
}

/** Notes that a machine which is wiped, tested or rescued is in the discovery system. */
function works({ roster }: BootContext, live: LiveSession, member: Member): void {
  roster.sessions.touch(live);
  roster.see(member, {});
  if (live.session.steps.some(({ step }) => step === 'kernel')) return;
  roster.sessions.mark(live, 'kernel');
  roster.saveLater(live);
  roster.change(member, { bootsWithoutReady: 0 });
}

/** The reports of all machines; made once for each boot service. */
export const reportsBucket = (): TokenBucket =>
  new TokenBucket(REPORTS.burst, millis(1000 / REPORTS.perSecond));

/**
 * Takes what an unknown machine says it is made of. Nobody has confirmed it, and it decides nothing
 * before the machine has a document.
 */
export async function takeInventory(
  context: BootContext,
  reports: TokenBucket,
  { id, text, peer }: { readonly id: string; readonly text: string; readonly peer: string },
): Promise<InventoryAnswer> {
  const { roster, events, clock, inventories } = context;
  const live = roster.sessions.get(id);
  const member = live && roster.get(live.session.machine);
  if (live?.session.discovery !== true || !roster.sessions.isLive(live)) return 'refused';
  if (member === undefined || member.entry !== undefined) return 'refused';
  if (!speaksFor(context, live, plainAddress(peer))) return 'refused';
  const now = clock.monotonic();
  if (live.inventoryAt !== undefined && now - live.inventoryAt < REPORT_AGAIN) return 'later';
  if (!reports.permits(now)) return 'later';
  reports.spend(now);
  const inventory = readInventory(text);
  if (inventory === undefined) return 'unreadable';
  live.inventoryAt = now;
  if (await inventories.claim(member.name, inventory))
    events.record({
      kind: 'machine.inventory',
      subject: member.name,
      session: id,
      fields: { disks: inventory.disks.length, cards: inventory.cards.length },
    });
  return 'kept';
}
