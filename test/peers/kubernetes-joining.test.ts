/**
 * Joining a cluster with the approver and signer of kube-controller-manager and no boot host:
 * machines with the certificates that they were given (docs/decisions/0026), and nodes with a token
 * of kubeadm. Then the same with the boot host's approver. Needs MUSTER_ARTIFACTS:
 * test/artifacts.ts.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { duration } from '../../src/base/duration.ts';
import { silentLog } from '../../src/base/log.ts';
import type { FoundingRecord } from '../../src/cluster/etcd/founding.ts';
import { startApprover } from '../../src/cluster/joining/approver.ts';
import { startNodeKeeper } from '../../src/cluster/joining/node-keeper.ts';
import type { Rounds } from '../../src/cluster/joining/rounds.ts';
import { createKubes } from '../../src/cluster/kube.socket.ts';
import type { NewEvent } from '../../src/events/event.ts';
import type { Pki } from '../../src/pki/pki.ts';
import type { KubernetesSpec } from '../../src/resources/kinds.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { completed } from '../unit/cluster/kit.ts';
import { rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { PlacedPlan } from './placed-plan.ts';
import { SERVING, SigningRequests } from './signing-requests.ts';

const ADDRESS = '10.0.0.11';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;
const SPEC = { endpoint: ADDRESS, controlPlanes: ['cp1'], workers: ['w1', 'w2'], sans: [] };
const LATE = duration('40m');
const CURRENT = '/var/lib/kubelet/pki/kubelet-client-current.pem';

type Groups = NonNullable<KubernetesSpec['nodes']>;

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  const control = new PlacedPlan();
  const worker = new PlacedPlan();
  let pki: Pki;
  let token = '';
  const stop = new AbortController();
  let approver: Rounds | undefined;

  const api = new SigningRequests(control, worker, `https://${ADDRESS}:6443`);
  const { admin, written, request, file, as, issued, isIssued, status } = api;
  const asWorker = ['--kubeconfig', worker.inside('/etc/kubernetes/kubelet.conf')];

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    const start = Date.now() - LATE;
    const { planner, clock, ...made } = await rig({
      start,
      spec: SPEC,
      etcd: async () => ({ lines: [], founding: FOUNDING }),
    });
    pki = made.pki;
    // The worker comes first; the control plane comes forty minutes later, and the boot host is off
    // from then on.
    const w1 = new TestMachine('w1', { state: 'unused' });
    worker.put(await settle(planner, w1), w1);
    await api.begin({ planner, clock }, LATE);
  });

  afterAll(async () => {
    stop.abort();
    await approver?.close();
    await Promise.all([control.close(), worker.close()]);
  });

  test('a worker whose control plane came forty minutes late joins with the files that it got before', () => {
    const whoami = ['auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username} {.status.userInfo.groups}'];
    expect(worker.run('kubectl', ...asWorker, ...whoami)).toBe(
      'system:node:w1 ["system:nodes","system:authenticated"]',
    );
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'w1' } };
    expect(worker.run('kubectl', ...asWorker, 'create', '-f', written(node))).toContain('node/w1');
  });

  test('a worker’s certificates have the name and addresses of the inventory and nothing else', () => {
    const client = new X509Certificate(fs.readFileSync(worker.inside(CURRENT)));
    expect([client.subject, client.subjectAltName]).toEqual(['O=system:nodes\nCN=system:node:w1', undefined]);
    const serving = new X509Certificate(
      fs.readFileSync(worker.inside('/var/lib/kubelet/pki/kubelet-serving-muster.crt')),
    );
    expect(serving.subjectAltName).toBe('DNS:w1, IP Address:10.0.0.21');
  });

  test('a worker’s client certificate is rotated without the boot host, and the new one names the same node', async () => {
    const { key, csr } = request('w1');
    const name = file(csr, asWorker);
    await isIssued(name);
    expect(status(name)).toContain('AutoApproved');
    const certificate = new X509Certificate(issued(name));
    expect(certificate.subject).toBe('O=system:nodes\nCN=system:node:w1');
    // Like kubelet: writes the next file and changes the link to it.
    const next = worker.inside('/var/lib/kubelet/pki/kubelet-client-next.pem');
    fs.writeFileSync(next, certificate.toString() + fs.readFileSync(key, 'utf8'), { mode: 0o600 });
    fs.rmSync(worker.inside(CURRENT));
    fs.symlinkSync(next, worker.inside(CURRENT));
    expect(worker.run('kubectl', ...asWorker, 'get', 'node', 'w1', '-o', 'name')).toBe('node/w1\n');
  });

  test('a worker that requests another worker’s name gets nothing, while its own name is approved', async () => {
    const others = [
      ...['w2', 'cp1', 'stranger'].map((name) => () => file(request(name).csr, asWorker)),
      () => file(request('w2').csr, asWorker, { signer: 'kubernetes.io/kube-apiserver-client' }),
      () => file(request('w2', 'DNS:w2,IP:10.0.0.22').csr, asWorker, SERVING),
      () => file(request('w1', 'DNS:w2,IP:10.0.0.22').csr, asWorker, SERVING),
    ];
    // The API refuses most of them; the others stay unapproved.
    const taken = others.flatMap((ask) => {
      try {
        return [ask()];
      } catch (error) {
        expect(String(error)).toContain('can only create a node CSR with CN=system:node:w1');
        return [];
      }
    });
    expect(taken.length).toBeGreaterThan(0);
    // This request is later and was issued, so the approver has seen the ones before.
    for (let n = 0; n < 2; n++) await isIssued(file(request('w1').csr, asWorker));
    for (const name of taken) expect([name, status(name)]).toEqual([name, '{}']);
    const forbidden = (...args: readonly string[]) =>
      expect(() => worker.run('kubectl', ...asWorker, ...args)).toThrow(/Forbidden|forbidden/);
    forbidden('label', 'node', 'cp1', 'mine=yes');
    forbidden('certificate', 'approve', taken[0]!);
    forbidden('get', 'secrets', '-A');
  });

  test('the group of kubeadm’s tokens exists and is empty; a token that an operator makes lets a node join', async () => {
    const tokens = () =>
      admin(
        'get',
        'secrets',
        '-n',
        'kube-system',
        '--field-selector',
        'type=bootstrap.kubernetes.io/token',
        '-o',
        'name',
      );
    expect(tokens()).toBe('');
    const binding = admin(
      'get',
      'clusterrolebinding',
      'kubeadm:node-autoapprove-bootstrap',
      '-o',
      'jsonpath={.subjects[*].name}',
    );
    expect(binding).toBe('system:bootstrappers:kubeadm:default-node-token');
    token = control
      .run('kubeadm', 'token', 'create', '--kubeconfig', control.inside('/etc/kubernetes/admin.conf'))
      .trim();
    expect(tokens()).toBe(`secret/bootstrap-token-${token.split('.')[0]}\n`);
    // The steps of `kubeadm join`: cluster-info is signed for the token, and the token makes a
    // request for its node.
    await expect
      .poll(() => admin('get', 'cm', '-n', 'kube-public', 'cluster-info', '-o', 'json'), { timeout: 60_000 })
      .toContain(`jws-kubeconfig-${token.split('.')[0]}`);
    const { csr } = request('joined');
    const name = file(csr, as('--token', token));
    await isIssued(name);
    expect(new X509Certificate(issued(name)).subject).toBe('O=system:nodes\nCN=system:node:joined');
  });

  test('with the boot host, a correct serving request is signed, one with another’s address is denied and recorded, a stranger’s waits', async () => {
    const foreign = request('stranger');
    const joined = file(foreign.csr, as('--token', token));
    await isIssued(joined);
    const certificate = worker.inside('/stranger.crt');
    fs.writeFileSync(certificate, issued(joined));
    const asStranger = as('--client-certificate', certificate, '--client-key', foreign.key);
    const stolen = file(request('w2').csr, as('--token', token));
    // Kubernetes' own approver is faster than any look at the inventory.
    await isIssued(stolen);

    const fits = file(request('w1', 'DNS:w1,IP:10.0.0.21').csr, asWorker, SERVING);
    const misfit = file(request('w1', 'DNS:w1,IP:10.0.0.22').csr, asWorker, SERVING);
    const unknown = file(request('stranger', 'DNS:stranger,IP:10.0.0.77').csr, asStranger, SERVING);
    const kubes = createKubes({ pki, clock: systemClock, signal: stop.signal });
    const path = `/apis/certificates.k8s.io/v1/certificatesigningrequests/${fits}`;
    const before = (await kubes('golden', ADDRESS)(path)).body as object;
    const events: NewEvent[] = [];
    approver = startApprover({
      founder: { records: () => [{ cluster: 'golden', founded: { at: 1, by: 'cp1' } } as FoundingRecord] },
      clusters: { get: () => completed(SPEC) },
      kubes,
      tokens: { ownerOf: () => undefined },
      isQuarantined: () => false,
      events: { record: (event) => void events.push(event) },
      clock: systemClock,
      log: silentLog,
    });
    await isIssued(fits);
    const serving = new X509Certificate(issued(fits));
    expect([serving.subject, serving.subjectAltName]).toEqual([
      'O=system:nodes\nCN=system:node:w1',
      'DNS:w1, IP Address:10.0.0.21',
    ]);
    // A decision with an outdated version is refused.
    const late = kubes('golden', ADDRESS)(`${path}/approval`, { method: 'PUT', body: before });
    await expect(late).rejects.toMatchObject({ status: 409 });
    const of = (name: string) => events.find(({ fields }) => fields?.request === name);
    await expect.poll(() => of(misfit), { timeout: 60_000 }).toBeDefined();
    expect(of(misfit)).toMatchObject({
      ...{ kind: 'cluster.request-denied', subject: 'w1' },
      reason: { code: 'names', text: 'the machine does not have 10.0.0.22, only w1, 10.0.0.21' },
    });
    expect(JSON.parse(status(misfit))).toMatchObject({
      conditions: [{ type: 'Denied', status: 'True', reason: 'NamesAreNotOfTheMachine' }],
    });
    expect(of(fits)).toMatchObject({ kind: 'cluster.request-approved', subject: 'w1' });
    expect(of(stolen)).toMatchObject({
      ...{ kind: 'cluster.request-alarm', subject: 'w2' },
      reason: { code: 'requester', text: expect.stringMatching(/^system:bootstrap:.* system:node:w2; /) },
    });
    // A later request is decided too, so the stranger's request was seen and left alone.
    const later = file(request('w1', 'DNS:w1').csr, asWorker, SERVING);
    await isIssued(later);
    expect([status(unknown), of(unknown)]).toEqual(['{}', undefined]);
  });

  test('labels and taints of a machine’s document reach its node, which may not set them itself, and are removed with the document’s', async () => {
    const own = () =>
      worker.run('kubectl', ...asWorker, 'label', 'node', 'w1', 'node-role.kubernetes.io/store=');
    expect(own).toThrow(/is not allowed to modify labels/);
    admin('taint', 'node', 'w1', 'theirs:NoSchedule');
    let nodes: Groups = [
      {
        machines: ['w1'],
        labels: { rack: 'r7', 'node-role.kubernetes.io/store': '' },
        taints: ['slow:PreferNoSchedule'],
      },
    ];
    const store = openMemoryStore();
    const events: NewEvent[] = [];
    const keeper = startNodeKeeper({
      founder: {
        records: () => [{ cluster: 'golden', id: 'one', founded: { at: 1, by: 'cp1' } } as FoundingRecord],
      },
      clusters: { get: () => completed({ ...SPEC, nodes }) },
      factOf: () => undefined,
      kubes: createKubes({ pki, clock: systemClock, signal: stop.signal }),
      store,
      events: { record: (event) => void events.push(event) },
      clock: systemClock,
      log: silentLog,
    });
    const is = (): string =>
      admin(
        'get',
        'node',
        'w1',
        '-o',
        'go-template={{.metadata.labels}} {{range .spec.taints}}{{.key}}{{.effect}} {{end}}',
      );
    await expect
      .poll(is, { timeout: 60_000 })
      .toMatch(/node-role\.kubernetes\.io\/store: rack:r7\].*slowPreferNoSchedule/);
    expect(is()).toContain('theirsNoSchedule');
    nodes = [{ machines: ['w1'], labels: { rack: 'r8' } }];
    await expect.poll(is, { timeout: 60_000 }).toContain('rack:r8');
    expect(is()).not.toMatch(/store|slow/);
    expect(is()).toContain('theirsNoSchedule');
    await keeper.close();
    expect(events.map(({ reason }) => reason?.text)).toEqual([
      'rack=r7, node-role.kubernetes.io/store=, taint slow:PreferNoSchedule',
      '-node-role.kubernetes.io/store, rack=r8, -taint slow:PreferNoSchedule',
    ]);
  });
});
