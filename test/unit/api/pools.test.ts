/** Machines of no cluster belong to pools: who sees them, and who may take them for a cluster. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Grant } from '../../../src/api/access.ts';
import { millis } from '../../../src/base/duration.ts';
import { ipv4 } from '../../../src/base/ipv4.ts';
import { parseMac } from '../../../src/base/mac.ts';
import type { ApiClient } from '../../../src/cli/client.socket.ts';
import { readInventory } from '../../../src/machines/inventory.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, operatorOf, type World } from './world.ts';

const MACHINES = ['b1', 'g1', 'free1', 'spare1', 'spare2', 'lent1'];
const machine = (name: string, n: number): string => {
  const pool = /^(spare|lent)/.exec(name)?.[1];
  return `apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:bb:00:0${n}"], profile: worker, addresses: [10.77.0.1${n}]${pool ? `, pool: ${pool}` : ''}}
`;
};
const cluster = (name: string, cp: string): string => `apiVersion: muster/v1
kind: Cluster
metadata: {name: ${name}}
spec: {trust: segment, dataDisk: {serial: D}, kubernetes: {version: "1.36", endpoint: api.${name}.test, controlPlanes: [${cp}]}}
`;
let world: World;
beforeEach(async () => {
  world = await openWorld(undefined, { https: true });
  const documents = [DOCUMENTS, ...MACHINES.map(machine), cluster('blue', 'b1'), cluster('green', 'g1')];
  await world.client.call('POST', '/v1/apply', { body: documents.join('---\n') });
});
afterEach(() => world.close());

const operator = (name: string, ...grants: Grant[]): Promise<ApiClient> => operatorOf(world, name, ...grants);

const BLUE = { role: 'operator', clusters: ['blue'] } as const;
const WITH_SPARE = { ...BLUE, pools: ['spare'] } as const;

const add = (who: ApiClient, name: string): Promise<string> =>
  who
    .ask('POST /v1/clusters/:name/add-node', { params: { name: 'blue' }, body: { machines: [name] } })
    .then(({ added }) => `added ${added.join()}`, String);

it('a role for a cluster takes a machine of no cluster only from a pool that it is for', async () => {
  const bob = await operator('bob', BLUE);
  const eve = await operator('eve', WITH_SPARE);
  expect(await add(bob, 'spare1')).toContain('bob may not do that');
  expect(await add(eve, 'spare1')).toBe('added spare1');
  const ada = await operator('ada', { role: 'operator' });
  expect(await add(ada, 'free1')).toBe('added free1');
});

it('the answer is one for machines that are foreign, free, of another pool, or do not exist', async () => {
  const eve = await operator('eve', WITH_SPARE);
  const names = ['g1', 'free1', 'lent1', 'absent'];
  const ways: ((name: string) => Promise<string>)[] = [
    (name) => add(eve, name),
    ...['', '/timeline', '/console', '/plan'].map(
      (rest) => async (name: string) => eve.call('GET', `/v1/machines/${name}${rest}`).then(String, String),
    ),
    (name) => eve.call('GET', '/v1/explain', { query: { machine: name } }).then(String, String),
    (name) => eve.call('POST', `/v1/machines/${name}/accept`, { body: { json: {} } }).then(String, String),
  ];
  for (const way of ways) {
    const answers = await Promise.all(names.map(async (name) => (await way(name)).replaceAll(name, 'NAME')));
    expect(new Set(answers).size, answers.join('\n')).toBe(1);
    expect(answers[0]).toMatch(/role/);
  }
});

it('machines of a pool are shown to those whose roles are for it, until they are in a cluster', async () => {
  for (const [n, name] of MACHINES.entries()) {
    const [address, mac] = [ipv4(`10.77.0.10${n}`), parseMac(`52:54:00:bb:00:0${n}`)!];
    const lease = { v: 1, mac, state: 'bound', since: millis(0), machine: name } as const;
    const expires = millis(Date.UTC(2100, 0));
    await world.inventories.take(name, readInventory('cpu threads 8\n')!);
    await world.leases.write({
      kind: 'write',
      network: 'lan',
      address,
      lease: { ...lease, expires },
      writes: [],
    });
  }
  const eve = await operator('eve', { role: 'viewer', pools: ['spare'] });
  const seen = async () => {
    const { items } = await eve.call<{ items: { metadata: { name: string } }[] }>('GET', '/v1/machines');
    const events = new Set((await eve.ask('GET /v1/events')).items.map(({ subject }) => subject));
    return [
      items.map(({ metadata }) => metadata.name),
      (await eve.ask('GET /v1/inventory')).items.map((one) => one.machine),
      (await eve.ask('GET /v1/leases')).items.map((one) => one.machine),
      MACHINES.filter((name) => events.has(`Machine/${name}`)),
    ];
  };
  expect(await seen()).toEqual(Array(4).fill(['spare1', 'spare2']));
  expect((await eve.ask('GET /v1/explain', { query: { machine: 'spare1' } })).subject).toBe('spare1');
  for (const path of ['/metrics', '/v1/clusters/blue/full', '/v1/status'])
    await expect(eve.call('GET', path)).rejects.toThrow('eve may not do that');
  await world.client.call('POST', '/v1/clusters/green/add-node', {
    body: { json: { machines: ['spare1'] } },
  });
  expect(await seen()).toEqual(Array(4).fill(['spare2']));
});

it('the reason why a machine is held does not name a machine of another place, with which it is in conflict', async () => {
  const text = 'They are b1, g1.';
  const reason = { code: 'identity_conflict', text };
  const fields = { asked: 'g1', machines: 'b1 g1' };
  world.deps.events.record({ kind: 'machine.conflict', subject: 'b1', reason, fields });
  const look = async (who: ApiClient) => [
    JSON.stringify(await who.ask('GET /v1/explain', { query: { machine: 'b1' } })),
    JSON.stringify(await who.ask('GET /v1/machines/:name/timeline', { params: { name: 'b1' } })),
    JSON.stringify((await who.ask('GET /v1/events', { query: { subject: 'b1' } })).items),
  ];
  const whole = await look(await operator('ada', { role: 'viewer' }));
  for (const answer of whole) expect(answer).toContain(text);
  const limited = await look(await operator('bob', BLUE));
  expect(limited.join()).not.toMatch(/\bg1\b/);
  for (const answer of limited) expect(answer).toContain('They are b1, another-machine.');
  expect(limited[2]).toContain('"machines":"b1 another-machine"');
  const both = await look(await operator('eve', BLUE, { role: 'viewer', clusters: ['green'] }));
  expect(both[2]).toContain(text);
});

it('what a request says itself comes back, so that nobody learns from an answer which machines there are', async () => {
  const bob = await operator('bob', BLUE);
  const asked = (name: string) =>
    bob.ask('GET /v1/events', { query: { subject: name } }).then(JSON.stringify as never, String);
  expect(await asked('g1')).not.toContain('another-machine');
});

it('a removed machine is replaced only by one that the role reaches', async () => {
  const ada = await operator('ada', { role: 'admin', clusters: ['blue'], pools: ['spare'] });
  const replaced = (by: string) =>
    ada
      .ask('POST /v1/clusters/:name/remove-node', {
        params: { name: 'blue' },
        body: { machines: ['b1'], replacements: [by] },
      })
      .then(({ added }) => added, String);
  expect(await replaced('lent1')).toContain('ada may not do that');
  expect(await replaced('spare1')).toEqual(['spare1']);
});

it('`muster operator add --pool` gives a role for a pool, and the list shows it', async () => {
  const on = ['--socket', world.socket];
  await run(['operator', 'add', 'bob', '--role', 'operator', '--cluster', 'blue', '--pool', 'spare', ...on]);
  expect((await run(['operator', 'ls', ...on])).out).toMatch(/^bob +operator:blue\+pool\/spare /m);
});
