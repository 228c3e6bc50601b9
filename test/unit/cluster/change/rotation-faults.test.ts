/** Bad input and faults while keys are rotated: each is refused or held, with its reason. */
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import type { Evidence, ListenerName } from '../../../../src/agent/wire/evidence.ts';
import { LISTENER_NAMES, probeName } from '../../../../src/agent/wire/evidence.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { carriedOut } from '../../../../src/cluster/change/rotation/evidence.ts';
import type { MachineSeen } from '../../../../src/cluster/change/step.ts';
import type { ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { readImported } from '../../../../src/pki/imported.ts';
import { newGeneration } from '../../../../src/pki/issue.ts';
import { allGenerations } from '../../../../src/pki/keyset.ts';
import { takeAuthority } from '../../../../src/pki/take-authority.ts';
import type { Store } from '../../../../src/store/store.ts';
import { temporary } from '../../pki/kit.ts';
import { MACHINES, resolved } from '../kit.ts';
import { Cluster } from './rotation-kit.ts';

const CA = { kind: 'rotation', keysets: ['ca'] };

async function rotating(step: string, request = CA): Promise<Cluster> {
  const cluster = await Cluster.open();
  await cluster.settle();
  await cluster.orders.begin('golden', request, 'root');
  for (let n = 0; n < 100 && at(cluster) !== step; n++) await cluster.tick(cluster.machines);
  expect(at(cluster)).toBe(step);
  return cluster;
}

const at = (cluster: Cluster): string => cluster.changes.record('golden')!.step;

async function ends(cluster: Cluster): Promise<void> {
  await cluster.finish();
  expect(cluster.orders.show('golden').ended?.as).toBe('done');
  expect(allGenerations((await cluster.world.pki.keysets('golden')).get('ca')!)).toHaveLength(1);
  await cluster.changes.close();
}

test('a full disk of the boot host stops the rotation where it is, and it continues when there is room', async () => {
  const cluster = await rotating('issue');
  const store = cluster.world.store as { -readonly [K in keyof Store]: Store[K] };
  const { commit } = store;
  store.commit = () => Promise.reject(new MusterError('E_STORE_WRITE', 'the disk is full'));
  for (let n = 0; n < 40; n++) await cluster.tick(cluster.machines);
  expect([at(cluster), cluster.changes.waiting('golden')]).toEqual(['issue', { '': 'the disk is full' }]);
  store.commit = commit;
  await ends(cluster);
});

test("a rotation of etcd's CA notices that the old CA has ended, so that members need not wait for each other", async () => {
  const cluster = await rotating('distrust', { ...CA, keysets: ['etcd-ca'] });
  await cluster.tick([]);
  expect(cluster.rotation.trustEnded('golden')).toBe(false);
  cluster.world.clock.advance(duration('3660d'));
  await cluster.tick([]);
  expect(cluster.rotation.trustEnded('golden')).toBe(true);
  await cluster.changes.close();
});

test('a machine whose disk is full is waited for, with what its agent says', () => {
  const facts = { hold: { code: 'write-failed', text: 'No space left on device' } } as AgentFacts;
  const machine: MachineSeen = { name: 'w1', roles: ['worker'], applied: false, facts };
  expect(carriedOut(machine, {} as never)).toEqual({
    is: 'waiting',
    text: 'it waits (write-failed): No space left on device',
  });
});

test('while the documents of a cluster are incomplete, no step ends, whatever machines have shown', async () => {
  const cluster = await rotating('issue');
  const changing = cluster as { spec: ResolvedCluster | undefined };
  const { spec } = changing;
  changing.spec = undefined;
  for (let n = 0; n < 20; n++) {
    cluster.world.clock.leap(duration('6s'));
    await cluster.changes.look('golden');
  }
  expect([at(cluster), cluster.changes.waiting('golden')]).toEqual([
    'issue',
    { '': 'the documents of golden are incomplete, so its machines are not known' },
  ]);
  changing.spec = spec;
  await ends(cluster);
});

test('a machine that joins while keys are rotated has to show its evidence, too; one that left is not waited for', async () => {
  const cluster = await rotating('issue');
  const changing = cluster as { spec: ResolvedCluster };
  const { spec } = changing;
  const w3 = { name: 'w3', addresses: ['10.0.0.23'] };
  changing.spec = resolved({ workers: ['w1', 'w2', 'w3'] }, [...MACHINES, w3]);
  for (let n = 0; n < 30; n++) await cluster.tick(cluster.machines);
  expect([at(cluster), Object.keys(cluster.changes.waiting('golden'))]).toEqual(['issue', ['w3']]);
  changing.spec = spec;
  await ends(cluster);
});

test('a machine that lies ends nothing but its own part of a step', async () => {
  const cluster = await rotating('trust');
  const { from, to } = (
    cluster.changes.record('golden')!.order as { keysets: { from: string; to: string }[] }
  ).keysets[0]!;
  const answers = new Map([from, to].map((id) => [probeName('ca', id), 'accepted' as const]));
  const listeners = new Map(LISTENER_NAMES.map((name: ListenerName) => [name, { answers }]));
  const evidence: Evidence = { listeners, programs: new Map(), tokens: new Map() };
  for (let n = 0; n < 20; n++) {
    cluster.world.clock.leap(duration('6s'));
    const since = cluster.world.clock.monotonic();
    cluster.changes.heard('golden', 'w1', { facts: { evidence } as AgentFacts, since, applied: true });
    await cluster.changes.look('golden');
  }
  expect([at(cluster), Object.keys(cluster.changes.record('golden')!.evidence)]).toEqual(['trust', ['w1']]);
  expect(Object.keys(cluster.changes.waiting('golden'))).toEqual(['cp1', 'cp2', 'cp3', 'w2']);
  await ends(cluster);
});

test('a clock that jumps by 91 days in the middle ends no step and breaks none', async () => {
  const cluster = await rotating('issue');
  cluster.world.clock.leap(duration('91d'));
  await cluster.changes.look('golden');
  expect(at(cluster)).toBe('issue');
  await ends(cluster);
});

test('a second rotation is refused while one is under way, and says which it is', async () => {
  const cluster = await rotating('issue');
  await expect(cluster.orders.begin('golden', { ...CA, keysets: ['sa'] }, 'ann')).rejects.toThrow(
    'golden: the rotation that root ordered is under way, at the step issue',
  );
  await ends(cluster);
});

test('a CA without room for a bridge is replaced with one more step, in which everything trusts its successor first', async () => {
  const cluster = await Cluster.open();
  const names = async () =>
    (await cluster.orders.preview('golden', { ...CA, keysets: ['etcd-ca'] })).steps.map(({ name }) => name);
  expect(await names()).not.toContain('trust');
  const narrow = pathLengthZero();
  // openssl used the clock of this host, which may be seconds ahead of the test's by now.
  cluster.world.clock.advance(duration('10m'));
  const authority = readImported(narrow.certificate, narrow.key, cluster.world.clock.now());
  await takeAuthority(cluster.world, 'golden', { name: 'etcd-ca', authority: authority.generation });
  expect(await names()).toContain('trust');
  await cluster.changes.close();
});

function pathLengthZero(): { readonly certificate: string; readonly key: string } {
  using directory = temporary();
  const [key, certificate] = [`${directory.path}/key`, `${directory.path}/crt`];
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const is = ['-subj', '/CN=ours', '-days', '400', '-keyout', key, '-out', certificate];
  const extensions = ['basicConstraints=critical,CA:TRUE,pathlen:0', 'keyUsage=critical,keyCertSign'];
  const more = extensions.flatMap((one) => ['-addext', one]);
  execFileSync('openssl', [...made, ...is, ...more], { stdio: 'ignore' });
  const text = (file: string) => execFileSync('cat', [file], { encoding: 'utf8' });
  return { certificate: text(certificate), key: text(key) };
}

test('an imported CA that has ended before its rotation is not used: a new one is made', async () => {
  const cluster = await Cluster.open();
  await cluster.settle();
  const lifetime = duration('10d');
  const ours = await newGeneration('ca', { now: cluster.world.clock.now(), lifetime: lifetime as Millis });
  await cluster.world.pki.transition('golden', 'ca', { do: 'make', given: ours });
  cluster.world.clock.leap(duration('11d'));
  await cluster.orders.begin('golden', CA, 'root');
  await cluster.finish();
  const { primary } = (await cluster.world.pki.keysets('golden')).get('ca')!;
  expect(primary).not.toBe(ours.id);
  await cluster.changes.close();
});
