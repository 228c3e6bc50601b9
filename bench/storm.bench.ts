/** Many machines that are powered on at once: `muster sim storm`, as operators run it. */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import type { StormFigures } from '../src/lab/simulated/storm.ts';
import type { BenchCase, BenchSuite } from './compare.ts';

const PLOT = new URL('storm.svg', import.meta.url).pathname;
const MACHINES = 1000;

function storm(...words: readonly string[]): Promise<StormFigures> {
  return new Promise((done, fail) =>
    execFile(
      resolve('bin/muster'),
      ['sim', 'storm', '--json', ...words],
      { maxBuffer: 16 * 1024 * 1024 },
      (error, stdout, stderr) =>
        // Machines that failed are in the figures; then the code is 1.
        stdout === ''
          ? fail(new Error(`${error?.message}\n${stderr}`))
          : done(JSON.parse(stdout) as StormFigures),
    ),
  );
}

const name = `Storm of ${MACHINES.toLocaleString('en')} machines`;
const IF_MISSED =
  'The simulated machines run on the same two processors as the server. On a host where tests ran beside it, the last configuration came after 21 to 59 s; all were configured.';

const atOnce: BenchCase = {
  rounds: 1,
  figures: {
    last: { name: `${name}: last configuration`, unit: 's', better: 'less', aim: 15, ifMissed: IF_MISSED },
    half: { name: `${name}: half of the configurations`, unit: 's', better: 'less' },
    ticket: { name: `${name}: last certificate`, unit: 's', better: 'less' },
    ...Object.fromEntries(
      (['dhcp', 'loader', 'script', 'configuration', 'redeem'] as const).flatMap((step) =>
        (['p50', 'p99'] as const).map((share) => [
          `${step} ${share}`,
          { name: `${name}: ${step}, ${share}`, unit: 'ms', better: 'less' as const },
        ]),
      ),
    ),
    again: { name: `${name}: packets that were sent again`, unit: 'in all', better: 'less' },
    lost: { name: `${name}: machines without a configuration`, unit: 'in all', better: 'less', aim: 0 },
    fairness: { name: `${name}: fairness (Jain's index)`, unit: 'of 1', better: 'more' },
    memory: { name: `${name}: most memory of the server`, unit: 'MiB', better: 'less' },
    processor: { name: `${name}: processor time of the server`, unit: 's', better: 'less' },
  },
  async ours() {
    const figures = await storm('--machines', String(MACHINES), '--plot', PLOT);
    const { stages, steps, lost, fairness, server } = figures;
    return {
      last: stages.configuration?.lastSeconds ?? Number.NaN,
      half: stages.configuration?.halfSeconds ?? Number.NaN,
      ticket: stages.ticket?.lastSeconds ?? Number.NaN,
      ...Object.fromEntries(
        Object.entries(steps).flatMap(([step, { p50Ms, p99Ms }]) => [
          [`${step} p50`, p50Ms],
          [`${step} p99`, p99Ms],
        ]),
      ),
      again: Object.values(steps).reduce((sum, { again }) => sum + again, 0),
      lost,
      fairness,
      memory: server.peakMiB,
      processor: server.processorSeconds,
    };
  },
};

export const suite: BenchSuite = {
  about:
    'A thousand simulated machines are powered on at once: half UEFI, the others BIOS, UEFI with port 4011, UEFI HTTP boot and iPXE in ROM. Each goes from DHCP to its certificate, with loaders of 256 KiB. The server is the shipped command; the machines run on the same processors. ![How many machines have reached each stage when](storm.svg)',
  open: async () => ({ cases: [atOnce], close: async () => {} }),
};
