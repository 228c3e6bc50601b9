/**
 * Runs many simulated machines in their network namespace. Each is powered on at its time, joins
 * the cluster, and then keeps polling until the last one has settled.
 *
 *     node fleet.files.ts ORDERS.json RESULT.json
 *
 * Exits 1 when a machine did not settle; the result says which and why.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { replaceFile } from '../../base/replace-file.files.ts';
import { DhcpTalk } from './dhcp.socket.ts';
import { SERVER } from './documents.files.ts';
import {
  type MachineOrder,
  Members,
  SimulatedMachine,
  STEPS,
  type Stage,
  type Step,
  type Surroundings,
} from './machine.socket.ts';

export interface FleetOrder {
  /** In the order in which they are powered on. */
  readonly machines: readonly MachineOrder[];
  /** How many of them are members of etcd. */
  readonly members: number;
  /** Power-ons per second; 0: all at once. */
  readonly perSecond: number;
  /** Whether the result contains what each machine got, or only how long it took. */
  readonly keep: boolean;
  /**
   * How far they go: until they report ready, to their first certificate, or until their plans are
   * applied (default).
   */
  readonly until?: 'ready' | 'ticket' | 'rest';
  /** How long a machine works before each of its reports, ms; default 0. */
  readonly worksMs?: number;
  /** Whether a machine that fails is only reported, and does not make the run fail. */
  readonly partial?: boolean;
  /**
   * Whether the machines keep polling after all have settled, until the process gets SIGTERM. The
   * file `RESULT.json.lost` then has those that could not.
   */
  readonly stay?: boolean;
}

/** The result of one machine. */
export interface MachineResult {
  readonly name: string;
  /** Why it did not settle. */
  readonly error?: string;
  /**
   * Sum of the times of its requests until it settled, ms, without pauses that the server asked
   * for.
   */
  readonly waitedMs: number;
  /** From power-on until it settled, with all pauses, ms. */
  readonly elapsedMs: number;
  readonly leased: readonly string[];
  readonly hostname: string;
  readonly holds: readonly string[];
  readonly plans: number;
  readonly fetched: number;
  /** SHA-256 of the public key in the agent's certificate request. */
  readonly pin: string;
  readonly certificate: string;
  /** When it reached each stage, ms after the first machine was powered on. */
  readonly reached: Readonly<Partial<Record<Stage, number>>>;
  /** How often it started over, because its firmware gave up. */
  readonly startedOver: number;
  readonly kept?: {
    readonly marker: string;
    readonly step: string;
    /** By leaf. */
    readonly pins: Readonly<Record<string, string>>;
    readonly files: Readonly<Record<string, string>>;
    readonly units: readonly string[];
    /** The agent's private key, for tests that pose as the machine. */
    readonly key: string;
  };
}

export interface FleetResult {
  readonly machines: readonly MachineResult[];
  /** Milliseconds of every request, by kind. */
  readonly steps: Readonly<Record<Step, readonly number[]>>;
  /** DHCP packets that were sent again. */
  readonly retransmitted: number;
  /** Packets of TFTP and to port 4011 that were sent again. */
  readonly again: Readonly<Partial<Record<Step, number>>>;
  /** Number of connections that were cut before there was an answer and opened again. */
  readonly cut: number;
  /** From the first power-on until the last machine settled, s. */
  readonly seconds: number;
}

