/**
 * Judges the host's clock by everything that knows the time besides: the machines, time servers,
 * the newest time that the store has seen, and the time that has passed since. Pure.
 */
import { duration, type Millis, spanText } from './duration.ts';

/**
 * Clocks that are further apart than this contradict each other. Certificates begin a day before
 * they are issued, and a hardware clock that keeps local time is off by up to 14 hours: neither
 * harms.
 */
export const CONTRADICTS = duration('20h');
/** A clock that differs by more than this from the time that has passed was set. */
export const STEPPED = duration('2m');
/** Machines whose clocks are as close as this agree. */
const AGREE = duration('5m');
/** No machine's clock is right that is before this: the hardware clock has lost its time. */
const BUILT = Date.UTC(2026, 10, 1);

/** A clock other than the host's. */
export interface ClockVote {
  /** The time there, at the moment of the judgement, ms since 1970. */
  readonly at: number;
  /**
   * The boot host moved this clock in this boot, and `at` is the time that it would have otherwise.
   * Such a vote counts only together with another one.
   */
  readonly moved: boolean;
}

export interface ClockInput {
  /** The host's clock. */
  readonly wall: number;
  /** The last accepted time, plus the time that has passed since; absent after a start. */
  readonly continued?: number | undefined;
  /** Whether the last accepted time was proved by another clock or by the store. */
  readonly continuedProved: boolean;
  /** Machines that were heard lately. */
  readonly machines: readonly ClockVote[];
  /** How many machines have a certificate, heard or not. */
  readonly known: number;
  /** Whether all that run had the time to be heard, since the start or since any was heard. */
  readonly settled: boolean;
  /** The times of the time servers that answered. */
  readonly servers: readonly number[];
  /** Whether the kernel says that a time server sets the clock; undefined: it does not say. */
  readonly synchronized: boolean | undefined;
  /** The newest proved time in the store, plus the time since the start; undefined: it has none. */
  readonly stored: number | undefined;
}

/** Why the host's clock is in doubt. */
export interface ClockDoubt {
  readonly code: 'machines' | 'time-servers' | 'stepped' | 'behind-store' | 'unproved';
  /** One sentence for people. */
  readonly text: string;
  /** The host's clock minus the other time, ms; positive when the host is ahead. */
  readonly offMs: number;
  /** Whether other clocks say so; otherwise there is only nobody who confirms the host's. */
  readonly contradicted: boolean;
  /** The time to go by meanwhile; absent: none is known, and the host's clock counts. */
  readonly time?: number;
}

export type ClockVerdict =
  | { readonly proved: true; readonly by: 'machines' | 'time-servers' | 'store' | 'passed' | 'nobody' }
  | ({ readonly proved: false } & ClockDoubt);

const within = (a: number, b: number, span: number): boolean => Math.abs(a - b) <= span;

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1]!;

/** The largest set of times that are close to each other. */
function largestGroup(times: readonly number[]): readonly number[] {
  const sorted = times.toSorted((a, b) => a - b);
  let best = { from: 0, to: 0 };
  for (let from = 0, to = 0; to < sorted.length; to++) {
    while (sorted[to]! - sorted[from]! > AGREE) from++;
    if (to + 1 - from > best.to - best.from) best = { from, to: to + 1 };
  }
  return sorted.slice(best.from, best.to);
}

/** Votes that count: a moved clock does only when it had a plausible time that another one had. */
function counted(votes: readonly ClockVote[]): readonly number[] {
  const moved = votes.filter(({ at, moved: was }) => was && at > BUILT).map(({ at }) => at);
  const together = largestGroup(moved);
  return [
    ...votes.filter(({ moved: was }) => !was).map(({ at }) => at),
    ...(together.length > 1 ? together : []),
  ];
}

/** How far a clock is from another time, in words. */
export function apartText(offMs: number): string {
  return `${spanText(Math.abs(offMs) as Millis)} ${offMs > 0 ? 'ahead' : 'behind'}`;
}

/**
 * Judges the host's clock. A majority of the machines decides; without machines that were heard,
 * time servers do; without both, the time that has passed and the newest time in the store.
 */
export function judgeClock(input: ClockInput): ClockVerdict {
  return byMachines(input) ?? byServers(input) ?? alone(input);
}

