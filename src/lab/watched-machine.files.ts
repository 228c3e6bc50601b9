/** One machine of a rack while it runs: its box, and everything that was observed of it. */
import { messageOf } from '../base/error-text.ts';
import type { BootTarget } from '../bmc/bmc.ts';
import type { MusterEvent } from '../events/event.ts';
import { readFacts } from './facts.ts';
import type { Box } from './machine.files.ts';
import { heldFor, type MachineObserved, matches, phaseOf, stepOf, subjectsOf } from './observed.ts';
import { tail } from './report.ts';
import type { LabMachine } from './scenario.ts';
import { type Wait, waitText } from './steps.ts';

const MAX_CONSOLE_BYTES = 4 * 1048576;
/** How many of the machine's last events the report of a failed wait shows. */
const REPORTED_EVENTS = 8;
const REPORTED_LINES = 25;

/** Called with each step of a machine's boot; `at` is in seconds since the run began. */
export type StepListener = (at: number, machine: string, step: string) => void;

/** Seconds since `startedAt`, rounded to tenths. Both arguments are in ms of the host's clock. */
export const secondsSince = (startedAt: number, atMs: number): number =>
  Math.max(0, Math.round((atMs - startedAt) / 100) / 10);

/** A machine with its events, facts, steps and console output. */
export class WatchedMachine {
  readonly seen: MachineObserved;
  readonly box: Box;
  /**
   * Whether the machine is booting, and so counts against the limit of machines that boot at once.
   */
  busy = false;
  /**
   * Host clock (ms) of the last event or octet of console output; undefined while the machine is
   * off or waits to be switched on.
   */
  progressAt: number | undefined;
  readonly #subjects: ReadonlySet<string>;
  readonly #startedAt: number;
  readonly #onStep: StepListener;
  #consoleSize = 0;
  /** Where the events, console output and facts of the present power-on begin. */
  #since = { events: 0, console: 0, facts: 0 };

  /** `startedAt`: when the run began, ms of the host's clock. */
  constructor(machine: LabMachine, box: Box, startedAt: number, onStep: StepListener) {
    this.seen = { machine, steps: [], events: [], disks: [], console: '' };
    this.box = box;
    this.#subjects = subjectsOf(machine);
    this.#startedAt = startedAt;
    this.#onStep = onStep;
  }

  get name(): string {
    return this.seen.machine.name;
  }

  /** Whether events with this subject are about this machine. */
  isSubject(subject: string): boolean {
    return this.#subjects.has(subject);
  }

  /** Notes a step, unless the last one was the same. */
  addStep(step: string, atMs: number = Date.now()): void {
    if (this.seen.steps.at(-1)?.step === step) return;
    const at = secondsSince(this.#startedAt, atMs);
    this.seen.steps.push({ step, at });
    this.#onStep(at, this.name, step);
  }

  event(event: MusterEvent): void {
    this.seen.events.push(event);
    // An order to its BMC is an event of a machine that is still off.
    if (this.box.on) this.progressAt = Date.now();
    const step = stepOf(event);
    if (step) this.addStep(step, event.at);
  }

  /**
   * Whether the part of the boot that burdens the host is over: the machine has reported its facts,
   * is held, or has failed.
   */
  settled(): boolean {
    const present = this.#present();
    return this.seen.facts !== undefined || heldFor(present) !== undefined || phaseOf(present) === 'failed';
  }

  /** Reads what the machine has written since the last look. */
  async look(): Promise<void> {
    const size = await this.box.consoleSize();
    if (size !== this.#consoleSize) {
      this.#consoleSize = size;
      this.progressAt = Date.now();
    }
    const value = readFacts((await this.box.factsText()).slice(this.#since.facts));
    if (value && value.clock !== this.seen.facts?.value.clock) {
      (this.seen as { facts?: MachineObserved['facts'] }).facts = { value, hostAt: Date.now() };
      this.progressAt = Date.now();
      this.addStep('facts');
    }
  }

  /** Switches the machine on; an error becomes a step. */
  async powerOn(boot?: BootTarget): Promise<void> {
    this.busy = true;
    this.addStep('power on');
    try {
      await this.box.powerOn(boot);
    } catch (error) {
      this.busy = false;
      this.addStep(`cannot be switched on: ${messageOf(error)}`);
    }
    // Progress counts only from now on: a disk may have been copied before the machine ran.
    this.progressAt = Date.now();
  }

  /**
   * Switches the machine off by calling `off`. What it shows after its next power-on is kept
   * separate.
   */
  async cutOff(step: string, off: () => Promise<void>): Promise<void> {
    await off();
    await this.look().catch(() => {});
    this.busy = false;
    this.#since = {
      events: this.seen.events.length,
      console: (await this.box.consoleText()).length,
      facts: (await this.box.factsText()).length,
    };
    delete this.seen.facts;
    this.addStep(step);
  }

  /** Whether the machine has shown what the wait is for since it was switched on. */
  async shows(wait: Wait): Promise<boolean> {
    const present = this.#present();
    if (wait.phase) return phaseOf(present) === wait.phase;
    if (wait.held) return heldFor(present) === wait.held;
    if (wait.event) return present.events.some((event) => matches(event, wait.event!));
    if (wait.serial)
      return new RegExp(wait.serial).test((await this.box.consoleText()).slice(this.#since.console));
    return this.seen.facts !== undefined;
  }

  /** Reads everything once more at the end of the run. */
  async finish(): Promise<void> {
    await this.look().catch(() => {});
    this.seen.console = (await this.box.consoleText().catch(() => '')).slice(-MAX_CONSOLE_BYTES);
  }

  /** Why a wait failed, with the machine's last events and the end of its console. */
  async failedWait(wait: Wait, why: string, captureFile: string): Promise<string> {
    const last = this.seen.events.slice(-REPORTED_EVENTS).map((event) => {
      const reason = event.reason ? ` ${event.reason.code}` : '';
      return `    ${new Date(event.at).toISOString().slice(11, 19)} ${event.kind}${reason} ${JSON.stringify(event.fields ?? {})}`;
    });
    return [
      `waited for ${waitText(wait)}; ${why}`,
      `  its last events:${last.length === 0 ? ' none' : ''}`,
      ...last,
      `  the end of its console (${this.box.consoleFile}):`,
      tail(await this.box.consoleText(), REPORTED_LINES),
      `  what was on the wire: ${captureFile}`,
    ].join('\n');
  }

  #present(): Pick<MachineObserved, 'events'> {
    return { events: this.seen.events.slice(this.#since.events) };
  }
}
