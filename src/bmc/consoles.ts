/**
 * Holds the serial consoles of machines whose documents name one (`console: sol` or `redfish`),
 * from the first octet of the firmware: keeps what they print, and passes on what is typed.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { duration, type Millis, millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { inParts } from '../base/parts.ts';
import { apart, beforeChange } from '../base/rehearsal.ts';
import type { EventLog } from '../events/event.ts';
import { consolePart, withoutSecrets } from '../machines/console.ts';
import { type Bmc, type BmcConsole, BmcFault } from './bmc.ts';
import type { Connections } from './connect.ts';
import { LiveText } from './live-text.ts';
import type { Reach } from './reach.ts';
import { endsBoot, SerialText } from './serial-text.ts';

/** A BMC that gives no console is asked again after this, and each time later. */
const FIRST_RETRY = duration('5s');
const LAST_RETRY = duration('5m');
/** Lines are kept this often: a machine prints thousands a second. */
const KEEP_EVERY = duration('2s');

export interface HeldConsole {
  /** Since when it is open. */
  readonly since?: Millis;
  /** Why it is not. */
  readonly fault?: string;
}

export interface BmcConsoles {
  /** Opens and closes consoles as the documents say now. */
  sync(): void;
  /** How the console of a machine is; undefined: no document asks for one. */
  held(machine: string): HeldConsole | undefined;
  /** @throws {MusterError} E_BMC when it is not open, or its line is too slow for so much */
  type(machine: string, text: string): void;
  /**
   * What a machine prints, as a terminal needs it.
   *
   * @throws {MusterError} E_BMC when no document asks for its console
   */
  live(machine: string): Pick<LiveText, 'kept' | 'subscribe'>;
  /** Gives all back. */
  close(): Promise<void>;
}

interface ConsolesDeps {
  readonly connections: Pick<Connections, 'hold'>;
  /** The machines with a console, and how their BMCs are reached. */
  readonly wanted: () => ReadonlyMap<string, Reach>;
  /** Keeps lines of a machine's boot. */
  readonly take: (machine: string, part: ReturnType<typeof consolePart>) => Promise<unknown>;
  /** Texts that must not be shown, such as the id of the machine's boot session. */
  readonly secrets: (machine: string) => readonly string[];
  readonly events: Pick<EventLog, 'subscribe'>;
  readonly clock: Pick<Clock, 'after' | 'now'>;
  readonly log: Log;
}

/**
 * Opens the consoles, none of them yet.
 *
 * @throws {MusterError} `type`: E_BMC
 */
export function openBmcConsoles(deps: ConsolesDeps): BmcConsoles {
  const lines = new Map<string, Line>();
  const lineOf = (machine: string): Line => {
    const line = lines.get(machine);
    if (line) return line;
    throw new MusterError('E_BMC', `no document says that the boot host holds the console of ${machine}`);
  };
  const unsubscribe = deps.events.subscribe(({ kind, subject }) => {
    if (kind === 'boot.session') lines.get(subject)?.booted();
  });
  return {
    sync() {
      const wanted = deps.wanted();
      for (const [machine, line] of lines)
        if (JSON.stringify(wanted.get(machine)) !== line.reached) {
          lines.delete(machine);
          void line.close();
        }
      for (const [machine, reach] of wanted)
        if (!lines.has(machine)) lines.set(machine, new Line(machine, reach, deps));
    },
    held: (machine) => lines.get(machine)?.held(),
    type: (machine, text) => lineOf(machine).type(text),
    live: (machine) => lineOf(machine).live,
    async close() {
      unsubscribe();
      await Promise.all([...lines.values()].map((line) => line.close()));
    },
  };
}

/** The console of one machine: opened again whenever it ended. */
class Line {
  /** The text of how it is reached: a change of it needs another line. */
  readonly reached: string;
  readonly live: LiveText;
  readonly #machine: string;
  readonly #reach: Reach;
  readonly #deps: ConsolesDeps;
  #open: { readonly bmc: Bmc; readonly console: BmcConsole; readonly since: Millis } | undefined;
  #fault: string | undefined;
  #closed = false;
  #text = new SerialText();
  #boot: string = randomUUID();
  /** Whether the machine has booted since the boot that is kept began. */
  #hasBooted = false;
  #printed: string[] = [];
  #retry = FIRST_RETRY;
  #cancelRetry = (): void => {};
  #cancelKeep: (() => void) | undefined;

