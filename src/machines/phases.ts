/**
 * How a machine's phase changes. The table is total: for each phase and each event it names the
 * next phase, or null where the event is impossible. An impossible event is recorded and changes
 * nothing.
 *
 * `accepted` and `removed` come from an operator; `booted`, `held` and `timeout` are Muster's own
 * decisions; all others are reports of a live boot session that `reports.ts` believed. No report
 * leads back from `ready`: only a new boot does.
 */
import { type Phase, REPORT_STEPS, type ReportStep } from './machine.ts';

/**
 * `accepted` a document appeared, or an operator accepted the machine again · `removed` its
 * document was deleted · `booted` a script that boots was served, in a new session · `held` loop
 * guard or profile hold the machine · `kernel`, `configured`, `ready`, `failed` as reported ·
 * `timeout` it was silent for longer than its `configTimeout`.
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

/** A later step may come first, because a report can be lost. */
const reports: Pick<Row, ReportStep | 'timeout'> = {
  kernel: 'starting',
  configured: 'configured',
  ready: 'ready',
  failed: 'failed',
  timeout: 'failed',
};

/** In every phase, a machine with a document is removed, boots and is held. */
const always = { removed: 'discovered', booted: 'booting', held: 'held' } as const;

export const TRANSITIONS: Readonly<Record<Phase, Row>> = {
  // Unknown machines get no boot: only an operator changes their phase.
  discovered: { accepted: 'registered', removed: 'discovered', booted: null, held: null, ...never },
  registered: { accepted: 'registered', ...always, ...never },
  booting: { accepted: 'booting', ...always, ...reports },
  starting: { accepted: 'starting', ...always, ...reports },
  configured: { accepted: 'configured', ...always, ...reports, kernel: null },
  ready: { accepted: 'ready', ...always, ...never, ready: 'ready' },
  // A reported failure closes the session, so no report follows. A timeout leaves the session live:
  // a machine that was only slow is believed when it reports again.
  failed: { accepted: 'registered', ...always, ...reports, timeout: null },
  held: { accepted: 'registered', ...always, ...never },
};

/** The phase after `event`, or null when it cannot happen in `phase`. */
export function transition(phase: Phase, event: PhaseEvent): Phase | null {
  return TRANSITIONS[phase][event];
}
