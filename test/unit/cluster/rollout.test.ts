/**
 * Which machine may restart next, as a table; and the turns in a simulated cluster whose machines
 * restart, stop answering for a moment and vanish.
 */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AgentFacts } from '../../../src/agent/wire/facts.ts';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { openRollouts } from '../../../src/cluster/change/rollouts.ts';
import { type Heard, type Peer, type Pods, turnOf } from '../../../src/cluster/change/turn.ts';
import type { ResolvedCluster } from '../../../src/cluster/model/resolved-cluster.ts';
import type { RestartDecision } from '../../../src/cluster/plan/restarts.ts';
import type { NewEvent } from '../../../src/events/event.ts';
import { casesOf } from './change/cases.ts';
import { resolved } from './kit.ts';
import { QUIET_ROLLOUTS } from './quiet.ts';
import { asked, decided, PlayedTurns } from './turns-kit.ts';

const NOW = duration('1h');
const ago = (text: string): Millis => (NOW - duration(text)) as Millis;

const OLD = { etcd: 'e1', 'kube-apiserver': 'a1' };
const works: Heard = { ready: true, revision: 'a1' };
const member: Heard = { ready: true, revision: 'e1' };
const bothWork: Pods = { etcd: member, 'kube-apiserver': works };

const peer = (name: string, changes: Partial<Peer> = {}): Peer => ({
  name,
  has: ['etcd', 'kube-apiserver'],
  at: ago('5s'),
  pods: bothWork,
  given: OLD,
  turned: false,
  answers: ['etcd', 'kube-apiserver'],
  ...changes,
});

const TWO = [peer('cp2'), peer('cp3')];
const apiserver = (heard: Partial<Heard>): Pods => ({
  ...bothWork,
  'kube-apiserver': { ...works, ...heard },
});

/** The answer to cp1: `go` or `wait`, what changes, and the reason. */
function told(wanted: Partial<typeof OLD>, peers: readonly Peer[], pods: Pods = bothWork): string {
  const turn = turnOf({ name: 'cp1', wanted: { ...OLD, ...wanted }, pods }, peers, { now: NOW });
  return [turn.do, turn.changes.join('+') || '-', ...(turn.do === 'wait' ? [turn.text] : [])].join(' ');
}

test('a member of etcd waits for no other once the CA that members trust has ended; an API server does', () => {
  const pods = { ...bothWork, etcd: { ready: false, revision: 'e2', lostAt: ago('10m') } };
  const back = peer('cp2', { pods, given: { ...OLD, etcd: 'e2' }, turned: true });
  const turn = (wanted: Partial<typeof OLD>, trustEnded: boolean) =>
    turnOf({ name: 'cp1', wanted: { ...OLD, ...wanted }, pods: bothWork }, [back, peer('cp3')], {
      ...{ now: NOW, trustEnded },
    });
  expect(turn({ etcd: 'e2' }, false).do).toBe('wait');
  expect(turn({ etcd: 'e2' }, true)).toEqual({ do: 'go', changes: ['etcd'] });
  expect(turn({ 'kube-apiserver': 'a2' }, true).do).toBe('wait');
});

const ANOTHER = { 'kube-apiserver': 'a2' };
const OTHER_ETCD = { etcd: 'e2' };
const lost = apiserver({ ready: false, lostAt: ago('10s') });

