/** What the programs of a cluster are asked, and what is made of their answers. */
import path from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemClock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import type { Outcome } from '../../../../src/cluster/judge/confine.files.ts';
import { createJudge, type JudgeDeps } from '../../../../src/cluster/judge/judge.ts';
import { judgeWith } from '../../../../src/cluster/judge/late-check.ts';
import { placedIn, wholeOf } from '../../../../src/cluster/judge/placed.ts';
import { lastWords, shown } from '../../../../src/cluster/judge/verdict.ts';
import { checkAll } from '../../../../src/cluster/resolve/check-documents.ts';
import { openCatalog } from '../../../../src/resources/catalog.files.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { resolved } from '../kit.ts';

type Asked = { readonly program: string; readonly flags: readonly string[] };

/** A judge whose programs answer so, and what it asked. */
function judging(answer: (asked: Asked) => Outcome | Promise<Outcome>, deps: Partial<JudgeDeps> = {}) {
  const asked: Asked[] = [];
  const judge = createJudge({
    program: async (_, component) => ({ sha256: 'a', file: `/bin/${component}` }),
    run: async (program, flags) => {
      asked.push({ program, flags });
      return answer({ program, flags });
    },
    withinMs: 5_000,
    ...deps,
  });
  const plain = resolved();
  const faultsOf = async (overrides: KubernetesSpec['overrides']) => {
    const [found] = await judge.judge([{ resolved: resolved({ ...(overrides && { overrides }) }), plain }]);
    return found!.map(({ severity, fault }) => `${severity} ${fault.path}: ${fault.message}`);
  };
  return { asked, faultsOf, judge };
}

const waits: Outcome = { did: 'wait' };
const ends = (output: string): Outcome => ({ did: 'end', output });
const SLOW = { flags: { 'kube-apiserver': { 'event-ttl': '2h' } } };

test('only components that read something that somebody wrote are asked', async () => {
  const { asked, faultsOf } = judging(() => waits);
  expect(await faultsOf(undefined)).toEqual([]);
  expect(asked).toEqual([]);
  expect(await faultsOf(SLOW)).toEqual([]);
  expect(asked.map(({ program }) => program)).toEqual(['/bin/kube-apiserver']);
  expect(asked[0]!.flags).toContain('--event-ttl=2h');
});

test('a refusal is an error at the flag, in the words of the program, without its usage', async () => {
  const said = 'Usage:\n  --event-ttl duration\n\nError: invalid argument "2h" for "--event-ttl" flag: no';
  const { faultsOf } = judging(() => ends(said));
  expect(await faultsOf(SLOW)).toEqual([
    'error spec.kubernetes.overrides.flags.kube-apiserver.event-ttl: kube-apiserver 1.36.3 does not start with it: Error: invalid argument "2h" for "--event-ttl" flag: no',
  ]);
});

test('what every kubelet refuses is reported once, at the field of its configuration', async () => {
  const said =
    'E1128 12:02:26.89 1 run.go:72] "command failed" err="failed to validate kubelet configuration, error: invalid configuration: maxPods (--max-pods) 110 is odd, path: &TypeMeta{}"';
  const { asked, faultsOf } = judging(() => ends(said));
  expect(await faultsOf({ kubelet: { config: { maxPods: 111, podPidsLimit: 4096 } } })).toEqual([
    'error spec.kubernetes.overrides.kubelet.config.maxPods: kubelet 1.36.3 does not start with it: failed to validate kubelet configuration, error: invalid configuration: maxPods (--max-pods) 110 is odd',
  ]);
  expect(asked).toHaveLength(2);
});

test('an answer is remembered for the same program and values', async () => {
  const { asked, faultsOf } = judging(() => waits);
  await faultsOf(SLOW);
  await faultsOf(SLOW);
  expect(asked).toHaveLength(1);
  await faultsOf({ flags: { 'kube-apiserver': { 'event-ttl': '3h' } } });
  expect(asked).toHaveLength(2);
});

test.each([
  ['kubelet is not here', { program: async () => undefined }, waits],
  ['kubelet took too long', {}, { did: 'hang' } as const],
  ['this host cannot confine programs: unshare: no', {}, { did: 'not-start', why: 'unshare: no' } as const],
])('values are judged by the tables, with a warning that names them, when %s', async (why, deps, answer) => {
  const { faultsOf } = judging(() => answer, deps);
  expect(await faultsOf({ kubelet: { config: { maxPods: 111 } } })).toEqual([
    `warning spec.kubernetes.overrides: the values of kubelet are judged by Muster's tables of Kubernetes 1.36, not by the programs: ${why}`,
  ]);
});

test('a program that fails for want of network, API or cgroups took its values', async () => {
  const { faultsOf } = judging(() =>
    ends('E1 1 run.go:72] "command failed" err="dial tcp: network is unreachable"'),
  );
  expect(await faultsOf(SLOW)).toEqual([]);
});