/** A fixed seed, so that two runs are alike. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** `settled`: called when all machines have settled, if they stay. */
async function run(
  order: FleetOrder,
  { settled, lost }: { settled: (result: FleetResult) => void; lost: (all: readonly string[]) => void },
): Promise<FleetResult> {
  const steps = Object.fromEntries(STEPS.map((step) => [step, []])) as unknown as Record<Step, number[]>;
  const ending = new AbortController();
  const of: Surroundings = {
    dhcp: await DhcpTalk.open(),
    members: new Members(order.members),
    measured: (step, ms) => void steps[step].push(ms),
    server: SERVER,
    again: (step) => {
      again[step] = (again[step] ?? 0) + 1;
    },
    random: generator(20261121),
    worksMs: order.worksMs ?? 0,
    signal: ending.signal,
  };
  const again: Partial<Record<Step, number>> = {};
  const beating: Promise<void>[] = [];
  const all: SimulatedMachine[] = [];
  const silent: string[] = [];
  const began = performance.now();
  const one = async (wanted: MachineOrder, n: number): Promise<MachineResult> => {
    await pause(order.perSecond > 0 ? (n * 1000) / order.perSecond : 0);
    const machine = new SimulatedMachine(wanted, of);
    all.push(machine);
    const on = performance.now();
    const error = await machine.powerOn(order.until ?? 'rest').then(
      () => undefined,
      (reason: unknown) => String((reason as Error).stack ?? reason),
    );
    const result = resultOf(machine, { began, on }, error, order.keep);
    // A machine that stops answering is reported at the end.
    if (error === undefined && (order.until ?? 'rest') === 'rest')
      beating.push(machine.beat().catch((reason: unknown) => void silent.push(`${wanted.name}: ${reason}`)));
    return result;
  };
  const machines = await Promise.all(order.machines.map(one));
  const seconds = (performance.now() - began) / 1000;
  const result = (): FleetResult => {
    const cut = all.reduce((sum, machine) => sum + machine.cut, 0);
    return { machines, steps, retransmitted: of.dhcp.retransmitted, again, cut, seconds };
  };
  if (order.stay) {
    const told = once(process, 'SIGTERM');
    settled(result());
    // Something has to keep the process alive when all machines are lost.
    const alive = setInterval(() => {}, 60_000);
    await told;
    clearInterval(alive);
  }
  ending.abort();
  await Promise.all(beating);
  of.dhcp.close();
  if (order.stay) lost(silent);
  else if (silent.length > 0) throw new Error(`heartbeats ended: ${silent.slice(0, 5).join('; ')}`);
  return result();
}

function resultOf(
  machine: SimulatedMachine,
  { began, on }: { readonly began: number; readonly on: number },
  error: string | undefined,
  keep: boolean,
): MachineResult {
  const { order, has, waitedMs, leased, hostname, holds, plans, pin, certificate } = machine;
  const elapsedMs = performance.now() - on;
  const reached = [...machine.reached].map(([stage, at]) => [stage, at - began]);
  return {
    name: order.name,
    ...(error === undefined ? {} : { error }),
    waitedMs,
    elapsedMs,
    leased: [...leased],
    hostname,
    holds,
    plans: plans.length,
    fetched: has.fetched.size,
    pin,
    certificate,
    reached: Object.fromEntries(reached) as MachineResult['reached'],
    startedOver: machine.startedOver,
    ...(keep && {
      kept: {
        marker: has.marker,
        step: has.step,
        pins: Object.fromEntries([...has.keys].map(([leaf, key]) => [leaf, key.pin])),
        files: Object.fromEntries(has.files),
        units: [...has.units.keys()],
        key: machine.key,
      },
    }),
  };
}

if (import.meta.main) {
  const [orders, results] = process.argv.slice(2) as [string, string];
  const order = JSON.parse(readFileSync(orders, 'utf8')) as FleetOrder;
  const write = (file: string, value: unknown): void => replaceFile(file, JSON.stringify(value));
  const result = await run(order, {
    settled: (first) => write(results, first),
    lost: (all) => write(`${results}.lost`, all),
  });
  write(results, result);
  if (order.partial) process.exit(0);
  const failed = result.machines.filter(({ error }) => error !== undefined);
  for (const { name, error } of failed.slice(0, 5)) process.stderr.write(`${name}: ${error}\n`);
  process.exitCode = failed.length > 0 ? 1 : 0;
}