test.for([
  ['nothing changes: it goes', {}, TWO, bothWork, 'go -'],
  ['all others work: it goes', ANOTHER, TWO, bothWork, 'go kube-apiserver'],
  [
    'both change at once: they go together',
    { ...ANOTHER, ...OTHER_ETCD },
    TWO,
    bothWork,
    'go etcd+kube-apiserver',
  ],
  [
    'another was given its change and still runs what it ran: it waits',
    ANOTHER,
    [peer('cp2', { given: { ...OLD, ...ANOTHER }, turned: true }), peer('cp3')],
    bothWork,
    'wait kube-apiserver cp2 is changed first: its kube-apiserver was not restarted yet.',
  ],
  [
    'another was changed and does not answer yet: it waits',
    ANOTHER,
    [peer('cp2', { given: ANOTHER, turned: true, pods: apiserver({ ready: false, revision: 'a2' }) })],
    bothWork,
    'wait kube-apiserver cp2 is changed first: its kube-apiserver is not ready.',
  ],
  [
    'another was changed and has not answered for an hour: it still waits',
    ANOTHER,
    [peer('cp2', { turned: true, unsettledAt: ago('59m'), pods: apiserver({ ready: false }) }), peer('cp3')],
    bothWork,
    'wait kube-apiserver cp2 is changed first: its kube-apiserver is not ready.',
  ],
  [
    'another had its turn for a plan that has changed since, and works: five minutes later it goes',
    ANOTHER,
    [
      peer('cp2', {
        given: { ...OLD, ...{ 'kube-apiserver': 'a3' } },
        turned: true,
        waits: true,
        unsettledAt: ago('6m'),
      }),
      peer('cp3'),
    ],
    bothWork,
    'go kube-apiserver',
  ],
  [
    'another has not answered for a minute by itself: it waits',
    ANOTHER,
    [peer('cp2', { unsettledAt: ago('1m'), pods: lost }), peer('cp3')],
    bothWork,
    'wait kube-apiserver cp2 is changed first: its kube-apiserver is not ready.',
  ],
  [
    'another has not answered for five minutes by itself, and the third works: it goes',
    ANOTHER,
    [peer('cp2', { unsettledAt: ago('5m'), pods: lost }), peer('cp3')],
    bothWork,
    'go kube-apiserver',
  ],
  [
    'the only other one has not answered for five minutes: the last apiserver stays',
    ANOTHER,
    [peer('cp2', { unsettledAt: ago('5m'), pods: lost })],
    bothWork,
    'wait kube-apiserver Without cp2 and cp1 too few instances of kube-apiserver would be left.',
  ],
  [
    'another is switched off: its apiserver goes',
    ANOTHER,
    [peer('cp2', { at: ago('1m') }), peer('cp3')],
    bothWork,
    'go kube-apiserver',
  ],
  [
    'another is switched off: its etcd stays, since the quorum depends on it',
    OTHER_ETCD,
    [peer('cp2', { at: ago('1m') }), peer('cp3')],
    bothWork,
    'wait etcd Without cp2 and cp1 too few instances of etcd would be left.',
  ],
  [
    'one of five is switched off: etcd goes',
    OTHER_ETCD,
    [peer('cp2', { at: ago('1m') }), peer('cp3'), peer('cp4'), peer('cp5')],
    bothWork,
    'go etcd',
  ],
  [
    'it is alone: nothing can be kept, so it goes',
    { ...ANOTHER, ...OTHER_ETCD },
    [],
    bothWork,
    'go etcd+kube-apiserver',
  ],
  [
    'etcd is elsewhere: machines without it do not count for its quorum',
    ANOTHER,
    [peer('e1', { has: ['etcd'], at: ago('1m') }), peer('cp2', { has: ['kube-apiserver'] })],
    { 'kube-apiserver': works },
    'go kube-apiserver',
  ],
  [
    'nothing runs here yet: it goes, whatever the others do',
    { ...ANOTHER, ...OTHER_ETCD },
    [peer('cp2', { pods: {} })],
    {},
    'go -',
  ],
  [
    'its own does not run: it goes',
    ANOTHER,
    [peer('cp2', { turned: true, pods: lost })],
    { etcd: member },
    'go -',
  ],
  [
    'its own has not answered for a moment: perhaps etcd chose a leader, so it waits like one that works',
    ANOTHER,
    [peer('cp2', { turned: true, pods: lost }), peer('cp3')],
    lost,
    'wait kube-apiserver cp2 is changed first: its kube-apiserver is not ready.',
  ],
  [
    'its own has not answered for a while: it may be mended although another is not back',
    ANOTHER,
    [peer('cp2', { turned: true, pods: lost }), peer('cp3')],
    apiserver({ ready: false, lostAt: ago('30s') }),
    'go -',
  ],
  [
    'it cannot tell what its etcd was started with: that is not waited for',
    OTHER_ETCD,
    [peer('cp2', { turned: true, pods: lost })],
    { etcd: { ready: true }, 'kube-apiserver': works },
    'go -',
  ],
] as const)('%s', ([, wanted, peers, pods, expected]) => {
  expect(told(wanted, peers, pods)).toBe(expected);
});

