/**
 * Workers that join with their own tokens (`joining: token`, docs/decisions/0043), with the
 * approver and signer of kube-controller-manager and Muster's token keeper and approver. Needs
 * MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { duration } from '../../src/base/duration.ts';
import { silentLog } from '../../src/base/log.ts';
import type { FoundingRecord } from '../../src/cluster/etcd/founding.ts';
import { startApprover } from '../../src/cluster/joining/approver.ts';
import type { Rounds } from '../../src/cluster/joining/rounds.ts';
import { startTokenKeeper } from '../../src/cluster/joining/token-keeper.ts';
import { createKubes } from '../../src/cluster/kube.socket.ts';
import type { NewEvent } from '../../src/events/event.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { completed } from '../unit/cluster/kit.ts';
import { rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { PlacedPlan } from './placed-plan.ts';
import { SigningRequests } from './signing-requests.ts';

const ADDRESS = '10.0.0.11';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;
const SPEC = {
  ...{ endpoint: ADDRESS, controlPlanes: ['cp1'], workers: ['w1', 'w2'], sans: [] },
  joining: 'token' as const,
};
const LATE = duration('40m');
/** kubectl's message for status 401. */
const REFUSED = /Unauthorized|must be logged in/;
const BOOTSTRAP = '/etc/kubernetes/bootstrap-kubelet.conf';

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  const control = new PlacedPlan();
  const worker = new PlacedPlan();
  const api = new SigningRequests(control, worker, `https://${ADDRESS}:6443`);
  const { admin, written, request, file, as, issued, isIssued, status } = api;
  const events: NewEvent[] = [];
  const stop = new AbortController();
  const running: Rounds[] = [];
  /** One poll of w1's agent, whose kubelet has no certificate yet or has one. */
  let poll: (joined?: true) => Promise<void>;
  let token = '';

  const asToken = () => as('--token', token);
  const asBootstrap = ['--kubeconfig', worker.inside(BOOTSTRAP), '--server', `https://${ADDRESS}:6443`];
  const secret = () => admin('get', 'secret', '-n', 'kube-system', '-o', 'name');
  const denied = async (name: string): Promise<NewEvent> => {
    const of = () => events.find(({ fields }) => fields?.request === name);
    await expect.poll(of, { timeout: 60_000 }).toBeDefined();
    return of()!;
  };

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    const { planner, clock, pki, tokens } = await rig({
      start: Date.now() - LATE,
      spec: SPEC,
      etcd: async () => ({ lines: [], founding: FOUNDING }),
    });
    const w1 = new TestMachine('w1', { state: 'unused' });
    poll = async (joined) => {
      w1.said = { step: 'units', ...(joined && { joined }) };
      worker.put(await settle(planner, w1), w1);
    };
    // The worker comes first; the control plane comes forty minutes later.
    await poll();
    const read = load(fs.readFileSync(worker.inside(BOOTSTRAP), 'utf8')) as {
      users: [{ user: { token: string } }];
    };
    ({ token } = read.users[0].user);
    await api.begin({ planner, clock }, LATE);
    await poll();
    const common = {
      founder: { records: () => [{ cluster: 'golden', founded: { at: 1, by: 'cp1' } } as FoundingRecord] },
      clusters: { get: () => completed(SPEC) },
      kubes: createKubes({ pki, clock: systemClock, signal: stop.signal }),
      ...{ tokens, clock: systemClock, log: silentLog },
    };
    // Until then the API does not know the token.
    expect(() => worker.run('kubectl', ...asToken(), 'auth', 'whoami')).toThrow(REFUSED);
    running.push(startTokenKeeper(common));
    running.push(
      startApprover({
        ...common,
        isQuarantined: () => false,
        events: { record: (event) => void events.push(event) },
      }),
    );
    await vi.waitFor(() => expect(secret()).toContain(`bootstrap-token-${token.slice(0, 6)}`), 60_000);
  });

  afterAll(async () => {
    stop.abort();
    await Promise.all(running.map((one) => one.close()));
    await Promise.all([control.close(), worker.close()]);
  });

  test('when the control plane comes forty minutes late, the worker’s token is a Secret for 15 minutes, in its own group', () => {
    const name = `bootstrap-token-${token.slice(0, 6)}`;
    const read = JSON.parse(admin('get', 'secret', '-n', 'kube-system', name, '-o', 'json'));
    const left = Date.parse(Buffer.from(read.data.expiration, 'base64').toString()) - Date.now();
    expect(left).toBeGreaterThan(duration('10m'));
    expect(left).toBeLessThan(duration('15m') + 5_000);
    const whoami = ['auth', 'whoami', '-o', 'jsonpath={.status.userInfo.groups}'];
    expect(worker.run('kubectl', ...asBootstrap, ...whoami)).toBe(
      '["system:bootstrappers","system:bootstrappers:muster:machines","system:authenticated"]',
    );
    // The token may request a certificate, and nothing else.
    const may =
      (...words: readonly string[]) =>
      () =>
        worker.run('kubectl', ...asBootstrap, ...words);
    expect(may('get', 'secrets', '-A')).toThrow(/forbidden/);
    expect(may('get', 'nodes')).toThrow(/forbidden/);
    // The group of kubeadm's tokens is still empty.
    expect(secret().match(/bootstrap-token-/g)).toHaveLength(1);
  });

  test('a token that requests another machine’s name gets nothing while Kubernetes’ own approver runs, and an event records it', async () => {
    const names = ['w2', 'cp1', 'stranger'];
    const filed = names.map((name) => [name, file(request(name).csr, asToken())] as const);
    const sans = file(request('w1', 'DNS:w1,IP:10.0.0.21').csr, asToken());
    for (const [name, asked] of filed) {
      expect(await denied(asked)).toMatchObject({
        ...{ kind: 'cluster.request-denied', subject: 'w1' },
        reason: { code: 'subject', text: `CN is system:node:${name} instead of system:node:w1` },
      });
      expect(JSON.parse(status(asked))).toEqual({
        conditions: [expect.objectContaining({ type: 'Denied', reason: 'SubjectIsNotTheNode' })],
      });
      expect(issued(asked)).toBe('');
    }
    expect(await denied(sans)).toMatchObject({ reason: { code: 'more' } });
  });

  test('a token’s request for its own name is approved by the inventory, signed by the cluster, and becomes the node', async () => {
    const { key, csr } = request('w1');
    const name = file(csr, asToken());
    await isIssued(name);
    expect(status(name)).toContain('MachineOfTheInventory');
    expect(status(name)).not.toContain('AutoApproved');
    const certificate = new X509Certificate(issued(name));
    expect(certificate.subject).toBe('O=system:nodes\nCN=system:node:w1');
    // Like kubelet, with the kubeconfig of the plan.
    const current = worker.inside('/var/lib/kubelet/pki/kubelet-client-current.pem');
    fs.mkdirSync(worker.inside('/var/lib/kubelet/pki'), { recursive: true });
    fs.writeFileSync(current, certificate.toString() + fs.readFileSync(key, 'utf8'), { mode: 0o600 });
    const asNode = [
      ...['--kubeconfig', worker.inside('/etc/kubernetes/kubelet.conf')],
      ...['--server', `https://${ADDRESS}:6443`],
    ];
    const node = written({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'w1' } });
    expect(worker.run('kubectl', ...asNode, 'create', '-f', node)).toContain('node/w1');
  });

  test('once its machine has joined the token is deleted from the cluster and is refused', async () => {
    await poll(true);
    await expect.poll(secret, { timeout: 60_000 }).not.toContain('bootstrap-token-');
    expect(() => worker.run('kubectl', ...asToken(), 'auth', 'whoami')).toThrow(REFUSED);
  });
});