test('a file that Muster does not bring is none of the fault, but a wrong flag beside it is', async () => {
  const foreign = { flags: { 'kube-apiserver': { 'tracing-config-file': '/etc/kubernetes/pki/mine.yaml' } } };
  const missing = judging(() => ends('Error: open /etc/kubernetes/pki/mine.yaml: no such file or directory'));
  expect(await missing.faultsOf(foreign)).toEqual([]);
  const wrong = judging(() => ends('Error: unknown flag: --x'));
  expect(await wrong.faultsOf(foreign)).toHaveLength(1);
});

test('at most two programs run at a time, whatever is ordered', async () => {
  let [running, most] = [0, 0];
  const two = Promise.withResolvers<void>();
  const { faultsOf } = judging(async () => {
    most = Math.max(most, ++running);
    if (running === 2) two.resolve();
    await two.promise;
    running--;
    return waits;
  });
  const all = { 'kube-apiserver': { v: '2' }, 'kube-scheduler': { v: '2' }, kubelet: { v: '2' } };
  await Promise.all([faultsOf({ flags: all }), faultsOf({ flags: { ...all, kubelet: { v: '3' } } })]);
  expect(most).toBe(2);
});

test('secrets and characters that are no text are left out of a program’s words', async () => {
  const { faultsOf } = judging(() =>
    ends('Error: cannot ask https://user:geheim@a.test/?key=geheim \u001b[31mnow\u0007'),
  );
  const [fault] = await faultsOf(SLOW);
  expect(fault).not.toContain('geheim');
  expect(fault).not.toMatch(/[\u0000-\u001f]/);
  expect(shown('x'.repeat(10_000)).length).toBeLessThan(500);
});

test('no path of a value leaves the directory of a program', async () => {
  const [apiserver] = placedIn(resolved()).filter(({ component }) => component === 'kube-apiserver');
  const word = fc.constantFrom('..', '.', 'etc', 'a.key', 'x.crt', '', 'var/lib/muster');
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 9 }), async (words) => {
      const flags = [`--a=/${words.join('/')}`, `--b=/etc/kubernetes/${words.join('/')}.key`];
      const files = await wholeOf({ ...apiserver!, flags });
      for (const file of files.keys()) expect(path.join('/scratch', file)).toMatch(/^\/scratch(\/|$)/);
      for (const file of files.keys()) expect(file.split('/')).not.toContain('..');
    }),
    { numRuns: 50 },
  );
});

test('a program that ends without a word is said to', () => {
  expect(lastWords('\n')).toBe('it ended without a word');
});

const BLUE = `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 10.0.0.0/24, dhcp: {mode: "off"}}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {boot: disk, dataDisk: {serial: data}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:00:00:11"], addresses: [10.0.0.11], profile: node}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes:
    version: "1.36"
    endpoint: api.blue.test
    controlPlanes: [cp1]
    overrides:
      flags:
        kube-apiserver:
          event-ttl: 2h
`;

/** A catalogue whose Clusters this judge sees. */
const judged = ({ judge }: Pick<ReturnType<typeof judging>, 'judge'>) =>
  openCatalog({
    metrics: createMetrics(),
    store: openMemoryStore(),
    events: { record: () => undefined },
    log: silentLog,
    clock: systemClock,
    checkConfig: checkAll,
    checkLate: judgeWith(judge),
  });

test('a change that a component refuses is refused with the line of the document, in a dry run too', async () => {
  const catalog = await judged(
    judging(() => ends('Error: invalid argument "2h" for "--event-ttl" flag: no')),
  );
  for (const dryRun of [true, false]) {
    const refused = await catalog.applyText(BLUE, 'blue.yaml', { dryRun }).then(
      () => undefined,
      (error) => error,
    );
    expect(refused.faults).toEqual([
      {
        code: 'E_CLUSTER',
        path: 'spec.kubernetes.overrides.flags.kube-apiserver.event-ttl',
        message: expect.stringMatching(/^Cluster\/blue: kube-apiserver .* invalid argument/),
        at: {
          file: 'blue.yaml',
          line: BLUE.split('\n').findIndex((line) => line.includes('event-ttl')) + 1,
          column: expect.any(Number),
        },
      },
    ]);
  }
  expect(catalog.get('Cluster', 'blue')).toBeUndefined();
});

test('a change with values that nobody could be asked about is made, with a warning', async () => {
  const catalog = await judged(judging(() => waits, { program: async () => undefined }));
  const { warnings } = await catalog.applyText(BLUE, 'blue.yaml');
  expect(warnings.map(({ message }) => message)).toContainEqual(
    expect.stringMatching(/kube-apiserver are judged by Muster's tables of Kubernetes 1\.36/),
  );
  expect(catalog.get('Cluster', 'blue')).toBeDefined();
});
