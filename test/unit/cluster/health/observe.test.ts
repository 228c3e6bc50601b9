/**
 * Reading the API's answers; making, awaiting and deleting probe pods, with their script run by the
 * real shell.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../../src/base/clock.ts';
import { observeKubernetes } from '../../../../src/cluster/health/observe.ts';
import { probe, probeScript } from '../../../../src/cluster/health/probe.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import { ImpatientClock } from '../../clock.ts';
import { resolved } from '../kit.ts';

const FULL = resolved();
const NOW = Date.UTC(2026, 0, 1);
const ago = (ms: number): string => new Date(NOW - ms).toISOString();
const answer = (body: unknown, text = '') => ({ body, text, date: NOW });
const list = (...items: readonly unknown[]) => answer({ items });

const ANSWERS: Readonly<Record<string, ReturnType<typeof answer>>> = {
  '/version': answer({ gitVersion: 'v1.36.3' }),
  '/readyz': answer(undefined, 'ok'),
  '/api/v1/nodes': list({
    metadata: { name: 'w1' },
    spec: { unschedulable: true },
    status: { nodeInfo: { kubeletVersion: 'v1.36.3' }, conditions: [{ type: 'Ready', status: 'True' }] },
  }),
  '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases': list({
    metadata: { name: 'w1' },
    spec: { renewTime: ago(4000) },
  }),
  '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases': list(
    { metadata: { name: 'kube-scheduler' }, spec: { holderIdentity: 'cp2_12-34', renewTime: ago(1000) } },
    { metadata: { name: 'apiserver-abc' }, spec: {} },
  ),
  '/apis/certificates.k8s.io/v1/certificatesigningrequests': list(
    {
      metadata: { name: 'a', creationTimestamp: ago(9000) },
      spec: { username: 'x', signerName: 's' },
      status: {},
    },
    { metadata: { name: 'b' }, status: { conditions: [{ type: 'Approved' }] } },
  ),
};
const kube: Kube = async (path) => ANSWERS[path] ?? Promise.reject(new KubeRefusal(404, path));

test('nodes, leases and requests are read from the first API server that is ready', async () => {
  const seen = await observeKubernetes(FULL, ({ name }) =>
    name === 'cp1'
      ? async (path) =>
          path === '/readyz'
            ? Promise.reject(
                new KubeRefusal(500, '[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed'),
              )
            : kube(path)
      : name === 'cp2'
        ? () => Promise.reject(new Error('connect ECONNREFUSED'))
        : kube,
  );
  expect(seen.apiservers).toEqual([
    { machine: 'cp1', version: 'v1.36.3', ready: false, says: 'etcd failed: reason withheld' },
    { machine: 'cp2', ready: false, says: '10.0.0.12: connect ECONNREFUSED' },
    { machine: 'cp3', version: 'v1.36.3', ready: true },
  ]);
  expect(seen.api).toEqual({
    by: 'cp3',
    nodes: [
      {
        name: 'w1',
        ready: true,
        says: 'it has not reported that it is ready',
        version: 'v1.36.3',
        cordoned: true,
        leaseAge: 4000,
      },
    ],
    leaders: [{ name: 'kube-scheduler', holder: 'cp2', age: 1000 }],
    pending: [{ name: 'a', signer: 's', by: 'x', age: 9000 }],
  });
});

/**
 * Deletes pods of an earlier probe that failed, but not pods that succeeded, which another probe
 * may still read.
 */
const SWEPT =
  'DELETE pods?labelSelector=app.kubernetes.io%2Fname%3Dmuster-probe&fieldSelector=status.phase%3DFailed';

