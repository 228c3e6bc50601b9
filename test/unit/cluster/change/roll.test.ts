/** Rolls of a modelled cluster: who reboots when, and what stops them. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newOrder } from '../../../../src/bmc/order.ts';
import type { WorkerGroup } from '../../../../src/cluster/change/groups.ts';
import { previewOf } from '../../../../src/cluster/change/preview.ts';
import { CORDONED } from '../../../../src/cluster/health/observe.ts';
import { casesOf } from './cases.ts';
import { RolledCluster, TICK } from './roll-kit.ts';

/** The machines in the order in which they went down. */
function watched(cluster: RolledCluster): { readonly order: string[]; readonly look: () => void } {
  const order: string[] = [];
  return {
    order,
    look() {
      for (const { name } of cluster.down()) if (!order.includes(name)) order.push(name);
    },
  };
}

test('one worker reboots first, then control planes one at a time, then the other workers', async () => {
  const cluster = await RolledCluster.open(3, 4, 2);
  const { order, look } = watched(cluster);
  let most = 0;
  await cluster.run(500, 60_000, () => {
    look();
    most = Math.max(most, cluster.down().length);
  });
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  expect(order).toEqual(['w0', 'cp0', 'cp1', 'cp2', 'w1', 'w2', 'w3']);
  expect(most).toBe(2);
  expect(cluster.machines.map(({ boots }) => boots)).toEqual(Array(7).fill(1));
  expect(cluster.machines.every(({ image }) => image === cluster.profile)).toBe(true);
  expect(cluster.machines.some(({ unschedulable }) => unschedulable)).toBe(false);
});

test('a machine that has booted by itself meanwhile does not boot again', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.setDead('w1', true);
  cluster.setDead('w1', false);
  await cluster.poll('w1', 0);
  await cluster.run(300);
  expect(cluster.record.ended).toBeDefined();
  expect(cluster.of('w1').boots).toBe(1);
});

