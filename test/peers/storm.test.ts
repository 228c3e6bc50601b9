/** `muster sim storm` and `muster sim run`, as an operator runs them. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { StormFigures } from '../../src/lab/simulated/storm.ts';

const home = mkdtempSync(join(tmpdir(), 'muster-storm-test-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

const MACHINES = 40;

/** The output of `muster sim`. */
const sim = (words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> =>
  new Promise((done, fail) =>
    execFile(
      resolve('bin/muster'),
      ['sim', ...words],
      { env: { ...process.env, ...env }, timeout: 250_000 },
      (error, stdout, stderr) => (error ? fail(new Error(`${error.message}\n${stderr}`)) : done(stdout)),
    ),
  );

test.each(['1', '0'])(
  'forty machines with all kinds of firmware get their configuration and certificate; MUSTER_NATIVE=%s',
  async (native) => {
    const plot = join(home, `${native}.svg`);
    const words = ['storm', '--machines', String(MACHINES), '--json', '--plot', plot];
    const figures = JSON.parse(await sim(words, { MUSTER_NATIVE: native })) as StormFigures;
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

test('a simulated cluster is founded, its machines are ready, and one without a document waits', async () => {
  const [head, ...rows] = (await sim(['run', '--machines', '5'])).trim().split('\n');
  expect(head).toMatch(/^NAME +CONDITION/);
  expect(rows.map((row) => row.split(/ +/).slice(0, 2)).sort()).toEqual([
    ...['cp1', 'cp2', 'cp3'].map((name) => [name, 'ready']),
    ['m-02005c000005', 'unknown'],
    ...['worker-1', 'worker-2'].map((name) => [name, 'ready']),
  ]);
});
