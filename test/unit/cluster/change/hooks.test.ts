/** Operators' own checks before and after the turn of a machine in a roll. */
import { expect, test } from 'vitest';
import { CORDONED } from '../../../../src/cluster/health/observe.ts';
import { hook, PlayedHooks } from './hooks-kit.ts';
import { RolledCluster } from './roll-kit.ts';

/** A roll of a cluster whose hooks answer as played. */
async function rolled(played: PlayedHooks, servers = 1, workers = 2): Promise<RolledCluster> {
  const cluster = await RolledCluster.open(servers, workers, 1);
  cluster.hooks = await played.start(cluster.clock);
  return cluster;
}

/** The server is killed and starts again. */
async function restart(cluster: RolledCluster, played: PlayedHooks): Promise<void> {
  cluster.startServer();
  cluster.hooks = await played.start(cluster.clock);
  for (const { name } of cluster.machines) await cluster.poll(name, 60_000);
}

const untouched = (cluster: RolledCluster): void => {
  expect(cluster.machines.map(({ boots }) => boots)).toEqual(cluster.machines.map(() => 0));
  expect(cluster.machines.some((one) => one.unschedulable || one.annotations[CORDONED])).toBe(false);
};

test('a hook is asked before each machine is drained, one machine after the other', async () => {
  const played = new PlayedHooks(hook('ceph'));
  const cluster = await rolled(played);
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  expect(played.questions).toEqual(
    [
      ['w0', 'canary'],
      ['cp0', 'control-planes'],
      ['w1', 'workers'],
    ].map(([machine, step]) => ({
      ...{ cluster: 'blue', machine, node: machine, operation: 'roll', change: 'roll-1', step },
      ...{ when: 'before', hook: 'ceph', attempt: 1, since: expect.any(String) },
    })),
  );
});

test.for([
  'wait',
  'unreachable',
  { status: 500, text: '' },
  { status: 200, text: '{"result":"yes"}' },
] as const)(
  'a machine whose hook answers %j is neither drained nor rebooted, and says what it waits for',
  async (says) => {
    const played = new PlayedHooks(hook('ceph', { within: '7d' }));
    played.says = says;
    const cluster = await rolled(played);
    await cluster.run(200);
    untouched(cluster);
    expect((await cluster.look()).w0).toMatch(
      /^the hook ceph lets it wait: .+ \(asked \d+ times in \d+m, at most for 7d\)$/,
    );
    // Half an hour is long, but the wait has a limit of its own.
    expect(cluster.record.holding).toBeUndefined();
    expect(played.events.map(({ reason }) => reason?.code)).toEqual(['hook']);
    played.says = 'pass';
    await cluster.run(300);
    expect(cluster.record.ended).toMatchObject({ as: 'done' });
    expect(played.events.map(({ reason }) => reason?.code).slice(0, 2)).toEqual(['hook', 'hook-passed']);
  },
);

test('what waited long for its hook is not called stalled as soon as it begins', async () => {
  const played = new PlayedHooks(hook('ceph', { within: '7d' }));
  played.says = 'wait';
  const cluster = await rolled(played);
  await cluster.run(200);
  played.says = 'pass';
  await cluster.run(12, 120_000);
  expect(cluster.of('w0').boots).toBe(1);
  expect(cluster.record.holding).toBeUndefined();
});

