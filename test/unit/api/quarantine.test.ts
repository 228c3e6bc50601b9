/** Quarantine through the command line and the socket. */
import { afterEach, expect, test } from 'vitest';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { NO_CLUSTER } from '../../../src/pki/server-certificate.ts';
import { MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const CLUSTER = `${DOCUMENTS}---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:11"], profile: worker, addresses: [10.77.0.11]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: w9}
spec: {macs: ["52:54:00:aa:00:19"], profile: worker, addresses: [10.77.0.19]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec: {trust: segment, kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [cp1], workers: [w9]}}
`;

let world: World;
afterEach(() => world.close());
const muster = (...args: string[]) => run(args, { socket: world.socket });

test('a machine in quarantine is held at its boot, shown as that everywhere, and boots again after its release', async () => {
  world = await openWorld(CLUSTER);
  const lacking = await muster('machine', 'quarantine', 'w9');
  expect(lacking.code).toBe(2);
  const held = await muster('machine', 'quarantine', 'w9', '--reason', 'stolen\u001b[31m from rack 2');
  expect(held).toMatchObject({ code: 0, out: 'machine/w9 is in quarantine\n' });
  expect((await muster('get', 'machine', 'w9')).out).toMatch(/QUARANTINED/);
  const explained = (await muster('explain', 'w9')).out;
  expect(explained).toMatch(/script +waits\n.*gets nothing\. stolen.* from rack 2 \[quarantined\]/);
  expect(explained).toMatch(/to continue +muster machine release w9/);
  expect(explained).not.toContain('\u001b');
  expect((await muster('cluster', 'status', 'one')).out).toMatch(/w9.*in quarantine: stolen/);
  expect((await muster('events', 'w9', '--security')).out).toMatch(/agent\.quarantined/);
  expect((await muster('machine', 'release', 'w9')).code).toBe(0);
  expect((await muster('get', 'machine', 'w9')).out).not.toMatch(/QUARANTINED/);
  const again = await muster('machine', 'release', 'w9');
  expect(again.err).toMatch(/w9 is not in quarantine \(E_CONFLICT\)/);
});

test('what a control plane had is listed with what ends it; only --confirm puts it in quarantine', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  await world.pki.found(MUSTER_SCOPE);
  const key = await PrivateKey.generate();
  const order = { leaf: 'agent', holder: { name: 'cp1', addresses: [] }, cluster: NO_CLUSTER } as const;
  await world.pki.issue(MUSTER_SCOPE, { ...order, publicKey: key.publicKey() });
  const shown = await muster('cluster', 'compromised', 'one', '--machine', 'cp1');
  expect(shown.code).toBe(0);
  expect(shown.out).toMatch(/private key of ca +it is rotated +rotation of ca/);
  expect(shown.out).toMatch(/private key of service accounts +it is rotated +rotation of sa/);
  expect(shown.out).toMatch(/certificate agent with its key +20\S+ \S+ +quarantine, at once/);
  expect(shown.out).not.toMatch(/private key of etcd-ca/);
  expect(shown.err).toMatch(/Nothing was changed; --confirm cp1/);
  expect(shown.err).toMatch(/Rotate in one: ca, sa, encryption\./);
  expect(shown.err).toMatch(/It is a member of etcd; a quarantine takes it out/);
  expect(world.roster.get('cp1')!.status.quarantine).toBeUndefined();

  const worker = await muster('cluster', 'compromised', 'one', '--machine', 'w9');
  expect(worker.out).not.toMatch(/private key/);
  expect(worker.err).not.toMatch(/Rotate|member of etcd/);

  const wrong = await muster('cluster', 'compromised', 'one', '--machine', 'cp1', '--confirm', 'cp2');
  expect(wrong.code).toBe(2);
  const done = await muster('cluster', 'compromised', 'one', '--machine', 'cp1', '--confirm', 'cp1');
  expect(done.code).toBe(0);
  expect(world.roster.get('cp1')!.status.quarantine).toMatchObject({ code: 'quarantined', deletePods: true });
});
