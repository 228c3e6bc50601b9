/**
 * `make torture`: keys grow old under load and rotate themselves, eight times. First the CA of
 * three members of etcd, which lives for three minutes. Then all keys of three control planes,
 * whose CAs live for ten minutes; that needs MUSTER_ARTIFACTS (test/artifacts.ts). Each CA but the
 * last ones ends during the run, so a program that still depended on it would fail. Setting:
 * TORTURE_ROTATIONS.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { ChangeView } from '../src/api/operations/changes.ts';
import { ROTATED } from '../src/pki/keysets.ts';
import { ARTIFACTS } from '../test/artifacts.ts';
import { CLUSTER, DEBIAN_13, type Machine, type Rack, until, withRack } from '../test/peers/etcd/rack.ts';
import { rotationOf, starts } from '../test/peers/etcd/rotation.ts';
import { Watch } from '../test/peers/etcd/watch.ts';
import { kubectlOf, openKubernetes, stops, versionOf } from '../test/peers/kubernetes/rack.ts';
import { bootAll, clientOf } from '../test/peers/kubernetes/rotating.ts';

const ROTATIONS = Number(process.env.TORTURE_ROTATIONS ?? 8);
const ETCD_LIFE = '3m';
const LIFE = '10m';
const ROTATE_AFTER = '4m';
const LIVES = { ca: LIFE, 'etcd-ca': LIFE, 'front-proxy-ca': LIFE } as const;

/** All keys may grow older than the test lasts; only the CA that ends earlier rotates. */
const AGEING = `${CLUSTER}    pki: {rotateAfter: 1d}\n`;

/** A rotation that has not begun or ended within this time never will. */
const ROTATION_S = 900;

const BUNDLES = ['ca-bundle.crt', 'etcd/ca-bundle.crt', 'front-proxy-ca-bundle.crt'] as const;

/** When the first CA of a machine's bundle ends, ms since 1970. */
const endOf = (machine: Machine, file: (typeof BUNDLES)[number]): number =>
  Date.parse(new X509Certificate(machine.read(`/etc/kubernetes/pki/${file}`)!).validTo);

/** Waits until the rotation is as `isSo` says. */
const waitFor = (rack: Rack, what: string, isSo: (view: ChangeView) => unknown): Promise<ChangeView> =>
  until(
    what,
    async () => {
      const view = await rotationOf(rack);
      return isSo(view) ? view : undefined;
    },
    async () =>
      `${JSON.stringify(await rotationOf(rack).catch(String), undefined, 1)}\n${await rack.state()}`,
    ROTATION_S,
  );

/** Waits for the beginning and the end of another rotation, which begins by itself. */
async function nextRotation(
  rack: Rack,
  last: string | undefined,
  order?: () => Promise<void>,
): Promise<ChangeView> {
  const { id, by } = await waitFor(
    rack,
    'a rotation begins by itself',
    (view) => view.id !== undefined && view.id !== last,
  );
  expect(by).toBe('muster');
  await order?.();
  const view = await waitFor(rack, 'the rotation ends', ({ ended }) => ended);
  expect(view.id).toBe(id);
  expect(view.ended?.as).toBe('done');
  return view;
}

interface Took {
  readonly keysets: readonly string[];
  readonly began: string;
  readonly seconds: number;
  readonly secondsByStep: Readonly<Record<string, number>>;
}

const spanOf = (from: string, to: string): number => Math.round((Date.parse(to) - Date.parse(from)) / 1000);

const tookOf = ({ order, at, ended, steps }: ChangeView): Took => ({
  keysets: (order as { readonly keysets: readonly { readonly name: string }[] }).keysets.map(
    ({ name }) => name,
  ),
  began: at,
  seconds: spanOf(at, ended!.at),
  secondsByStep: Object.fromEntries(steps.map(({ name, since, until }) => [name, spanOf(since!, until!)])),
});

/** Writes a result with what it was measured with. */
function record(name: string, result: Readonly<Record<string, unknown>>): void {
  mkdirSync('lab/results', { recursive: true });
  const commit = String(execFileSync('git', ['rev-parse', 'HEAD'])).trim();
  const text = JSON.stringify({ commit, etcd: '3.5.16', ...result }, undefined, 2);
  writeFileSync(`lab/results/${name}.json`, `${text}\n`);
}

