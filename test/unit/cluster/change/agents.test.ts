/** Which machine may take a new agent, under any order of polls, failures, restarts and orders. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bundleOf } from '../../../../src/agent/scripts/bundle.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { type ClusterAgents, createBuilds } from '../../../../src/cluster/change/agents/builds.ts';
import { agentTurn, type MachineAgent, type Wanted } from '../../../../src/cluster/change/agents/decide.ts';
import { agentUpgrade } from '../../../../src/cluster/change/agents/kind.ts';
import { type ChangeOrders, createChangeOrders } from '../../../../src/cluster/change/change-orders.ts';
import { type Changes, openChanges } from '../../../../src/cluster/change/changes.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import { judgeAgents } from '../../../../src/cluster/health/judge-agents.ts';
import type { ResolvedClusters } from '../../../../src/cluster/resolve/resolved-clusters.ts';
import { createEventLog } from '../../../../src/events/log.ts';
import type { Roster } from '../../../../src/machines/roster.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { QUIET_CHANGES } from '../quiet.ts';
import { casesOf } from './cases.ts';

const OLD = 'a'.repeat(64);
const NEW = bundleOf({ 'muster-agent.sh': 'echo new\n' });
const WANTED: Wanted = { digest: NEW.digest, attempt: 1, paused: false };
const machine = (name: string, more: Partial<MachineAgent> = {}): MachineAgent => ({
  name,
  carries: name.startsWith('cp'),
  build: OLD,
  ...more,
});
const refused = (attempt = 1) => ({
  refused: { digest: NEW.digest, attempt, text: 'It did not report.' },
});

test('a control plane is chosen first, and all others wait until it reports with the new agent', () => {
  const [cp1, cp2, w1] = ['cp1', 'cp2', 'w1'].map((name) => machine(name)) as [
    MachineAgent,
    MachineAgent,
    MachineAgent,
  ];
  expect(agentTurn(w1, [cp1, cp2], WANTED).state).toBe('waits');
  expect(agentTurn(cp1, [cp2, w1], WANTED)).toMatchObject({ state: 'taking', chosen: true });
  const begun = { ...WANTED, first: 'cp1' };
  expect(agentTurn(cp1, [cp2, w1], begun)).toMatchObject({ state: 'taking', chosen: false });
  expect(agentTurn(cp2, [cp1, w1], begun)).toMatchObject({
    state: 'waits',
    text: expect.stringMatching(/ It is cp1\.$/),
  });
  const done = machine('cp1', { build: NEW.digest });
  for (const one of [cp2, w1]) expect(agentTurn(one, [done], begun).state).toBe('taking');
  expect(agentTurn(done, [cp2, w1], begun).state).toBe('current');
});

test('no running machine takes an agent whose release is not signed, and each says why', () => {
  const unsigned = { ...WANTED, unsigned: 'There is no signature.' };
  expect(agentTurn(machine('cp1'), [], unsigned)).toEqual({
    state: 'unsigned',
    text: 'Its release is not signed with the key of `--release-key`. There is no signature.',
  });
  expect(agentTurn(machine('cp1', { build: NEW.digest }), [], unsigned).state).toBe('current');
});

test('a machine that did not keep the agent stops the others, until another attempt', () => {
  const begun = { ...WANTED, first: 'cp1' };
  const cp1 = machine('cp1', refused());
  expect(agentTurn(cp1, [machine('cp2')], begun)).toMatchObject({
    state: 'refused',
    text: expect.stringContaining('It did not report.'),
  });
  expect(agentTurn(machine('cp2'), [cp1], begun)).toMatchObject({ state: 'stopped' });
  expect(agentTurn(machine('cp2'), [cp1], { ...WANTED, attempt: 2 }).state).toBe('taking');
});

test('one worker cannot keep a fix from all others; a tenth of them, at least two, can', () => {
  const begun = { ...WANTED, first: 'cp1' };
  const done = machine('cp1', { build: NEW.digest });
  const workers = (count: number, refusing: number) =>
    Array.from({ length: count }, (_, n) => machine(`w${n}`, n < refusing ? refused() : {}));
  const next = (count: number, refusing: number) =>
    agentTurn(machine('cp2'), [done, ...workers(count, refusing)], begun).state;
  expect([next(3, 1), next(3, 2), next(50, 4), next(50, 5)]).toEqual([
    'taking',
    'stopped',
    'taking',
    'stopped',
  ]);
});

test('an agent without a digest waits for its next boot, and a first machine that left is replaced', () => {
  const { build: _, ...old } = machine('cp1');
  expect(agentTurn(old, [], WANTED).state).toBe('at-boot');
  expect(agentTurn(machine('cp2'), [], { ...WANTED, first: 'cp1' })).toMatchObject({ chosen: true });
  expect(agentTurn(machine('cp2'), [], { ...WANTED, paused: true }).state).toBe('paused');
});

class JumpingClock extends ManualClock {
  jumped = 0;

  override now(): Millis {
    return (super.now() + this.jumped) as Millis;
  }
}

const SCOPE = 'blue.agents';
const NAMES = ['cp1', 'cp2', 'cp3', 'w1', 'w2'];

/** Three control planes and two workers, whose last reports the test changes. */
class World {
  readonly store = openMemoryStore();
  readonly clock = new JumpingClock();
  readonly events = createEventLog({
    metrics: createMetrics(),
    clock: this.clock,
    log: silentLog,
    perSubject: 100,
    subjects: 10,
  });
  readonly agents = new Map<string, { build?: string; refused?: object }>(
    NAMES.map((name) => [name, { build: OLD }]),
  );
  /** Machines that the cluster's document does not name at present. */
  readonly out = new Set<string>();
  /** The documents of the cluster have a fault. */
  incomplete = false;
  builds!: ClusterAgents;
  changes!: Changes;
  orders!: ChangeOrders;

