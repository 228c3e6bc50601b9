/**
 * `make bench`: runs the suites in bench/*.bench.ts, or those named on the command line, and writes
 * bench/results.json and bench/RESULTS.md. Results of suites that were not run stay. `--only REGEX`
 * measures the figures of these names only. `--page` only writes RESULTS.md again from
 * results.json, without measuring. Each suite waits until the host is quiet, up to `--patience`
 * minutes; what is measured on a busy host is marked so, and met by nothing.
 */
import { execFileSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  type BenchCase,
  type BenchSuite,
  compare,
  marked,
  merge,
  type Result,
  type Rounds,
  resultsPage,
  spread,
} from './compare.ts';

const HERE = new URL('./', import.meta.url);
const RESULTS = new URL('results.json', HERE);
const PAGE = new URL('RESULTS.md', HERE);
const DEFAULT_ROUNDS = 5;
/** A host with a load below this is quiet. */
const QUIET = 0.5;
/** Rounds are repeated until the values of each side lie within this share of their median. */
const SPREAD = 0.1;
/** At most so many times the rounds that were asked for. */
const REPEATS = 3;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string' },
      'dry-run': { type: 'boolean', default: false },
      page: { type: 'boolean', default: false },
      only: { type: 'string' },
      patience: { type: 'string', default: '10' },
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
      // A trial that writes nothing does not wait.
      const isQuiet = await quiet(values['dry-run'] ? 0 : Number(values.patience));
      results.push(...(await runSuite(name, suite, { rounds, only, busy: !isQuiet })));
      done.push(name);
    } catch (error) {
      failed++;
      say(`${name}: FAILED, its earlier results stay: ${(error as Error).stack}`);
    }
  }
  if (values['dry-run']) return failed;
  const earlier = await earlierResults();
  const all = merge(
    earlier,
    results.map((one) =>
      marked(
        one,
        earlier.find(({ name, peerName }) => name === one.name && peerName === one.peerName),
      ),
    ),
    done,
    { partial: only !== undefined },
  );
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
  {
    rounds,
    only,
    busy,
  }: { readonly rounds: number | undefined; readonly only: RegExp | undefined; readonly busy: boolean },
): Promise<Result[]> {
  say(`== ${name}: ${suite.about}`);
  const opened = await suite.open();
  try {
    const results: Result[] = [];
    for (const bench of opened.cases) {
      if (only && !Object.values(bench.figures).some((figure) => only.test(figure.name))) continue;
      const where = {
        ...{ suite: name, at: new Date().toISOString().slice(0, 16), machine: machine(), commit: commit() },
        ...(busy && { busy }),
      } as const;
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
  const isSteady = (): boolean =>
    [ours, ...Object.values(theirs)].every((side) =>
      Object.keys(bench.figures).every((key) => spread(side.flatMap((one) => one[key] ?? [])) < SPREAD),
    );
  // One round alone is a trial, and is not repeated.
  const most = rounds === 1 ? 1 : rounds * REPEATS;
  for (let round = 0; round < rounds || (round < most && !isSteady()); round++) {
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
  const apart = [result.rounds.ours, result.rounds.peer ?? []].map(
    (side) => `${Math.round(spread(side) * 100)} %`,
  );
  const turns = result.rounds.ours.length;
  const values =
    turns > 1 ? `, ${turns} rounds within ${apart.slice(0, result.peerName ? 2 : 1).join(' and ')}` : '';
  return `${result.name}: ${result.ours} ${result.unit}${peer}${aim}${values}${result.busy ? ' BUSY' : ''}`;
}

/** Waits until the host is quiet. Resolves with whether it is, after at most so many minutes. */
async function quiet(minutes: number): Promise<boolean> {
  for (let waited = 0; loadavg()[0]! >= QUIET; waited += 5) {
    if (waited >= minutes * 60) return false;
    if (waited === 0) say(`the load is ${loadavg()[0]!.toFixed(1)}: waiting for less than ${QUIET}`);
    await setTimeout(5000);
  }
  return true;
}

/** The commit of this checkout, with `+` where files differ from it. */
function commit(): string {
  const git = (...words: string[]): string =>
    execFileSync('git', words, { cwd: HERE, encoding: 'utf8' }).trim();
  return (
    git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--untracked-files=no') ? '+' : '')
  );
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
