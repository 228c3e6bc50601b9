/**
 * Real components take the flags and files of every example, and refuse wrong ones. Needs
 * MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { loadAll } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { allLines, COMPONENTS, linesOf } from '../../scripts/component-tables.ts';
import { FLAGS, type FlagInfo, KUBERNETES_COMPONENTS } from '../../src/cluster/components/flags.ts';
import type { ResolvedCluster } from '../../src/cluster/model/resolved-cluster.ts';
import { resolveCluster } from '../../src/cluster/resolve/resolve.ts';
import type { Document, KubernetesSpec } from '../../src/resources/kinds.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { run } from '../unit/cli/run.ts';
import { VALUES } from '../unit/cluster/components/flag-examples.ts';
import { faults, MACHINES, resolved } from '../unit/cluster/kit.ts';
import { askBinaries } from './ask-binaries.ts';

const bin = `${ARTIFACTS}/bin`;
// The components of etcd forks lack flags that etcd has, so etcd is judged where it is etcd's own.
const hasEtcd = (): boolean =>
  fs.existsSync(`${bin}/etcd`) &&
  execFileSync(`${bin}/etcd`, ['--help'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).includes(
    'initial-cluster-state',
  );

/** The cluster of an example, with the version of the binaries. */
function resolvedOf(file: string, version: string): ResolvedCluster {
  const documents = loadAll(fs.readFileSync(`examples/${file}`, 'utf8')) as Document[];
  const cluster = documents.find((one): one is Document<'Cluster'> => one.kind === 'Cluster')!;
  const machines = documents
    .filter((one): one is Document<'Machine'> => one.kind === 'Machine')
    .map(({ metadata, spec }) => ({ name: metadata.name, addresses: spec.addresses ?? [] }));
  const spec = { ...cluster.spec.kubernetes!, version };
  return resolveCluster(cluster.metadata.name, spec, machines).resolved!;
}

/** Whether a component parses these flags; `--help` then ends it. */
const parses = (component: string, flags: readonly string[]): Promise<{ ok: boolean; said: string }> =>
  new Promise((resolve) => {
    execFile(`${bin}/${component}`, [...flags, '--help'], { maxBuffer: 2 ** 24 }, (error, out, err) =>
      resolve({ ok: error === null, said: `${err}${out}`.slice(0, 300) }),
    );
  });

/** The flags of a component in a minor version, with a right and a wrong value of each. */
function flagExamples(component: (typeof KUBERNETES_COMPONENTS)[number], minor: string) {
  return [...FLAGS[component]].flatMap(([name, versions]) => {
    const info: FlagInfo | undefined = versions.get(minor);
    const [right, ...wrong] = (info && VALUES[info.type]) ?? [];
    if (info === undefined || right === undefined || info.choices.length > 0) return [];
    return [{ name, right, wrong: wrong[name.length % wrong.length]! }];
  });
}

/** Clusters that Muster takes, and that look unusual to a component. */
const ACCEPTED: Readonly<Record<string, Partial<KubernetesSpec>>> = {
  'anonymous requests are off': { overrides: { flags: { 'kube-apiserver': { 'anonymous-auth': 'false' } } } },
  'control planes are workers too': { workers: ['cp1', 'cp2', 'cp3', 'w1', 'w2'] },
  'evictions are faster': {
    overrides: {
      flags: {
        'kube-apiserver': {
          'default-not-ready-toleration-seconds': '30',
          'default-unreachable-toleration-seconds': '30',
        },
      },
    },
  },
  'etcd is a service and the runtime is CRI-O': { etcd: { runs: 'service' }, runtime: 'cri-o' },
  'two address families': {
    networks: { pods: ['10.244.0.0/16', 'fd00:244::/56'], services: ['10.96.0.0/16', 'fd00:96::/112'] },
  },
};

async function refused(cluster: ResolvedCluster): Promise<readonly string[]> {
  const verdicts = await askBinaries(cluster, bin);
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
      expect(await refused(resolvedOf(file, version()))).toEqual([]);
    },
  );

  test.each(Object.entries(ACCEPTED))(
    'every component takes the flags of a cluster where %s',
    async (_, spec) => {
      const machines =
        spec.networks === undefined
          ? MACHINES
          : MACHINES.map(({ name, addresses }, n) => ({
              name,
              addresses: [...addresses, `fd00:10::${n + 1}`],
            }));
      expect(await refused(resolved({ version: version(), ...spec }, machines))).toEqual([]);
    },
  );

  test.each(KUBERNETES_COMPONENTS)(
    '%s parses a right value of each of its flags, and refuses a wrong one',
    { timeout: 900_000 },
    async (component) => {
      const minor = version().split('.').slice(0, 2).join('.');
      const examples = flagExamples(component, minor);
      expect(examples.length).toBeGreaterThan(20);
      const all = await parses(
        component,
        examples.map(({ name, right }) => `--${name}=${right}`),
      );
      expect(all).toMatchObject({ ok: true });
      const taken: string[] = [];
      for (const { name, wrong } of examples)
        if ((await parses(component, [`--${name}=${wrong}`])).ok) taken.push(`${name}=${wrong}`);
      expect(taken).toEqual([]);
    },
  );

  test('the tables have every flag that a component shows, with its type', () => {
    const minor = version().split('.').slice(0, 2).join('.');
    const help = (component: string): string =>
      execFileSync(`${bin}/${component}`, ['--help'], { encoding: 'utf8', maxBuffer: 2 ** 24 });
    const inputs = Object.fromEntries(COMPONENTS.map((one) => [`help/${one}`, help(one)]));
    const shown = linesOf(minor, inputs).filter((line) => line.startsWith('flag '));
    expect(shown.length).toBeGreaterThan(500);
    expect(allLines().get(minor)).toEqual(expect.arrayContaining(shown));
  });

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

  test('`muster validate` asks the binaries about the values of a Cluster', async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-validate-'));
    const text = fs.readFileSync('examples/audit.yaml', 'utf8');
    fs.writeFileSync(
      path.join(directory, 'audit.yaml'),
      text.replace(/^( +version: ).*/m, `$1"${version()}"`),
    );
    const { code, err } = await run(['validate', directory, '--with-binaries', bin]);
    fs.rmSync(directory, { recursive: true });
    expect({ code, err }).toEqual({ code: 0, err: expect.not.stringContaining('tables of Kubernetes') });
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
