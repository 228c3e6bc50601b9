/**
 * Every scenario of lab/ as one test: the shipped command, real firmware, no mocks. Two machines boot at a time, so scenarios of
 * one machine run two at a time. What needs only the probe system runs while the large images are built.
 */
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type BuiltImageName, buildImage } from '../../src/lab/images.files.ts';
import { loadScenario } from '../../src/lab/run.files.ts';
import type { Scenario } from '../../src/lab/scenario.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { openTurns } from './turns.ts';

const SLOTS = 2;
/** Of one run. */
const LIMIT_MS = 2_400_000;
/** Of a test, which waits for its turn first: all scenarios together. */
const STAGE_MS = 4_500_000;

const scenarios = await Promise.all(
  readdirSync('lab')
    .filter((file) => file.endsWith('.yaml'))
    .map(async (file) => {
      const scenario = await loadScenario(`lab/${file}`);
      const lacking = scenario.artifacts?.given === true && !ARTIFACTS;
      return { file, scenario, lacking };
    }),
);

const inTurn = openTurns(SLOTS);

/** As many as it switches on at once: where machines come one after the other, others have the second processor meanwhile. */
const slotsOf = ({ steps }: Scenario): number =>
  Math.min(SLOTS, Math.max(...steps.map(({ powerOn = [] }) => powerOn.length)));

/** About so many times what the probe system takes to boot. */
const costOf = ({ steps, images }: Scenario): number =>
  steps.flatMap(({ powerOn = [] }) => powerOn).length * (images.some((name) => name !== 'probe') ? 6 : 1);

/** Once, before scenarios that need the same image start side by side; one after the other, in the order in which they are wanted. */
const built = new Map<BuiltImageName, Promise<unknown>>();
let building: Promise<unknown> = Promise.resolve();
function image(name: BuiltImageName): Promise<unknown> {
  const say = (line: string) => process.stderr.write(`${line}\n`);
  const found = built.get(name);
  if (found) return found;
  const made = building.then(() => buildImage(name, { project: process.cwd(), say }));
  built.set(name, made);
  building = made.catch(() => undefined);
  return made;
}

interface Run {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function run(file: string, parallel: number): Promise<Run> {
  const words = ['lab', 'run', file, '--json', '--parallel', String(parallel)];
  return new Promise((resolve) => {
    execFile('bin/muster', words, { timeout: LIMIT_MS, maxBuffer: 1 << 26 }, (error, out, err) => {
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err });
    });
  });
}

describe.concurrent('the virtual rack', () => {
  for (const { file, scenario, lacking } of scenarios)
    test.skipIf(lacking)(`all that lab/${file} expects holds`, { timeout: STAGE_MS }, async () => {
      const slots = slotsOf(scenario);
      await Promise.all(['probe' as const, ...scenario.images].map(image));
      const turn = { slots, cost: costOf(scenario) };
      const { code, out, err } = await inTurn(turn, () => run(`lab/${file}`, slots));
      const result = out === '' ? undefined : JSON.parse(out.trimEnd().split('\n').at(-1)!);
      const failed = result?.expectations.filter((one: { ok: boolean }) => !one.ok);
      expect({ failed, code }, err.slice(-20_000)).toEqual({ failed: [], code: 0 });
      process.stderr.write(`${file}: ${result.seconds} s\n`);
    });

  test('a run whose rack cannot be built ends, and says what is missing', { timeout: STAGE_MS }, async () => {
    await image('probe');
    const work = () => run('test/lab/scenarios/no-such-package.yaml', 1);
    const { code, out, err } = await inTurn({ slots: 1, cost: 0 }, work);
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('nobody-packs-this/usr/bin/etcd is not there');
  });

  test('a run in which something does not hold ends with exit code 1 and says what and where to look', {
    timeout: STAGE_MS,
  }, async () => {
    await image('probe');
    const work = () => run('test/lab/scenarios/nobody-answers.yaml', 1);
    const { code, out, err } = await inTurn({ slots: 1, cost: 0 }, work);
    expect(code, err).toBe(1);
    const result = JSON.parse(out);
    expect(result).toMatchObject({ scenario: 'nobody-answers', ok: false });
    expect(result.machines).toMatchObject([
      { name: 'node-1', firmware: 'bios', steps: [{ step: 'power on' }] },
    ]);
    expect(result.expectations).toContainEqual({
      text: 'node-1 is ready',
      ok: false,
      detail: 'found nothing',
    });
    expect(err).toContain('waited for node-1 to be ready');
    expect(err).toMatch(/the end of its console.*iPXE/s);
    expect(err).toContain('main.pcap');
  });
});
