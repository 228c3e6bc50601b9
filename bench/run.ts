/**
 * `make bench`: runs the suites in bench/*.bench.ts, or those named on the command line, and writes
 * bench/results.json and bench/RESULTS.md. Results of suites that were not run stay. `--only REGEX`
 * measures the figures of these names only. `--page` only writes RESULTS.md again from
 * results.json, without measuring.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import {
  type BenchCase,
  type BenchSuite,
  compare,
  merge,
  type Result,
  type Rounds,
  resultsPage,
} from './compare.ts';

const HERE = new URL('./', import.meta.url);
const RESULTS = new URL('results.json', HERE);
const PAGE = new URL('RESULTS.md', HERE);
const DEFAULT_ROUNDS = 5;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string' },
      'dry-run': { type: 'boolean', default: false },
      page: { type: 'boolean', default: false },
      only: { type: 'string' },
    },
  });
  const suites = await loadSuites(positionals);
  if (values.page) {
    await writePage(await earlierResults(), suites.all);
    return 0;
  }
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  const only = values.only === undefined ? undefined : new RegExp(values.only);
  const results: Result[] = [];
  const done: string[] = [];
  let failed = 0;
  for (const [name, suite] of Object.entries(suites.wanted)) {
    const missing = suite.needs?.();
    if (missing !== undefined) {
      say(`${name}: left out, its earlier results stay: ${missing}`);
      continue;
    }
    try {
      results.push(...(await runSuite(name, suite, { rounds, only })));
      done.push(name);
    } catch (error) {
      failed++;
      say(`${name}: FAILED, its earlier results stay: ${(error as Error).stack}`);
    }
  }
  if (values['dry-run']) return failed;
  const all = merge(await earlierResults(), results, done, { partial: only !== undefined });
  await writeFile(RESULTS, `${JSON.stringify(all, null, 2)}\n`);
  await writePage(all, suites.all);
  const missed = results.filter((result) => result.met === false);
  say(`${results.length} figures, ${missed.length} aims missed, ${failed} suites failed: bench/RESULTS.md`);
  return failed;
}

async function writePage(results: readonly Result[], suites: Record<string, BenchSuite>): Promise<void> {
  const about = Object.fromEntries(Object.entries(suites).map(([name, suite]) => [name, suite.about]));
  await writeFile(PAGE, resultsPage(results, about));
}

async function loadSuites(
  names: readonly string[],
): Promise<Record<'all' | 'wanted', Record<string, BenchSuite>>> {
  const files = (await readdir(HERE)).filter((file) => file.endsWith('.bench.ts')).sort();
  const all: Record<string, BenchSuite> = {};
  for (const file of files) {
    const module = (await import(new URL(file, HERE).href)) as { suite: BenchSuite };
    all[file.slice(0, -'.bench.ts'.length)] = module.suite;
  }
  for (const name of names)
    if (!all[name]) throw new Error(`no suite ${name}; there are: ${Object.keys(all).join(', ')}`);
  const wanted = names.length === 0 ? all : Object.fromEntries(names.map((name) => [name, all[name]!]));
  return { all, wanted };
}

async function runSuite(
  name: string,
  suite: BenchSuite,
  { rounds, only }: { readonly rounds: number | undefined; readonly only: RegExp | undefined },
): Promise<Result[]> {
  say(`== ${name}: ${suite.about}`);
  const opened = await suite.open();
  try {
    const results: Result[] = [];
    for (const bench of opened.cases) {
      if (only && !Object.values(bench.figures).some((figure) => only.test(figure.name))) continue;
      const where = { suite: name, at: new Date().toISOString().slice(0, 16), machine: machine() };
      const measured = await runCase(bench, rounds ?? bench.rounds ?? DEFAULT_ROUNDS);
      for (const result of compare(bench, measured, where)) {
        results.push(result);
        say(`   ${line(result)}`);
      }
    }
    return results;
  } finally {
    await opened.close();
  }
}

/**
 * Runs Muster and the peers in turn within each round, so that a slow minute of the machine affects
 * all of them.
 */
async function runCase(bench: BenchCase, rounds: number): Promise<Rounds> {
  const peers = Object.entries(bench.peers ?? {});
  const ours: Record<string, number>[] = [];
  const theirs: Record<string, Record<string, number>[]> = Object.fromEntries(
    peers.map(([name]) => [name, []]),
  );
  for (let round = 0; round < rounds; round++) {
    // The order changes from round to round.
    const turns: (readonly [string | undefined, () => Promise<Readonly<Record<string, number>>>])[] = [
      [undefined, () => bench.ours()],
      ...peers,
    ];
    if (round % 2 === 1) turns.reverse();
    for (const [peer, run] of turns) (peer === undefined ? ours : theirs[peer]!).push(await run());
  }
  return { ours, peers: theirs };
}

function line(result: Result): string {
  const peer = result.peerName ? `, ${result.peerName} ${result.peer}, ratio ${result.ratio}` : '';
  const aim = result.aim ? ` (${result.aim}: ${result.met ? 'met' : 'MISSED'})` : '';
  return `${result.name}: ${result.ours} ${result.unit}${peer}${aim}`;
}

/** The facts about the machine that figures depend on. */
function machine(): string {
  const load = loadavg()[0]!.toFixed(1);
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${cpus()[0]!.model.trim()}, ${memory} GiB, Linux ${release()}, Node ${process.versions.node}, load before ${load}`;
}

async function earlierResults(): Promise<Result[]> {
  try {
    return JSON.parse(await readFile(RESULTS, 'utf8')) as Result[];
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return [];
    throw error;
  }
}

process.exitCode = (await main()) > 0 ? 1 : 0;
