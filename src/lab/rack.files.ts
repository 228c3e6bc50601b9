/**
 * The rack while it runs: machines that are switched on and off, what is seen of them, and waiting
 * for something to be seen.
 */
import type { MusterEvent } from '../events/event.ts';
import { readFacts } from './facts.ts';
import type { Box } from './machine.files.ts';
import { heldFor, type MachineObserved, matches, phaseOf, stepOf, subjectsOf } from './observed.ts';
import { tail } from './report.ts';
import type { LabMachine } from './scenario.ts';
import { type Wait, waitText } from './steps.ts';

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
  /** Since it was opened. */
  seconds(): number;
  readonly observed: ReadonlyMap<string, MachineObserved>;
  event(event: MusterEvent): void;
  /** Switches these on, in order, as many at once as may be busy; resolves at once. */
  powerOn(names: readonly string[]): void;
  powerOff(names: readonly string[]): Promise<void>;
  /** All of them at the same moment, without a word to the guests. */
  powerCut(names: readonly string[]): Promise<void>;
  /** Makes their blank disks blank again. Throws E_LAB_TOOL for one that is on. */
  wipe(names: readonly string[]): Promise<void>;
  /** Resolves with the first event of that cluster, or when the run is over. */
  clusterSeen(cluster: string): Promise<void>;
  /**
   * Why to wait no longer for something that no single machine brings: nothing new from any of
   * them.
   */
  stalled(): string | undefined;
  /** Undefined when it came; otherwise why not, with the end of the console. */
  wait(wait: Wait): Promise<string | undefined>;
  /** Reads consoles and facts once more and ends watching; again does no harm. */
  close(): Promise<void>;
}

interface Watched {
  readonly seen: MachineObserved;
  readonly box: Box;
  readonly subjects: ReadonlySet<string>;
  consoleSize: number;
  /**
   * Host clock (ms) of the last event or console octet; undefined while it is off or waits for its
   * turn.
   */
  progressAt: number | undefined;
  busy: boolean;
  /** Where events, console and facts of its present power-on begin. */
  since: { events: number; console: number; facts: number };
}

/** What was seen since it was switched on last. */
const present = ({ seen, since }: Watched): Pick<MachineObserved, 'events'> => ({
  events: seen.events.slice(since.events),
});

/**
 * A machine is done with the part of its boot that loads the host: it has said what it is, is held,
 * or has failed.
 */
const settled = (one: Watched): boolean =>
  one.seen.facts !== undefined || heldFor(present(one)) !== undefined || phaseOf(present(one)) === 'failed';

export function openRack(options: RackOptions): Rack {
  const startedAt = Date.now();
  const opened = performance.now();
  const watched = new Map<string, Watched>();
  for (const machine of options.machines)
    watched.set(machine.name, {
      seen: { machine, steps: [], events: [], disks: [], console: '' },
      box: options.boxes.get(machine.name)!,
      subjects: subjectsOf(machine),
      consoleSize: 0,
      progressAt: undefined,
      busy: false,
      since: { events: 0, console: 0, facts: 0 },
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
      addStep(next, 'power on', Date.now());
      void next.box
        .powerOn()
        .catch((error: Error) => {
          next.busy = false;
          addStep(next, `cannot be switched on: ${error.message}`, Date.now());
        })
        // A disk may have had to be copied before.
        .finally(() => {
          next.progressAt = Date.now();
        });
    }
  };

  const look = async (one: Watched): Promise<void> => {
    const size = await one.box.consoleSize();
    if (size !== one.consoleSize) {
      one.consoleSize = size;
      one.progressAt = Date.now();
    }
    const value = readFacts((await one.box.factsText()).slice(one.since.facts));
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
    const seen = present(one);
    if (wait.phase) return phaseOf(seen) === wait.phase;
    if (wait.held) return heldFor(seen) === wait.held;
    if (wait.event) return seen.events.some((event) => matches(event, wait.event!));
    if (wait.serial)
      return new RegExp(wait.serial).test((await one.box.consoleText()).slice(one.since.console));
    return one.seen.facts !== undefined;
  };

  const clusters = new Map<string, PromiseWithResolvers<void>>();
  const clusterOf = (name: string): PromiseWithResolvers<void> => {
    const found = clusters.get(name) ?? Promise.withResolvers<void>();
    clusters.set(name, found);
    return found;
  };
  options.signal.addEventListener('abort', () => {
    for (const { resolve } of clusters.values()) resolve();
  });
  let clusterProgressAt = startedAt;
  const clusterEvent = (event: MusterEvent, name: string): void => {
    clusterProgressAt = Date.now();
    clusterOf(name).resolve();
    const at = Math.max(0, Math.round((event.at - startedAt) / 100) / 10);
    if (event.kind === 'cluster.founding') options.onStep(at, name, event.reason?.text ?? event.kind);
  };

  /** What its present power-on shows begins now. */
  const beginAnew = async (one: Watched): Promise<void> => {
    one.since = {
      events: one.seen.events.length,
      console: (await one.box.consoleText()).length,
      facts: (await one.box.factsText()).length,
    };
    delete one.seen.facts;
  };
  const cutOff = async (one: Watched, step: string, off: () => Promise<void>): Promise<void> => {
    await off();
    await look(one).catch(() => {});
    one.busy = false;
    await beginAnew(one);
    addStep(one, step, Date.now());
  };

  return {
    startedAt,
    seconds: () => (performance.now() - opened) / 1000,
    observed: new Map([...watched].map(([name, { seen }]) => [name, seen])),
    event(event) {
      if (event.subject.startsWith('Cluster/'))
        return clusterEvent(event, event.subject.slice('Cluster/'.length));
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
      for (const name of names) {
        const one = watched.get(name)!;
        // It may have to wait for its turn.
        one.progressAt = undefined;
        queue.push(one);
      }
      startNext();
    },
    async powerOff(names) {
      for (const name of names) {
        const one = watched.get(name)!;
        await cutOff(one, 'power off', () => one.box.powerOff());
      }
      startNext();
    },
    async powerCut(names) {
      await Promise.all(
        names.map((name) => {
          const one = watched.get(name)!;
          return cutOff(one, 'power cut', () => one.box.powerCut());
        }),
      );
      startNext();
    },
    async wipe(names) {
      for (const name of names) {
        await watched.get(name)!.box.wipe();
        addStep(watched.get(name)!, 'disk wiped', Date.now());
      }
    },
    clusterSeen: (cluster) => (options.signal.aborted ? Promise.resolve() : clusterOf(cluster).promise),
    stalled() {
      if (options.signal.aborted) return 'the run is over';
      const times = [...watched.values()].map(({ progressAt }) => progressAt ?? 0);
      const silent = Date.now() - Math.max(clusterProgressAt, ...times);
      if (silent <= options.patienceMs) return undefined;
      return `nothing new from any machine or cluster for ${Math.round(silent / 1000)} s`;
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
