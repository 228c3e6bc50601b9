/** `muster sim storm`, as an operator runs it. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { StormFigures } from '../../src/lab/simulated/storm.ts';

const home = mkdtempSync(join(tmpdir(), 'muster-storm-test-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

const MACHINES = 40;

test.each(['1', '0'])(
  'forty machines with all kinds of firmware get their configuration and certificate; MUSTER_NATIVE=%s',
  async (native) => {
    const plot = join(home, `${native}.svg`);
    const words = ['sim', 'storm', '--machines', String(MACHINES), '--json', '--plot', plot];
    const env = { ...process.env, MUSTER_NATIVE: native };
    const output = await new Promise<string>((done, fail) =>
      execFile(resolve('bin/muster'), words, { env, timeout: 100_000 }, (error, stdout, stderr) =>
        error ? fail(new Error(`${error.message}\n${stderr}`)) : done(stdout),
      ),
    );
    const figures = JSON.parse(output) as StormFigures;
    expect(figures.firmware).toEqual({ uefi: 20, bios: 8, 'uefi-4011': 4, 'uefi-http': 4, ipxe: 4 });
    expect(figures).toMatchObject({ lost: 0, faults: [] });
    for (const stage of ['address', 'script', 'system', 'configuration', 'ticket'] as const)
      expect(figures.stages[stage]?.machines, stage).toBe(MACHINES);
    expect(figures.stages.loader?.machines).toBe(36);
    for (const step of [
      'dhcp',
      'boot-server',
      'loader',
      'script',
      'image',
      'configuration',
      'report',
      'redeem',
    ] as const)
      expect(figures.steps[step]?.answers, step).toBeGreaterThan(0);
    expect(readFileSync(plot, 'utf8')).toContain('>ticket</text>');
  },
);
