/** A spare gets the name of a lost machine: documents, what was seen, certificates and BMCs. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Mac } from '../../../src/base/mac.ts';
import { exchangeHardware } from '../../../src/machines/life/exchange.ts';
import type { Power } from '../../../src/wiring/power.ts';
import { bmcsOf, MemoryBmc } from '../bmc/memory.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const login = 'credentials: {user: muster, password: {valueFrom: {secret: bmc, key: password}}}';
const machine = (name: string, n: number, more: string) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}, labels: {role: ${name}}}
spec:
  macs: ["52:54:00:cc:00:0${n}"]
  profile: worker
  bmc: {address: 10.78.0.${n}, ${login}}
  ${more}
`;
const CLUSTER = `apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  spares: {selector: {labels: {role: s1}}}
  kubernetes: {version: "1.36.3", endpoint: api.blue.test, controlPlanes: [cp1]}
${machine('cp1', 1, 'addresses: [10.77.0.11]\n  serial: OLD\n  uuid: 11111111-2222-4333-8444-555555555555')}
${machine('s1', 2, 'serial: NEW\n  uuid: 7a3f6c1e-2b4d-4e5f-8a9b-0c1d2e3f4a5c')}`;

let world: World;
let bmcs: readonly [MemoryBmc, MemoryBmc];
beforeEach(async () => {
  bmcs = [new MemoryBmc(), new MemoryBmc()];
  bmcs[1].pin = 'b'.repeat(64);
  const at = new Map([
    ['10.78.0.1', bmcs[0]],
    ['10.78.0.2', bmcs[1]],
  ]);
  world = await openWorld(DOCUMENTS, { bmcs: bmcsOf(at) });
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
  await world.client.call('POST', '/v1/apply', { body: CLUSTER });
  seen('cp1', 1, 'OLD');
});
afterEach(() => world.close());

const mac = (n: number): Mac => `52:54:00:cc:00:0${n}` as Mac;
const seen = (name: string, n: number, serial: string): void =>
  world.roster.see(world.roster.get(name)!, { bootMac: mac(n), macs: [mac(n)], serial, arch: 'x86_64' });
const muster = (...args: string[]) => run(args, { socket: world.socket });
const spec = (name: string) => world.roster.get(name)!.entry!.document.spec;

test('what belongs to the hardware goes with it, and the lost one is held under the name of the spare', async () => {
  seen('s1', 2, 'NEW');
  const power = world.deps.power as Power;
  for (const name of ['cp1', 's1']) await muster('power', 'status', name);
  const ended: string[] = [];
  const exchange = () =>
    exchangeHardware(
      {
        ...{ catalog: world.deps.catalog, roster: world.roster, events: world.deps.events },
        ...{ inventories: world.inventories, clock: world.clock },
        endCertificate: async (name) => ended.push(name),
        endLease: (mac) => world.leases.end(mac),
        exchangeBmcs: (one, other) => power.exchange(one, other),
      },
      'cp1',
      { spare: 's1', macs: [mac(2)], by: 'ada' },
    );
  await exchange();
  const after = () => ({
    cp1: spec('cp1'),
    s1: spec('s1'),
    seen: ['cp1', 's1'].map((name) => world.roster.get(name)!.status.seen.serial),
    found: [1, 2].map((n) => world.roster.byMac(mac(n))?.name),
    life: world.roster.get('s1')!.status.life,
    pins: ['cp1', 's1'].map((name) => power.known(name)?.pin),
  });
  const done = after();
  expect(done).toMatchObject({
    cp1: { macs: [mac(2)], serial: 'NEW', addresses: ['10.77.0.11'], bmc: { address: '10.78.0.2' } },
    s1: { macs: [mac(1)], serial: 'OLD', bmc: { address: '10.78.0.1' } },
    seen: ['NEW', 'OLD'],
    found: ['s1', 'cp1'],
    life: { state: 'taken-out', by: 'ada', text: expect.stringContaining('what cp1 was') },
    pins: [bmcs[1].pin, bmcs[0].pin],
  });
  expect(spec('s1')).not.toHaveProperty('addresses');
  expect(ended).toEqual(['cp1', 's1']);
  expect((await muster('explain', 's1')).out).toContain('not_in_use');
  // A server that ended in the middle does it again.
  await exchange();
  expect(after()).toEqual(done);
  expect((await muster('events', 'cp1')).out.match(/machine\.replaced/g)).toHaveLength(1);
});

test('a person is told why there is no spare, why the machine keeps its place, and what to say', async () => {
  const heal = (...more: string[]) => muster('cluster', 'heal', 'blue', 'cp1', ...more);
  expect((await heal()).err).toMatch(/no spare that fits cp1: s1: it never booted.*E_HEAL/);
  seen('s1', 2, 'NEW');
  expect((await heal('--dry-run')).out).toMatch(/hardware of s1[\s\S]*its etcd is not founded/);
  expect((await heal('--off', 'cp2')).err).toMatch(/repeat its name: --off cp1/);
  expect((await heal('--with', 'node-1')).err).toMatch(/node-1 is no spare|keeps its place/);
  expect((await muster('cluster', 'heal', 'blue', 'node-1')).err).toMatch(/not a machine of blue/);
});