/** The host's clock was set by more than a correction since it was last accepted. */
const stepOf = ({ wall, continued }: ClockInput): number =>
  continued === undefined || within(wall, continued, STEPPED) ? 0 : wall - continued;

/** How far a time may be from the host's clock to support it: after a step, it has to be nearer. */
const reach = (input: ClockInput): number => {
  const step = Math.abs(stepOf(input));
  return step === 0 ? CONTRADICTS : Math.min(CONTRADICTS, step / 2);
};

function byMachines(input: ClockInput): ClockVerdict | undefined {
  const { wall, known, settled, continued, continuedProved, servers } = input;
  const times = counted(input.machines);
  const span = reach(input);
  const support = times.filter((one) => within(one, wall, span)).length;
  const against = times.filter((one) => !within(one, wall, span));
  if (against.length <= support) {
    // The first that are heard may be liars: they have to be most of all, or the others silent.
    const enough = support > against.length && (settled || support * 2 > known);
    return enough ? { proved: true, by: 'machines' } : undefined;
  }
  const agreed = largestGroup(against);
  const isMajority =
    agreed.length > 1 || known <= 1 ? agreed.length * 2 > Math.max(known, times.length) : false;
  const supported = servers.filter((one) => within(one, wall, span)).length * 2 > servers.length;
  const near = input.stored !== undefined && within(wall, input.stored, CONTRADICTS);
  const backed = supported || (stepOf(input) === 0 && (near || (continuedProved && continued !== undefined)));
  // A minority of the known machines does not move a clock that something else supports.
  if (backed && (!isMajority || known <= 1)) return undefined;
  // The time that has passed is steadier than the clocks of others.
  const steady = continuedProved && continued !== undefined;
  const confirmed = steady && (!isMajority || within(median(agreed), continued, CONTRADICTS));
  const time = confirmed ? continued : isMajority && known > 1 ? median(agreed) : undefined;
  const offMs = wall - median(agreed);
  const who = `${against.length} of ${times.length} machines heard`;
  return doubt(
    'machines',
    offMs,
    `${who} have another time: this host's clock is ${apartText(offMs)}`,
    true,
    time,
  );
}

function byServers(input: ClockInput): ClockVerdict | undefined {
  const { wall, servers, continued } = input;
  if (servers.length === 0) return undefined;
  const against = servers.filter((one) => !within(one, wall, reach(input)));
  if (against.length * 2 < servers.length) return { proved: true, by: 'time-servers' };
  const agreed = largestGroup(against);
  const time = agreed.length > 1 && agreed.length * 2 > servers.length ? median(agreed) : continued;
  const offMs = wall - median(agreed);
  const text = `${against.length} of ${servers.length} time servers have another time: this host's clock is ${apartText(offMs)}`;
  return doubt('time-servers', offMs, text, true, time);
}

function alone(input: ClockInput): ClockVerdict {
  const { wall, continued, continuedProved, known, settled, synchronized, stored } = input;
  if (known === 0) return { proved: true, by: 'nobody' };
  // No clock is heard that would know better (those of machines without a battery do not), and the
  // kernel follows a time server.
  const followed = synchronized === true && settled && counted(input.machines).length === 0;
  const step = stepOf(input);
  if (step !== 0 && !followed) {
    const text = `this host's clock was set ${apartText(step)} while the server ran, and nothing confirms that`;
    return doubt('stepped', step, text, true, continued);
  }
  if (step === 0 && continued !== undefined && continuedProved) return { proved: true, by: 'passed' };
  if (stored === undefined) return { proved: true, by: 'nobody' };
  const since = wall - stored;
  if (since < -CONTRADICTS) {
    const text = `this host's clock is ${apartText(since)} the newest time in the store`;
    return doubt('behind-store', since, text, false, stored);
  }
  if (since <= CONTRADICTS || followed) return { proved: true, by: 'store' };
  const text = `this host's clock is ${apartText(since)} of the newest time in the store, and nothing confirms that`;
  // By a time that is too early nothing ends that has not ended.
  return doubt('unproved', since, text, false, stored);
}

const doubt = (
  code: ClockDoubt['code'],
  offMs: number,
  text: string,
  contradicted: boolean,
  time: number | undefined,
): ClockVerdict => ({
  proved: false,
  code,
  text,
  offMs,
  contradicted,
  ...(time !== undefined && { time }),
});
