/**
 * Serves the one document that contains a machine's secrets (`delivery: inline`): once per boot,
 * and only to an address of the machine. A second request is refused and raises an alarm. On an
 * open segment this detects a reader at best, see docs/security.md.
 */
import { INLINE_REFUSALS, type InlineRefusal, waitsFor } from '../../agent/serve/inline.ts';
import { plainAddress } from '../../base/ip.ts';
import type { Member } from '../../machines/roster.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import type { ConfigAnswer, ConfigAsked, ConfigFile } from '../boot.ts';
import { type BootContext, isInline } from './boot-context.ts';
import { faultText } from './boot-script.ts';
import { addressesIn, CONTENT_TYPES, configurationOf, doubtOf } from './machine-reports.ts';

/** See {@link import('../boot.ts').BootService.inline}. */
export function inline(
  context: BootContext,
  id: string,
  file: ConfigFile,
  asked: ConfigAsked,
): Promise<ConfigAnswer> | undefined {
  const live = context.roster.sessions.get(id);
  const member = live && context.roster.get(live.session.machine);
  if (live === undefined || member === undefined || !isInline(context, member.name)) return undefined;
  const current =
    context.roster.sessions.isLive(live) && context.roster.sessions.current(member.name) === live;
  const plain = current ? configurationOf(context, live, asked.baseUrl) : undefined;
  const carries = plain?.ok === true && plain.value.files[file] !== undefined;
  if (!carries || (file !== 'user-data' && file !== 'ignition')) return undefined;
  return serveOnce(context, live, member, file, asked);
}

async function serveOnce(
  context: BootContext,
  live: LiveSession,
  member: Member,
  file: ConfigFile,
  { baseUrl, peer }: ConfigAsked,
): Promise<ConfigAnswer> {
  const { agents, roster, events } = context;
  const address = plainAddress(peer);
  const { id: session } = live.session;
  const subject = member.name;
  const refused = async (code: InlineRefusal): Promise<ConfigAnswer> => {
    const reason = { code, text: INLINE_REFUSALS[code] };
    events.record({ kind: 'config.refused', subject, session, reason, fields: { file, address } });
    if (code === 'served_before') await agents.alarm(subject, reason, address);
    return { ok: false, status: 'gone', why: reason.text, subject };
  };
  const refusal = (): InlineRefusal | undefined => {
    if (live.session.ticketAt !== undefined) return 'served_before';
    if (!addressesIn(context, live, member).has(address)) return 'foreign_address';
    if (doubtOf(context, live, member, address) !== undefined) return 'foreign_address';
    const { alarm, quarantine } = member.status;
    return alarm === undefined && quarantine === undefined ? undefined : 'alarmed';
  };
  const first = refusal();
  if (first !== undefined) return refused(first);
  const plan = await agents.inline(subject).catch(waitsFor);
  if (typeof plan === 'string') return { ok: false, status: 'wait', why: plan, subject };
  // Another request may have come while keys were made.
  const second = refusal();
  if (second !== undefined) return refused(second);
  const rendered = configurationOf(context, live, baseUrl, { plan });
  if (rendered?.ok !== true)
    return { ok: false, status: 'wait', why: rendered ? faultText(rendered.faults) : 'no boot', subject };
  const body = rendered.value.files[file]!;
  roster.sessions.ticketed(live, true);
  try {
    await roster.commit([], [live]);
  } catch (error) {
    // Nothing was sent, so the machine may ask again without an alarm.
    const { ticketAt: _, ...session } = live.session;
    live.session = session;
    throw error;
  }
  events.record({
    kind: 'config.secrets',
    subject,
    session,
    fields: { file, address, octets: Buffer.byteLength(body) },
  });
  return { ok: true, contentType: CONTENT_TYPES[file], body, subject };
}
