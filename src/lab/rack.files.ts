/** The rack while it runs: machines that are switched on and off, what is seen of them, and waiting for something to be seen. */
import type { MusterEvent } from '../events/event.ts';
import { readFacts } from './facts.ts';
import type { Box } from './machine.files.ts';
import { heldFor, type MachineObserved, matches, phaseOf, stepOf, subjectsOf } from './observed.ts';
import { tail } from './report.ts';
import type { LabMachine, Wait } from './scenario.ts';
import { waitText } from './scenario.ts';

const POLL_MS = 250;
const MAX_CONSOLE = 4 * 1048576;

export interface RackOptions {
  readonly boxes: ReadonlyMap<string, Box>;
  readonly machines: readonly LabMachine[];
  /** How many machines may be busy booting at once. */
  readonly parallel: number;
  /** A wait without progress of its machine ends after this. */
  readonly patienceMs: number;
  /** Named where a wait has failed. */
  readonly captureFile: string;
  readonly onStep: (at: number, machine: string, step: string) => void;
  readonly signal: AbortSignal;
}

export interface Rack {
  readonly startedAt: number;
  readonly observed: ReadonlyMap<string, MachineObserved>;
  event(event: MusterEvent): void;
  /** Switches these on, in order, as many at once as may be busy; resolves at once. */
  powerOn(names: readonly string[]): void;
  powerOff(names: readonly string[]): Promise<void>;
  /** Undefined when it came; otherwise why not, with the end of the console. */
  wait(wait: Wait): Promise<string | undefined>;
  /** Reads consoles and facts once more and ends watching. */
  close(): Promise<void>;
}

interface Watched {
  readonly seen: MachineObserved;
  readonly box: Box;
  readonly subjects: ReadonlySet<string>;
  consoleSize: number;
  /** Host clock (ms) of the last event or console octet; undefined while it is off or waits for its turn. */
  progressAt: number | undefined;
  busy: boolean;
}

/** A machine is done with the part of its boot that loads the host: it has said what it is, is held, or has failed. */
const settled = ({ seen }: Watched): boolean =>
  seen.facts !== undefined || heldFor(seen) !== undefined || phaseOf(seen) === 'failed';

export function openRack(options: RackOptions): Rack {
  const startedAt = Date.now();
  const watched = new Map<string, Watched>();
  for (const machine of options.machines)
    watched.set(machine.name, {
      seen: { machine, steps: [], events: [], disks: [], console: '' },
      box: options.boxes.get(machine.name)!,
      subjects: subjectsOf(machine),
      consoleSize: 0,
      progressAt: undefined,
      busy: false,
    });
  const bySession = new Map<string, Watched>();
  const queue: Watched[] = [];

  const addStep = (one: Watched, step: string, atMs: number): void => {
    if (one.seen.steps.at(-1)?.step === step) return;
    const at = Math.max(0, Math.round((atMs - startedAt) / 100) / 10);
    one.seen.steps.push({ step, at });
    options.onStep(at, one.seen.machine.name, step);
  };

  const startNext = (): void => {
    for (const one of watched.values()) if (one.busy && (settled(one) || !one.box.on)) one.busy = false;
    let busy = [...watched.values()].filter((one) => one.busy).length;
    while (busy < options.parallel) {
      const next = queue.shift();
      if (!next) return;
      busy++;
      next.busy = true;
      next.progressAt = Date.now();
      addStep(next, 'power on', Date.now());
      void next.box.powerOn().catch((error: Error) => {
        next.busy = false;
        addStep(next, `cannot be switched on: ${error.message}`, Date.now());
      });
    }
  };

  const look = async (one: Watched): Promise<void> => {
    const size = await one.box.consoleSize();
    if (size !== one.consoleSize) {
      one.consoleSize = size;
      one.progressAt = Date.now();
    }
    const value = readFacts(await one.box.factsText());
    if (value && value.clock !== one.seen.facts?.value.clock) {
      (one.seen as { facts?: MachineObserved['facts'] }).facts = { value, hostAt: Date.now() };
      one.progressAt = Date.now();
      addStep(one, 'facts', Date.now());
    }
  };

  let looking = false;
  const timer = setInterval(async () => {
    if (looking) return;
    looking = true;
    for (const one of watched.values()) if (one.box.on) await look(one).catch(() => {});
    startNext();
    looking = false;
  }, POLL_MS);

  const holds = async (one: Watched, wait: Wait): Promise<boolean> => {
    const { seen } = one;
    if (wait.phase) return phaseOf(seen) === wait.phase;
    if (wait.held) return heldFor(seen) === wait.held;
    if (wait.event) return seen.events.some((event) => matches(event, wait.event!));
    if (wait.serial) return new RegExp(wait.serial).test(await one.box.consoleText());
    return seen.facts !== undefined;
  };

  return {
    startedAt,
    observed: new Map([...watched].map(([name, { seen }]) => [name, seen])),
    event(event) {
      let one = event.session === undefined ? undefined : bySession.get(event.session);
      one ??= [...watched.values()].find(({ subjects }) => subjects.has(event.subject));
      if (!one) return;
      if (event.session !== undefined) bySession.set(event.session, one);
      one.seen.events.push(event);
      one.progressAt = Date.now();
      const step = stepOf(event);
      if (step) addStep(one, step, event.at);
    },
    powerOn(names) {
      for (const name of names) queue.push(watched.get(name)!);
      startNext();
    },
    async powerOff(names) {
      for (const name of names) {
        const one = watched.get(name)!;
        await look(one).catch(() => {});
        await one.box.powerOff();
        one.busy = false;
        addStep(one, 'power off', Date.now());
      }
      startNext();
    },
    async wait(wait) {
      const one = watched.get(wait.machine)!;
      let died = 0;
      while (!(await holds(one, wait))) {
        if (options.signal.aborted) return await stalled(one, wait, 'the run is over', options.captureFile);
        const since = one.progressAt === undefined ? 0 : Date.now() - one.progressAt;
        // Once more around after it went off: what it said last may not have been read yet.
        if (!one.box.on && one.progressAt !== undefined && ++died > 8)
          return await stalled(one, wait, 'it is switched off', options.captureFile);
        if (since > options.patienceMs)
          return await stalled(
            one,
            wait,
            `nothing new from it for ${Math.round(since / 1000)} s`,
            options.captureFile,
          );
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
      return undefined;
    },
    async close() {
      clearInterval(timer);
      for (const one of watched.values()) {
        await look(one).catch(() => {});
        one.seen.console = (await one.box.consoleText().catch(() => '')).slice(-MAX_CONSOLE);
      }
    },
  };
}

async function stalled(one: Watched, wait: Wait, why: string, captureFile: string): Promise<string> {
  const last = one.seen.events.slice(-8).map((event) => {
    const reason = event.reason ? ` ${event.reason.code}` : '';
    return `    ${new Date(event.at).toISOString().slice(11, 19)} ${event.kind}${reason} ${JSON.stringify(event.fields ?? {})}`;
  });
  return [
    `waited for ${waitText(wait)}; ${why}`,
    `  its last events:${last.length === 0 ? ' none' : ''}`,
    ...last,
    `  the end of its console (${one.box.consoleFile}):`,
    tail(await one.box.consoleText(), 25),
    `  what was on the wire: ${captureFile}`,
  ].join('\n');
}
