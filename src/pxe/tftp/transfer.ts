/**
 * One TFTP transfer as a pure state machine: `step(plan, state, event, now)` gives the next state
 * and what to do. Socket, file and clock are in `transfer.socket.ts`.
 *
 * Rules: RFC 1350; RFC 2347 (ACK 0 confirms an OACK); RFC 7440 (a window restarts after the last
 * block that arrived); RFC 1123 §4.2.3.1 (a duplicate ACK never makes DATA be sent twice, the
 * Sorcerer's Apprentice bug) and §4.2.3.2 (time-outs back off exponentially). Block numbers grow
 * without limit here and roll over to 0 on the wire.
 */
import type { Millis } from '../../base/duration.ts';
import type { TftpErrorCode } from './codec.ts';

/** The parameters of a transfer, which do not change. */
export interface TransferPlan {
  /** Number of blocks, at least 1. */
  readonly blocks: number;
  readonly window: number;
  /** Whether the transfer begins with an OACK. */
  readonly oack: boolean;
  /** The client's time-out (option `timeout`), if it asked for one. */
  readonly timeout: Millis | undefined;
}

/**
 * How a transfer ended; the value is the metric's label. `served`: the last block was acknowledged.
 * `unconfirmed`: all blocks were sent, the last acknowledgement did not come (a client that has the
 * file may leave). `probed`: the client only asked for size and options (quirk tftp-probe).
 * `aborted`: the client gave up. `timeout`: the client fell silent. `failed`: the file could not be
 * read. `superseded`: the client asked for something else from the same port. `displaced`: the
 * client had acknowledged nothing, and its place was needed. `shutdown`: the server stopped.
 */