const WORKER: Partial<Peer> = {
  has: ['kubelet'],
  pods: { kubelet: { ready: true, revision: 'k1' } },
  given: {},
};
const workers = (count: number, away = 0): readonly Peer[] =>
  Array.from({ length: count }, (_, n) =>
    peer(`w${n + 2}`, {
      ...WORKER,
      given: { kubelet: n < away ? 'k2' : 'k1' },
      turned: n < away,
    }),
  );
const worker = (peers: readonly Peer[]): string => {
  const pods: Pods = { kubelet: { ready: true, revision: 'k1' } };
  const turn = turnOf({ name: 'w1', wanted: { kubelet: 'k2' }, pods }, peers, {
    now: NOW,
  });
  return turn.do === 'go' ? 'go' : turn.text;
};

test.for([
  ['no other changes', [...TWO, ...workers(3)], 'go'],
  [
    'one of few is not back',
    [...TWO, ...workers(3, 1)],
    'w2 is changed first: its kubelet was not restarted yet.',
  ],
  ['one of twenty is not back', [...TWO, ...workers(19, 1)], 'go'],
  [
    'two of twenty are not back',
    [...TWO, ...workers(19, 2)],
    'w2 is changed first: its kubelet was not restarted yet.',
  ],
  [
    'a control plane is not back',
    [peer('cp2', { turned: true, pods: lost }), ...workers(19)],
    'cp2 is changed first: its kube-apiserver is not ready.',
  ],
] as const)('the kubelet of a worker, when %s: %s', ([, peers, expected]) => {
  expect(worker(peers)).toBe(expected);
});

test('a control plane never waits for a worker', () => {
  expect(told(ANOTHER, [...TWO, ...workers(2, 2)])).toBe('go kube-apiserver');
});

const unheard = (name: string, changes: Partial<Peer> = {}): Peer => {
  const { at: _, ...rest } = peer(name, { pods: {}, given: {}, ...changes });
  return rest;
};

test('a server that has just started gives a turn as soon as the others answer it', () => {
  const dead = unheard('cp3', { answers: [] });
  expect(told({ ...ANOTHER, ...OTHER_ETCD }, [unheard('cp2'), unheard('cp3')])).toBe(
    'go etcd+kube-apiserver',
  );
  expect(told(OTHER_ETCD, [unheard('cp2'), dead])).toBe(
    'wait etcd Without cp3 and cp1 too few instances of etcd would be left. The boot host has asked now, and the etcd of cp3 does not answer.',
  );
  // What the server before this one allowed is read from the store.
  const turned = peer('cp3', { pods: {}, turned: true, unsettledAt: ago('1s') });
  expect(told(ANOTHER, [unheard('cp2'), turned])).toBe(
    'wait kube-apiserver cp3 is changed first: its etcd is not ready.',
  );
});

const silent = (changes: Partial<Peer> = {}): Peer =>
  peer('cp3', { answers: [], silentAt: ago('3s'), ...changes });
const CP3_SILENT =
  'The boot host has asked now, and the kube-apiserver of cp3 does not answer. It is waited for up to five minutes: power it on, or leave it out.';