test('a hook that says wait for longer than its limit holds the roll, which continues when it passes', async () => {
  const played = new PlayedHooks(hook('ceph', { within: '5m' }));
  played.says = 'wait';
  const cluster = await rolled(played);
  await cluster.run(25);
  expect(cluster.record.holding).toBeUndefined();
  await cluster.run(20);
  expect(cluster.record.holding).toMatchObject({
    code: 'hook-late',
    text: 'w0 has waited for the hook ceph for 5m: ceph says wait.',
  });
  const { holding } = cluster.record;
  // Another reason is no other hold, and a restart neither ends it nor begins the limit anew.
  played.says = 'unreachable';
  await cluster.run(20);
  await restart(cluster, played);
  await cluster.run(1);
  expect(cluster.record.holding).toEqual(holding);
  untouched(cluster);
  played.says = 'pass';
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('frequent restarts of the server do not begin the limit anew', async () => {
  const played = new PlayedHooks(hook('ceph', { within: '5m' }));
  played.says = 'wait';
  const cluster = await rolled(played);
  for (let n = 0; n < 12; n++) {
    await cluster.run(4);
    await restart(cluster, played);
  }
  await cluster.run(4);
  expect(cluster.record.holding).toMatchObject({ code: 'hook-late' });
});

test('a hook that fails stops the roll until an operator pauses and resumes it', async () => {
  const played = new PlayedHooks(hook('ceph'));
  played.says = 'fail';
  const cluster = await rolled(played);
  await cluster.run(50);
  expect(cluster.record.holding).toMatchObject({
    code: 'hook-failed',
    text: 'The hook ceph does not let w0 begin: ceph says fail.',
  });
  expect(played.questions.length).toBe(1);
  played.says = 'pass';
  await restart(cluster, played);
  await cluster.run(50);
  expect(played.questions.length).toBe(1);
  untouched(cluster);
  cluster.operate('pause');
  await cluster.run(2);
  cluster.operate('resume');
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
});

test('a machine that was drained or ordered to reboot is not asked again, also after a restart of the server', async () => {
  const played = new PlayedHooks(hook('ceph'));
  const cluster = await rolled(played);
  while (!(await cluster.poll('w0', 300_000))) {
    await cluster.look();
    cluster.now += 1000;
  }
  played.says = 'fail';
  await restart(cluster, played);
  await cluster.run(10);
  expect(played.questions.map(({ machine }) => machine)).toEqual(['w0']);
  await cluster.run(40);
  expect(cluster.record.evidence.w0 ?? cluster.record.past.length).toBeTruthy();
  // The next machine is asked, and stops.
  expect(cluster.record.holding).toMatchObject({ code: 'hook-failed' });
  expect(cluster.of('cp0').boots).toBe(0);
});

test('a machine that came back holds its turn until the hook after it passes', async () => {
  const played = new PlayedHooks(hook('ceph', { when: 'after' }));
  played.says = 'wait';
  const cluster = await rolled(played, 3, 1);
  await cluster.run(40);
  expect(cluster.of('w0').boots).toBe(1);
  expect(played.questions[0]).toMatchObject({ machine: 'w0', when: 'after' });
  expect(cluster.record.step).toBe('canary');
  expect((await cluster.look()).w0).toContain('the hook ceph lets it wait: ceph says wait');
  await restart(cluster, played);
  played.says = 'fail';
  await cluster.run(40);
  expect(cluster.record.holding?.text).toBe('The hook ceph does not let the turn of w0 end: ceph says fail.');
  expect(cluster.down()).toEqual([]);
  expect(cluster.of('cp0').boots).toBe(0);
  played.says = 'pass';
  cluster.operate('pause');
  await cluster.run(2);
  cluster.operate('resume');
  await cluster.run(300);
  expect(cluster.record.ended).toMatchObject({ as: 'done' });
  expect(cluster.of('w0').boots).toBe(1);
});

test('a worker that is left out is no longer asked for, and a cancelled roll asks nobody', async () => {
  const played = new PlayedHooks(hook('ceph', { roles: ['worker'] }));
  played.says = 'fail';
  const cluster = await rolled(played);
  await cluster.run(20);
  cluster.operate('without', 'w0');
  await cluster.run(100);
  expect(cluster.of('cp0').boots).toBe(1);
  expect(played.questions.map(({ machine }) => machine)).toEqual(['w0', 'w1']);
  cluster.operate('cancel');
  await cluster.run(20);
  expect(cluster.record.ended).toMatchObject({ as: 'rolled-back' });
  expect(played.questions.length).toBe(2);
});

test('nobody is asked while the roll is paused or no window is open, and again in the next window', async () => {
  const played = new PlayedHooks(hook('ceph'));
  const cluster = await rolled(played);
  cluster.closed = 'the maintenance window opens on Saturday';
  await cluster.run(10);
  expect(played.questions).toEqual([]);
  cluster.closed = undefined;
  cluster.budget = 'w0';
  await cluster.run(10);
  expect(played.questions.length).toBe(1);
  cluster.closed = 'the maintenance window opens on Saturday';
  await cluster.run(10);
  cluster.closed = undefined;
  played.says = 'fail';
  await cluster.run(10);
  // It passed in the window before; that says nothing about today.
  expect(cluster.record.holding).toMatchObject({ code: 'hook-failed' });
  untouched(cluster);
});

test('all hooks have to pass in the same round, and one for other changes or roles is not asked', async () => {
  const played = new PlayedHooks(
    hook('first'),
    hook('second'),
    hook('upgrades', { operations: ['upgrade'] }),
    hook('members', { roles: ['etcd'] }),
  );
  played.saysOf.second = 'wait';
  const cluster = await rolled(played, 0, 1);
  await cluster.run(12);
  const asked = played.questions.map(({ hook: name }) => name);
  expect(asked.slice(0, 4)).toEqual(['first', 'second', 'first', 'second']);
  played.saysOf.second = 'pass';
  played.saysOf.first = 'wait';
  await cluster.run(12);
  untouched(cluster);
  played.saysOf.first = 'pass';
  await cluster.run(50);
  expect(played.questions.map(({ hook: name }) => name)).not.toContain('members');
  expect(cluster.of('w0').boots).toBe(0);
});

test('a hook that is taken out of the Cluster lets the roll continue; one that is added asks in the next turn', async () => {
  const played = new PlayedHooks(hook('ceph'));
  played.says = 'fail';
  const cluster = await rolled(played);
  await cluster.run(20);
  played.specs = [];
  await cluster.run(3);
  expect(cluster.of('w0').unschedulable).toBe(true);
  played.specs = [hook('late')];
  await cluster.run(100);
  expect(cluster.of('w0').boots).toBe(1);
  expect(cluster.record.holding?.text).toContain('The hook late does not let cp0 begin');
});

test('a hook that takes a request and never answers holds no other work, and gets no second request', async () => {
  const played = new PlayedHooks(hook('ceph'));
  played.silent = true;
  const cluster = await rolled(played);
  await cluster.run(50);
  expect(played.questions.length).toBe(1);
  expect((await cluster.look()).w0).toBe('its hook ceph is asked');
});
