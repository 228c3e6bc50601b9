/**
 * One TFTP transfer as a pure state machine: `step(plan, state, event, now)` gives the next state
 * and what to do. No socket, no file, no clock: the loop in `tftp.socket.ts` has those.
 *
 * Rules: RFC 1350; RFC 2347 (OACK is confirmed by ACK 0); RFC 7440 (a window, restarted after the
 * last block that arrived); RFC 1123 §4.2.3.1 (a duplicate ACK never makes DATA go out twice: no
 * Sorcerer's Apprentice) and §4.2.3.2 (time-outs back off exponentially). Blocks are counted
 * without end here; on the wire they roll over to 0.
 */
import type { Millis } from '../../base/duration.ts';
import type { TftpErrorCode } from './codec.ts';

/** What does not change during a transfer. */
export interface TransferPlan {
  /** Number of blocks, at least 1. */
  readonly blocks: number;
  readonly window: number;
  /** Whether an OACK opens the transfer. */
  readonly oack: boolean;
  /** The client's own time-out, if it gave one. */
  readonly timeout: Millis | undefined;
}

/**
 * How a transfer ended; the value is the metric's label. `served` the last block was acknowledged ·
 * `unconfirmed` all was sent, the last acknowledgement never came (a client may leave at once) ·
 * `probed` the client only asked for size and options (EDK2 sends ERROR 8, BIOS ROMs ERROR 0, then
 * ask again) · `aborted` the client gave up · `timeout` it fell silent · `failed` we could not go
 * on · `superseded` it asked for something else from the same port · `shutdown`.
 */
