/**
 * Real components take the flags and files of every example, and refuse wrong ones. Needs
 * MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { loadAll } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { judgeBinaries } from '../../src/cli/cluster/binaries.files.ts';
import { resolveCluster } from '../../src/cluster/spec/resolve.ts';
import type { ResolvedCluster } from '../../src/cluster/spec/resolved-cluster.ts';
import type { Document } from '../../src/resources/kinds.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { faults, resolved } from '../unit/cluster/kit.ts';

const bin = `${ARTIFACTS}/bin`;
// The components of etcd forks lack flags that etcd has, so etcd is judged where it is etcd's own.
const hasEtcd = (): boolean =>
  fs.existsSync(`${bin}/etcd`) &&
  execFileSync(`${bin}/etcd`, ['--help'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).includes(
    'initial-cluster-state',
  );

function resolvedOf(file: string): ResolvedCluster {
  const documents = loadAll(fs.readFileSync(`examples/${file}`, 'utf8')) as Document[];
  const cluster = documents.find((one): one is Document<'Cluster'> => one.kind === 'Cluster')!;
  const machines = documents
    .filter((one): one is Document<'Machine'> => one.kind === 'Machine')
    .map(({ metadata, spec }) => ({ name: metadata.name, addresses: spec.addresses ?? [] }));
  return resolveCluster(cluster.metadata.name, cluster.spec.kubernetes!, machines).resolved!;
}

async function refused(cluster: ResolvedCluster): Promise<readonly string[]> {
  const verdicts = await judgeBinaries(cluster, bin);
  expect(verdicts.filter(({ says }) => says === 'taken').length).toBeGreaterThan(0);
  return verdicts
    .filter(({ says, component }) => says === 'refused' && (component !== 'etcd' || hasEtcd()))
    .map(({ component, text }) => `${component}: ${text}`);
}

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', { timeout: 240_000 }, () => {
  const version = (): string =>
    /v(1\.[0-9]+\.[0-9]+)/.exec(
      execFileSync(`${bin}/kube-apiserver`, ['--version'], { encoding: 'utf8' }),
    )![1]!;

  test.each(fs.readdirSync('examples').filter((name) => name.endsWith('.yaml')))(
    'every component takes the flags of %s',
    async (file) => {
      expect(await refused(resolvedOf(file))).toEqual([]);
    },
  );

  test('a component takes flags that Muster takes, of every form', async () => {
    const overrides = {
      flags: {
        'kube-apiserver': {
          'default-not-ready-toleration-seconds': '30',
          'event-ttl': '2h',
          'max-requests-inflight': '800',
          'runtime-config': 'api/all=true',
        },
        'kube-controller-manager': { 'node-monitor-grace-period': '50s', controllers: '*' },
        'kube-scheduler': { v: '2' },
        kubelet: { 'housekeeping-interval': '20s' },
      },
      kubelet: { config: { maxPods: 200, evictionHard: { 'memory.available': '5%' } } },
    };
    expect(faults({ version: version(), overrides })).toEqual([]);
    expect(await refused(resolved({ version: version(), overrides }))).toEqual([]);
  });

  test('what a component refuses is told in its words', async () => {
    const good = resolved({ version: version() });
    const { flags, kubelet } = good;
    const wrong = await refused({
      ...good,
      flags: {
        ...flags,
        'kube-apiserver': { ...flags['kube-apiserver'], 'event-ttl': 'abc' },
        'kube-scheduler': { ...flags['kube-scheduler'], 'no-such-flag': '1' },
      },
      kubelet: {
        ...kubelet,
        config: { ...kubelet.config, imageGCHighThresholdPercent: 10, imageGCLowThresholdPercent: 20 },
      },
    });
    expect(wrong.filter((text) => !text.startsWith('etcd'))).toEqual([
      expect.stringMatching(/^kube-apiserver: .*event-ttl.*invalid duration/),
      expect.stringMatching(/^kube-scheduler: .*unknown flag: --no-such-flag/),
      expect.stringMatching(/^kubelet: .*ImageGCHighThresholdPercent/i),
      expect.stringMatching(/^kubelet: .*ImageGCHighThresholdPercent/i),
    ]);
  });
});
