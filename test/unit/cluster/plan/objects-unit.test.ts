/**
 * The script that applies in-cluster objects, as sh runs it with a kubectl of ours: what the API
 * refuses is left for the agent to say.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { bundleOf } from '../../../../src/cluster/objects/bundle.ts';
import { objectsPart } from '../../../../src/cluster/plan/objects-unit.ts';
import { resolved } from '../kit.ts';

const cluster = resolved();
const ADDON = { name: 'site', definitions: '', objects: 'x' };

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'muster-objects-'));
  for (const directory of ['bin', 'run/muster', 'var/lib/muster/agent/keys'])
    mkdirSync(join(root, directory), { recursive: true });
  writeFileSync(join(root, 'run/muster/applier.conf'), '');
});
afterEach(() => rmSync(root, { recursive: true }));

const complaint = (): string | undefined => {
  const file = join(root, 'run/muster/objects');
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
};

/** Runs the script; kubectl fails as `refuses`, shell in which `$*` is what it was asked. */
function run(refuses: string, addons: readonly (typeof ADDON)[] = []) {
  const { files } = objectsPart(cluster.machines[0]!, bundleOf(cluster, 'CA\n'), addons as never);
  const line = files.find((one) => one.do === 'put' && one.path.endsWith('/apply.sh'));
  if (line?.do !== 'put' || !('text' in line.content)) throw new Error('no script');
  const program = (name: string, text: string) =>
    writeFileSync(join(root, 'bin', name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  program('curl', 'printf 200');
  program('sleep', `cp ${root}/run/muster/objects ${root}/complained; touch ${root}/slept`);
  program('kubectl', `echo "asked: $*"\n${refuses}`);
  const script = line.content.text.replace(/\/(etc|run|var)\//g, `${root}/$1/`);
  return spawnSync('/bin/sh', ['-c', script], {
    env: { PATH: `${root}/bin:${process.env.PATH}` },
    encoding: 'utf8',
  });
}

test('the API’s refusal is kept on one line, without warnings, until the objects are accepted', () => {
  const { status, stderr, stdout } = run(
    'case $* in apply*applied.yaml) printf "Warning: old\\nError from server: admission webhook \\"w\\"\\n\\tdenied it\\n" >&2; exit 1 ;; esac',
  );
  expect(status).toBe(1);
  expect(complaint()).toBe('Error from server: admission webhook "w" denied it ');
  expect(stderr).toContain('Warning: old\nError from server');
  expect(stdout).toContain('asked: apply --server-side');
  expect(existsSync(join(root, 'run/muster/applier.conf'))).toBe(true);
  expect(run('').status).toBe(0);
  expect(complaint()).toBeUndefined();
  expect(existsSync(join(root, 'run/muster/applier.conf'))).toBe(false);
});

test('a Service whose address another control plane took a moment before is found at the next try, without a complaint', () => {
  const refused =
    'The Service \\"kube-dns\\" is invalid: spec.clusterIPs: failed to allocate IP 10.96.0.10: provided IP is already allocated';
  const { status, stdout } = run(
    `case $* in apply*applied.yaml) [ -e ${root}/slept ] || { echo "${refused}" >&2; touch ${root}/run/muster/objects; exit 1; } ;; esac`,
  );
  expect(status).toBe(0);
  expect(complaint()).toBeUndefined();
  expect(stdout.match(/^asked: apply .*applied\.yaml/gm)).toHaveLength(2);
  writeFileSync(join(root, 'run/muster/applier.conf'), '');
  expect(run(`case $* in apply*applied.yaml) echo "${refused}" >&2; exit 1 ;; esac`).status).toBe(1);
  expect(complaint()).toContain('already allocated');
});

test('a credential that the API does not take is complained of as well', () => {
  const ended = run(
    `case $* in *readyz*) [ ! -e ${root}/slept ] && { echo "error: Unauthorized" >&2; exit 1; } ;; esac; exit 0`,
  );
  expect(ended.status).toBe(0);
  expect(readFileSync(join(root, 'complained'), 'utf8')).toBe('error: Unauthorized ');
  expect(complaint()).toBeUndefined();
});

test('a proposal that somebody else has decided is no complaint; one that is refused is', () => {
  const refuses = (says: string) => `case $* in *proposed.yaml) echo "${says}" >&2; exit 1 ;; esac`;
  expect(run(refuses('Apply failed with 1 conflict')).status).toBe(0);
  expect(complaint()).toBeUndefined();
  writeFileSync(join(root, 'run/muster/applier.conf'), '');
  expect(run(refuses('Error: forbidden')).status).toBe(1);
  expect(complaint()).toMatch(/Error: forbidden $/);
});

test('an add-on is retried, and its error disappears when it is applied', () => {
  const ended = run(
    `case $* in *site.yaml) [ -e ${root}/slept ] || { echo "no matches for kind" >&2; exit 1; } ;; esac`,
    [ADDON],
  );
  expect(ended.status).toBe(0);
  expect(readFileSync(join(root, 'complained'), 'utf8')).toBe('no matches for kind ');
  expect(complaint()).toBeUndefined();
});
