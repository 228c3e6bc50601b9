/**
 * Machines in and out of a Cluster's document, orders that need a name, and whether a cluster is
 * well: over the socket of a server.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const machine = (name: string, n: number) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:00:00:${n}"], addresses: [10.77.0.${n}]}
`;
const cluster = (name: string, controlPlanes: string, workers: string) => `---
apiVersion: muster/v1
kind: Cluster
metadata: {name: ${name}}
spec:
  trust: segment
  kubernetes:
    version: "1.36"
    endpoint: api.${name}.test
    controlPlanes: [${controlPlanes}]
    workers: [${workers}]
`;
const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 10.77.0.0/24, dhcp: {mode: server}}
${cluster('filed', 'f1', 'fw1')}${['f1', 'fw1', 'cp1', 'cp2', 'cp3', 'w1', 'w2'].map((name, n) => machine(name, 11 + n)).join('')}`;

let world: World;
beforeAll(async () => {
  world = await openWorld(DOCUMENTS);
  await world.client.call('POST', '/v1/apply', { body: cluster('red', 'cp1', 'w1') });
});
afterAll(() => world.close());

const muster = (...args: readonly string[]) => run(['cluster', ...args], { socket: world.socket });
const spec = () => world.deps.catalog.get('Cluster', 'red')!.document.spec.kubernetes!;

test('machines are named in the document and taken out of it, in their roles', async () => {
  expect(await muster('add-node', 'red', 'w2')).toMatchObject({
    code: 0,
    out: 'cluster/red changed: w2 added as worker; it joins when it is powered on\n',
  });
  expect((await muster('add-node', 'red', 'w2')).out).toContain('unchanged');
  expect((await muster('add-node', 'red', 'cp2', 'cp3', '--control-plane')).code).toBe(0);
  expect([spec().controlPlanes, spec().workers]).toEqual([
    ['cp1', 'cp2', 'cp3'],
    ['w1', 'w2'],
  ]);
  expect((await muster('remove-node', 'red', 'w1')).code).toBe(0);
  expect(spec().workers).toEqual(['w2']);
});

test.for([
  ['an address', ', addresses: [10.77.0.31]', /^warning: .*w3: no spec\.addresses in its Machine/m],
  ['a profile', 'nothing', /^warning: .*w3: no profile in its Machine, and no Profile selects it/m],
] as const)('a machine that is added without %s is warned of', async ([, without, text]) => {
  await world.client.call('POST', '/v1/apply', { body: machine('w3', 31).replace(without, '') });
  const { code, err } = await muster('add-node', 'red', 'w3');
  expect([code, err]).toEqual([0, expect.stringMatching(text)]);
  const removed = await muster('remove-node', 'red', 'w3');
  expect([removed.code, removed.err]).toEqual([0, expect.not.stringContaining('w3')]);
});

test('control planes that are added without a data disk are warned of', async () => {
  await world.client.call('POST', '/v1/apply', { body: machine('cp8', 38) + machine('cp9', 39) });
  const { code, err } = await muster('add-node', 'red', 'cp8', 'cp9', '--control-plane');
  expect([code, err]).toEqual([
    0,
    expect.stringMatching(/^warning: .*cp8, cp9: a member of etcd without dataDisk in its Machine/m),
  ]);
  expect((await muster('remove-node', 'red', 'cp8', 'cp9')).code).toBe(0);
});

test('an even number of members of etcd is refused before anything happens, an exchange is not', async () => {
  const { code, err } = await muster('remove-node', 'red', 'cp3');
  expect([code, err]).toEqual([1, expect.stringContaining('use an odd number')]);
  expect(spec().controlPlanes).toEqual(['cp1', 'cp2', 'cp3']);
  expect((await muster('remove-node', 'red', 'cp3', '--replace-with', 'w1')).code).toBe(0);
  expect(spec().controlPlanes).toEqual(['cp1', 'cp2', 'w1']);
});

test('what is not there, elsewhere, in another role or in a file is refused with what to do', async () => {
  const refused = async (text: string, ...args: string[]) => {
    const { code, err } = await muster(...args);
    expect([code, err]).toEqual([expect.any(Number), expect.stringContaining(text)]);
    expect(code).not.toBe(0);
  };
  await refused('there is no Machine "x"', 'add-node', 'red', 'x');
  await refused('w2 is already in workers', 'add-node', 'red', 'w2', '--control-plane');
  await refused('f1 belongs to Cluster "filed"', 'remove-node', 'red', 'f1');
  await refused('x does not belong to red', 'remove-node', 'red', 'x');
  await refused('E_NOT_FOUND', 'remove-node', 'green', 'w2');
  await refused('add w2 to workers there, then repeat this command', 'add-node', 'filed', 'w2');
  await refused('more replacements than machines', 'remove-node', 'red', 'w2', '--replace-with', 'f1', 'fw1');
  await refused('is not a duration', 'remove-node', 'red', 'w2', '--drain-timeout', 'soon');
});

test('who takes a place is a Machine without one, of no cluster, and takes the place of one that has a role', async () => {
  const before = spec();
  const refused = async (text: string, ...args: string[]) => {
    const { code, err, out } = await muster('remove-node', 'red', ...args);
    expect([code, err, out]).toEqual([1, expect.stringContaining(text), '']);
    expect(spec()).toEqual(before);
  };
  await refused('there is no Machine "x"', 'cp1', '--replace-with', 'x');
  await refused('w2 is already in workers', 'cp1', '--replace-with', 'w2');
  await refused('cp2 is already in controlPlanes', 'cp2', '--replace-with', 'cp2');
  await refused('fw1 belongs to Cluster "filed"', 'cp1', '--replace-with', 'fw1');
  await refused('cp3 has no role in red', 'cp3', '--replace-with', 'nobody');
  expect((await muster('remove-node', 'red', 'cp1', 'cp2', '--replace-with', 'cp3', 'cp3')).err).toContain(
    'names one twice',
  );
  const exchanged = await muster('remove-node', 'red', 'w1', '--replace-with', 'cp3');
  expect(exchanged.out).toContain('w1 removed and cp3 added');
  // Said again it is the same order, and adds nothing.
  const again = await muster('remove-node', 'red', 'w1', '--replace-with', 'cp3');
  expect([again.code, again.out]).toEqual([0, expect.not.stringContaining('cp3 in')]);
  expect(spec().controlPlanes).toEqual(['cp1', 'cp2', 'cp3']);
});

test('removing a machine from a cluster that was never founded only changes the document, and the output says so', async () => {
  const { code, out } = await muster('remove-node', 'red', 'w2', '--clear');
  expect([code, out]).toEqual([
    0,
    'cluster/red changed: w2 removed\nred was never founded, so nothing has to be stopped on w2, and no disk is cleared\n',
  ]);
  expect((await muster('add-node', 'red', 'w2')).code).toBe(0);
});

test('nothing that may cost data happens without the name; what stands against an order is said', async () => {
  for (const args of [['reset'], ['restore', '--from', 'cp1'], ['adopt', 'cp1']] as const) {
    const [verb, ...rest] = args;
    const unsaid = await muster(verb, 'red', ...rest);
    expect([unsaid.code, unsaid.err]).toEqual([2, expect.stringContaining('--confirm red')]);
    expect((await muster(verb, 'red', ...rest, '--confirm', 'blue')).code).toBe(2);
    const said = await muster(verb, 'red', ...rest, '--confirm', 'red');
    expect([said.code, said.err]).toEqual([1, expect.stringContaining('E_FOUNDING')]);
  }
  expect((await muster('call-off', 'red', 'cp1')).err).toContain('nothing is being replaced');
});

test('the checks of a cluster that does not exist yet fail line by line, and so does the exit code', async () => {
  const { code, out } = await muster('status', 'red');
  expect(code).toBe(1);
  expect(out).toMatch(
    /^FAIL +etcd +red +not founded: cp1, cp2, cp3 have not asked yet; muster cluster founding red$/m,
  );
  expect(out).toMatch(
    /^FAIL +machine +w2 +not heard \(no_profile\): The machine has no profile and .*; muster explain w2$/m,
  );
  expect(out).toMatch(/\nred: checks that fail: \d+ \(all but the network between pods/);
  const { out: json } = await muster('status', 'red', '--etcd', '-o', 'json');
  expect(JSON.parse(json)).toMatchObject({ ok: false, scope: expect.stringContaining('etcd only') });
  expect((await muster('verify', 'red', '--wait=nonsense')).code).toBe(2);
  expect((await muster('status', 'green')).err).toContain('E_NOT_FOUND');
});

describe('muster delete machine', () => {
  const remove = (...args: readonly string[]) => run(['delete', ...args], { socket: alone.socket });
  let alone: World;
  beforeAll(async () => {
    alone = await openWorld(DOCUMENTS.split('---')[0]);
    const machines = ['cp1', 'e1', 'w1', 'free'].map((name, n) => machine(name, 11 + n));
    const red = cluster('red', 'cp1', 'w1, later').replace(
      '    workers:',
      '    etcd: {topology: external, machines: [e1]}\n    workers:',
    );
    await alone.client.call('POST', '/v1/apply', { body: [red, ...machines].join('') });
  });
  afterAll(() => alone.close());

  test.each([
    ['cp1', 'a control plane'],
    ['e1', 'a member of the etcd'],
  ])('refuses %s, which a Cluster names as %s, and says what takes it out', async (name, what) => {
    const { code, out, err } = await remove('machine', 'free', name);
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain(
      `Machine/${name} is ${what} of Cluster/red; delete both together, or remove the machine from the cluster first: \`muster cluster remove-node red ${name}\` (E_REFERENCE)`,
    );
    await expect(alone.client.call('DELETE', `/v1/machines/${name}`)).rejects.toMatchObject({
      code: 'E_REFERENCE',
    });
    expect(alone.deps.catalog.get('Machine', 'free')).toBeDefined();
  });

  test('warns of a worker, and is silent about a machine of no cluster', async () => {
    const { code, out, err } = await remove('machine', 'w1');
    expect([code, out]).toEqual([0, 'machine "w1" deleted\n']);
    expect(err).toMatch(
      /^warning: Machine\/w1 is a worker of Cluster\/red; remove the machine from the cluster as well: .* \(E_REFERENCE\)\n$/,
    );
    expect(await remove('machine', 'free')).toMatchObject({ code: 0, err: '' });
  });

  test('lets a Cluster go together with its machines', async () => {
    const { code, err } = await remove('machine/cp1', 'machine/e1', 'cluster/red');
    expect([code, err.match(/^warning: /gm)]).toEqual([0, ['warning: ']]);
    expect(err).toContain('Network/lan: no pool and no Machine with an address');
  });
});