const OUTCOMES = [
  'served',
  'unconfirmed',
  'probed',
  'aborted',
  'timeout',
  'failed',
  'superseded',
  'displaced',
  'shutdown',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface TransferState {
  readonly phase: 'new' | 'oack' | 'data' | 'ended';
  /**
   * The client has acknowledged something: it receives what is sent, and its address is not forged.
   */
  readonly confirmed: boolean;
  /** Number of the last acknowledged block. */
  readonly acked: number;
  /** Number of the last block that was sent. */
  readonly sent: number;
  /** Number of time-outs since the last progress. */
  readonly silent: number;
  /** When the event `timeout` is due. */
  readonly deadline: Millis;
  /** When the present window was sent. */
  readonly sentAt: Millis;
  /** When the client last made progress. */
  readonly movedAt: Millis;
  /** The window was sent once only, so its round trip can be measured (Karn's algorithm). */
  readonly clean: boolean;
  /** This window was already repeated because of a duplicate ACK. */
  readonly repaired: boolean;
  /** Smoothed round trip and its variation in ms (RFC 6298); 0: not measured yet. */
  readonly roundTrip: number;
  readonly variation: number;
}

export type TransferEvent =
  | { readonly kind: 'start' }
  | { readonly kind: 'ack'; readonly block: number }
  /** The client's ERROR packet. */
  | { readonly kind: 'error'; readonly code: number; readonly message: string }
  | { readonly kind: 'timeout' }
  /** The client repeated its request: our first packet was lost or is still on its way. */
  | { readonly kind: 'again' }
  /** The client asked for something else from the same port. */
  | { readonly kind: 'superseded' }
  /** The client has acknowledged nothing, and its place is needed. */
  | { readonly kind: 'displaced' }
  /** The server cannot continue. */
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

interface Stepped {
  readonly state: TransferState;
  readonly effects: readonly Effect[];
}

/** Time-out in ms until a round trip was measured. RFC 7440 suggests a second. */
const FIRST_TIMEOUT = 1000;
/** Shortest time-out in ms. A client that writes to flash may need this long for a block. */
const LEAST_TIMEOUT = 250;
/** Longest time-out in ms, unless the client asked for a longer one. */
const LONGEST_TIMEOUT = 16_000;
/** Time-outs without progress after which a client counts as gone: about a minute. */
const MAX_SILENT = 6;
/**
 * {@link MAX_SILENT} before the first ACK. It is lower, because the sender's address may be forged.
 */
const MAX_SILENT_AT_FIRST = 4;
/**
 * How often the first packet is repeated before the first ACK: more would reach a stranger if the
 * address is forged. A client that is there repeats its request.
 */
const REPEATS_AT_FIRST = 1;
/**
 * {@link MAX_SILENT} for the last block. It is lower, because a client that has the file often
 * leaves without acknowledging the block.
 */
const MAX_SILENT_AT_LAST = 4;
/** A silent client counts as gone after this many ms, however long its own time-out is. */
const LONGEST_SILENCE = 300_000;

/** A repeated request within this many ms after the first packet is ignored. */
const REPEAT_AFTER = 500;

const NOTHING: readonly Effect[] = [];

export const newTransfer: TransferState = {
  phase: 'new',
  confirmed: false,
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
 * Advances a transfer by one event at monotonic time `now`. Never throws. An ended transfer does
 * not change.
 *
 * @example
 * let { state, effects } = step(plan, newTransfer, { kind: 'start' }, now);
 * // effects: [{ do: 'oack' }], or the first window: [{ do: 'data', from: 1, to: 4 }]
 * ({ state, effects } = step(plan, state, { kind: 'ack', block: 4 }, now));
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
      // Repeats that were queued with the first request are answered already, and atftp aborts at a
      // second OACK.
      return state.phase !== 'new' && state.acked === 0 && now - state.sentAt >= REPEAT_AFTER
        ? { state: { ...state, sentAt: now, clean: false }, effects: [firstPacket(plan, state)] }
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
      // The client gets no packet: it would take it for the answer to its new request.
      return state.phase === 'data' && state.sent === plan.blocks
        ? ended(state, 'unconfirmed', 'all blocks were sent; the client then asked for something else')
        : ended(state, 'superseded', 'another request came from the same port');
    case 'displaced':
      return ended(state, 'displaced', 'the client had acknowledged nothing, and its place was needed');
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

/** Sends the window that begins with block `from`. `clean`: none of it was sent before. */
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
    confirmed: state.confirmed,
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
  // The wire has 16 bits. The window is far smaller, so the distance from the last acknowledged
  // block is unambiguous.
  const ahead = (block - state.acked) & 0xffff;
  if (ahead === 0) return duplicate(plan, state, now);
  const acked = state.acked + ahead;
  if (acked > state.sent) return { state, effects: NOTHING };
  if (acked === plan.blocks) return ended({ ...state, acked }, 'served', 'the last block was acknowledged');
  const whole = acked === state.sent;
  const next = moved(whole && state.clean ? measured(state, now) : state, now);
  // An ACK inside the window: the client lacks the next block and has dropped the rest (RFC 7440
  // §4).
  return windowFrom(plan, next, acked + 1, now, whole);
}

/**
 * The same ACK again. With a window of one it is ignored: the next block is on its way, and an
 * answer would double every packet from then on. With a larger window it may mean that the window's
 * first block was lost. The window is then sent again, once only, and not before an answer to it
 * could have come back.
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
      return ended(state, 'unconfirmed', 'all blocks were sent; the last acknowledgement did not come');
    return ended(state, 'timeout', `the client fell silent after block ${state.acked} of ${plan.blocks}`);
  }
  const next = { ...state, silent: state.silent + 1, clean: false };
  if (!state.confirmed && state.silent >= REPEATS_AT_FIRST)
    return { state: { ...next, deadline: due(plan, next, now) }, effects: NOTHING };
  if (state.phase === 'oack')
    return { state: { ...next, sentAt: now, deadline: due(plan, next, now) }, effects: [{ do: 'oack' }] };
  return windowFrom(plan, next, state.acked + 1, now, false);
}

function ended(state: TransferState, outcome: Outcome, why: string): Stepped {
  return { state: { ...state, phase: 'ended' }, effects: [{ do: 'end', outcome, why }] };
}

/** The client made progress. */
function moved(state: TransferState, now: Millis): TransferState {
  return { ...state, confirmed: true, silent: 0, movedAt: now };
}

/** Updates the round trip from the window that is now acknowledged (RFC 6298 §2). */
function measured(state: TransferState, now: Millis): TransferState {
  if (!state.clean) return state;
  const sample = now - state.sentAt;
  if (state.roundTrip === 0) return { ...state, roundTrip: sample, variation: sample / 2 };
  const variation = state.variation * 0.75 + Math.abs(state.roundTrip - sample) * 0.25;
  return { ...state, roundTrip: state.roundTrip * 0.875 + sample * 0.125, variation };
}

/**
 * When the answer to a packet sent at `now` is overdue: after the client's time-out, else the
 * measured one, doubled for each time-out without progress.
 */
function due(plan: TransferPlan, state: TransferState, now: Millis): Millis {
  const base =
    plan.timeout ??
    (state.roundTrip === 0 ? FIRST_TIMEOUT : Math.max(LEAST_TIMEOUT, state.roundTrip + 4 * state.variation));
  const span = Math.min(base * 2 ** state.silent, Math.max(LONGEST_TIMEOUT, base));
  return (now + span) as Millis;
}
