/**
 * Which events anybody on the network can cause, and how many of them are kept: the rest is counted
 * and summarised, so that a flood does not push out what happened to others.
 */
import { type Millis, millis } from '../base/duration.ts';
import { parseMac } from '../base/mac.ts';
import type { EventKind } from './event.ts';
import { EventLimit, type LeftOut } from './event-limit.ts';
import { REFUSALS } from './security.ts';

/** The limits count in windows of this length. */
export const PACKET_WINDOW: Millis = millis(600_000);
/** The limit for a machine with a document. A boot with all its files takes a tenth of that. */
const OF_A_MACHINE = { perSubject: 200 } as const;
/** The limit for everything else: one host can invent as many subjects as it sends packets. */
const OF_A_STRANGER = { perSubject: 100, perKind: 1_000 } as const;

const KINDS: ReadonlySet<EventKind> = new Set([
  'config.served',
  'config.refused',
  'machine.discovered',
  'machine.waits',
  'machine.inventory',
  'machine.restarts',
  'machine.install',
  'machine.condition',
  'machine.phase',
  'machine.held',
  'machine.conflict',
  'certificate.refused',
  'operator.login-refused',
  'operator.refused',
]);

/** Whether packets and unauthenticated requests cause events of this kind. */
const isPacketKind = (kind: EventKind): boolean =>
  KINDS.has(kind) || /^(dhcp|boot|tftp|asset|report)\./.test(kind);

/** An address, or the name that a machine without a document gets from its MAC. */
const isStranger = (subject: string): boolean =>
  /^m-[0-9a-f]{12}$/.test(subject) || /^[0-9a-fA-F.:]+$/.test(subject) || parseMac(subject) !== undefined;

export class PacketLimit {
  readonly #machines = new EventLimit(() => OF_A_MACHINE, PACKET_WINDOW);
  readonly #strangers = new EventLimit(
    (kind) => (kind.startsWith('operator.') ? REFUSALS : OF_A_STRANGER),
    PACKET_WINDOW,
  );

  /** Counts an event. False when it is left out. */
  take(kind: EventKind, subject: string, now: Millis): boolean {
    if (!isPacketKind(kind)) return true;
    const stranger = kind.startsWith('operator.') || isStranger(subject);
    return (stranger ? this.#strangers : this.#machines).take(kind, subject, now);
  }

  /** Whether something was left out that {@link ended} has not said yet. */
  get pending(): boolean {
    return this.#machines.pending || this.#strangers.pending;
  }

  /** What was left out in windows that are over. */
  ended(now: Millis): readonly LeftOut[] {
    return [...this.#machines.ended(now), ...this.#strangers.ended(now)];
  }
}