  /** The cluster as its documents describe it now. */
  #resolution(): { readonly resolved?: object } {
    if (this.incomplete) return {};
    const named = NAMES.filter((name) => !this.out.has(name));
    const machines = named.map((name) => ({
      name,
      roles: [name.startsWith('cp') ? 'control-plane' : 'worker'],
    }));
    return { resolved: { name: 'blue', machines } };
  }

  async open(): Promise<this> {
    const clusters = {
      get: (name: string) => (name === 'blue' ? this.#resolution() : undefined),
      clusterOf: (name: string) =>
        NAMES.includes(name) && !this.out.has(name) ? this.#resolution() : undefined,
    } as unknown as ResolvedClusters;
    const roster = { get: (name: string) => ({ status: { agent: this.agents.get(name) } }) };
    const world = this;
    this.builds = createBuilds({
      roster: roster as unknown as Roster,
      clusters,
      bundle: NEW,
      unsigned: undefined,
      get changes() {
        return world.changes;
      },
    });
    this.changes = await openChanges({
      ...{ store: this.store, clock: this.clock, log: silentLog, events: this.events, clusters },
      ...QUIET_CHANGES,
      kinds: [anyKind(agentUpgrade(this.builds))],
      settled: () => undefined,
    });
    this.orders = createChangeOrders(this.changes);
    return this;
  }

  /** An order of the change that is under way; refused when there is none. */
  async given(order: 'pause' | 'resume' | 'rollBack'): Promise<boolean> {
    return this.orders[order](SCOPE, { by: 'anna' }).then(
      () => true,
      () => false,
    );
  }
}

