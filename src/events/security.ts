/**
 * Which events the security log takes, and how many of those that somebody on the network causes.
 */
import { type Millis, millis } from '../base/duration.ts';
import type { AuditContent } from './audit-chain.ts';
import type { EventKind, MusterEvent } from './event.ts';
import type { KindLimit } from './event-limit.ts';

/** Kinds of events whose names begin with one of these are security events. */
const FAMILIES = ['agent.', 'audit.', 'cluster.', 'document.', 'operator.'] as const;
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

/**
 * The limits of a kind in {@link LIMIT_WINDOW}. What operators who are logged in do has none: they
 * are few, and each of their actions counts.
 */
export function securityLimit(kind: string): KindLimit | undefined {
  if (ANYBODY.has(kind)) return REFUSALS;
  return /^(agent|cluster|config)\./.test(kind) ? OF_A_MACHINE : undefined;
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
