/**
 * Every key of a cluster of three control planes is replaced under a client of the API, a writer of
 * etcd and watches: with the shipped boot host, real agents and the programs of Kubernetes. Needs
 * MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import https from 'node:https';
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from 'vitest';
import { ARTIFACTS } from '../artifacts.ts';
import { type Rack, until } from './etcd/rack.ts';
import { loseAll, takeSnapshot } from './etcd/snapshot.ts';
import { Watch } from './etcd/watch.ts';
import { type Kubectl, kubectlOf, openKubernetes, stops } from './kubernetes/rack.ts';
import { bootAll, clientOf, rotationOf, stateOf } from './kubernetes/rotating.ts';

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  let rack: Rack;
  /** With the credentials of before the rotation. */
  let kubectl: Kubectl;
  /** The snapshot of etcd from before the rotation. */
  let snapshot: string;

  beforeAll(async () => {
    rack = await openKubernetes();
    await bootAll(rack);
    kubectl = await kubectlOf(rack);
  }, 600_000);
  afterAll(() => rack?.close(), 60_000);

  /**
   * Takes a snapshot with a Secret that holds a token of a service account. The Secret is deleted
   * then, because a rotation does not end while such a token is left.
   */
  async function snapshotWithToken(): Promise<string> {
    kubectl.run('create', '-f', `${import.meta.dirname}/kubernetes/legacy-token.yaml`);
    await until('the token is there', tokenIn, () => stateOf(rack));
    const id = await takeSnapshot(rack);
    kubectl.run('delete', 'secret', 'legacy');
    return id;
  }

  /** The token in the Secret; empty while it has none. */
  const tokenIn = (): string =>
    Buffer.from(kubectl.run('get', 'secret', 'legacy', '-o', 'jsonpath={.data.token}'), 'base64').toString();

  test('all keys are replaced, and no request fails beyond one retry', { timeout: 1_800_000 }, async () => {
    const { load, token } = await clientOf(rack, kubectl);
    const etcdClient = rack.writer.credentials();
    snapshot = await snapshotWithToken();
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
      expect([since('etcd'), since('kube-apiserver')]).toEqual([1, 3]);
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

  test('the snapshot from before the rotation is restored, and publishes the keys of today', {
    timeout: 1_800_000,
  }, async () => {
    await rack.writer.stop();
    await loseAll(rack);
    const ordered = await rack.muster('cluster', 'restore', 'one', '--backup', snapshot, '--confirm', 'one');
    expect(ordered, ordered.output).toMatchObject({ code: 0 });
    expect(ordered.output).toContain('API servers can read them again');
    await rack.healthy(600);
    kubectl = await kubectlOf(rack);
    const right = async () =>
      !(await rack.muster('cluster', 'status', 'one')).output.includes('are being put right');
    await until('CAs and tokens are those of today', right, () => stateOf(rack), 600);

    const today = rack.all[0]!.read('/etc/kubernetes/pki/ca-bundle.crt')!.trim();
    const published = (namespace: string, name: string, key: string): string => {
      const words = ['get', 'configmap', name, '-n', namespace, '-o', `jsonpath={.data.${key}}`];
      return kubectl.run(...words).trim();
    };
    expect(published('default', 'kube-root-ca.crt', 'ca\\.crt')).toBe(today);
    const authentication = 'extension-apiserver-authentication';
    expect(published('kube-system', authentication, 'client-ca-file')).toBe(today);
    const encoded = Buffer.from(`${today}\n`).toString('base64');
    const applied = () => published('kube-public', 'cluster-info', 'kubeconfig').includes(encoded);
    await until('cluster-info has the CA of today', applied, () => stateOf(rack));
    const token = await until('the controller manager has made a token', tokenIn, () => stateOf(rack));
    for (const { address } of rack.all) {
      const api = `https://${address}:6443/version`;
      expect(await statusOf(api, { headers: { authorization: `Bearer ${token}` } })).toBe(200);
    }
    // It was encrypted with a key that has ended since.
    expect(kubectl.run('get', 'secret', 'word', '-o', 'jsonpath={.data.word}')).toBe(
      Buffer.from('hush').toString('base64'),
    );
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
