/** `muster sim storm`: many simulated machines against one boot host. */
import { MusterError } from '../../base/errors.ts';
import { enterNamespace, insideNamespace } from '../../lab/namespace.files.ts';
import { MOST_MACHINES } from '../../lab/simulated/documents.files.ts';
import { STAGES } from '../../lab/simulated/machine.socket.ts';
import { DEFAULT_MIX, readMix } from '../../lab/simulated/personalities.ts';
import { runStorm, writePlot } from '../../lab/simulated/storm.files.ts';
import { reachedAt, stormText } from '../../lab/simulated/storm.ts';
import { stormPlot } from '../../lab/simulated/storm-plot.ts';
import { EXIT, type Io } from '../io.ts';

export interface StormOptions {
  readonly machines?: string;
  readonly firmware?: string;
  readonly over?: string;
  readonly plot?: string;
  readonly json?: boolean;
}

/** Fewer are not a cluster: it has three control planes. */
export const LEAST = 3;

/**
 * The exit code is 0 only if every machine got its configuration and its certificate. Outside a
 * namespace of its own, the process replaces itself with one inside a new namespace.
 *
 * @throws {MusterError} E_USAGE when a number or the mix of firmware is wrong.
 */
export async function storm(options: StormOptions, io: Io): Promise<number> {
  const machines = numberOf('--machines', options.machines ?? '1000', LEAST, MOST_MACHINES);
  const overSeconds = numberOf('--over', options.over ?? '0', 0, 86_400);
  const firmware = readMix(options.firmware ?? DEFAULT_MIX);
  if (!insideNamespace()) enterNamespace({}, { tap: false });
  const say = (text: string) => io.err(text);
  const { figures, result } = await runStorm({ machines, firmware, overSeconds, say });
  io.out(options.json ? `${JSON.stringify(figures)}\n` : stormText(figures));
  if (options.plot !== undefined) {
    const lines = STAGES.map((stage) => ({ label: stage, at: reachedAt(result, stage) }));
    const when = overSeconds === 0 ? 'at once' : `over ${overSeconds} s`;
    writePlot(options.plot, stormPlot(`${machines} machines powered on ${when}`, machines, lines));
  }
  return figures.lost === 0 && figures.faults.length === 0 ? EXIT.ok : EXIT.failure;
}

/** @throws {MusterError} E_USAGE when the text is not a number from `from` to `to`. */
export function numberOf(flag: string, text: string, from: number, to: number): number {
  const number = Number(text);
  if (/^[0-9]{1,6}$/.test(text) && number >= from && number <= to) return number;
  throw new MusterError('E_USAGE', `${flag} "${text}" is not a number from ${from} to ${to}`);
}
