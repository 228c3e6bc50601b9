/**
 * How a machine's phase moves. The table is total: for each phase and each thing that can happen it
 * names the next phase, or null where it cannot happen. A null is recorded as an event and changes
 * nothing.
 *
 * Only `accepted` and `removed` come from an operator, `booted`, `held` and `timeout` from Muster's
 * own decisions; all others are reports of a live boot session (src/machines/reports.ts judges
 * those first). From `ready` no report leads back: only a new boot does.
 */
import { type Phase, REPORT_STEPS, type ReportStep } from './machine.ts';

/**
 * `accepted` a document appeared, or an operator accepted it again · `removed` its document went ·
 * `booted` a script that boots was served, opening a new session · `held` guard or profile hold it
 * · `kernel`, `configured`, `ready`, `failed` as reported · `timeout` it fell silent for longer
 * than its configTimeout.
 */
export const PHASE_EVENTS = ['accepted', 'removed', 'booted', 'held', ...REPORT_STEPS, 'timeout'] as const;
export type PhaseEvent = (typeof PHASE_EVENTS)[number];

type Row = Readonly<Record<PhaseEvent, Phase | null>>;

const never: Pick<Row, ReportStep | 'timeout'> = {
  kernel: null,
  configured: null,
  ready: null,
  failed: null,
  timeout: null,
};

export const TRANSITIONS: Readonly<Record<Phase, Row>> = {
  // Unknown machines get no boot: nothing but an operator moves them.
  discovered: { accepted: 'registered', removed: 'discovered', booted: null, held: null, ...never },
  registered: { accepted: 'registered', removed: 'discovered', booted: 'booting', held: 'held', ...never },
  // A report can be lost, so a later step may come first.
  booting: {
    accepted: 'booting',
    removed: 'discovered',
    booted: 'booting',
    held: 'held',
    kernel: 'starting',
    configured: 'configured',
    ready: 'ready',
    failed: 'failed',
    timeout: 'failed',
  },
  starting: {
    accepted: 'starting',
    removed: 'discovered',
    booted: 'booting',
    held: 'held',
    kernel: 'starting',
    configured: 'configured',
    ready: 'ready',
    failed: 'failed',
    timeout: 'failed',
  },
  configured: {
    accepted: 'configured',
    removed: 'discovered',
    booted: 'booting',
    held: 'held',
    kernel: null,
    configured: 'configured',
    ready: 'ready',
    failed: 'failed',
    timeout: 'failed',
  },
  ready: {
    accepted: 'ready',
    removed: 'discovered',
    booted: 'booting',
    held: 'held',
    ...never,
    ready: 'ready',
  },
  // Failed by its own word closes the session, so that no report follows. Failed by silence leaves
  // it live: a machine that was only slow is believed when it speaks again.
  failed: {
    accepted: 'registered',
    removed: 'discovered',
    booted: 'booting',
    held: 'held',
    kernel: 'starting',
    configured: 'configured',
    ready: 'ready',
    failed: 'failed',
    timeout: null,
  },
  held: { accepted: 'registered', removed: 'discovered', booted: 'booting', held: 'held', ...never },
};

/** The phase after `event`, or null when it cannot happen in `phase`. */
export function transition(phase: Phase, event: PhaseEvent): Phase | null {
  return TRANSITIONS[phase][event];
}
