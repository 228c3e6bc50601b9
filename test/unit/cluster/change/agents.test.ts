/** Which machine may take a new agent, under any order of polls, failures, restarts and orders. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bundleOf } from '../../../../src/agent/bundle.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { type ClusterAgents, openBuilds } from '../../../../src/cluster/change/agents/builds.ts';
import { agentTurn, type MachineAgent, type Wanted } from '../../../../src/cluster/change/agents/decide.ts';
import { judgeAgents } from '../../../../src/cluster/health/judge-agents.ts';
import type { ResolvedClusters } from '../../../../src/cluster/spec/resolved-clusters.ts';
import { createEventLog } from '../../../../src/events/log.ts';
import type { Roster } from '../../../../src/machines/roster.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
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

test('an agent without a digest waits for its next boot, and a first machine that left is replaced', () => {
  const { build: _, ...old } = machine('cp1');
  expect(agentTurn(old, [], WANTED).state).toBe('at-boot');
  expect(agentTurn(machine('cp2'), [], { ...WANTED, first: 'cp1' })).toMatchObject({ chosen: true });
  expect(agentTurn(machine('cp2'), [], { ...WANTED, paused: true }).state).toBe('paused');
});

const NAMES = ['cp1', 'cp2', 'cp3', 'w1', 'w2'];

/** Three control planes and two workers, whose last reports the test changes. */
class World {
  readonly store = openMemoryStore();
  readonly events = createEventLog({
    clock: new ManualClock(),
    log: silentLog,
    perSubject: 100,
    subjects: 10,
  });
  readonly agents = new Map<string, { build?: string; refused?: object }>(
    NAMES.map((name) => [name, { build: OLD }]),
  );
  builds!: ClusterAgents;

  async open(): Promise<this> {
    const resolved = {
      name: 'blue',
      machines: NAMES.map((name) => ({ name, roles: [name.startsWith('cp') ? 'control-plane' : 'worker'] })),
    };
    this.builds = await openBuilds({
      store: this.store,
      events: this.events,
      log: silentLog,
      roster: {
        get: (name: string) => ({ status: { agent: this.agents.get(name) } }),
      } as unknown as Roster,
      clusters: {
        get: (name: string) => (name === 'blue' ? { resolved } : undefined),
        clusterOf: (name: string) => (NAMES.includes(name) ? { resolved } : undefined),
      } as unknown as ResolvedClusters,
      bundle: NEW,
    });
    return this;
  }
}

test('under any order of polls, failures, restarts and orders, one control plane goes first and a failure stops the rest', async () => {
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ do: fc.constant('poll'), who: fc.constantFrom(...NAMES) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('proves'), who: fc.constantFrom(...NAMES) }) },
    // A machine without power, or one that is left out of the cluster for a while, does not poll.
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('off', 'on'), who: fc.constantFrom(...NAMES) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('fails'), who: fc.constantFrom(...NAMES) }) },
    fc.record({ do: fc.constantFrom('restart', 'retry', 'pause', 'resume'), who: fc.constant('') }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const world = await new World().open();
      let attempt = 1;
      let isPaused = false;
      /** Machines that were offered the agent in this attempt and have not answered. */
      let offered = new Set<string>();
      let failed = false;
      const off = new Set<string>();
      const proven = () =>
        NAMES.some((name) => name.startsWith('cp') && world.agents.get(name)!.build === NEW.digest);
      for (const { do: what, who } of steps) {
        if (what === 'restart') await world.open();
        else if (what === 'off') off.add(who);
        else if (what === 'on') off.delete(who);
        else if (off.has(who)) continue;
        else if (what === 'pause' || what === 'resume') {
          await world.builds[what]('blue', 'anna');
          isPaused = what === 'pause';
        } else if (what === 'retry') {
          await world.builds.retry('blue', 'anna');
          attempt += 1;
          failed = false;
          offered = new Set();
        } else if (what === 'poll') {
          const offer = await world.builds.offer(who);
          if (offer === undefined) continue;
          expect(offer).toBe(`${NEW.digest}.${attempt}`);
          expect(isPaused || failed).toBe(false);
          offered.add(who);
          if (!proven()) {
            expect(who).toMatch(/^cp/);
            expect([...offered].filter((name) => world.agents.get(name)!.build === OLD)).toEqual([who]);
          }
        } else if (offered.has(who)) {
          if (what === 'proves') world.agents.set(who, { build: NEW.digest });
          else {
            const why = { digest: NEW.digest, attempt, code: 'silent', text: 'It did not report.' };
            world.agents.set(who, { build: OLD, refused: why });
            failed = true;
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
  expect(world.builds.show('blue')).toMatchObject({
    wanted: NEW.digest.slice(0, 8),
    first: 'cp1',
    machines: NAMES.map((name) => ({ machine: name, state: 'current', runs: NEW.digest.slice(0, 8) })),
  });
  expect(world.events.list({}).map(({ reason }) => reason?.code)).toEqual(['first']);
  expect(() => world.builds.show('green')).toThrow(expect.objectContaining({ code: 'E_NOT_FOUND' }));
  expect(world.builds.bundle(OLD)).toBeUndefined();
  expect(world.builds.bundle(NEW.digest)).toEqual(NEW.tar);
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