test.for([
  [
    'nobody was asked: the others are asked',
    ANOTHER,
    [peer('cp2', { answers: undefined }), peer('cp3')],
    true,
  ],
  [
    'the last reports of all are good, and one has just lost its power',
    ANOTHER,
    [peer('cp2'), silent()],
    CP3_SILENT,
  ],
  [
    'that one is to be left out, and another answers',
    ANOTHER,
    [peer('cp2'), silent({ leftOut: true })],
    'go',
  ],
  ['it has not answered for five minutes', ANOTHER, [peer('cp2'), silent({ silentAt: ago('5m') })], 'go'],
  [
    'the boot host reaches nobody',
    ANOTHER,
    [peer('cp2', { answers: [] }), silent({ leftOut: true })],
    'Without cp2, cp3 and cp1 too few instances of kube-apiserver would be left. The boot host has asked now, and the kube-apiserver of cp2, cp3 does not answer.',
  ],
  [
    'one member of five has just lost its power, and four others are a majority without this one',
    OTHER_ETCD,
    [peer('cp2'), silent(), peer('cp4'), peer('cp5')],
    'go',
  ],
  [
    'two members of five do not answer, whatever their reports say and whoever is left out',
    OTHER_ETCD,
    [peer('cp2'), silent(), peer('cp4', { answers: ['kube-apiserver'], leftOut: true }), peer('cp5')],
    'Without cp3, cp4 and cp1 too few instances of etcd would be left. The boot host has asked now, and the etcd of cp3, cp4 does not answer.',
  ],
  ['a worker restarts its kubelet', { kubelet: 'k2' }, [peer('cp2', { answers: undefined }), silent()], 'go'],
] as const)('before a machine goes down the others are asked: %s', ([, wanted, peers, expected]) => {
  const pods: Pods = { ...bothWork, kubelet: { ready: true, revision: 'k1' } };
  const turn = turnOf({ name: 'cp1', wanted: { ...OLD, ...wanted }, pods }, peers as readonly Peer[], {
    now: NOW,
  });
  expect(turn.do === 'go' ? 'go' : (turn.asks ?? turn.text)).toBe(expected);
});

/** Three control planes with what runs on each; kubelet acts with a delay. */
class World {
  readonly clock = new ManualClock(0 as Millis);
  readonly events: NewEvent[] = [];
  readonly cluster: ResolvedCluster = resolved();
  readonly machines = this.cluster.machines.slice(0, 3).map((machine) => ({
    machine,
    running: 'a1',
    manifest: 'a1',
    /** Ticks until kubelet acts, and until a started process answers. */
    looks: 0,
    starts: 0,
    blinks: 0,
    off: false,
  }));
  readonly turns = new PlayedTurns();
  rollouts = this.#open();
  wanted = 'a1';
  /** A revision with which a started API server never answers. */
  broken = '';

  #open() {
    return openRollouts({
      ...QUIET_ROLLOUTS,
      clock: this.clock,
      events: { record: (event) => this.events.push(event) },
      askNow: async () => ({
        at: this.clock.monotonic(),
        etcd: new Set(this.#named(({ off }) => !off)),
        'kube-apiserver': new Set(this.#named((one) => this.answers(this.machines.indexOf(one)))),
      }),
      givenTurns: this.turns.opened(),
    });
  }

  #named(which: (one: (typeof this.machines)[number]) => boolean): readonly string[] {
    return this.machines.filter(which).map(({ machine }) => machine.name);
  }

  restartServer(): void {
    this.rollouts = this.#open();
  }

  answers(n: number): boolean {
    const one = this.machines[n]!;
    return !one.off && one.starts === 0 && one.running !== this.broken;
  }

  get answering(): number {
    return this.machines.filter((_, n) => this.answers(n)).length;
  }

  /** One second: kubelets act, then these machines ask. */
  async tick(asking: readonly number[], kubeletTakes = 3, startTakes = 5): Promise<void> {
    this.clock.advance(duration('1s'));
    for (const one of this.machines) {
      if (one.starts > 0) one.starts--;
      if (one.blinks > 0) one.blinks--;
      if (one.running === one.manifest) continue;
      if (one.looks > 0) one.looks--;
      else {
        one.running = one.manifest;
        one.starts = startTakes;
        // An API server stops answering for a moment when its etcd restarts.
        for (const other of this.machines) other.blinks = 2;
      }
    }
    for (const n of asking) await this.ask(n, kubeletTakes);
  }

