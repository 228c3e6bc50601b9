/**
 * From a short specification to the certificates of its control planes: the names are those that
 * kubeadm gave each of them.
 */
import { expect, test } from 'vitest';
import { withRole } from '../../../../src/cluster/model/resolved-cluster.ts';
import {
  apiServers,
  clusterNames,
  holderOf,
  pkiRoles,
} from '../../../../src/cluster/resolve/certificate-names.ts';
import { handout } from '../../../../src/pki/handout.ts';
import { type LeafName, leavesFor } from '../../../../src/pki/hierarchy.ts';
import { PrivateKey } from '../../../../src/pki/keys.ts';
import { factsOf, world } from '../../pki/kit.ts';
import { resolved } from '../kit.ts';

test('every control plane of a completed cluster gets its own certificates and kubeconfigs', async () => {
  const cluster = resolved();
  const { pki, keysets } = await world();
  for (const machine of withRole(cluster, 'control-plane')) {
    const leaves = new Map<LeafName, { certificate: string }>();
    for (const leaf of leavesFor(pkiRoles(machine))) {
      const scope = leaf === 'agent' ? '_muster' : 'golden';
      const publicKey = (await PrivateKey.generate()).publicKey();
      const order = { leaf, holder: holderOf(machine), cluster: clusterNames(cluster), publicKey };
      leaves.set(leaf, await pki.issue(scope, order));
    }
    const [address] = machine.addresses;
    expect(
      factsOf(leaves.get('apiserver')!.certificate).sans.filter((san) => /10\.0\.|api/.test(san)),
    ).toEqual(['DNS:api.golden.test', 'IP:10.0.0.10', `IP:${address}`]);
    expect(factsOf(leaves.get('etcd-peer')!.certificate)).toMatchObject({ subject: [`CN=${machine.name}`] });
    const files = handout({
      roles: pkiRoles(machine),
      cluster: cluster.name,
      user: machine.name,
      keysets: await keysets(),
      leaves,
      signing: await pki.handedOut('golden', machine.name, await keysets()),
      servers: apiServers(cluster, machine),
    });
    const scheduler = files.find(({ path }) => path === '/etc/kubernetes/scheduler/scheduler.conf')!.content;
    if (scheduler.kind !== 'text') throw new Error(scheduler.kind);
    expect(scheduler.text).toContain(`server: "https://${address}:6443"`);
    // All leaf keys are the machine's own. Only the keys with which Kubernetes itself signs come
    // from here, and the keys of CAs that an older Muster gave are removed.
    const of = (kind: string) => files.filter(({ content }) => content.kind === kind).map(({ path }) => path);
    expect(of('secret')).toEqual(['ca.key', 'sa.key'].map((file) => `/etc/kubernetes/pki/${file}`));
    expect(of('absent')).toEqual(
      ['etcd/ca.key', 'front-proxy-ca.key'].map((file) => `/etc/kubernetes/pki/${file}`),
    );
  }
});

test('a worker reaches the API through its own loopback', () => {
  const cluster = resolved();
  const worker = withRole(cluster, 'worker')[0]!;
  expect(apiServers(cluster, worker)).toEqual({
    endpoint: 'https://api.golden.test:6443',
    local: 'https://127.0.0.1:6443',
  });
});
