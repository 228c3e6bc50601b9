/**
 * `make torture`: the keys of a cluster of three control planes grow old under load. Its CAs live
 * for ten minutes, and its keys rotate themselves when they are four minutes old, eight times. Each
 * CA but the last ones ends during the run, so a program that still depended on it would fail.
 * Needs MUSTER_ARTIFACTS: test/artifacts.ts. Setting: TORTURE_ROTATIONS.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { ChangeView } from '../src/api/rotations.ts';
import { ROTATED } from '../src/cluster/change/rotation/order.ts';
import { ARTIFACTS } from '../test/artifacts.ts';
import { type Machine, type Rack, until } from '../test/peers/etcd/rack.ts';
import { Watch } from '../test/peers/etcd/watch.ts';
import { kubectlOf, openKubernetes, stops, versionOf } from '../test/peers/kubernetes/rack.ts';
import { bootAll, clientOf, rotationOf, stateOf } from '../test/peers/kubernetes/rotating.ts';

const ROTATIONS = Number(process.env.TORTURE_ROTATIONS ?? 8);
const LIFE = '10m';
const ROTATE_AFTER = '4m';
const LIVES = { ca: LIFE, 'etcd-ca': LIFE, 'front-proxy-ca': LIFE } as const;

/** A rotation that has not begun or ended within this time never will. */
const PATIENCE_S = 900;

const BUNDLES = ['ca-bundle.crt', 'etcd/ca-bundle.crt', 'front-proxy-ca-bundle.crt'] as const;

/** When the first CA of each bundle of a machine ends, ms since 1970. */
const endsOn = (machine: Machine): readonly number[] =>
  BUNDLES.map((file) =>
    Date.parse(new X509Certificate(machine.read(`/etc/kubernetes/pki/${file}`)!).validTo),
  );

/** Waits until another rotation has begun by itself. */
const another = (rack: Rack, last: string | undefined): Promise<ChangeView> =>
  until(
    'a rotation begins by itself',
    async () => {
      const view = await rotationOf(rack);
      return view.id !== undefined && view.id !== last && view;
    },
    () => stateOf(rack),
    PATIENCE_S,
  );

const itsEnd = (rack: Rack): Promise<ChangeView> =>
  until(
    'the rotation ends',
    async () => {
      const view = await rotationOf(rack);
      return view.ended && view;
    },
    () => stateOf(rack),
    PATIENCE_S,
  );

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

async function age(rack: Rack): Promise<Readonly<Record<string, unknown>>> {
  await bootAll(rack);
  const kubectl = await kubectlOf(rack);
  const { load } = await clientOf(rack, kubectl);
  rack.writer.readsCaAgain = true;
  rack.writer.start();
  load.start();
  const watches = rack.all.map((machine) => new Watch(machine, rack.writer));
  const before = rack.all.map(stops);
  const ends = [endsOn(rack.all[0]!)];
  const took: Took[] = [];
  let last: string | undefined;
  while (took.length < ROTATIONS) {
    const { id, by } = await another(rack, last);
    expect(by).toBe('muster');
    last = id;
    const view = await itsEnd(rack);
    expect(view.ended?.as).toBe('done');
    took.push(tookOf(view));
    ends.push(endsOn(rack.all[0]!));
  }
  await load.stop();

  // Every rotation was one of all keysets, and nobody noticed any.
  for (const { keysets } of took) expect(keysets).toEqual([...ROTATED]);
  expect(load.failedTwice).toEqual([]);
  for (const seen of load.seen) expect([...load.written].filter((n) => !seen.has(n))).toEqual([]);
  await rack.nothingLost();
  expect(rack.writer.failedTwice).toEqual([]);
  await Promise.all(watches.map((watch) => watch.stop()));

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
    writesOfEtcd: rack.writer.acknowledged.size,
    writesOfEtcdFailedTwice: rack.writer.failedTwice.length,
    lostWrites: 0,
    restarts: { etcd: restarts('etcd'), 'kube-apiserver': restarts('kube-apiserver') },
  };
}

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  test('all keys rotate themselves again and again while their CAs end, and no request fails beyond one retry', {
    timeout: 14_400_000,
  }, async () => {
    const began = Date.now();
    const rack = await openKubernetes({ lives: LIVES, rotateAfter: ROTATE_AFTER });
    try {
      const seen = await age(rack);
      const result = {
        commit: String(execFileSync('git', ['rev-parse', 'HEAD'])).trim(),
        kubernetes: versionOf('kube-apiserver'),
        etcd: '3.5.16',
        casLive: LIFE,
        rotateAfter: ROTATE_AFTER,
        ...seen,
        seconds: Math.round((Date.now() - began) / 1000),
      };
      mkdirSync('lab/results', { recursive: true });
      writeFileSync('lab/results/torture-ageing.json', `${JSON.stringify(result, undefined, 2)}\n`);
    } finally {
      await rack.close();
    }
  });
});