  constructor(machine: string, reach: Reach, deps: ConsolesDeps) {
    this.#machine = machine;
    this.#reach = reach;
    this.#deps = deps;
    this.reached = JSON.stringify(reach);
    this.live = new LiveText({
      hidden: (text) => withoutSecrets(text, deps.secrets(machine)),
      after: (milliseconds, call) => deps.clock.after(millis(milliseconds), call),
    });
    // It outlives the order that changed the document.
    void apart(() => this.#start());
  }

  held(): HeldConsole {
    if (this.#open) return { since: this.#open.since };
    return this.#fault === undefined ? {} : { fault: this.#fault };
  }

  type(text: string): void {
    if (this.#open) beforeChange(`type into the console of ${this.#machine}`);
    const isSent = this.#open?.console.type(Buffer.from(text));
    if (isSent) return;
    const why =
      isSent === undefined ? (this.#fault ?? 'it is not open yet') : 'its line is slow, and text waits';
    throw new MusterError('E_BMC', `the console of ${this.#machine}: ${why}`);
  }

  /** The firmware of the machine asked for an address: what it prints is of this boot. */
  booted(): void {
    if (this.#hasBooted) this.#nextBoot();
    this.#hasBooted = true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry();
    await this.#leave();
    this.#keep();
  }

  async #start(): Promise<void> {
    let bmc: Bmc | undefined;
    try {
      if (this.#reach.system !== undefined && this.#reach.console === 'sol')
        throw new BmcFault('refused', 'its BMC has several machines, and serial over LAN names none of them');
      bmc = await this.#deps.connections.hold(this.#machine, this.#reach);
      const ended = (): void => void this.#again('its BMC ended the console');
      const printed = (octets: Buffer): void => this.#take(octets);
      const console = await bmc.console({ printed, ended });
      this.#open = { bmc, console, since: this.#deps.clock.now() };
      this.#fault = undefined;
      this.#retry = FIRST_RETRY;
      if (this.#closed) await this.#leave();
    } catch (error) {
      await bmc?.close();
      const why = error instanceof BmcFault ? `${error.code}: ${error.message}` : String(error);
      await this.#again(why);
    }
  }

  async #again(why: string): Promise<void> {
    await this.#leave();
    if (this.#closed) return;
    if (this.#fault === undefined)
      this.#deps.log.warn({ machine: this.#machine, why }, 'the console of a machine is not open');
    this.#fault = why;
    this.#cancelRetry = this.#deps.clock.after(this.#retry, () => void this.#start());
    this.#retry = Math.min(LAST_RETRY, this.#retry * 2) as Millis;
  }

  async #leave(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    await open?.console.close();
    await open?.bmc.close();
  }

  #take(octets: Buffer): void {
    this.live.take(octets);
    for (const line of this.#text.take(octets)) {
      this.#printed.push(line);
      if (endsBoot(line)) this.#nextBoot();
    }
    this.#cancelKeep ??= this.#deps.clock.after(KEEP_EVERY, () => {
      const rest = this.#text.rest();
      if (rest !== '') this.#printed.push(rest);
      this.#keep();
    });
  }

  /** What comes from here on is of another boot. */
  #nextBoot(): void {
    this.#keep();
    this.#boot = randomUUID();
    this.#hasBooted = false;
  }

  #keep(): void {
    this.#cancelKeep?.();
    this.#cancelKeep = undefined;
    const secrets = this.#deps.secrets(this.#machine);
    for (const part of inParts(this.#printed.splice(0), MOST)) {
      const lines = part.join('\n');
      void this.#deps.take(this.#machine, consolePart({ boot: this.#boot, lines }, secrets));
    }
  }
}

/** So many lines are kept at once; each has at most 1,000 characters of up to four octets. */
const MOST = 8;
