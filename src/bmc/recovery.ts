/**
 * Restarts machines that hang, one after the other, where their Profiles say so. What it decides by
 * is in recover.ts; that a restart helped is proved as that of any order is.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import { startRounds } from '../base/rounds.ts';
import type { EventSink } from '../events/event.ts';
import type { PowerState } from './bmc.ts';
import { type PowerOrders, RECOVERY, recoveriesOf } from './orders.ts';
import { RECOVER_REASONS, type RecoverReason, type RecoverRule, staysSilent } from './recover.ts';

const EVERY = duration('15s');

interface RecoveryDeps {
  /** The machines whose agents should be heard and are not. */
  readonly silent: () => readonly string[];
  /** What the Profile of a machine allows; undefined: nothing, or no document names its BMC. */
  readonly rule: (machine: string) => RecoverRule | undefined;
  /** Whether anything answers at the addresses of a machine. */
  readonly answers: (machine: string) => Promise<boolean>;
  /** Why its cluster cannot do without it now, or why that is not known. */
  readonly needed: (machine: string) => Promise<string | undefined>;
  readonly orders: Pick<PowerOrders, 'give' | 'last' | 'read'>;
  readonly events: EventSink;
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>;
  readonly log: Log;
}

/** Starts the watch. Returns what ends it. */
export function watchSilence(deps: RecoveryDeps): () => void {
  const watch = new Recovery(deps);
  const how = { every: EVERY, failed: 'silent machines could not be looked at' };
  return startRounds(deps, how, () => watch.round());
}

/** Exported for tests. */
export class Recovery {
  readonly #deps: RecoveryDeps;
  /** Since when each machine is silent, as this server saw it: it may just have started. */
  readonly #since = new Map<string, Millis>();
  /** What was said last of each machine. */
  readonly #said = new Map<string, RecoverReason>();

  constructor(deps: RecoveryDeps) {
    this.#deps = deps;
  }

  async round(): Promise<void> {
    const { silent, rule, clock } = this.#deps;
    const now = clock.monotonic();
    const all = new Set(silent());
    for (const machine of this.#since.keys())
      if (!all.has(machine)) {
        this.#since.delete(machine);
        this.#said.delete(machine);
      }
    for (const machine of all) if (!this.#since.has(machine)) this.#since.set(machine, now);
    // One at a time: what happens to it says something about the others.
    const isRestarted = (machine: string): boolean =>
      this.#deps.orders.last(machine)?.by === RECOVERY && this.#isOrdered(machine);
    if ([...all].some(isRestarted)) return;
    for (const machine of all) {
      const one = {
        rule: rule(machine),
        silentFor: (now - this.#since.get(machine)!) as Millis,
        power: this.#power(machine),
        restarts: recoveriesOf(this.#deps.orders.last(machine), clock.now()).length,
        isOrdered: this.#isOrdered(machine),
      };
      const why = staysSilent(one, all.size) ?? (await this.#asks(machine));
      if (why === 'wait') continue;
      if (why !== undefined) {
        this.#say(machine, why);
        continue;
      }
      // The next silence is one after the restart.
      this.#since.set(machine, now);
      this.#say(machine, 'restarted');
      await this.#deps.orders.give([machine], { want: 'cycle', by: RECOVERY });
      return;
    }
  }

  /** What is asked last, because it takes time. */
  async #asks(machine: string): Promise<RecoverReason | undefined> {
    if (await this.#deps.answers(machine)) return 'answers';
    return (await this.#deps.needed(machine)) === undefined ? undefined : 'needed';
  }

  #power(machine: string): PowerState {
    return this.#deps.orders.read(machine)?.state ?? 'unknown';
  }

  #isOrdered(machine: string): boolean {
    const last = this.#deps.orders.last(machine);
    return last !== undefined && last.end === undefined;
  }

  #say(machine: string, code: RecoverReason): void {
    if (this.#said.get(machine) === code) return;
    this.#said.set(machine, code);
    this.#deps.events.record({
      kind: 'machine.recovery',
      subject: machine,
      reason: { code, text: `It is silent: ${RECOVER_REASONS[code]}.` },
    });
  }
}