  async ask(n: number, kubeletTakes = 0): Promise<RestartDecision | undefined> {
    const one = this.machines[n]!;
    if (one.off) return undefined;
    const ready = this.answers(n) && one.blinks === 0;
    const facts = {
      etcd: { wal: 'present', health: 'serving', revision: 'e1' },
      apiserver: { health: ready ? 'ready' : 'alive', revision: one.running },
    } as unknown as AgentFacts;
    const asked = await decided(this.rollouts, this.cluster, one.machine, facts, {
      etcd: 'e1',
      'kube-apiserver': this.wanted,
    });
    if (asked.turn.do === 'go' && one.manifest !== this.wanted) {
      one.manifest = this.wanted;
      one.looks = kubeletTakes;
    }
    return asked;
  }

  /** All machines are heard. */
  async settle(): Promise<void> {
    for (let n = 0; n < 5; n++) await this.tick([0, 1, 2]);
  }
}

test('a change reaches three control planes one after the other, and two of them always answer', async () => {
  const world = new World();
  await world.settle();
  world.wanted = 'a2';
  let fewest = 3;
  for (let n = 0; n < 60; n++) {
    await world.tick([n % 3]);
    fewest = Math.min(fewest, world.answering);
  }
  expect(world.machines.map(({ running }) => running)).toEqual(['a2', 'a2', 'a2']);
  expect(fewest).toBe(2);
  const turns = world.events.filter(({ kind }) => kind === 'cluster.rollout');
  expect(turns.map(({ subject, reason }) => `${subject} ${reason?.code}`).sort()).toEqual([
    'cp1 turn',
    'cp2 turn',
    'cp3 turn',
  ]);
});

test('a broken change stops at the first machine, is reported once after five minutes, and can be repaired', async () => {
  const world = new World();
  await world.settle();
  world.wanted = 'a2';
  world.broken = 'a2';
  for (let n = 0; n < 900; n++) await world.tick([0, 1, 2]);
  expect(world.answering).toBe(2);
  const stalled = world.events.filter(({ reason }) => reason?.code === 'stalled');
  expect(stalled.map(({ subject }) => subject).sort()).toEqual(['cp2', 'cp3']);
  expect(stalled[0]?.reason?.text).toContain('cp1 is changed first: its kube-apiserver is not ready.');
  world.wanted = 'a3';
  for (let n = 0; n < 120; n++) await world.tick([0, 1, 2]);
  expect(world.machines.map(({ running }) => running)).toEqual(['a3', 'a3', 'a3']);
});

test('a machine that is switched off during its turn blocks the others for five minutes', async () => {
  const world = new World();
  await world.settle();
  world.wanted = 'a2';
  await world.tick([0]);
  world.machines[0]!.off = true;
  for (let n = 0; n < 120; n++) await world.tick([1, 2]);
  expect(world.machines.slice(1).map(({ running }) => running)).toEqual(['a1', 'a1']);
  for (let n = 0; n < 300; n++) await world.tick([1, 2]);
  expect(world.machines.map(({ running }) => running)).toEqual(['a2', 'a2', 'a2']);
});

test('a machine may lose its etcd from its turn until it shows that it has restarted it', async () => {
  const clock = new ManualClock(0 as Millis);
  const cluster = resolved();
  const [cp1, cp2, cp3] = cluster.machines;
  const turns = new PlayedTurns();
  let losing = ['cp3'];
  const open = () =>
    openRollouts({
      ...QUIET_ROLLOUTS,
      clock,
      events: { record: () => undefined },
      losing: () => losing,
      askNow: asked(clock),
      givenTurns: turns.opened(),
    });
  const rollouts = open();
  const heard = (of: typeof rollouts, machine: typeof cp1, runs: string, etcd: string) => {
    const facts = {
      etcd: { wal: 'present', health: 'serving', revision: runs },
      apiserver: { health: 'ready', revision: 'a1' },
    } as unknown as AgentFacts;
    return decided(of, cluster, machine!, facts, { etcd, 'kube-apiserver': 'a1' });
  };
  for (const machine of [cp1, cp2, cp3]) await heard(rollouts, machine, 'e1', 'e1');
  // Etcd takes cp3 out in this moment, although it still answers.
  const { turn } = await heard(rollouts, cp1, 'e1', 'e2');
  expect(turn.do === 'wait' && turn.text).toContain('Without cp3 and cp1 too few instances of etcd');
  expect(rollouts.goingDown(cluster.name)).toEqual([]);
  losing = [];
  expect((await heard(rollouts, cp1, 'e1', 'e2')).turn.do).toBe('go');
  expect(rollouts.goingDown(cluster.name)).toEqual(['cp1']);
  expect(open().goingDown(cluster.name)).toEqual(['cp1']);
  await heard(rollouts, cp1, 'e2', 'e2');
  expect(rollouts.goingDown(cluster.name)).toEqual([]);
});

