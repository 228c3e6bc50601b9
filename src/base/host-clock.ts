/**
 * The clock of the server: the host's own, judged by the machines, time servers, the store and the
 * time that has passed. See clock-judge.ts for the rules.
 */
import type { Clock } from './clock.ts';
import { type ClockDoubt, type ClockVerdict, type ClockVote, judgeClock, STEPPED } from './clock-judge.ts';
import { duration, type Millis } from './duration.ts';

/** How often the clock is judged when it was not set. */
const JUDGE_EVERY = duration('1s');
/** A clock that was not heard for this long has no vote. */
const HEARD_WITHIN = duration('2m');
/** The answer of a time server counts for this long. */
const ANSWERED_WITHIN = duration('10m');
/** After a start or a silence, the machines have this long to be heard: the first may be a liar. */
const SETTLES = duration('1m');
/** The most machines whose clocks are remembered. */
const MOST = 10_000;

/** What knows the time besides the host's clock. */
export interface ClockWitnesses {
  /**
   * A machine told its time now, authenticated by its certificate. `movedMs`: how far the boot host
   * has moved that clock in this boot.
   */
  heard(machine: string, told: { readonly at: number; readonly movedMs: number }): void;
}

export interface HostClockDeps {
  /** The host's clock, its monotonic time and its timers. */
  readonly source: Omit<Clock, 'doubt'>;
  /**
   * Time since the kernel started, ms, which also passes while the host is suspended. `exact`: it
   * is read again.
   */
  readonly passed: (exact?: 'exact') => number;
}

/** A time that was told, and when, by {@link HostClockDeps.passed}. */
interface Told {
  readonly at: number;
  readonly moved: boolean;
  readonly heardAt: number;
}

export class HostClock implements Clock, ClockWitnesses {
  readonly #source: HostClockDeps['source'];
  readonly #passed: HostClockDeps['passed'];
  readonly #startedAt: number;
  #settlesAt: number;
  #lastHeard = Number.NEGATIVE_INFINITY;
  readonly #machines = new Map<string, Told>();
  #servers: readonly Told[] = [];
  #known: () => number = () => 0;
  #synchronized: boolean | undefined;
  #stored: number | undefined;
  /** The host's clock minus the time that has passed, when it was last accepted. */
  #accepted: { readonly offset: number; readonly proved: boolean } | undefined;
  #judged: { readonly at: number; readonly offset: number; readonly verdict: ClockVerdict } | undefined;
  /** What was said last. */
  #said: ClockVerdict | undefined;
  /** Something was told since the last judgement. */
  #stale = false;
  #changed: (verdict: ClockVerdict) => void = () => {};

  constructor({ source, passed }: HostClockDeps) {
    this.#source = source;
    this.#passed = passed;
    this.#startedAt = passed();
    this.#settlesAt = this.#startedAt + SETTLES;
  }

  now(): Millis {
    const verdict = this.verdict();
    if (verdict.proved || verdict.time === undefined) return this.#source.now();
    const { at } = this.#judged!;
    return Math.round(verdict.time + this.#passed() - at) as Millis;
  }

  doubt(): ClockDoubt | undefined {
    const verdict = this.verdict();
    return verdict.proved ? undefined : verdict;
  }

  monotonic(): Millis {
    return this.#source.monotonic();
  }

  after(span: Millis, fn: () => void): () => void {
    return this.#source.after(span, fn);
  }

  heard(machine: string, { at, movedMs }: { readonly at: number; readonly movedMs: number }): void {
    if (this.#machines.size >= MOST && !this.#machines.has(machine)) return;
    const moved = Math.abs(movedMs) >= STEPPED;
    const now = this.#passed();
    if (now - this.#lastHeard > HEARD_WITHIN) this.#settlesAt = now + SETTLES;
    this.#lastHeard = now;
    this.#machines.set(machine, { at: at - movedMs, moved, heardAt: now });
    // What a machine says counts for the answer that it gets.
    if (this.#judged?.verdict.proved !== true || Math.abs(at - movedMs - this.#source.now()) > STEPPED)
      this.#stale = true;
  }

  /** Time servers told their times now. */
  serversTold(times: readonly number[]): void {
    const heardAt = this.#passed();
    if (times.length > 0) this.#servers = times.map((at) => ({ at, moved: false, heardAt }));
    this.#stale = true;
  }

  /** What the kernel says of time servers. */
  setSynchronized(synchronized: boolean | undefined): void {
    this.#synchronized = synchronized;
  }

  /** How many machines have a certificate, and the newest proved time in the store. */
  follow(of: {
    readonly known: () => number;
    readonly stored: number | undefined;
    readonly changed: (verdict: ClockVerdict) => void;
  }): void {
    this.#known = of.known;
    this.#stored = of.stored;
    this.#changed = of.changed;
    this.#stale = true;
  }

  /** The judgement of now: at once after the clock was set, otherwise at most a second old. */
  verdict(): ClockVerdict {
    const wall = this.#source.now();
    const last = this.#judged;
    const set = (by: number): boolean => last !== undefined && Math.abs(wall - by - last.offset) >= STEPPED;
    let passed = this.#passed();
    // A host that was suspended was not set.
    if (set(passed)) passed = this.#passed('exact');
    const offset = wall - passed;
    if (last && !this.#stale && passed - last.at < JUDGE_EVERY && !set(passed)) return last.verdict;
    this.#stale = false;
    const lately = (all: Iterable<Told>, span: number): readonly ClockVote[] =>
      [...all]
        .filter(({ heardAt }) => passed - heardAt <= span)
        .map(({ at, moved, heardAt }) => ({ at: at + passed - heardAt, moved }));
    const continued = this.#accepted && this.#accepted.offset + passed;
    const verdict = judgeClock({
      wall,
      continued,
      continuedProved: this.#accepted?.proved === true,
      machines: lately(this.#machines.values(), HEARD_WITHIN),
      known: this.#known(),
      settled: passed >= this.#settlesAt,
      servers: lately(this.#servers, ANSWERED_WITHIN).map(({ at }) => at),
      synchronized: this.#synchronized,
      stored: this.#stored === undefined ? undefined : this.#stored + passed - this.#startedAt,
    });
    if (verdict.proved) {
      // What was proved before stays so while the clock only goes on.
      const proved = verdict.by !== 'nobody' || this.#goesOn(wall, continued);
      this.#accepted = { offset, proved };
    }
    this.#judged = { at: passed, offset, verdict };
    if (codeOf(this.#said) !== codeOf(verdict)) {
      this.#said = verdict;
      this.#changed(verdict);
    }
    return verdict;
  }

  #goesOn(wall: number, continued: number | undefined): boolean {
    return (
      this.#accepted?.proved === true && continued !== undefined && Math.abs(wall - continued) <= STEPPED
    );
  }
}

const codeOf = (verdict: ClockVerdict | undefined): string | undefined =>
  verdict === undefined || verdict.proved ? undefined : verdict.code;
