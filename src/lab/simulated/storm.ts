/** What a storm shows: the figures of many machines that were powered on at once. Pure. */
import type { FleetResult } from './fleet.files.ts';
import { STAGES, STEPS, type Stage, type Step } from './machine.socket.ts';
import type { PersonalityName } from './personalities.ts';

export interface StepFigures {
  /** Number of answers. */
  readonly answers: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Packets that were sent again because no answer came in time. */
  readonly again: number;
}

export interface StageFigures {
  /** Machines that reached it. */
  readonly machines: number;
  /** Seconds from the first power-on until half of the machines, and until the last one. */
  readonly halfSeconds: number;
  readonly lastSeconds: number;
}

/** What the server used, from its start on. */
export interface ServerUse {
  readonly peakMiB: number;
  readonly processorSeconds: number;
}

export interface StormFigures {
  readonly machines: number;
  readonly firmware: Readonly<Partial<Record<PersonalityName, number>>>;
  /** Seconds over which they were powered on; 0: all at once. */
  readonly overSeconds: number;
  readonly steps: Readonly<Partial<Record<Step, StepFigures>>>;
  readonly stages: Readonly<Partial<Record<Stage, StageFigures>>>;
  /** Machines that never got their configuration. */
  readonly lost: number;
  /** Why, the first few. */
  readonly faults: readonly string[];
  /** How often firmware gave up, so that its machine started over. */
  readonly startedOver: number;
  /** Connections that ended without an answer and were made again. */
  readonly cut: number;
  /**
   * Jain's index over the times from power-on to the end: 1 when all machines took equally long,
   * 1/n when one machine took all the time.
   */
  readonly fairness: number;
  readonly server: ServerUse;
}

const quantile = (sorted: Float64Array, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;

function stepFigures(times: readonly number[], again: number): StepFigures {
  const sorted = Float64Array.from(times).sort();
  const [p50Ms, p99Ms, maxMs] = [0.5, 0.99, 1].map((share) => quantile(sorted, share)) as [
    number,
    number,
    number,
  ];
  return { answers: times.length, p50Ms, p99Ms, maxMs, again };
}

/** The moments at which machines reached a stage, in seconds, sorted. */
export function reachedAt({ machines }: Pick<FleetResult, 'machines'>, stage: Stage): Float64Array {
  const moments = machines.flatMap(({ reached }) => (reached[stage] === undefined ? [] : [reached[stage]]));
  return Float64Array.from(moments, (ms) => ms / 1000).sort();
}

function fairnessOf(times: readonly number[]): number {
  const sum = times.reduce((all, one) => all + one, 0);
  const squares = times.reduce((all, one) => all + one * one, 0);
  return squares === 0 ? 1 : (sum * sum) / (times.length * squares);
}

/** Makes the figures of a storm. */
export function stormFigures(
  result: FleetResult,
  order: {
    readonly firmware: readonly PersonalityName[];
    readonly overSeconds: number;
    readonly server: ServerUse;
  },
): StormFigures {
  const again: Partial<Record<Step, number>> = { ...result.again, dhcp: result.retransmitted };
  const { machines } = result;
  const failed = machines.filter(({ error }) => error !== undefined);
  const counted = Object.groupBy(order.firmware, (name) => name);
  return {
    machines: machines.length,
    firmware: Object.fromEntries(Object.entries(counted).map(([name, all]) => [name, all!.length])),
    overSeconds: order.overSeconds,
    steps: Object.fromEntries(
      STEPS.filter((step) => result.steps[step].length > 0).map((step) => [
        step,
        stepFigures(result.steps[step], again[step] ?? 0),
      ]),
    ),
    stages: Object.fromEntries(
      STAGES.map((stage) => {
        const at = reachedAt(result, stage);
        return [
          stage,
          { machines: at.length, halfSeconds: quantile(at, 0.5), lastSeconds: quantile(at, 1) },
        ] as const;
      }).filter(([, { machines }]) => machines > 0),
    ),
    lost: machines.filter(({ reached }) => reached.configuration === undefined).length,
    faults: failed.slice(0, 5).map(({ name, error }) => `${name}: ${error?.split('\n')[0]}`),
    startedOver: machines.reduce((sum, one) => sum + one.startedOver, 0),
    cut: result.cut,
    fairness: fairnessOf(machines.map(({ elapsedMs }) => elapsedMs)),
    server: order.server,
  };
}

const number = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toFixed(2);

/** A table with its columns aligned; numbers are on the right. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) =>
      row.map((cell, n) => (n === 0 ? cell.padEnd(widths[n]!) : cell.padStart(widths[n]!))).join('  '),
    )
    .join('\n');
}

/** The figures for people. */
export function stormText(figures: StormFigures): string {
  const { machines, overSeconds, stages, steps, server } = figures;
  const mix = Object.entries(figures.firmware).map(([name, count]) => `${count} ${name}`);
  const when = overSeconds === 0 ? 'at once' : `over ${overSeconds} s`;
  const stageRows = Object.entries(stages).map(([stage, one]) => [
    stage,
    String(one.machines),
    number(one.halfSeconds),
    number(one.lastSeconds),
  ]);
  const stepRows = Object.entries(steps).map(([step, one]) => [
    step,
    String(one.answers),
    ...[one.p50Ms, one.p99Ms, one.maxMs].map(number),
    String(one.again),
  ]);
  return [
    `${machines} machines powered on ${when}: ${mix.join(', ')}`,
    '',
    table([['stage', 'machines', 'half, s', 'last, s'], ...stageRows]),
    '',
    table([['request', 'answers', 'p50, ms', 'p99, ms', 'max, ms', 'sent again'], ...stepRows]),
    '',
    `machines without a configuration: ${figures.lost}`,
    `firmware that gave up and started over: ${figures.startedOver}; connections without an answer: ${figures.cut}`,
    `fairness (Jain's index of the machines' times): ${figures.fairness.toFixed(3)}`,
    `server: at most ${number(server.peakMiB)} MiB of memory, ${number(server.processorSeconds)} s of processor time`,
    ...figures.faults.map((fault) => `fault: ${fault}`),
    '',
  ].join('\n');
}