test('a node that the API still shows Ready from before the reboot is not taken for back', async () => {
  const cluster = await RolledCluster.open(3, 1, 1);
  // Faster than the API notices that a node is gone.
  await cluster.run(300, 1000, () => {
    for (const one of cluster.machines)
      if (cluster.record.evidence[one.name]) expect(one.nodeBoot).toBe(one.boots);
  });
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('a machine that does not come back stops the roll, and nothing else reboots', async () => {
  const cluster = await RolledCluster.open(3, 5, 3);
  cluster.broken.add('w2');
  const { order, look } = watched(cluster);
  await cluster.run(400, 60_000, look);
  expect(cluster.record.holding).toMatchObject({ code: 'machine-silent' });
  expect(order).toEqual(['w0', 'cp0', 'cp1', 'cp2', 'w1', 'w2', 'w3', 'w4'].slice(0, order.length));
  expect(cluster.record.step).toBe('workers');
  cluster.operate('without', 'w2');
  await cluster.run(400);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  expect(cluster.of('w2').annotations[CORDONED]).toBeUndefined();
});

test('the roll cycles a machine that hangs while it reboots once through its BMC, and goes on', async () => {
  const cluster = await RolledCluster.open(3, 3, 1);
  for (const name of ['w1', 'cp1']) {
    cluster.broken.add(name);
    cluster.bmcs.set(name, 'helps');
  }
  await cluster.run(1000, 60_000, () => expect(cluster.record.holding).toBeUndefined());
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  expect(cluster.cycled).toEqual(['cp1 by roll.blue', 'w1 by roll.blue']);
});

test.each([
  ['starts', 'started, and its agent is not heard'],
  ['unknown', 'bmc-state-unknown'],
] as const)('a machine that its BMC does not help (%s) is named, and cycled no more', async (bmc, says) => {
  const cluster = await RolledCluster.open(3, 2, 1);
  cluster.broken.add('w1');
  cluster.bmcs.set('w1', bmc);
  await cluster.run(1000);
  expect(cluster.cycled).toEqual(['w1 by roll.blue']);
  expect(cluster.record.holding).toMatchObject({ code: 'machine-hangs' });
  expect(cluster.record.holding?.text).toContain(says);
  cluster.startServer();
  await cluster.run(200);
  expect(cluster.cycled).toHaveLength(1);
});

test('a machine is not cycled when its cluster might lose its quorum, nor after an order of somebody else', async () => {
  const cluster = await RolledCluster.open(3, 0, 1);
  cluster.broken.add('cp1');
  cluster.bmcs.set('cp1', 'helps');
  await cluster.run(1000, 60_000, () => {
    if (!cluster.isUp(cluster.of('cp1'))) cluster.setDead('cp0', true);
  });
  expect(cluster.cycled).toEqual([]);
  cluster.setDead('cp0', false);
  await cluster.run(10);
  expect(cluster.cycled).toEqual(['cp1 by roll.blue']);

  const other = await RolledCluster.open(1, 2, 1);
  other.broken.add('w1');
  other.bmcs.set('w1', 'helps');
  await other.run(1000, 60_000, () => {
    if (other.isUp(other.of('w1'))) return;
    other.powers('w1', newOrder({ id: '', machine: 'w1', want: 'off', by: 'ops', at: other.clock.now() }));
  });
  expect(other.cycled).toEqual([]);
});

test('a control plane that does not come back and is left out keeps the others from rebooting', async () => {
  const cluster = await RolledCluster.open(3, 0, 1);
  cluster.broken.add('cp1');
  await cluster.run(300);
  cluster.operate('without', 'cp1');
  await cluster.run(300);
  expect(cluster.of('cp2').boots).toBe(0);
  expect((await cluster.look()).cp2).toContain('Without cp1 and cp2 too few instances of etcd');
  cluster.setDead('cp1', false);
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test.for(['without', 'cancel'] as const)(
  'a control plane that reboots keeps the others running also after the order %s',
  async (order) => {
    for (const servers of [2, 3, 5]) {
      const cluster = await RolledCluster.open(servers, 0, 1);
      while (!(await cluster.poll('cp0', 120_000))) await cluster.look();
      cluster.operate(order, 'cp0');
      // Its last report is seconds old, so that it would still count as running.
      for (let n = 0; n < 11; n++) {
        await cluster.look();
        for (const { name } of cluster.machines) expect(await cluster.poll(name, 120_000)).toBe(false);
        cluster.now += TICK;
      }
      cluster.now += TICK;
      await cluster.run(200);
      expect(cluster.record.ended).toBeDefined();
    }
  },
);

test('a worker that is left out while it reboots counts among those that may be down at once', async () => {
  const cluster = await RolledCluster.open(1, 4, 1);
  await cluster.run(60, 60_000, () => {
    if (cluster.isUp(cluster.of('w1')) || cluster.record.without.length > 0) return;
    cluster.operate('without', 'w1');
    cluster.of('w1').upAt = cluster.now + 300_000;
  });
  expect(cluster.record.without).toEqual(['w1']);
  expect(cluster.isUp(cluster.of('w1'))).toBe(true);
  expect(cluster.of('w2').boots).toBe(1);
});

test('a budget that allows no eviction holds the roll, which continues by itself', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.budget = 'w0';
  await cluster.run(20);
  expect(cluster.record.holding).toMatchObject({ code: 'budget' });
  expect(cluster.of('w0').boots).toBe(0);
  cluster.budget = undefined;
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('a machine that boots another image than it should holds the roll', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.instead = 'c'.repeat(64);
  await cluster.run(100);
  expect(cluster.record.holding).toMatchObject({ code: 'other-image' });
  expect(cluster.record.evidence).toEqual({});
  cluster.instead = undefined;
  cluster.setDead('w0', true);
  cluster.setDead('w0', false);
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('what the profile names when a machine boots is right as well, if the profile was changed again', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.profile = 'c'.repeat(64);
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('a paused roll lets the machine finish that reboots, and a node that is being drained takes pods again', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.budget = 'w0';
  await cluster.run(5);
  expect(cluster.of('w0').unschedulable).toBe(true);
  cluster.operate('pause');
  await cluster.run(2);
  expect(cluster.of('w0').unschedulable).toBe(false);
  cluster.budget = undefined;
  await cluster.run(20);
  expect(cluster.of('w0').boots).toBe(0);
  cluster.operate('resume');
  await cluster.run(3, 60_000);
  expect(cluster.of('w0').boots).toBe(1);
  cluster.operate('pause');
  await cluster.run(30);
  expect(cluster.of('w0').unschedulable).toBe(false);
  expect(cluster.of('cp0').boots).toBe(0);
});

test('a roll that is cancelled reboots nothing more, and drained nodes take pods again', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.budget = 'w0';
  await cluster.run(5);
  cluster.operate('cancel');
  cluster.budget = undefined;
  await cluster.run(20);
  expect(cluster.record.ended).toMatchObject({ as: 'rolled-back' });
  expect(cluster.machines.every(({ boots, unschedulable }) => boots === 0 && !unschedulable)).toBe(true);
});

test('no machine gets its turn while the window is closed, and the machine that reboots finishes', async () => {
  const cluster = await RolledCluster.open(3, 2, 1);
  const { order, look } = watched(cluster);
  await cluster.run(500, 60_000, () => {
    look();
    if (order.includes('cp0')) cluster.closed = 'the window opens on Saturday';
  });
  expect(order).toEqual(['w0', 'cp0']);
  expect(cluster.of('cp0').unschedulable).toBe(false);
  expect(Object.keys(cluster.record.evidence)).toContain('cp0');
  expect((await cluster.look()).cp1).toBe('the window opens on Saturday');
  expect(cluster.record.holding).toBeUndefined();
  cluster.closed = undefined;
  await cluster.run(500);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('a node that was being drained when the window closed takes pods again, and waits', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.budget = 'w0';
  await cluster.run(5);
  cluster.closed = 'the window opens on Saturday';
  await cluster.run(2);
  expect(cluster.of('w0').unschedulable).toBe(false);
  cluster.budget = undefined;
  await cluster.run(20);
  expect(cluster.of('w0').boots).toBe(0);
  expect((await cluster.look()).w0).toBe('the window opens on Saturday');
  cluster.closed = undefined;
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('a machine that waits for the next window does not hold the roll', async () => {
  const cluster = await RolledCluster.open(1, 2, 1);
  cluster.budget = 'w0';
  await cluster.run(5);
  cluster.closed = 'the window opens on Saturday';
  await cluster.run(300);
  expect(cluster.record).toMatchObject({ turns: [] });
  expect(cluster.record.holding).toBeUndefined();
  cluster.budget = undefined;
  cluster.closed = undefined;
  await cluster.run(1);
  expect(cluster.record).toMatchObject({ turns: ['w0'] });
  expect(cluster.record.holding).toBeUndefined();
});

const STORAGE = { name: 'nodes[0] (disk=ssd)', machines: ['w1', 'w2', 'w3'], atOnce: 1 };
const GPU = { name: 'nodes[1] (gpu=yes)', machines: ['w4', 'w5', 'w6', 'w7'], atOnce: 2 };

test('of each group only as many workers are down as it allows, and a full group keeps no other waiting', async () => {
  const cluster = await RolledCluster.open(1, 8, 3, [STORAGE, GPU]);
  const [step] = cluster.kind.steps(cluster.record).filter(({ name }) => name === 'workers');
  expect(step?.sentence).toBe(
    'Workers are drained and reboot, 3 at a time, at most 1 of nodes[0] (disk=ssd), at most 2 of nodes[1] (gpu=yes).',
  );
  const rounds: string[] = [];
  await cluster.run(500, 60_000, () => {
    const down = cluster
      .down()
      .map(({ name }) => name)
      .filter((name) => name !== 'w0' && name !== 'cp0')
      .join(' ');
    if (down !== '' && rounds.at(-1) !== down) rounds.push(down);
  });
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  for (const names of rounds.map((one) => one.split(' ')))
    for (const { machines, atOnce } of [STORAGE, GPU])
      expect(names.filter((name) => machines.includes(name)).length).toBeLessThanOrEqual(atOnce);
  expect(rounds).toContain('w1 w4 w5');
});

test('what the preview says of groups is what happens: as many rounds, with the same machines', async () => {
  const cluster = await RolledCluster.open(1, 8, 3, [STORAGE, GPU]);
  const preview = previewOf(cluster.kind.steps(cluster.record), cluster.spec.machines, []);
  const began: string[] = [];
  for (let n = 0; n < 500 && !cluster.record.ended; n++) {
    const before = cluster.record.turns;
    await cluster.run(1);
    const { turns, step } = cluster.record;
    const next = turns.filter((name) => !before.includes(name));
    if (step === 'workers' && next.length > 0) began.push(next.join(' '));
  }
  expect(began).toEqual(['w1 w4 w5', 'w2 w6 w7', 'w3']);
  const minutes = preview.steps.find(({ name }) => name === 'workers')!.minutes;
  // Five minutes a round, and one poll.
  expect(minutes).toBeCloseTo(began.length * 5, 0);
});

test('a worker that is down counts in its group, left out or not, over a restart; the others go on', async () => {
  const cluster = await RolledCluster.open(1, 8, 3, [STORAGE, GPU]);
  cluster.broken.add('w2');
  await cluster.run(300, 60_000);
  expect(cluster.record).toMatchObject({ step: 'workers', holding: { code: 'machine-silent' } });
  cluster.operate('without', 'w2');
  cluster.startServer();
  await cluster.run(200, 60_000);
  expect(cluster.of('w3').boots).toBe(0);
  expect(cluster.of('w7').boots).toBe(1);
  expect(cluster.record.holding).toMatchObject({
    code: 'group-full',
    text: 'w3 gets no turn: at most 1 of nodes[0] (disk=ssd) may be down, and w2 is.',
  });
  cluster.setDead('w2', false);
  await cluster.run(200, 60_000);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  expect(cluster.of('w3').boots).toBe(1);
});

test('a worker that was drained and is left out gives its node back, and its group goes on', async () => {
  const cluster = await RolledCluster.open(1, 4, 2, [STORAGE]);
  cluster.budget = 'w1';
  await cluster.run(200, 60_000);
  expect(cluster.record.turns).toEqual(['w1']);
  expect(cluster.of('w1').unschedulable).toBe(true);
  cluster.operate('without', 'w1');
  await cluster.run(3);
  expect(cluster.of('w1').unschedulable).toBe(false);
  await cluster.run(200);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  expect([cluster.of('w1').boots, cluster.of('w2').boots, cluster.of('w3').boots]).toEqual([0, 1, 1]);
});

test('a worker whose group lost another one while it was drained does not reboot', async () => {
  const cluster = await RolledCluster.open(1, 4, 2, [STORAGE]);
  cluster.budget = 'w1';
  await cluster.run(200, 60_000);
  cluster.setDead('w3', true);
  await cluster.run(10);
  cluster.budget = undefined;
  await cluster.run(10);
  expect(cluster.of('w1').boots).toBe(0);
  expect((await cluster.look()).w1).toContain('at most 1 of nodes[0] (disk=ssd) may be down, and w3 is');
  cluster.setDead('w3', false);
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

const action = fc.oneof(
  { weight: 50, arbitrary: fc.record({ do: fc.constant('poll' as const), n: fc.nat(7) }) },
  { weight: 50, arbitrary: fc.record({ do: fc.constant('look' as const), n: fc.nat(7) }) },
  { weight: 30, arbitrary: fc.record({ do: fc.constant('time' as const), n: fc.nat(7) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom('die' as const, 'return' as const, 'open' as const, 'close' as const),
      n: fc.nat(7),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('pause' as const, 'resume' as const, 'without' as const),
      n: fc.nat(7),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('kill' as const, 'jump' as const), n: fc.nat(7) }),
  },
);

/** Groups of so few machines overlap often. */
const group = fc.record({
  machines: fc.subarray(['w0', 'w1', 'w2', 'w3', 'w4'], { minLength: 1 }),
  atOnce: fc.integer({ min: 1, max: 2 }),
});

type Action = typeof action extends fc.Arbitrary<infer A> ? A : never;

/** Actions as a counterexample that was found is written down: `look 0,poll 6`. */
const steps = (text: string): Action[] =>
  text.split(',').map((one) => {
    const [what, n] = one.split(' ');
    return { do: what, n: Number(n) } as Action;
  });

/** Checks what must hold when a machine goes down because its plan says so. */
function checkReboot(
  cluster: RolledCluster,
  name: string,
  maxUnavailable: number,
  groups: readonly WorkerGroup[] = [],
): void {
  const { serves } = cluster.of(name);
  const rolled = cluster
    .down()
    .filter((one) => one.name !== name && !one.dead && one.serves === serves)
    .map((one) => one.name);
  for (const { machines = [], atOnce } of groups.filter((group) => group.machines?.includes(name))) {
    const others = cluster.down().filter((one) => one.name !== name && machines.includes(one.name));
    // Nobody knows yet of one that lost its power a moment ago.
    const known = others.filter((one) => !one.dead || cluster.now - one.heardAt >= 45_000);
    expect(known.length).toBeLessThan(atOnce);
  }
  if (!serves) expect(rolled.length).toBeLessThan(maxUnavailable);
  else {
    expect(rolled).toEqual([]);
    const servers = cluster.machines.filter((one) => one.serves);
    // Also a machine that died in this moment is missed, because the others are asked.
    const missed = servers.filter((one) => one.name !== name && !cluster.wasUp.has(one.name)).length;
    const needed = Math.min(Math.floor(servers.length / 2) + 1, servers.length - 1);
    expect(servers.length - 1 - missed).toBeGreaterThanOrEqual(needed);
  }
}

test('over random deaths, kills, jumps of the clock, pauses and windows, never two control planes are down and etcd keeps its quorum', async () => {
  let ended = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(1, 2, 3, 5),
      fc.nat(5),
      fc.integer({ min: 1, max: 3 }),
      fc.array(action, { minLength: 50, maxLength: 300 }),
      fc.array(group, { maxLength: 2 }),
      fc.boolean(),
      async (servers, workers, maxUnavailable, actions, limited, ahead) => {
        const groups = limited.map((one, n) => ({ ...one, name: `nodes[${n}]` }));
        const cluster = await RolledCluster.open(servers, workers, maxUnavailable, groups);
        const check = (rebooted?: string): void => {
          if (rebooted !== undefined) checkReboot(cluster, rebooted, maxUnavailable, groups);
        };
        // Few actions reach the workers by themselves.
        for (let n = 0; ahead && n < 300 && cluster.record.step !== 'workers'; n++)
          await cluster.run(1, 20_000, check);
        const die = (n: number, dead: boolean) =>
          cluster.setDead(cluster.machines[n % cluster.machines.length]!.name, dead);
        for (const one of actions) {
          const { name } = cluster.machines[one.n % cluster.machines.length]!;
          const turns = [...cluster.record.turns];
          const shut = cluster.closed !== undefined;
          if (one.do === 'poll') {
            cluster.wasUp = new Set(cluster.machines.filter(cluster.isUp).map((each) => each.name));
            check((await cluster.poll(name, one.n * 10_000)) ? name : undefined);
          } else if (one.do === 'look') await cluster.look();
          else if (one.do === 'time') cluster.now += one.n * TICK;
          else if (one.do === 'die' || one.do === 'return') die(one.n, one.do === 'die');
          else if (one.do === 'kill') cluster.startServer();
          else if (one.do === 'jump') cluster.jumped += (one.n - 3) * 86_400_000;
          else if (one.do === 'open' || one.do === 'close')
            cluster.closed = one.do === 'open' ? undefined : 'closed';
          else cluster.operate(one.do, name);
          if (shut) expect(cluster.record.turns.filter((turn) => !turns.includes(turn))).toEqual([]);
        }
        // When everything works again, the roll ends, and every machine was rebooted.
        cluster.closed = undefined;
        cluster.operate('resume');
        for (const { name } of cluster.machines) cluster.setDead(name, false);
        await cluster.run(600, 30_000, check);
        expect(cluster.record.ended).toMatchObject({ as: 'done' });
        for (const { name, boots } of cluster.machines)
          if (!cluster.record.without.includes(name)) expect(boots).toBeGreaterThan(0);
        expect(cluster.machines.filter(({ unschedulable }) => unschedulable)).toEqual([]);
        ended++;
      },
    ),
    {
      numRuns: casesOf(60),
      examples: [
        [3, 0, 1, steps('look 0,look 0,poll 4,die 4,poll 0'), [], false],
        [2, 0, 1, steps('look 0,look 0,poll 6,without 0,look 0,look 0,look 0,look 0,poll 3'), [], false],
        [3, 0, 1, steps('look 0,look 0,poll 6,without 0,look 0,look 0,look 0,look 0,poll 7'), [], false],
      ],
    },
  );
  expect(ended).toBe(casesOf(60));
});
