/**
 * Which events the security log takes, and how many of those that somebody on the network causes.
 */
import { type Millis, millis } from '../base/duration.ts';
import type { AuditContent } from './audit-chain.ts';
import type { EventKind, MusterEvent } from './event.ts';
import type { KindLimit } from './event-limit.ts';

/** Kinds of events whose names begin with one of these are security events. */
const FAMILIES = ['agent.', 'audit.', 'cluster.', 'document.', 'operator.', 'signer.'] as const;
const KINDS: ReadonlySet<EventKind> = new Set([
  'config.secrets',
  'machine.accepted',
  'machine.approved',
  'machine.approval-refused',
]);

/** Whether events of this kind go into the security log. */
export const isSecurityKind = (kind: EventKind): boolean =>
  KINDS.has(kind) || FAMILIES.some((family) => kind.startsWith(family));

/** The limits count in windows of this length. */
export const LIMIT_WINDOW: Millis = millis(600_000);

/** Everybody who reaches the ports of agents or operators can cause these, under any address. */
const ANYBODY: ReadonlySet<string> = new Set<EventKind>([
  'agent.refused',
  'agent.waiting',
  'operator.login-refused',
  'operator.refused',
]);
/** What anybody who reaches a port may cause in a window. */
export const REFUSALS: KindLimit = { perSubject: 20, perKind: 300 };
/** A machine with a certificate causes these; a whole boot with all its steps takes fewer. */
const OF_A_MACHINE: KindLimit = { perSubject: 200 };

/** A second window: what lasts for days must not push out the months before it. */
export const LONG_WINDOW: Millis = millis(24 * 3_600_000);
const REFUSALS_A_DAY: KindLimit = { perSubject: 200, perKind: 2_000 };
const OF_A_MACHINE_A_DAY: KindLimit = { perSubject: 2_000 };

/** The limits of a kind in {@link LONG_WINDOW}. */
export function dailyLimit(kind: string): KindLimit | undefined {
  if (ANYBODY.has(kind)) return REFUSALS_A_DAY;
  return isOfMachine(kind) ? OF_A_MACHINE_A_DAY : undefined;
}

const isOfMachine = (kind: string): boolean => /^(agent|cluster|config)\./.test(kind);

/**
 * The limits of a kind in {@link LIMIT_WINDOW}. What operators who are logged in do has none: they
 * are few, and each of their actions counts.
 */
export function securityLimit(kind: string): KindLimit | undefined {
  if (ANYBODY.has(kind)) return REFUSALS;
  return isOfMachine(kind) ? OF_A_MACHINE : undefined;
}

/** Longer texts are cut: they come from other programs. */
const MAX_TEXT = 2000;

const cut = (text: string): string => text.slice(0, MAX_TEXT);

/** An event as the content of an entry. */
export function contentOf(event: MusterEvent): AuditContent {
  const { at, kind, subject, session, network, reason, fields, actor } = event;
  return {
    at: new Date(at).toISOString(),
    kind,
    subject: cut(subject),
    ...(session !== undefined && { session }),
    ...(network !== undefined && { network }),
    ...(reason && { reason: { code: reason.code, text: cut(reason.text) } }),
    ...(fields && {
      fields: Object.fromEntries(
        Object.entries(fields).map(([name, value]) => [name, typeof value === 'string' ? cut(value) : value]),
      ),
    }),
    ...(actor && { actor }),
  };
}
