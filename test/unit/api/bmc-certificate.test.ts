/** Certificates of BMCs through the command line and the API, with a virtual BMC over TLS. */
import { X509Certificate } from 'node:crypto';
import { connect } from 'node:tls';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { seconds, toMillis } from '../../../src/base/duration.ts';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import {
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
} from '../../../src/lab/bmc/virtual-bmc.server.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, operatorOf, type World } from './world.ts';

const documents = (port: number) => `${DOCUMENTS}---
apiVersion: muster/v1
kind: Profile
metadata: {name: powered}
spec:
  image: small
  bmc:
    managedCertificate: true
    credentials: {user: root, password: {valueFrom: {secret: bmc, key: password}}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: m1}
spec: {macs: ["52:54:00:bb:00:01"], profile: powered, bmc: {address: 127.0.0.1, port: ${port}, protocol: redfish}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: m2}
spec: {macs: ["52:54:00:bb:00:02"], profile: worker, bmc: {address: 127.0.0.2}}
`;

let world: World;
let bmc: VirtualBmc;
let passing: NodeJS.Timeout;
beforeEach(async () => {
  const login = { user: 'root', password: 'right' };
  const options = { protocol: 'redfish', address: '127.0.0.1', port: 0, ...login } as const;
  bmc = await startVirtualBmc(options, new ImaginedMachine());
  const bmcs = { redfish: openRedfish, ipmi: () => Promise.reject(new Error('no IPMI here')) };
  world = await openWorld(documents(bmc.port), { bmcs, https: true });
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
  passing = setInterval(() => world.clock.advance(toMillis(seconds(1))), 5);
});
afterEach(async () => {
  clearInterval(passing);
  await world.close();
  await bmc.close();
});
const muster = (...args: string[]) => run(args, { socket: world.socket });

/** What the BMC shows now. */
const shown = () =>
  new Promise<X509Certificate>((done, fail) => {
    const socket = connect({ host: '127.0.0.1', port: bmc.port, rejectUnauthorized: false }, () => {
      done(socket.getPeerX509Certificate()!);
      socket.destroy();
    });
    socket.on('error', fail);
  });
const signedBy = async (pem: string) => {
  const seen = await shown();
  return seen.verify(new X509Certificate(pem).publicKey);
};
const authority = async () => (await muster('bmc', 'ca')).out;
/** A host with much else to do takes seconds for what is polled here. */
const within = { timeout: 20_000 };
const certified = () =>
  expect.poll(async () => (await authority()) !== '' && signedBy(await authority()), within).toBe(true);

test('a BMC gets a certificate without an order, which status, list and events show', async () => {
  expect((await muster('bmc', 'ca')).err).toContain('managedCertificate: true');
  await certified();
  await expect
    .poll(async () => (await muster('bmc', 'ls', '-o', 'json')).out, within)
    .toContain('"notAfter"');
  const { out } = await muster('pki', 'status', '-o', 'json');
  const bmcs = JSON.parse(out).find(({ scope }: { scope: string }) => scope === 'bmcs');
  expect(bmcs).toMatchObject({
    of: 'bmcs',
    keysets: [{ name: 'bmc-ca' }],
    certificates: [{ leaf: 'bmc', to: 'm1', state: 'valid', renewedBy: 'muster' }],
  });
  const events = world.deps.events.list({ subject: 'm1' }).filter(({ kind }) => kind === 'machine.bmc');
  expect(events.map(({ reason }) => reason?.code)).toEqual(['certificate-replaced']);
  expect((await muster('power', 'status', 'm1')).out).toMatch(/m1 +off/);
});

test('an order gives it another one, and only administrators order it, where documents allow it', async () => {
  await certified();
  await expect.poll(async () => (await muster('bmc', 'ls')).out, within).toMatch(/m1 .* 20\d\d-/);
  const before = (await shown()).serialNumber;
  const done = await muster('bmc', 'rotate', 'm1', '--certificate');
  expect([done.code, done.err]).toEqual([0, '']);
  expect((await shown()).serialNumber).not.toBe(before);
  expect(await signedBy(await authority())).toBe(true);
  expect((await muster('bmc', 'rotate', 'm2', '--certificate')).err).toContain('managedCertificate: true');
  const ada = await operatorOf(world, 'ada', { role: 'operator' });
  const json = { machines: ['m1'], certificate: true };
  for (const asked of [
    ada.call('POST', '/v1/bmcs/rotate', { body: { json } }),
    ada.call('POST', '/v1/bmcs/ca'),
  ])
    await expect(asked).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
});

test('another CA takes over, and the one before ends with its last certificate', async () => {
  await certified();
  const before = await authority();
  const both = await muster('bmc', 'ca', '--replace');
  expect(both.out).toContain(before);
  await expect.poll(async () => (await authority()).includes(before), within).toBe(false);
  expect(await signedBy(await authority())).toBe(true);
  expect((await muster('power', 'status', 'm1')).out).toMatch(/m1 +off/);
  // Orders that are repeated leave none behind that signed nothing.
  for (let n = 0; n < 9; n++) expect((await muster('bmc', 'ca', '--replace')).code).toBe(0);
});
