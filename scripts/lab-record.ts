/**
 * Runs scenarios of the virtual rack and keeps what `--json` says, with the commit and the host, in lab/results/NAME.json. Figures in the
 * docs come from there.
 *
 *     node scripts/lab-record.ts lab/etcd-ha.yaml…
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { basename } from 'node:path';

const git = (...words: string[]): string => execFileSync('git', words, { encoding: 'utf8' }).trim();

let failed = false;
for (const file of process.argv.slice(2)) {
  const dirty = git('status', '--porcelain') !== '';
  const commit = `${git('rev-parse', 'HEAD')}${dirty ? ' and changes that are not committed' : ''}`;
  const at = new Date().toISOString().slice(0, 16);
  const run = spawnSync('bin/muster', ['lab', 'run', file, '--json'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 26,
  });
  failed ||= run.status !== 0;
  const line = run.stdout.trimEnd().split('\n').at(-1);
  if (!line) continue;
  const host = {
    processors: availableParallelism(),
    memoryMiB: Math.round(totalmem() / 1048576),
    qemu: execFileSync('qemu-system-x86_64', ['--version'], { encoding: 'utf8' }).split('\n')[0],
  };
  // The checkout's own place says nothing to others.
  const result = JSON.parse(line.replaceAll(`${process.cwd()}/`, '')) as object;
  const record = { commit, at, host, result };
  writeFileSync(`lab/results/${basename(file, '.yaml')}.json`, `${JSON.stringify(record, undefined, 2)}\n`);
}
process.exitCode = failed ? 1 : 0;