test('a member that is leaving counts until etcd has removed it, although no document names it', async () => {
  for (const [left, expected] of [
    [true, 'Without cp3 and cp1 too few instances of etcd would be left.'],
    [false, 'go'],
  ] as const) {
    const clock = new ManualClock(0 as Millis);
    const whole = resolved();
    const [cp1, cp2, cp3] = whole.machines;
    const cluster = { ...whole, machines: [cp1!, cp2!] };
    const asked: string[] = [];
    const rollouts = openRollouts({
      ...QUIET_ROLLOUTS,
      clock,
      events: { record: () => undefined },
      leaving: () => (left ? [{ name: 'cp3', address: cp3!.addresses[0]! }] : []),
      // cp3 is removed because it is dead.
      askNow: async ({ machines }) => {
        asked.push(...machines.map(({ name }) => name));
        const names = new Set(['cp1', 'cp2']);
        return { at: clock.monotonic(), etcd: names, 'kube-apiserver': names };
      },
      givenTurns: new PlayedTurns().opened(),
    });
    const heard = (machine: typeof cp1, etcd: string) => {
      const facts = {
        etcd: { wal: 'present', health: 'serving', revision: 'e1' },
        apiserver: { health: 'ready', revision: 'a1' },
      } as unknown as AgentFacts;
      return decided(rollouts, cluster, machine!, facts, { etcd, 'kube-apiserver': 'a1' });
    };
    await heard(cp1, 'e1');
    await heard(cp2, 'e1');
    const { turn } = await heard(cp1, 'e2');
    expect(asked.includes('cp3')).toBe(left);
    expect(turn.do === 'wait' ? turn.text : 'go').toContain(expected);
  }
});

test('only a machine that has its turn or waits for it polls again soon', async () => {
  const world = new World();
  await world.settle();
  world.wanted = 'a2';
  expect((await world.ask(0, 3))?.soon).toBe(true);
  expect((await world.ask(1))?.soon).toBe(true);
  for (let n = 0; n < 60; n++) await world.tick([0, 1, 2]);
  expect(await Promise.all([0, 1, 2].map(async (one) => (await world.ask(one))?.soon))).toEqual([
    false,
    false,
    false,
  ]);
});

test('in every order of polls and server restarts two of three answer all the time, and all are changed', async () => {
  const step = fc.record({
    asks: fc.subarray([0, 1, 2]),
    restart: fc.integer({ min: 0, max: 40 }).map((n) => n === 0),
    blink: fc.integer({ min: 0, max: 2 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 150 }),
      fc.integer({ min: 0, max: 20 }),
      fc.integer({ min: 1, max: 40 }),
      async (steps, kubeletTakes, startTakes) => {
        const world = new World();
        await world.settle();
        world.wanted = 'a2';
        for (const { asks, restart, blink } of steps) {
          if (restart) world.restartServer();
          world.machines[blink]!.blinks = 1;
          await world.tick(asks, kubeletTakes, startTakes);
          expect(world.answering).toBeGreaterThanOrEqual(2);
        }
        for (let n = 0; n < 400; n++) {
          await world.tick([n % 3], kubeletTakes, startTakes);
          expect(world.answering).toBeGreaterThanOrEqual(2);
        }
        expect(world.machines.map(({ running }) => running)).toEqual(['a2', 'a2', 'a2']);
      },
    ),
    { numRuns: casesOf(50) },
  );
});
