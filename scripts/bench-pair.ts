/**
 * Measures two commits in one run, rounds interleaved: `node scripts/bench-pair.ts COMMIT SUITE
 * [ROUNDS]` compares COMMIT with this checkout and prints ratios with their spread (root).
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { median, spread } from '../bench/compare.ts';

const ROOT = path.resolve(import.meta.dirname, '..');
const [commit, suite, rounds = '5'] = process.argv.slice(2);
if (commit === undefined || suite === undefined) {
  console.error('usage: node scripts/bench-pair.ts COMMIT SUITE [ROUNDS]');
  process.exit(2);
}

/** A checkout of the commit, with this checkout's packages and peers. */
function checkout(): string {
  const id = execFileSync('git', ['rev-parse', '--short', commit!], { cwd: ROOT, encoding: 'utf8' }).trim();
  const directory = path.join(ROOT, '.cache/bench', id);
  if (!fs.existsSync(directory))
    execFileSync('git', ['worktree', 'add', '--detach', directory, id], { cwd: ROOT, stdio: 'ignore' });
  fs.mkdirSync(path.join(directory, '.cache'), { recursive: true });
  for (const shared of ['node_modules', '.cache/peers']) {
    const at = path.join(directory, shared);
    if (!fs.existsSync(at)) fs.symlinkSync(path.join(ROOT, shared), at);
  }
  return directory;
}

/** The figures of one round, by their names. Older commits print them alike. */
function measure(directory: string): ReadonlyMap<string, number> {
  const words = ['node_modules/.bin/node', 'bench/run.ts', suite!, '--rounds', '1', '--dry-run'];
  const printed = execFileSync('scripts/in-namespace.sh', words, { cwd: directory, encoding: 'utf8' });
  const figures = [...printed.matchAll(/^ {3}(.+?): ([\d.e+-]+) /gm)];
  return new Map(figures.map(([, name, value]) => [name!, Number(value)]));
}

const sides = { there: checkout(), here: ROOT };
const seen: Record<keyof typeof sides, Map<string, number[]>> = { there: new Map(), here: new Map() };
for (let round = 0; round < Number(rounds); round++) {
  const order = Object.entries(sides) as [keyof typeof sides, string][];
  for (const [side, directory] of round % 2 === 0 ? order : order.toReversed())
    for (const [name, value] of measure(directory))
      seen[side].set(name, [...(seen[side].get(name) ?? []), value]);
}
const percent = (values: readonly number[]): string => `${Math.round(spread(values) * 100)} %`;
for (const [name, here] of seen.here) {
  const there = seen.there.get(name);
  if (there === undefined) continue;
  const ratio = (median(here) / median(there)).toFixed(3);
  console.log(
    `${name}: ${median(here)} here, ${median(there)} at ${commit}, ratio ${ratio} (spread ${percent(here)} and ${percent(there)})`,
  );
}