/** Lets the CA of the rack's etcd rotate itself. */
async function ageEtcd(rack: Rack): Promise<void> {
  await Promise.all(rack.all.map((machine) => machine.powerOn()));
  await rack.healthy();
  rack.writer.readsCaAgain = true;
  rack.writer.start();
  const watches = rack.all.map((machine) => new Watch(machine, rack.writer));
  const before = rack.all.map(starts);
  const end = (): number => endOf(rack.all[0]!, 'etcd/ca-bundle.crt');
  const ends = [end()];
  const took: Took[] = [];
  let last: string | undefined;
  while (took.length < ROTATIONS) {
    const view = await nextRotation(rack, last, async () => {
      // The control plane of this Cluster is not there.
      const { code, output } = await rack.muster('pki', 'rotation', 'one', '--without', 'cp');
      expect(code, output).toBe(0);
    });
    last = view.id;
    await rack.healthy();
    took.push(tookOf(view));
    ends.push(end());
  }

  for (const { keysets } of took) expect(keysets).toEqual(['etcd-ca']);
  expect(ends).toEqual([...new Set(ends)].sort((a, b) => a - b));
  // The CA of now was made after half the life of the one before, whose predecessor has ended.
  const ended = ends.filter((one) => one < Date.now()).length;
  expect(ended).toBeGreaterThanOrEqual(ROTATIONS - 1);
  const restarts = rack.all.map((machine, n) => starts(machine) - before[n]!);
  expect(restarts).toEqual(rack.all.map(() => ROTATIONS));
  await nobodyNoticed(rack, watches);
  record('torture-ageing-etcd', {
    caLives: ETCD_LIFE,
    rotations: took,
    casThatEnded: ended,
    ...writesOf(rack),
    restarts: { etcd: restarts },
  });
}

/** Checks that the clients of etcd noticed nothing, apart from restarts of single members. */
async function nobodyNoticed(rack: Rack, watches: readonly Watch[]): Promise<void> {
  await rack.nothingLost();
  expect(rack.writer.failedTwice).toEqual([]);
  for (const watch of watches)
    await until('a watch has seen every write', () =>
      [...rack.writer.acknowledged.keys()].every((key) => watch.seen.has(key)),
    );
  await Promise.all(watches.map((watch) => watch.stop()));
}

const writesOf = ({ writer }: Rack): Readonly<Record<string, number>> => ({
  writesOfEtcd: writer.acknowledged.size,
  writesOfEtcdFailedTwice: writer.failedTwice.length,
  lostWrites: 0,
});

async function age(rack: Rack): Promise<Readonly<Record<string, unknown>>> {
  await bootAll(rack);
  const kubectl = await kubectlOf(rack);
  const { load } = await clientOf(rack, kubectl);
  rack.writer.readsCaAgain = true;
  rack.writer.start();
  load.start();
  const watches = rack.all.map((machine) => new Watch(machine, rack.writer));
  const before = rack.all.map(stops);
  const endOfAll = (): readonly number[] => BUNDLES.map((file) => endOf(rack.all[0]!, file));
  const ends = [endOfAll()];
  const took: Took[] = [];
  let last: string | undefined;
  while (took.length < ROTATIONS) {
    const view = await nextRotation(rack, last);
    last = view.id;
    took.push(tookOf(view));
    ends.push(endOfAll());
  }
  await load.stop();

  // Every rotation was one of all keysets, and nobody noticed any.
  for (const { keysets } of took) expect(keysets).toEqual([...ROTATED]);
  expect(load.failedTwice).toEqual([]);
  for (const seen of load.seen) expect([...load.written].filter((n) => !seen.has(n))).toEqual([]);
  await nobodyNoticed(rack, watches);

  // The CAs of the beginning have ended, and nothing takes what they signed.
  const ended = ends.filter((all) => all.every((end) => end < Date.now())).length;
  expect(ended).toBeGreaterThanOrEqual(ROTATIONS - 3);
  expect(() => kubectl.run('get', 'namespaces')).toThrow();
  const again = await kubectlOf(rack);
  expect(again.run('get', 'secret', 'word', '-o', 'jsonpath={.data.word}')).toBe(
    Buffer.from('hush').toString('base64'),
  );
  const restarts = (name: string) =>
    rack.all.map((machine, n) => (stops(machine)[name] ?? 0) - (before[n]![name] ?? 0));
  return {
    rotations: took,
    generationsOfCasThatEnded: ended,
    requests: load.requests,
    requestsRetriedOnce: [...load.retried.values()].reduce((sum, count) => sum + count, 0),
    requestsFailedTwice: load.failedTwice.length,
    ...writesOf(rack),
    restarts: { etcd: restarts('etcd'), 'kube-apiserver': restarts('kube-apiserver') },
  };
}

test(
  "an etcd CA that lives for three minutes rotates itself again and again, and etcd's clients do not notice that CAs end",
  { timeout: 14_400_000 },
  withRack(ageEtcd, { etcd: DEBIAN_13, lives: { 'etcd-ca': ETCD_LIFE }, cluster: AGEING }),
);

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  test('all keys rotate themselves again and again while their CAs end, and no request fails beyond one retry', {
    timeout: 14_400_000,
  }, async () => {
    const began = Date.now();
    const rack = await openKubernetes({ lives: LIVES, rotateAfter: ROTATE_AFTER });
    try {
      const seen = await age(rack);
      record('torture-ageing', {
        kubernetes: versionOf('kube-apiserver'),
        casLive: LIFE,
        rotateAfter: ROTATE_AFTER,
        ...seen,
        seconds: Math.round((Date.now() - began) / 1000),
      });
    } finally {
      await rack.close();
    }
  });
});
