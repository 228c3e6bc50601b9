/**
 * Every key of a cluster of three control planes is replaced under a client of the API, a writer of
 * etcd and watches: with the shipped boot host, real agents and the programs of Kubernetes. Needs
 * MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import https from 'node:https';
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from 'vitest';
import { ARTIFACTS } from '../artifacts.ts';
import { type Rack, until } from './etcd/rack.ts';
import { rotationOf } from './etcd/rotation.ts';
import { loseAll, takeSnapshot } from './etcd/snapshot.ts';
import { Watch } from './etcd/watch.ts';
import { type Kubectl, kubectlOf, openKubernetes, stops, versionOf } from './kubernetes/rack.ts';
import { bootAll, clientOf, stateOf } from './kubernetes/rotating.ts';

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  let rack: Rack;
  /** With the credentials of before the rotation. */
  let kubectl: Kubectl;
  /** A snapshot from before the rotation. */
  let snapshot: string;

  beforeAll(async () => {
    rack = await openKubernetes();
    await bootAll(rack);
    kubectl = await kubectlOf(rack);
  }, 600_000);
  afterAll(() => rack?.close(), 60_000);

  test('all keys are replaced, and no request fails beyond one retry', { timeout: 1_800_000 }, async () => {
    const { load, token } = await clientOf(rack, kubectl);
    snapshot = await takeSnapshot(rack);
    const etcdClient = rack.writer.credentials();
    load.start();
    onTestFailed(() => load.stop());
    rack.writer.start();
    const watches = rack.all.map((machine) => new Watch(machine, rack.writer));
    const before = rack.all.map(stops);
    const { code, output } = await rack.muster('pki', 'rotate', 'all', '--cluster', 'one');
    expect(code, output).toBe(0);
    const ended = async () => {
      const view = await rotationOf(rack);
      return view.ended && view;
    };
    const { steps, ...view } = await until('the rotation ends', ended, () => stateOf(rack), 1500);
    await load.stop();
    expect(view.ended?.as).toBe('done');
    expect(steps.map(({ name }) => name)).toEqual([
      ...['generate', 'trust', 'issue', 'rewrite', 'search', 'rehearse', 'distrust', 'publish', 'forget'],
    ]);

    // Nobody noticed.
    expect(load.failedTwice).toEqual([]);
    expect(load.requests).toBeGreaterThan(500);
    for (const seen of load.seen) expect([...load.written].filter((n) => !seen.has(n))).toEqual([]);
    await rack.nothingLost();
    expect(rack.writer.failedTwice).toEqual([]);
    await Promise.all(watches.map((watch) => watch.stop()));
    for (const [n, machine] of rack.all.entries()) {
      const since = (name: string) => (stops(machine)[name] ?? 0) - (before[n]![name] ?? 0);
      // Before 1.35 an API server restarts for its encryption key, which the first one does not
      // rehearse with the others.
      const again = n === 0 && versionOf('kube-apiserver').startsWith('1.34.') ? 1 : 0;
      expect([since('etcd'), since('kube-apiserver')]).toEqual([1, 3 + again]);
    }

    // Nothing takes the old keys any more.
    for (const { address } of rack.all) {
      const api = `https://${address}:6443/api/v1/namespaces`;
      expect(await statusOf(api, { headers: { authorization: `Bearer ${token}` } })).toBe(401);
      expect(await statusOf(api, kubectl.credentials)).toBe(401);
      await expect(statusOf(`https://${address}:2379/version`, etcdClient)).rejects.toThrow(
        /alert|reset|EPIPE/,
      );
    }
    const again = await kubectlOf(rack);
    expect(again.run('get', 'secret', 'word', '-o', 'jsonpath={.data.word}')).toBe(
      Buffer.from('hush').toString('base64'),
    );
  });

  test('a snapshot from before the rotation is restored, and its Secrets are read', {
    timeout: 900_000,
  }, async () => {
    await loseAll(rack);
    const restore = (...more: string[]) =>
      rack.muster('cluster', 'restore', 'one', '--backup', snapshot, ...more);
    expect(await restore()).toMatchObject({
      code: 2,
      output: expect.stringMatching(/encrypted with [0-9a-f]{16}, from before a rotation/),
    });
    const ordered = await restore('--confirm', 'one');
    expect(ordered.code, ordered.output).toBe(0);
    await rack.healthy(600);
    for (const machine of rack.all) {
      const again = await kubectlOf(rack, machine);
      await until(
        `${machine.name} reads Secrets`,
        () => again.run('get', 'secret', 'word', '-o', 'jsonpath={.data.word}') !== '',
        () => stateOf(rack),
        600,
      );
    }
    // What the snapshot brought back of the old keys is put right.
    const status = async () => {
      const { output } = await rack.muster('cluster', 'status', 'one');
      // The kubelets of this rack say no version.
      const failing = output.split('\n').filter((line) => /^FAIL(?!.*kubelet v0\.0\.0)/.test(line));
      if (failing.length > 0 || !/^ok/m.test(output)) throw new Error(output);
      return true;
    };
    await until('the cluster is healthy', status, () => stateOf(rack), 600);
    const { run } = await kubectlOf(rack);
    const published = run('get', 'configmap', 'kube-root-ca.crt', '-o', 'jsonpath={.data.ca\\.crt}');
    const { output } = await rack.muster('kubeconfig', 'one');
    const trusted = /certificate-authority-data: (\S+)/.exec(output)![1]!;
    expect(published.trim()).toBe(Buffer.from(trusted, 'base64').toString().trim());
  });
});

/** The status with which a server answers a client, whatever the server's own certificate is. */
const statusOf = (url: string, client: https.RequestOptions): Promise<number | undefined> =>
  new Promise((done, fail) => {
    const { ca: _, ...own } = client;
    const options = { ...own, agent: false, rejectUnauthorized: false, timeout: 10_000 } as const;
    https
      .get(url, options, (answer) => {
        answer.resume();
        answer.on('error', fail);
        answer.on('end', () => done(answer.statusCode));
      })
      .on('error', fail);
  });
