/** Machines in quarantine and the API of their cluster, with an API that keeps objects by path. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import type { FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import {
  QUARANTINE_ANNOTATION,
  startQuarantineKeeper,
} from '../../../../src/cluster/joining/quarantine-keeper.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import { completed } from '../kit.ts';

const POLICY = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/muster-quarantine';
const BINDING = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/muster-quarantine';

interface Node {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, unknown>> };
  readonly spec: { readonly unschedulable?: unknown };
}

/** Objects by path; patches of Nodes are merged as far as the keeper writes them. */
class Played {
  readonly objects = new Map<string, unknown>();
  readonly pods = new Map<string, string>();
  readonly asked: string[] = [];
  down = false;
  /** Kubernetes before 1.30. */
  policyless = false;

  constructor() {
    for (const name of ['w1', 'w2'])
      this.objects.set(`/api/v1/nodes/${name}`, { metadata: { name }, spec: {} } satisfies Node);
    this.pods.set('/api/v1/namespaces/default/pods/a', 'w1');
    this.pods.set('/api/v1/namespaces/kube-system/pods/b', 'w1');
    this.pods.set('/api/v1/namespaces/default/pods/c', 'w2');
  }

  node = (name: string): Node => this.objects.get(`/api/v1/nodes/${name}`) as Node;

  readonly kubes =
    (_: string, address: string): Kube =>
    async (asked, { method = 'GET', body }: KubeCall = {}) => {
      if (this.down) throw new Error('no route to host');
      const answer = (found: unknown) => ({ body: found, text: '', date: 0 });
      if (asked === '/readyz') return answer({});
      const [path = '', query = ''] = asked.split('?');
      this.asked.push(`${address} ${method} ${path}`);
      if (method === 'GET' && path === '/api/v1/pods') {
        const node = decodeURIComponent(query).replace('fieldSelector=spec.nodeName=', '');
        const items = [...this.pods].flatMap(([at, of]) => {
          const [, , , , namespace, , name] = at.split('/');
          return of === node ? [{ metadata: { namespace, name } }] : [];
        });
        return answer({ items });
      }
      if (method === 'GET' && path === '/api/v1/nodes')
        return answer({ items: [this.node('w1'), this.node('w2')] });
      if (method === 'DELETE') {
        if (!this.objects.delete(path) && !this.pods.delete(path)) throw new KubeRefusal(404, 'not found');
        return answer({});
      }
      const there = this.objects.get(path);
      if (method === 'GET' || path.startsWith('/api/v1/nodes/')) {
        if (there === undefined) throw new KubeRefusal(404, 'not found');
        if (method === 'GET') return answer(there);
        const node = there as Node;
        const patch = body as Node;
        const annotations = { ...node.metadata.annotations, ...patch.metadata.annotations };
        for (const [key, value] of Object.entries(annotations)) if (value === null) delete annotations[key];
        const unschedulable = patch.spec.unschedulable ?? undefined;
        this.objects.set(path, { metadata: { ...node.metadata, annotations }, spec: { unschedulable } });
      } else if (this.policyless) throw new KubeRefusal(404, 'the server could not find the resource');
      else this.objects.set(path, body);
      return answer({});
    };
}

function world(api: Played) {
  const clock = new ManualClock();
  const held = new Map<string, { readonly deletePods: boolean }>();
  const resolved = completed({ workers: ['w1', 'w2'] });
  const record = { v: 1, cluster: 'golden', id: 'f', founded: { at: 1, by: 'cp1' } };
  const keeper = startQuarantineKeeper({
    founder: { records: () => [record as unknown as FoundingRecord] },
    clusters: { get: () => resolved },
    kubes: api.kubes,
    quarantined: (machine) => held.get(machine),
    clock,
    log: silentLog,
  });
  const settled = async (): Promise<void> => {
    for (let n = 0; n < 200; n++) await new Promise((next) => setImmediate(next));
  };
  const round = async (): Promise<void> => {
    await settled();
    clock.advance(duration('5s'));
    await settled();
  };
  return { keeper, held, round };
}

test('a machine in quarantine is cordoned, its kubelet’s writes are refused, and a release undoes both', async () => {
  const api = new Played();
  const { keeper, held, round } = world(api);
  held.set('w1', { deletePods: false });
  await round();
  expect(api.node('w1')).toMatchObject({
    metadata: { annotations: { [QUARANTINE_ANNOTATION]: 'true' } },
    spec: { unschedulable: true },
  });
  expect(api.node('w2').spec.unschedulable).toBeUndefined();
  expect(api.objects.get(POLICY)).toMatchObject({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingAdmissionPolicy',
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: ['*'],
            apiVersions: ['*'],
            resources: ['*/*'],
            operations: expect.arrayContaining(['CREATE', 'UPDATE', 'DELETE', 'CONNECT']),
          },
        ],
      },
      matchConditions: [{ expression: 'request.userInfo.username in ["system:node:w1"]' }],
      validations: [{ expression: 'false' }],
    },
  });
  expect(api.objects.get(BINDING)).toMatchObject({
    spec: { policyName: 'muster-quarantine', validationActions: ['Deny'] },
  });
  expect(api.pods.size).toBe(3);

  held.delete('w1');
  await round();
  expect(api.objects.has(POLICY)).toBe(false);
  expect(api.objects.has(BINDING)).toBe(false);
  expect(api.node('w1').spec.unschedulable).toBeUndefined();
  expect(api.node('w1').metadata.annotations).toEqual({});
  const before = api.asked.length;
  await round();
  expect(api.asked).toHaveLength(before);
  await keeper.close();
});

test('its pods are deleted only after confirmation, also those that come later, and no other machine’s', async () => {
  const api = new Played();
  const { keeper, held, round } = world(api);
  held.set('w1', { deletePods: true });
  await round();
  expect([...api.pods.values()]).toEqual(['w2']);
  api.pods.set('/api/v1/namespaces/default/pods/late', 'w1');
  await round();
  expect([...api.pods.values()]).toEqual(['w2']);
  await keeper.close();
});

test('a Node that an operator cordoned stays cordoned after the release', async () => {
  const api = new Played();
  api.objects.set('/api/v1/nodes/w1', { metadata: { name: 'w1' }, spec: { unschedulable: true } });
  const { keeper, held, round } = world(api);
  held.set('w1', { deletePods: false });
  await round();
  held.delete('w1');
  await round();
  expect(api.node('w1').spec.unschedulable).toBe(true);
  await keeper.close();
});

test('a control plane in quarantine is not asked, and an API that does not answer is asked again', async () => {
  const api = new Played();
  const { keeper, held, round } = world(api);
  api.down = true;
  held.set('cp1', { deletePods: false });
  await round();
  expect(api.objects.has(POLICY)).toBe(false);
  api.down = false;
  await round();
  expect(api.objects.has(POLICY)).toBe(true);
  expect(api.asked.filter((asked) => asked.startsWith('10.0.0.11 '))).toEqual([]);
  await keeper.close();
});

test('where the API has no admission policies, the Node is cordoned and its pods are deleted all the same', async () => {
  const api = new Played();
  api.policyless = true;
  const { keeper, held, round } = world(api);
  held.set('w1', { deletePods: true });
  await round();
  expect(api.node('w1').spec.unschedulable).toBe(true);
  expect([...api.pods.values()]).toEqual(['w2']);
  await keeper.close();
});
