/**
 * The rack while it runs: it switches machines on and off, collects what they show, and lets
 * scenarios wait for an event, a phase or a text.
 */
import type { MusterEvent } from '../events/event.ts';
import type { Driven } from './bmc/controller.ts';
import type { Box } from './machine.files.ts';
import type { MachineObserved } from './observed.ts';
import type { LabMachine } from './scenario.ts';
import type { Wait } from './steps.ts';
import { type StepListener, secondsSince, WatchedMachine } from './watched-machine.files.ts';

const POLL_MS = 250;
/**
 * How many more times a machine that went off is read before a wait for it fails, because its last
 * output may be unread.
 */
const LOOKS_WHEN_OFF = 8;

interface RackOptions {
  readonly boxes: ReadonlyMap<string, Box>;
  readonly machines: readonly LabMachine[];
  /** How many machines may boot at the same time. */
  readonly parallel: number;
  /** A wait ends after this long without progress of its machine, in milliseconds. */
  readonly patienceMs: number;
  /** The packet capture, which the report of a failed wait names. */
  readonly captureFile: string;
  readonly onStep: StepListener;
  readonly signal: AbortSignal;
}

export interface Rack {
  /** When the rack was opened, in ms of the host's clock. */
  readonly startedAt: number;
  /** Seconds since the rack was opened. */
  seconds(): number;
  readonly observed: ReadonlyMap<string, MachineObserved>;
  event(event: MusterEvent): void;
  /**
   * Queues these machines to be switched on, in order; at most `parallel` machines boot at a time.
   * Does not wait.
   */
  powerOn(names: readonly string[]): void;
  powerOff(names: readonly string[]): Promise<void>;
  /** Cuts the power of all these machines at the same moment; the guests are not notified. */
  powerCut(names: readonly string[]): Promise<void>;
  /** Stops the processors of these machines. */
  hang(names: readonly string[]): void;
  /**
   * Empties the disks that the scenario declares blank.
   *
   * @throws {MusterError} E_LAB_TOOL for a machine that is on.
   */
  wipe(names: readonly string[]): Promise<void>;
  /**
   * Gives machines another TPM.
   *
   * @throws {MusterError} E_LAB_TOOL for a machine that is on.
   */
  newTpm(names: readonly string[]): Promise<void>;
  /** What a machine's BMC does with it. */
  driven(name: string): Driven;
  /** Resolves with the first event of that cluster, or when the run is over. */
  clusterSeen(cluster: string): Promise<void>;
  /**
   * Why waiting for something that depends on several machines has no chance: none of them has
   * shown anything new. Undefined while there is progress.
   */
  stalled(): string | undefined;
  /**
   * Resolves with undefined when the machine has shown it; otherwise with why not, and the end of
   * its console.
   */
  wait(wait: Wait): Promise<string | undefined>;
  /** Reads consoles and facts once more and ends watching. Can be called again. */
  close(): Promise<void>;
}

/** Opens the rack with all machines switched off, and begins to watch them. */
export function openRack(options: RackOptions): Rack {
  const startedAt = Date.now();
  const opened = performance.now();
  const watched = new Map(
    options.machines.map((machine) => [
      machine.name,
      new WatchedMachine(machine, options.boxes.get(machine.name)!, startedAt, options.onStep),
    ]),
  );
  const find = (name: string): WatchedMachine => watched.get(name)!;
  const clusters = new ClusterSigns(startedAt, options);
  const queue = new PowerQueue([...watched.values()], options.parallel);
  const findEventsMachine = eventOwners([...watched.values()]);

  let looking = false;
  const timer = setInterval(async () => {
    if (looking) return;
    looking = true;
    for (const one of watched.values()) if (one.box.on) await one.look().catch(() => {});
    queue.startNext();
    looking = false;
  }, POLL_MS);

  return {
    startedAt,
    seconds: () => (performance.now() - opened) / 1000,
    observed: new Map([...watched].map(([name, { seen }]) => [name, seen])),
    event(event) {
      if (event.subject.startsWith('Cluster/')) clusters.event(event);
      else findEventsMachine(event)?.event(event);
    },
    powerOn: (names) => queue.add(names.map(find)),
    async powerOff(names) {
      for (const one of names.map(find)) await one.cutOff('power off', () => one.box.powerOff());
      queue.startNext();
    },
    async powerCut(names) {
      await Promise.all(names.map(find).map((one) => one.cutOff('power cut', () => one.box.powerCut())));
      queue.startNext();
    },
    hang(names) {
      for (const one of names.map(find)) {
        one.box.hang();
        one.addStep('hangs');
      }
    },
    async wipe(names) {
      for (const one of names.map(find)) {
        await one.box.wipe();
        one.addStep('disk wiped');
      }
    },
    async newTpm(names) {
      for (const one of names.map(find)) {
        await one.box.newTpm();
        one.addStep('new TPM');
      }
    },
    driven: (name) => drivenBy(find(name)),
    clusterSeen: (cluster) => clusters.seen(cluster),
    stalled() {
      if (options.signal.aborted) return 'the run is over';
      const times = [...watched.values()].map(({ progressAt }) => progressAt ?? 0);
      const silent = Date.now() - Math.max(clusters.progressAt, ...times);
      if (silent <= options.patienceMs) return undefined;
      return `nothing new from any machine or cluster for ${Math.round(silent / 1000)} s`;
    },
    wait: (wait) => waitFor(find(wait.machine), wait, options),
    async close() {
      clearInterval(timer);
      for (const one of watched.values()) await one.finish();
    },
  };
}

