/**
 * Rolls and removals of members together: the real kind of change, turns, founder and executor,
 * with a played etcd. Whatever is ordered, and in whichever order, etcd keeps its quorum.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { silentLog } from '../../../../src/base/log.ts';
import { createFounder } from '../../../../src/cluster/etcd/founder.ts';
import type { EtcdMember, FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import { leavingMembers } from '../../../../src/cluster/etcd/leaving.ts';
import { majority } from '../../../../src/cluster/etcd/quorum.ts';
import { encodeFounding } from '../../../../src/cluster/etcd/record.ts';
import { etcdPeerUrl } from '../../../../src/cluster/model/ports.ts';
import { KEYS } from '../../../../src/store/keys.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { ImpatientClock } from '../../clock.ts';
import { casesOf } from './cases.ts';
import { RolledCluster, TICK } from './roll-kit.ts';

const passes = () => new Promise<void>((done) => setImmediate(done));

/** A cluster of control planes that rolls, and whose members are taken out as well. */
async function world(servers: number) {
  const cluster = await RolledCluster.open(servers, 0, 1);
  const addresses = cluster.spec.machines.map(({ name, addresses: [address] }) => ({
    name,
    address: address!,
  }));
  let members = addresses.map(({ name, address }): EtcdMember => {
    const url = etcdPeerUrl(address);
    return { id: `id-${name}`, name, peerUrls: [url], learner: false, healthy: true };
  });
  const up = () => members.filter(({ name }) => cluster.isUp(cluster.of(name)));
  /** Machines that were ordered to reboot, and whose members still answer. */
  const lingers = new Set<string>();
  const store = openMemoryStore();
  const record: FoundingRecord = {
    ...{ v: 1, cluster: 'blue', id: 'f', openedAt: 0, openedBy: 'all-asked', members: addresses },
    ...{ grants: {}, lists: {}, founded: { at: 0, by: 'cp0' } },
    joined: Object.fromEntries(addresses.map(({ name }) => [name, `F-${name}`])),
  };
  await store.commit([{ key: KEYS.founding.key('blue'), put: encodeFounding(record) }]);
  const gateway = {
    view: async () => {
      const healthy = new Set([...lingers, ...up().map(({ name }) => name)]);
      // What it answers may be old when it arrives.
      await passes();
      if (healthy.size < majority(members.length)) return undefined;
      return { clusterId: 'c', members: members.map((one) => ({ ...one, healthy: healthy.has(one.name) })) };
    },
    reads: async () => true,
    remove: async (_: unknown, id: string) => {
      await passes();
      members = members.filter((one) => one.id !== id);
      cluster.left.add(id.replace('id-', ''));
    },
    addLearner: () => Promise.reject(new Error('nobody joins')),
    promote: () => Promise.reject(new Error('nobody joins')),
  };
  const clock = new ImpatientClock();
  const log = silentLog;
  const founder = createFounder({ store, clock, log, events: { record: () => {} }, gateway: () => gateway });
  await founder.resume();
  founder.begin((name) => cluster.rollouts.goingDown(name));
  cluster.leaving = () => leavingMembers(founder.records(), 'blue');
  return {
    cluster,
    founder,
    members: () => members,
    lingers,
    serves: () => up().length >= majority(members.length),
    /** As `muster machine quarantine`: the document keeps the machine. */
    async takeOut(machine: string): Promise<void> {
      const departing = { machine, node: false, clear: false, drainUntil: 0, quarantine: true } as const;
      await founder.leave('blue', addresses, [departing]).catch(() => undefined);
      await founder.passed('blue', machine, 'drain');
    },
  };
}

test('a member leaves etcd only after the machine that reboots is back, although its roll was cancelled', async () => {
  const { cluster, founder, takeOut, members, lingers } = await world(3);
  while (!(await cluster.poll('cp0', 120_000))) await cluster.look();
  lingers.add('cp0');
  cluster.operate('cancel');
  await takeOut('cp1');
  for (let n = 0; n < 20; n++) await passes();
  expect(members()).toHaveLength(3);
  const { waiting } = await founder.status('blue', []);
  expect(waiting).toBe('without cp1 etcd would have no quorum while cp0 may restart at any moment');
  cluster.now += 120_000;
  await cluster.poll('cp0', 0);
  for (let n = 0; n < 20; n++) await passes();
  expect(members()).toHaveLength(2);
  await founder.close();
});

const command = fc.record({
  do: fc.oneof(
    { weight: 40, arbitrary: fc.constant('poll' as const) },
    { weight: 30, arbitrary: fc.constant('look' as const) },
    { weight: 20, arbitrary: fc.constant('time' as const) },
    { weight: 30, arbitrary: fc.constant('work' as const) },
    { weight: 4, arbitrary: fc.constantFrom('take out' as const, 'without' as const) },
    { weight: 2, arbitrary: fc.constantFrom('cancel' as const, 'kill' as const) },
  ),
  n: fc.nat(7),
});

test('over random rolls, orders, restarts of the server and removals, etcd keeps its quorum', () =>
  fc.assert(
    fc.asyncProperty(
      fc.constantFrom(3, 5),
      fc.array(command, { minLength: 30, maxLength: 150 }),
      async (servers, commands) => {
        const { cluster, founder, serves, takeOut, lingers } = await world(servers);
        for (const one of commands) {
          const { name } = cluster.machines[one.n % servers]!;
          const isOut = Object.keys(founder.records()[0]?.leaving ?? {}).includes(name);
          // Nobody believes a machine in quarantine.
          if (one.do === 'poll' && !isOut && (await cluster.poll(name, (one.n + 1) * 20_000)))
            lingers.add(name);
          if (one.do === 'look') await cluster.look();
          if (one.do === 'time') {
            cluster.now += one.n * TICK;
            lingers.clear();
          }
          if (one.do === 'work') for (let n = 0; n <= one.n; n++) await passes();
          if (one.do === 'take out') await takeOut(name);
          if (one.do === 'without' || one.do === 'cancel') cluster.operate(one.do, name);
          if (one.do === 'kill') cluster.startServer();
          expect(serves()).toBe(true);
        }
        await founder.close();
      },
    ),
    { numRuns: casesOf(60) },
  ));