test('under any order of polls, failures, restarts and orders, one control plane goes first and a failure stops the rest', async () => {
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ do: fc.constant('poll'), who: fc.constantFrom(...NAMES) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('proves'), who: fc.constantFrom(...NAMES) }) },
    // A machine without power does not poll; one that is left out of the document does.
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constantFrom('off', 'on', 'leave out', 'put back'),
        who: fc.constantFrom(...NAMES),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('fails'), who: fc.constantFrom(...NAMES) }) },
    fc.record({
      do: fc.constantFrom(
        'restart',
        'look',
        'retry',
        'pause',
        'resume',
        'rollBack',
        'clock',
        'fault',
        'mend',
      ),
      who: fc.constant(''),
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const world = await new World().open();
      let attempt = 1;
      let isPaused = false;
      let isBack = false;
      /** Machines that were offered the agent in this attempt and have not answered. */
      const offered = new Map<string, 'in' | 'out'>();
      const failed = new Set<string>();
      const off = new Set<string>();
      const isIn = (name: string) => !world.out.has(name);
      const runsNew = (name: string) => world.agents.get(name)!.build === NEW.digest;
      /** A control plane has run it in this cluster, which it may have left since. */
      let proven = false;
      const proves = () => NAMES.some((name) => name.startsWith('cp') && isIn(name) && runsNew(name));
      for (const { do: what, who } of steps) {
        proven ||= proves();
        if (what === 'restart') await world.open();
        else if (what === 'clock') world.clock.jumped -= duration('400d');
        else if (what === 'fault' || what === 'mend') world.incomplete = what === 'fault';
        else if (what === 'leave out') {
          world.out.add(who);
          if (offered.has(who)) offered.set(who, 'out');
        } else if (what === 'put back') world.out.delete(who);
        else if (what === 'off') off.add(who);
        else if (what === 'on') off.delete(who);
        else if (off.has(who)) continue;
        else if (what === 'look') await world.changes.look(SCOPE);
        else if (what === 'pause' || what === 'resume' || what === 'rollBack') {
          const isGiven = await world.given(what);
          if (what === 'rollBack') isBack ||= isGiven;
          else if (isGiven) isPaused = what === 'pause';
        } else if (what === 'retry') {
          if (world.changes.record(SCOPE) !== undefined) attempt += 1;
          await world.orders.begin(SCOPE, { kind: 'agent-upgrade' }, 'anna');
          isPaused = false;
          isBack = false;
          failed.clear();
          offered.clear();
        } else if (what === 'poll') {
          const offer = await world.builds.offer(who);
          if (offer === undefined) continue;
          if (!isIn(who)) {
            // It is a machine of no cluster.
            expect(offer).toBe(`${NEW.digest}.1`);
            offered.set(who, 'out');
            continue;
          }
          expect(world.incomplete).toBe(false);
          expect(offer).toBe(`${NEW.digest}.${attempt}`);
          const stopping = [...failed].filter(isIn);
          const isStopped = stopping.length > 1 || stopping.some((name) => name.startsWith('cp'));
          expect(isPaused || isBack || isStopped).toBe(false);
          offered.set(who, 'in');
          if (!proven) {
            expect(who).toMatch(/^cp/);
            expect([...offered].flatMap(([name, where]) => (where === 'in' ? [name] : []))).toEqual([who]);
          }
        } else if (offered.has(who)) {
          if (what === 'proves') world.agents.set(who, { build: NEW.digest });
          else {
            const why = { digest: NEW.digest, attempt, code: 'silent', text: 'It did not report.' };
            world.agents.set(who, { build: OLD, refused: why });
            failed.add(who);
          }
          offered.delete(who);
        }
      }
    }),
    { numRuns: casesOf(300) },
  );
});

test('with all orders resumed and retried, every machine ends with the new agent', async () => {
  const world = await new World().open();
  for (let round = 0; round < 5; round += 1)
    for (const name of NAMES)
      if ((await world.builds.offer(name)) !== undefined) world.agents.set(name, { build: NEW.digest });
  expect(world.changes.record(SCOPE)!.order).toMatchObject({ attempt: 1, first: 'cp1' });
  await world.changes.look(SCOPE);
  expect(world.orders.show(SCOPE)).toMatchObject({
    steps: [{ sentence: 'cp1 takes the new agent before all others.' }, { text: '5 of 5 machines run it' }],
    ended: { as: 'done' },
  });
  expect(world.builds.show('blue')).toMatchObject({
    wanted: NEW.digest.slice(0, 8),
    machines: NAMES.map((name) => ({ machine: name, state: 'current', runs: NEW.digest.slice(0, 8) })),
  });
  expect(world.events.list({}).map(({ reason }) => reason?.code)).toEqual([
    ...['began', 'turn', 'began', 'done'],
  ]);
  expect(() => world.builds.show('green')).toThrow(expect.objectContaining({ code: 'E_NOT_FOUND' }));
  expect(world.builds.bundle(OLD)).toBeUndefined();
  expect(world.builds.bundle(NEW.digest)).toEqual(NEW.tar);
});

test('no machine takes the agent while the documents of its cluster are incomplete', async () => {
  const world = await new World().open();
  world.incomplete = true;
  for (const name of NAMES) expect(await world.builds.offer(name)).toBeUndefined();
  world.incomplete = false;
  expect(await world.builds.offer('cp2')).toBe(`${NEW.digest}.1`);
  expect(await world.builds.offer('cp1')).toBeUndefined();
});

test('a machine outside of clusters takes the agent when it polls', async () => {
  const world = await new World().open();
  world.agents.set('alone', { build: OLD });
  expect(await world.builds.offer('alone')).toBe(`${NEW.digest}.1`);
});

test('the status of a cluster names machines that run the old agent after a failure, and only those', () => {
  const findings = judgeAgents('blue', {
    wanted: 'bbbbbbbb',
    machines: [
      { machine: 'cp1', runs: 'aaaaaaaa', state: 'refused', text: 'It did not report.' },
      { machine: 'cp2', runs: 'aaaaaaaa', state: 'stopped', text: '' },
    ],
  });
  expect(findings.map(({ ok, subject }) => [ok, subject])).toEqual([
    [false, 'cp1'],
    [true, 'blue'],
  ]);
  expect(findings[1]!.says).toContain('0 of 2');
});