/** A machine as its BMC drives it. */
function drivenBy(one: WatchedMachine): Driven {
  const { box } = one;
  const listen = (listener: (octets: Buffer) => void): (() => void) =>
    box.serial?.listen(listener) ?? (() => {});
  return {
    get on() {
      return box.on;
    },
    async start(boot, { hang }) {
      if (hang) {
        let shown = '';
        const stop = listen((octets) => {
          shown += octets.toString('latin1');
          if (!shown.includes('\n')) return;
          stop();
          box.hang();
        });
      }
      await one.powerOn(boot);
    },
    cut: () => one.cutOff('power cut by its BMC', () => box.powerCut()),
    shutDown: () => box.shutDown(),
    listen,
    type: (octets) => box.serial?.type(octets),
  };
}

/** Switches machines on in the order of the queue, with at most `parallel` of them booting. */
class PowerQueue {
  readonly #machines: readonly WatchedMachine[];
  readonly #parallel: number;
  readonly #waiting: WatchedMachine[] = [];

  constructor(machines: readonly WatchedMachine[], parallel: number) {
    this.#machines = machines;
    this.#parallel = parallel;
  }

  add(machines: readonly WatchedMachine[]): void {
    for (const one of machines) {
      // The time without progress counts from the moment when the machine is switched on, which may
      // be later.
      one.progressAt = undefined;
      this.#waiting.push(one);
    }
    this.startNext();
  }

  startNext(): void {
    for (const one of this.#machines) if (one.busy && (one.settled() || !one.box.on)) one.busy = false;
    let busy = this.#machines.filter((one) => one.busy).length;
    while (busy < this.#parallel) {
      const next = this.#waiting.shift();
      if (!next) return;
      busy++;
      void next.powerOn();
    }
  }
}

/** Finds the machine of an event: by its boot session, else by its subject. */
function eventOwners(
  machines: readonly WatchedMachine[],
): (event: MusterEvent) => WatchedMachine | undefined {
  const bySession = new Map<string, WatchedMachine>();
  return ({ session, subject }) => {
    const known = session === undefined ? undefined : bySession.get(session);
    const found = known ?? machines.find((one) => one.isSubject(subject));
    if (found && session !== undefined) bySession.set(session, found);
    return found;
  };
}

/** The first event of each cluster, and the steps of its founding. */
class ClusterSigns {
  /** Host clock (ms) of the last event of any cluster. */
  progressAt: number;
  readonly #startedAt: number;
  readonly #onStep: StepListener;
  readonly #signal: AbortSignal;
  readonly #first = new Map<string, PromiseWithResolvers<void>>();

  constructor(startedAt: number, { onStep, signal }: Pick<RackOptions, 'onStep' | 'signal'>) {
    this.progressAt = startedAt;
    this.#startedAt = startedAt;
    this.#onStep = onStep;
    this.#signal = signal;
    signal.addEventListener('abort', () => {
      for (const { resolve } of this.#first.values()) resolve();
    });
  }

  seen(cluster: string): Promise<void> {
    return this.#signal.aborted ? Promise.resolve() : this.#firstOf(cluster).promise;
  }

  event({ at, kind, subject, reason }: MusterEvent): void {
    const cluster = subject.slice('Cluster/'.length);
    this.progressAt = Date.now();
    this.#firstOf(cluster).resolve();
    if (kind === 'cluster.founding')
      this.#onStep(secondsSince(this.#startedAt, at), cluster, reason?.text ?? kind);
  }

  #firstOf(cluster: string): PromiseWithResolvers<void> {
    const first = this.#first.get(cluster) ?? Promise.withResolvers<void>();
    this.#first.set(cluster, first);
    return first;
  }
}

/**
 * Waits until the machine shows it. Resolves with the reason when the machine makes no progress or
 * is off.
 */
async function waitFor(
  one: WatchedMachine,
  wait: Wait,
  { signal, patienceMs, captureFile }: RackOptions,
): Promise<string | undefined> {
  let looksWhenOff = 0;
  while (!(await one.shows(wait))) {
    if (signal.aborted) return one.failedWait(wait, 'the run is over', captureFile);
    const silent = one.progressAt === undefined ? 0 : Date.now() - one.progressAt;
    if (!one.box.on && one.progressAt !== undefined && ++looksWhenOff > LOOKS_WHEN_OFF)
      return one.failedWait(wait, 'it is switched off', captureFile);
    if (silent > patienceMs)
      return one.failedWait(wait, `nothing new from it for ${Math.round(silent / 1000)} s`, captureFile);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return undefined;
}