export const OUTCOMES = [
  'served',
  'unconfirmed',
  'probed',
  'aborted',
  'timeout',
  'failed',
  'superseded',
  'shutdown',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface TransferState {
  readonly phase: 'new' | 'oack' | 'data' | 'ended';
  /** Blocks acknowledged, in order. */
  readonly acked: number;
  /** Highest block handed out for sending. */
  readonly sent: number;
  /** Time-outs since the last progress. */
  readonly silent: number;
  /** When to step with `timeout`. */
  readonly deadline: Millis;
  /** When the present window went out. */
  readonly sentAt: Millis;
  /** When the client last moved on. */
  readonly movedAt: Millis;
  /** The window went out once only: its round trip may be measured (Karn). */
  readonly clean: boolean;
  /** This window was already repeated because of a duplicate ACK. */
  readonly repaired: boolean;
  /** Smoothed round trip and its variation, ms (RFC 6298); 0: not yet measured. */
  readonly roundTrip: number;
  readonly variation: number;
}

export type TransferEvent =
  | { readonly kind: 'start' }
  | { readonly kind: 'ack'; readonly block: number }
  /** The client's ERROR packet. */
  | { readonly kind: 'error'; readonly code: number; readonly message: string }
  | { readonly kind: 'timeout' }
  /** The client's request came once more: our first packet was lost, or is on its way. */
  | { readonly kind: 'again' }
  /** The client asked for something else from the same port. */
  | { readonly kind: 'superseded' }
  /** We cannot go on. */
  | {
      readonly kind: 'stop';
      readonly outcome: 'failed' | 'shutdown';
      readonly code: TftpErrorCode;
      readonly message: string;
    };

export type Effect =
  | { readonly do: 'oack' }
  | { readonly do: 'data'; readonly from: number; readonly to: number }
  | { readonly do: 'error'; readonly code: TftpErrorCode; readonly message: string }
  | { readonly do: 'end'; readonly outcome: Outcome; readonly why: string };

export interface Stepped {
  readonly state: TransferState;
  readonly effects: readonly Effect[];
}

/** Before a round trip was measured. RFC 7440 suggests a second. */
const FIRST_TIMEOUT = 1000;
/** A client that writes to flash or polls its card may think this long between blocks. */
const LEAST_TIMEOUT = 250;
const LONGEST_TIMEOUT = 16_000;
/**
 * Time-outs without progress until a client counts as gone: with 1 s doubling to 16 s about a
 * minute.
 */
const MAX_SILENT = 6;
/**
 * Fewer before the first sign of life: the sender's address may be forged, and each answer goes to
 * a stranger.
 */
const MAX_SILENT_AT_FIRST = 4;
/** Fewer for the last block: a client that has the file often leaves before we hear of it. */
const MAX_SILENT_AT_LAST = 4;
/** However slow the client's own time-out is. */
const LONGEST_SILENCE = 300_000;

/** A repeated request sooner than this after the first packet changes nothing. */
const REPEAT_AFTER = 500;

const NOTHING: readonly Effect[] = [];

export const newTransfer: TransferState = {
  phase: 'new',
  acked: 0,
  sent: 0,
  silent: 0,
  deadline: 0 as Millis,
  sentAt: 0 as Millis,
  movedAt: 0 as Millis,
  clean: false,
  repaired: false,
  roundTrip: 0,
  variation: 0,
};

/**
 * Advances a transfer by one event at monotonic time `now`. Never throws; an ended transfer stays
 * as it is.
 */
export function step(plan: TransferPlan, state: TransferState, event: TransferEvent, now: Millis): Stepped {
  if (state.phase === 'ended') return { state, effects: NOTHING };
  switch (event.kind) {
    case 'ack':
      return acknowledged(plan, state, event.block, now);
    case 'start':
      return state.phase === 'new'
        ? open(plan, { ...state, movedAt: now }, now)
        : { state, effects: NOTHING };
    case 'timeout':
      return silence(plan, state, now);
    case 'again':
      // repeats that waited together with the first request are answered already, and atftp aborts
      // at a second OACK
      return state.phase !== 'new' && state.acked === 0 && now - state.sentAt >= REPEAT_AFTER
        ? { state, effects: [firstPacket(plan, state)] }
        : { state, effects: NOTHING };
    case 'error': {
      const probed = state.acked === 0 && plan.oack && (event.code === 8 || event.code === 0);
      return ended(
        state,
        probed ? 'probed' : 'aborted',
        `the client sent error ${event.code}: ${event.message}`,
      );
    }
    case 'superseded':
      // not a word to the client: it would take it for the answer to its new request
      return state.phase === 'data' && state.sent === plan.blocks
        ? ended(state, 'unconfirmed', 'all was sent; the client asked for something else')
        : ended(state, 'superseded', 'another request came from the same port');
    case 'stop': {
      const over = ended(state, event.outcome, event.message);
      return {
        state: over.state,
        effects: [{ do: 'error', code: event.code, message: event.message }, ...over.effects],
      };
    }
  }
}

function open(plan: TransferPlan, state: TransferState, now: Millis): Stepped {
  if (!plan.oack) return windowFrom(plan, { ...state, phase: 'data' }, 1, now, true);
  const next: TransferState = { ...state, phase: 'oack', sentAt: now, clean: true };
  return { state: { ...next, deadline: due(plan, next, now) }, effects: [{ do: 'oack' }] };
}

function firstPacket(plan: TransferPlan, state: TransferState): Effect {
  return state.phase === 'oack'
    ? { do: 'oack' }
    : { do: 'data', from: 1, to: Math.min(plan.window, plan.blocks) };
}

/** The window after `from - 1` goes out; `clean` when none of it did before. */
function windowFrom(
  plan: TransferPlan,
  state: TransferState,
  from: number,
  now: Millis,
  clean: boolean,
): Stepped {
  const to = Math.min(from + plan.window - 1, plan.blocks);
  const next: TransferState = {
    phase: 'data',
    acked: from - 1,
    sent: to,
    silent: state.silent,
    deadline: due(plan, state, now),
    sentAt: now,
    movedAt: state.movedAt,
    clean,
    repaired: false,
    roundTrip: state.roundTrip,
    variation: state.variation,
  };
  return { state: next, effects: [{ do: 'data', from, to }] };
}

function acknowledged(plan: TransferPlan, state: TransferState, block: number, now: Millis): Stepped {
  if (state.phase === 'oack')
    return block === 0
      ? windowFrom(plan, moved(measured(state, now), now), 1, now, true)
      : { state, effects: NOTHING };
  if (state.phase !== 'data') return { state, effects: NOTHING };
  // the wire has 16 bits; the window is far smaller, so the distance from the last acknowledged
  // block is unambiguous
  const ahead = (block - state.acked) & 0xffff;
  if (ahead === 0) return duplicate(plan, state, now);
  const acked = state.acked + ahead;
  if (acked > state.sent) return { state, effects: NOTHING };
  if (acked === plan.blocks) return ended({ ...state, acked }, 'served', 'the last block was acknowledged');
  const whole = acked === state.sent;
  const next = moved(whole && state.clean ? measured(state, now) : state, now);
  // a part of the window: the client misses the block after it and threw away the rest (RFC 7440
  // §4)
  return windowFrom(plan, next, acked + 1, now, whole);
}

/**
 * The same ACK again. With a window of one it is never answered: the packet that it would ask for
 * is on its way, and answering doubles every packet from then on. With a larger window it may say
 * that the window's first block was lost; then the window goes out once more, once only, and not
 * before an answer to it could have come back.
 */
function duplicate(plan: TransferPlan, state: TransferState, now: Millis): Stepped {
  const early = now - state.sentAt < state.roundTrip / 2;
  if (plan.window === 1 || state.repaired || early) return { state, effects: NOTHING };
  const again = windowFrom(plan, state, state.acked + 1, now, false);
  return { state: { ...again.state, repaired: true }, effects: again.effects };
}

function silence(plan: TransferPlan, state: TransferState, now: Millis): Stepped {
  if (state.phase === 'new' || now < state.deadline) return { state, effects: NOTHING };
  const atLast = state.phase === 'data' && state.sent === plan.blocks;
  const most =
    state.phase === 'oack' || state.acked === 0
      ? MAX_SILENT_AT_FIRST
      : atLast
        ? MAX_SILENT_AT_LAST
        : MAX_SILENT;
  if (state.silent >= most || (state.silent > 0 && now - state.movedAt > LONGEST_SILENCE)) {
    if (atLast && state.acked > 0)
      return ended(state, 'unconfirmed', 'all was sent; the last acknowledgement did not come');
    return ended(state, 'timeout', `the client fell silent after block ${state.acked} of ${plan.blocks}`);
  }
  const next = { ...state, silent: state.silent + 1, clean: false };
  if (state.phase === 'oack')
    return { state: { ...next, sentAt: now, deadline: due(plan, next, now) }, effects: [{ do: 'oack' }] };
  return windowFrom(plan, next, state.acked + 1, now, false);
}

function ended(state: TransferState, outcome: Outcome, why: string): Stepped {
  return { state: { ...state, phase: 'ended' }, effects: [{ do: 'end', outcome, why }] };
}

/** The client moved on: its silence is over. */
function moved(state: TransferState, now: Millis): TransferState {
  return { ...state, silent: 0, movedAt: now };
}

/** RFC 6298 §2, in ms. */
function measured(state: TransferState, now: Millis): TransferState {
  if (!state.clean) return state;
  const sample = now - state.sentAt;
  if (state.roundTrip === 0) return { ...state, roundTrip: sample, variation: sample / 2 };
  const variation = state.variation * 0.75 + Math.abs(state.roundTrip - sample) * 0.25;
  return { ...state, roundTrip: state.roundTrip * 0.875 + sample * 0.125, variation };
}

/**
 * When the answer to what goes out now is overdue: the client's own time-out, else a measured one,
 * doubled per silence.
 */
function due(plan: TransferPlan, state: TransferState, now: Millis): Millis {
  const base =
    plan.timeout ??
    (state.roundTrip === 0 ? FIRST_TIMEOUT : Math.max(LEAST_TIMEOUT, state.roundTrip + 4 * state.variation));
  const span = Math.min(base * 2 ** state.silent, Math.max(LONGEST_TIMEOUT, base));
  return (now + span) as Millis;
}
