/**
 * What kubelet does at the API: registers its node and keeps it Ready, renews its lease, says that
 * the pods of its node run, and ends those that are deleted. Uses the credentials of its start.
 */
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import { fieldsOf, listOf, textOf } from '../../../src/base/foreign-json.ts';
import { hasCondition } from '../../../src/cluster/kube.ts';

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

interface NodeOf {
  readonly version: string;
  readonly address: string | undefined;
  readonly note: (text: string) => void;
}

/** How often the node is looked after. */
const EVERY_MS = 1000;
/** kubelet renews its lease as often. */
const LEASE_MS = 10_000;

export function keepNode({ version, address, note }: NodeOf): void {
  const pair = fs.readFileSync('/var/lib/kubelet/pki/kubelet-client-current.pem', 'utf8');
  const ca = fs.readFileSync('/etc/kubernetes/pki/ca-bundle.crt');
  const agent = new https.Agent({ keepAlive: true, ca, cert: pair, key: pair });
  const name = /CN=system:node:(\S+)/.exec(new X509Certificate(pair).subject)![1]!;

  const ask = (method: string, path: string, body?: object): Promise<Answer> =>
    new Promise((done, fail) => {
      const type = method === 'PATCH' ? 'application/strategic-merge-patch+json' : 'application/json';
      const text = body && JSON.stringify(body);
      // Node frames the body of a DELETE only if its length is given.
      const length = text === undefined ? {} : { 'content-length': Buffer.byteLength(text) };
      const headers = { 'content-type': type, accept: 'application/json', ...length };
      const options = { method, headers, agent, timeout: 5000 };
      const asking = https.request(`https://127.0.0.1:6443${path}`, options, (answer) => {
        let all = '';
        answer.setEncoding('utf8');
        answer.on('data', (part) => (all += part));
        answer.on('error', fail);
        answer.on('end', () => {
          const { statusCode: status = 0 } = answer;
          done({ status, body: all.startsWith('{') ? JSON.parse(all) : all });
        });
      });
      asking.on('error', fail);
      asking.on('timeout', () => asking.destroy(new Error('no answer')));
      asking.end(text);
    });

  const node = `/api/v1/nodes/${name}`;
  const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
  let registered = false;
  let renewedAt = 0;

  async function register(): Promise<void> {
    const labels = { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' };
    const body = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } };
    const { status } = await ask('POST', '/api/v1/nodes', body);
    registered = status === 201 || status === 409;
  }

  async function renew(): Promise<void> {
    const time = new Date().toISOString();
    const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'it runs' };
    const { status } = await ask('PATCH', `${node}/status`, {
      status: {
        conditions: [{ ...ready, lastHeartbeatTime: time }],
        nodeInfo: { kubeletVersion: version, kubeProxyVersion: version },
        ...(address !== undefined && { addresses: [{ type: 'InternalIP', address }] }),
        capacity: { cpu: '4', memory: '8Gi', pods: '110' },
        allocatable: { cpu: '4', memory: '8Gi', pods: '110' },
      },
    });
    const renewTime = time.replace('Z', '000Z');
    const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime };
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name }, spec };
    const renewed = await ask('PATCH', `${leases}/${name}`, { spec });
    if (renewed.status === 404) await ask('POST', leases, lease);
    if (status !== 200) throw new Error(`its status: ${status}`);
    renewedAt = Date.now();
  }

  /** The pods of the node that the API has, apart from mirrors of static pods. */
  async function lookAfterPods(): Promise<void> {
    const { body } = await ask('GET', `/api/v1/pods?fieldSelector=spec.nodeName%3D${name}`);
    for (const pod of listOf(fieldsOf(body).items).map(fieldsOf)) {
      const { namespace, name: own, deletionTimestamp } = fieldsOf(pod.metadata);
      const path = `/api/v1/namespaces/${textOf(namespace)}/pods/${textOf(own)}`;
      if (deletionTimestamp !== undefined) await ask('DELETE', path, { gracePeriodSeconds: 0 });
      // The API sets pods of a node that it has lost to not Ready.
      else if (!runs(pod.status)) await ask('PATCH', `${path}/status`, RUNNING);
    }
  }

  async function look(): Promise<void> {
    if (!registered) return register();
    const { status } = await ask('GET', node);
    if (status === 404) registered = false;
    else if (status !== 200) throw new Error(String(status));
    if (Date.now() - renewedAt > LEASE_MS) await renew();
    await lookAfterPods();
  }

  const again = (): void => {
    look()
      .catch((error: Error) => registered && note(`node: ${error.message}`))
      .finally(() => setTimeout(again, EVERY_MS));
  };
  again();
}

/** Whether the API says of a pod that it runs and is Ready. */
const runs = (status: unknown): boolean =>
  fieldsOf(status).phase === 'Running' && hasCondition(status, 'Ready');

const RUNNING = {
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
};
