/**
 * Every scenario of lab/ is one test: the shipped command, real firmware, no mocks. Two processors
 * boot two machines at a time. A third scenario runs next to them, since a scenario waits half of
 * its time for leases, elections and things that must not happen.
 */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { buildImage } from '../../src/lab/images.files.ts';
import { loadScenario } from '../../src/lab/run.files.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { QUICK_SCENARIOS, TORTURE_SCENARIOS } from '../stages.ts';

const SLOTS = 3;
/** How many places a scenario takes that powers on several machines together. */
const SEVERAL = 2;
/** A scenario with at least this limit is begun early. */
const LONG_MS = 1_800_000;
/** The time limit of one run. */
const LIMIT_MS = 2_400_000;
/** The time limit of a test, which waits for its turn first: all scenarios together. */
const STAGE_MS = 4_500_000;

/** The scenarios of `make lab` (quick), of `make lab-long`, or all of both: see test/stages.ts. */
const RACK = (process.env.MUSTER_RACK ?? 'all') as 'quick' | 'long' | 'all';
const inRack = (name: string): boolean =>
  !(name in TORTURE_SCENARIOS) && (RACK === 'all' || (RACK === 'quick') === name in QUICK_SCENARIOS);

const scenarios = await Promise.all(
  readdirSync('lab')
    .filter((file) => file.endsWith('.yaml') && inRack(file.replace(/\.yaml$/, '')))
    .map(async (file) => {
      const scenario = await loadScenario(`lab/${file}`);
      const lacking = scenario.artifacts?.given === true && !ARTIFACTS;
      const machines = scenario.machines.length;
      // Muster powers those together that have a BMC.
      const powered = scenario.machines.filter(({ bmc }) => bmc).length;
      const atOnce = Math.max(1, powered, ...scenario.steps.map(({ powerOn = [] }) => powerOn.length));
      return { file, scenario, lacking, machines, slots: Math.min(SEVERAL, atOnce) };
    }),
);
// Long scenarios start first, one with many machines next to those with few; all others fill the
// remaining places.
const order = ({ scenario, slots, machines }: (typeof scenarios)[number]) =>
  scenario.limit < LONG_MS ? 100 - machines : machines - 10 * slots;
scenarios.sort((a, b) => order(a) - order(b));

let free = SLOTS;
const waiting: { slots: number; go: () => void }[] = [];

function next(): void {
  for (let at = 0; at < waiting.length; )
    if (waiting[at]!.slots > free) at++;
    else {
      const [one] = waiting.splice(at, 1);
      free -= one!.slots;
      one!.go();
    }
}

async function withSlots<T>(slots: number, work: () => Promise<T>): Promise<T> {
  await new Promise<void>((go) => {
    waiting.push({ slots, go });
    next();
  });
  try {
    return await work();
  } finally {
    free += slots;
    next();
  }
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

beforeAll(async () => {
  // Images are built once, before scenarios that need the same image start in parallel.
  const say = (line: string) => process.stderr.write(`${line}\n`);
  const images = scenarios.flatMap(({ scenario, lacking }) => (lacking ? [] : scenario.images));
  await Promise.all(
    [...new Set([...images, 'probe' as const])].map((name) =>
      buildImage(name, { project: process.cwd(), say }),
    ),
  );
}, LIMIT_MS);

describe.concurrent('the virtual rack', () => {
  for (const { file, lacking, slots } of scenarios)
    test.skipIf(lacking)(`all expectations of lab/${file} hold`, { timeout: STAGE_MS }, async () => {
      const { code, out, err } = await withSlots(slots, () => run(`lab/${file}`, slots));
      const result = out === '' ? undefined : JSON.parse(out.trimEnd().split('\n').at(-1)!);
      const failed = result?.expectations.filter((one: { ok: boolean }) => !one.ok);
      expect({ failed, code }, err.slice(-20_000)).toEqual({ failed: [], code: 0 });
      process.stderr.write(`${file}: ${result.seconds} s\n`);
    });

  if (RACK !== 'quick') testCommand();
});

/** What `muster lab run` does besides a scenario that holds. */
function testCommand(): void {
  test('a run with --keep can be inspected until Ctrl-C, also on its page, and leaves nothing behind', {
    timeout: STAGE_MS,
  }, async () => {
    await withSlots(1, async () => {
      // A process group of its own, since Ctrl-C reaches the whole group.
      const words = ['lab', 'run', 'test/lab/scenarios/kept.yaml', '--json', '--keep', '--page', '0'];
      const run = spawn('bin/muster', words, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
      const ended = new Promise<number | null>((resolve) => run.once('exit', resolve));
      let err = '';
      const kept = new Promise<void>((resolve) => {
        run.stderr.on('data', (text) => {
          err += text;
          if (err.includes('Ctrl-C ends it')) resolve();
        });
      });
      await Promise.race([kept, ended]);
      expect(err).toContain('kept: logs in ');
      const look = err.split('\n').find((line) => line.includes('nsenter'))!;
      const inside = (command: string) =>
        execFileSync('sh', ['-c', look.replace(/\S+\/bin\/muster get machines$/, command)], {
          encoding: 'utf8',
        });
      // The command as it is printed.
      expect(inside('$&')).toMatch(/node-1.*profile_holds/);
      expect(inside('pgrep -c qemu')).toBe('1\n');
      const [, page] = /(https:\/\/127\.0\.0\.1:\d+)\/#invitation=\S+\n/.exec(err)!;
      const fetched = execFileSync('curl', ['--silent', '--show-error', '--insecure', page!], {
        encoding: 'utf8',
      });
      expect(fetched).toContain('<title>');
      process.kill(-run.pid!, 'SIGINT');
      expect(await ended, err).toBe(0);
      expect(() => process.kill(-run.pid!, 0)).toThrow('ESRCH');
    });
  });

  test('a run whose rack cannot be built ends, and reports what is missing', {
    timeout: STAGE_MS,
  }, async () => {
    const { code, out, err } = await withSlots(1, () => run('test/lab/scenarios/no-such-package.yaml', 1));
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('nobody-packs-this/usr/bin/etcd is missing');
  });

  test('a run whose documents are refused ends before anything boots, and reports why', {
    timeout: STAGE_MS,
  }, async () => {
    const { code, out, err } = await withSlots(1, () => run('test/lab/scenarios/refused-document.yaml', 1));
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('a document of the scenario is refused: ');
    expect(err).toContain('iPXE joins words with one blank');
    expect(err).not.toContain('power on');
  });

  test('a run with a failed expectation ends with exit code 1 and reports what failed and where to look', {
    timeout: STAGE_MS,
  }, async () => {
    const { code, out, err } = await withSlots(1, () => run('test/lab/scenarios/nobody-answers.yaml', 1));
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
}
