/** Runs a storm: one boot host, and many simulated machines that are powered on at once. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loaderNames } from '../../pxe/firmware/loaders.ts';
import { openBootHost } from './boot-host.files.ts';
import type { FleetResult } from './fleet.files.ts';
import { assign, type PersonalityName } from './personalities.ts';
import { type ServerUse, type StormFigures, stormFigures } from './storm.ts';

/** The size of every loader, octets: about that of Debian's snponly.efi and ipxe.pxe. */
export const LOADER_BYTES = 256 * 1024;

export interface StormOrder {
  readonly machines: number;
  readonly firmware: ReadonlyMap<PersonalityName, number>;
  /** Seconds over which the machines are powered on; 0: all at once. */
  readonly overSeconds: number;
  readonly say: (text: string) => void;
}

export interface StormRun {
  readonly figures: StormFigures;
  readonly result: FleetResult;
}

/** Writes a file of {@link LOADER_BYTES} for each loader that Muster knows. */
export function writeLoaders(directory: string): void {
  mkdirSync(directory, { recursive: true });
  const octets = Buffer.alloc(LOADER_BYTES, 'a loader that no machine runs\n');
  for (const name of loaderNames()) writeFileSync(join(directory, name), octets);
}

/** Runs it in this network namespace, which must be one of its own. */
export async function runStorm(order: StormOrder): Promise<StormRun> {
  const loaders = mkdtempSync(join(tmpdir(), 'muster-storm-'));
  writeLoaders(loaders);
  const firmware = assign(order.firmware, order.machines);
  order.say(`starting a boot host with ${order.machines} machines\n`);
  const host = await openBootHost(order.machines, { loaders });
  try {
    const machines = host.machines.map((one, n) => ({ ...one, firmware: firmware[n]! }));
    const { overSeconds } = order;
    const perSecond = overSeconds === 0 ? 0 : order.machines / overSeconds;
    order.say('powering the machines on\n');
    const result = await host.powerOn({ machines, perSecond, keep: false, until: 'ticket', partial: true });
    const figures = stormFigures(result, { firmware, overSeconds, server: useOf(host.pid) });
    return { figures, result };
  } finally {
    await host.close();
    rmSync(loaders, { recursive: true, force: true });
  }
}

export function writePlot(file: string, svg: string): void {
  writeFileSync(file, svg);
}

/** Clock ticks of /proc a second, on every architecture of Linux. */
const TICKS = 100;

function useOf(pid: number): ServerUse {
  const peak = /^VmHWM:\s+([0-9]+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  return {
    peakMiB: Number(peak) / 1024,
    processorSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS,
  };
}
