/**
 * Runs scenarios of the virtual rack and keeps what `--json` says, with the commit, the host and
 * the digests of what MUSTER_ARTIFACTS gives, in lab/results/NAME.json, or NAME-VERSION.json for a
 * scenario of one Kubernetes version. Figures in the docs come from there.
 *
 *     node scripts/lab-record.ts [--remark TEXT] [lab/etcd-ha.yaml…]
 *
 * Without a file it runs those that only `make torture` runs.
 *
 * The remark says what a reader of the figures must know and no program can: where the given
 * programs come from, what the machines were.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { load } from 'js-yaml';
import { BINARIES_FILE, parseBinaries, parseLayout } from '../src/artifacts/layout.ts';
import { TORTURE_SCENARIOS } from '../test/stages.ts';

interface Given {
  /** The version of Kubernetes. */
  readonly version: string;
  /** SHA-256 of each binary, digest of each image's manifest. */
  readonly digests: Readonly<Record<string, string>>;
}
/** What a scenario with `artifacts: {given: true}` was given; undefined for all others. */
function givenTo(file: string): Given | undefined {
  const scenario = load(readFileSync(file, 'utf8')) as { artifacts?: { given?: boolean } };
  const directory = process.env.MUSTER_ARTIFACTS;
  if (!scenario.artifacts?.given || !directory) return undefined;
  const read = (name: string): string => readFileSync(join(directory, name), 'utf8');
  const digests: Record<string, string> = {};
  for (const { name, version, sha256 } of parseBinaries(read(BINARIES_FILE)))
    digests[`${name} ${version}`] = `sha256:${sha256}`;
  for (const { reference, digest } of parseLayout(read('oci/index.json')))
    digests[reference ?? digest] = digest;
  return { version: String((load(read('kubernetes.yaml')) as { version: string }).version), digests };
}

const git = (...words: string[]): string => execFileSync('git', words, { encoding: 'utf8' }).trim();

let failed = false;
const { values, positionals } = parseArgs({
  options: { remark: { type: 'string' } },
  allowPositionals: true,
});
const torture = Object.keys(TORTURE_SCENARIOS).map((name) => `lab/${name}.yaml`);
for (const file of positionals.length > 0 ? positionals : torture) {
  // Earlier records are no part of what runs.
  const dirty = git('status', '--porcelain', '--', ':/', ':!lab/results') !== '';
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
  const given = givenTo(file);
  const record = { commit, at, host, remark: values.remark, given, result };
  const name = `${basename(file, '.yaml')}${given ? `-${given.version}` : ''}`;
  writeFileSync(`lab/results/${name}.json`, `${JSON.stringify(record, undefined, 2)}\n`);
}
process.exitCode = failed ? 1 : 0;
