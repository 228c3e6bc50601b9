/** Decides whether a machine's report is believed. Pure. */
import { plainText } from '../base/plain-text.ts';
import type { Reason } from '../events/event.ts';
import { type BootSession, type Phase, REPORT_STEPS, type ReportStep, SESSION_STEPS } from './machine.ts';
import { transition } from './phases.ts';

/** How many octets of a failed boot's log are kept, from its end. */
export const MAX_LOG_TAIL = 16 * 1024;
/** How many characters of a report's detail are kept. */
export const MAX_DETAIL = 1000;

/** Why a report is not believed. It is recorded with this reason and changes nothing. */
export const DISBELIEF = {
  session_unknown: 'No boot session has this id.',
  session_over: 'The boot session is over.',
  session_superseded: 'The machine booted again since: its newer session counts.',
  no_boot: 'No script that boots was served in this session.',
  machine_gone: 'The machine has no document any more.',
  foreign_address:
    "The report came from an address that is not this machine's. If it is, list it under the machine's spec.addresses.",
  out_of_order: 'The machine reported a later step of this boot before.',
  impossible: 'A machine in its phase cannot report this.',
  bad_step: 'There is no such step.',
  not_from_disk: 'The system did not run from the disk on which it was installed.',
} as const satisfies Record<string, string>;

type DisbeliefCode = keyof typeof DISBELIEF;

export interface Disbelief extends Reason {
  readonly code: DisbeliefCode;
}

type Judgement =
  /**
   * `repeat`: the report that ended this session, sent again because its answer was lost. It is
   * believed and changes nothing.
   */
  | { readonly believed: true; readonly repeat: boolean }
  | { readonly believed: false; readonly reason: Disbelief };

/**
 * Judges a report. It is believed when it belongs to a live session that was given a boot, comes
 * from an address that may speak for the machine, and is not out of order. A replay or a forgery
 * fails one of these.
 */
export function judgeReport(facts: {
  readonly session: BootSession | undefined;
  /** Whether the session's id is still believed (not closed, not too old). */
  readonly live: boolean;
  readonly documented: boolean;
  readonly phase: Phase | undefined;
  readonly step: string;
  /** Whether the address that it came from may speak for the machine. */
  readonly own: boolean;
  /** It comes from the system of another disk than the one that was written in this session. */
  readonly otherDisk?: boolean;
}): Judgement {
  const no = (code: DisbeliefCode): Judgement => ({
    believed: false,
    reason: { code, text: DISBELIEF[code] },
  });
  const { session, step, own } = facts;
  if (!isReportStep(step)) return no('bad_step');
  if (session === undefined) return no('session_unknown');
  if (session.closed !== undefined) {
    if (session.closed.why === step && own) return { believed: true, repeat: true };
    return no(session.closed.why === 'superseded' ? 'session_superseded' : 'session_over');
  }
  if (!facts.live) return no('session_over');
  if (session.profile === undefined) return no('no_boot');
  if (!facts.documented) return no('machine_gone');
  if (!own) return no('foreign_address');
  if (facts.otherDisk && step !== 'failed') return no('not_from_disk');
  const furthest = Math.max(...session.steps.map((one) => SESSION_STEPS.indexOf(one.step)));
  if (SESSION_STEPS.indexOf(step) < furthest) return no('out_of_order');
  if (facts.phase === undefined || transition(facts.phase, step) === null) return no('impossible');
  return { believed: true, repeat: false };
}

const isReportStep = (step: string): step is ReportStep => (REPORT_STEPS as readonly string[]).includes(step);

/** The end of a log as {@link plainText} makes it, at most {@link MAX_LOG_TAIL} octets. */
export function logTail(text: string): string {
  const plain = plainText(text.slice(-4 * MAX_LOG_TAIL));
  const octets = Buffer.from(plain, 'utf8');
  if (octets.length <= MAX_LOG_TAIL) return plain;
  let from = octets.length - MAX_LOG_TAIL;
  // do not start in the middle of a character
  while (from < octets.length && (octets[from]! & 0xc0) === 0x80) from++;
  return octets.toString('utf8', from);
}