test('each node gets a pod; its termination message is read, and it is deleted', async () => {
  const calls: string[] = [];
  const message = 'dns=ok\nservice=ok\n';
  const played: Kube = async (path, { method = 'GET' }: KubeCall = {}) => {
    calls.push(`${method} ${path.split('/').at(-1)}`);
    return answer({
      status: { phase: 'Succeeded', containerStatuses: [{ state: { terminated: { message } } }] },
    });
  };
  const found = await probe({
    resolved: FULL,
    kube: played,
    clock: systemClock,
    nodes: ['w1', 'w2'],
    image: 'i',
    id: 'q',
    signal: new AbortController().signal,
  });
  expect(found).toEqual([
    { node: 'w1', dns: 'ok', service: 'ok' },
    { node: 'w2', dns: 'ok', service: 'ok' },
  ]);
  expect(calls.sort()).toEqual([
    'DELETE muster-probe-q-0',
    'DELETE muster-probe-q-1',
    SWEPT,
    'GET muster-probe-q-0',
    'GET muster-probe-q-1',
    'POST pods',
    'POST pods',
  ]);
});

test('a probe survives late answers, also when it makes its pod', async () => {
  const late = () => Promise.reject(new Error('no whole answer within 5 s'));
  const said = [
    late,
    () => Promise.reject(new KubeRefusal(409, 'already exists')),
    late,
    () => Promise.reject(new KubeRefusal(500, 'etcdserver: request timed out')),
    async () =>
      answer({
        status: {
          phase: 'Succeeded',
          containerStatuses: [{ state: { terminated: { message: 'dns=ok\nservice=ok\n' } } }],
        },
      }),
  ];
  const calls: string[] = [];
  const slow: Kube = (path, { method = 'GET' } = {}) => {
    calls.push(`${method} ${path.split('/').at(-1)}`);
    return method === 'DELETE' ? Promise.resolve(answer({})) : said.shift()!();
  };
  const of = { resolved: FULL, kube: slow, clock: new ImpatientClock(), image: 'i', id: 'q', nodes: ['w1'] };
  expect(await probe({ ...of, signal: new AbortController().signal })).toEqual([
    { node: 'w1', dns: 'ok', service: 'ok' },
  ]);
  expect(calls).toEqual([
    SWEPT,
    ...['POST pods', 'POST pods', 'GET muster-probe-q-0', 'GET muster-probe-q-0', 'GET muster-probe-q-0'],
    'DELETE muster-probe-q-0',
  ]);
});

test('of many nodes sixteen are probed, from all parts of the list', async () => {
  const nodes = Array.from({ length: 1000 }, (_, n) => `w${n}`);
  const refusing: Kube = () => Promise.reject(new KubeRefusal(403, 'quota'));
  const of = { resolved: FULL, kube: refusing, clock: systemClock, image: 'i', id: 'q' };
  const found = await probe({ ...of, nodes, signal: new AbortController().signal });
  expect(found).toHaveLength(16);
  expect(found[0]).toEqual({ node: 'w0', says: 'quota' });
  expect(Number(found.at(-1)!.node.slice(1))).toBeGreaterThan(900);
});

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'muster-probe-'));
});
afterEach(() => rmSync(home, { recursive: true }));

/** Runs the script with fake programs that print the given output. */
function runs(nslookup: string, nc: string): string {
  writeFileSync(join(home, 'nslookup'), `#!/bin/sh\ncat <<'E'\n${nslookup}\nE\n`, { mode: 0o755 });
  writeFileSync(join(home, 'nc'), `#!/bin/sh\n${nc}\n`, { mode: 0o755 });
  const log = join(home, 'log');
  const script = probeScript(FULL).replace('/dev/termination-log', log);
  spawnSync('/bin/sh', ['-c', script], { env: { PATH: `${home}:/usr/bin:/bin` } });
  return readFileSync(log, 'utf8');
}

/** What nc prints of an API server that got plain HTTP. */
const REFUSES = 'grep -q "^GET / HTTP/1.0" && printf "HTTP/1.0 400 Bad Request\\r\\n\\r\\n"';

test('the script distinguishes the API’s address from that of the DNS server', () => {
  const server = 'Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n';
  expect(runs(`${server}\nName:\tkubernetes.default\nAddress: 10.96.0.1`, REFUSES)).toBe(
    'dns=ok\nservice=ok\n',
  );
  expect(runs(`${server}\n** server can't find it: NXDOMAIN`, 'exit 0')).toMatch(
    /^dns=Server: .*NXDOMAIN\nservice=no answer from 10\.96\.0\.1 port 443\n$/,
  );
});
