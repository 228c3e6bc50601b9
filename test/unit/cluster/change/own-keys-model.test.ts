/**
 * A model of the rotation of Muster's own keys: keysets, engine and table are the real ones, agents
 * are their CA file and their certificate. At random, agents ask, the boot host restarts or dies
 * between a step's work and its record, and operators take the rotation back.
 */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TicketKeys } from '../../../../src/agent/identity/ticket-keys.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createChangeOrders } from '../../../../src/cluster/change/change-orders.ts';
import { type Changes, openChanges } from '../../../../src/cluster/change/changes.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import { ownRotation } from '../../../../src/cluster/change/own/own-rotation.ts';
import { ownOrders } from '../../../../src/cluster/change/own/prepare.ts';
import { bridgesBehind, type Keyset, primaryOf, trustBundle } from '../../../../src/pki/keyset.ts';
import { MUSTER_SCOPE } from '../../../../src/store/keys.ts';
import { type World, world } from '../../pki/kit.ts';
import { QUIET_CHANGES } from '../quiet.ts';

interface Agent {
  readonly name: string;
  /** PEM of its CA file, and the generations in it. */
  file: string;
  trusts: readonly string[];
  /** The generation of its certificate. */
  has: string;
  /** As the ledger has it: known when it has asked with that certificate. */
  recorded: string;
}

/** Tickets are not rotated here. */
const NO_TICKETS = { before: () => undefined } as unknown as TicketKeys;

class Model {
  readonly #world: World;
  changes!: Changes;
  agents: Agent[] = [];
  /** Dies after a transition, before the change's record says so. */
  dies = false;

  constructor(of: World) {
    this.#world = of;
  }

  keyset = async (): Promise<Keyset> => (await this.#world.pki.keysets(MUSTER_SCOPE)).get('transport-ca')!;

  kind() {
    const { pki } = this.#world;
    const ticketKeys = async () => NO_TICKETS;
    const own = ownRotation({
      ...{ pki, ticketKeys },
      trustChanged: async () => {
        if (!this.dies) return;
        this.dies = false;
        throw new Error('the boot host died');
      },
      agents: () => this.agents.map(({ name, recorded }) => ({ machine: name, generation: recorded })),
    });
    return anyKind({ ...own, ...ownOrders({ pki, ticketKeys }) });
  }

  async start(): Promise<void> {
    await this.changes?.close();
    const { store, clock } = this.#world;
    this.changes = await openChanges({
      ...QUIET_CHANGES,
      ...{ store, clock, log: silentLog, events: { record: () => {} } },
      clusters: { get: () => undefined },
      kinds: [this.kind()],
      settled: () => undefined,
      ownMachines: () => this.agents.map(({ name }) => name),
    } as Parameters<typeof openChanges>[0]);
    this.changes.start();
  }

  /** A machine boots with the configuration of now. */
  async boots(name: string): Promise<void> {
    const keyset = await this.keyset();
    this.agents = this.agents.filter((one) => one.name !== name);
    const { primary } = keyset;
    const trusts = keyset.trusted.map(({ id }) => id);
    this.agents.push({ name, file: trustBundle(keyset), trusts, has: primary, recorded: primary });
  }

  /** An agent asks; it must always succeed. */
  async asks(agent: Agent): Promise<void> {
    const keyset = await this.keyset();
    const signs = primaryOf(keyset);
    const chain = bridgesBehind(keyset, signs);
    const bridges = (signs.bridges ?? []).filter(({ certificate }) => chain.includes(certificate));
    const shown = [signs.id, ...bridges.map(({ issuer }) => issuer)];
    expect(
      shown.some((id) => agent.trusts.includes(id)),
      `${agent.name} believes the listener`,
    ).toBe(true);
    const accepted = [keyset.primary, ...keyset.trusted.map(({ id }) => id)];
    expect(accepted, `the listener believes ${agent.name}`).toContain(agent.has);
    agent.recorded = agent.has;
    const facts = { trust: createHash('sha256').update(agent.file).digest('hex') } as AgentFacts;
    const since = this.#world.clock.monotonic();
    this.changes.heard(MUSTER_SCOPE, agent.name, { facts, since, applied: true, listener: signs.id });
    agent.file = trustBundle(keyset);
    agent.trusts = keyset.trusted.map(({ id }) => id);
    agent.has = keyset.primary;
  }
}

const NAMES = ['m1', 'm2', 'm3'];
const REQUEST = { kind: 'own-rotation', keysets: ['transport-ca'] };
type Act =
  | { readonly do: 'ask' | 'boot'; readonly who: number }
  | { readonly do: 'restart' | 'die' | 'back' };

const acts: fc.Arbitrary<Act> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ do: fc.constant('ask' as const), who: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('boot' as const), who: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'restart' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'die' as const }) },
);

test('whatever happens in whatever order, no agent and listener ever lack a common CA, and the rotation ends with one generation', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(acts, { maxLength: 25 }), fc.option(fc.nat(20)), async (happens, back) => {
      const of = await world();
      const model = new Model(of);
      await model.start();
      for (const name of NAMES) await model.boots(name);
      const old = (await model.keyset()).primary;
      await createChangeOrders(model.changes).begin(MUSTER_SCOPE, REQUEST, 'test');
      const look = () => model.changes.look(MUSTER_SCOPE);
      for (const [n, act] of happens.entries()) {
        of.clock.advance(duration('6s'));
        if (n === back) await model.changes.rollBack(MUSTER_SCOPE, 'test').catch(() => undefined);
        if (act.do === 'ask') await model.asks(model.agents[act.who]!);
        if (act.do === 'boot') await model.boots(NAMES[act.who]!);
        if (act.do === 'restart') await model.start();
        if (act.do === 'die') model.dies = true;
        await look();
      }
      model.dies = false;
      for (let n = 0; n < 20; n++) {
        of.clock.advance(duration('6s'));
        for (const agent of model.agents) await model.asks(agent);
        await look();
      }
      const { ended } = model.changes.record(MUSTER_SCOPE)!;
      const keyset = await model.keyset();
      expect([ended?.as, keyset.trusted.length, keyset.made.length, keyset.distrusted.length]).toEqual([
        expect.stringMatching(/^(done|rolled-back)$/),
        ...[1, 0, 0],
      ]);
      expect(keyset.primary === old).toBe(ended?.as === 'rolled-back');
      await model.changes.close();
    }),
    { numRuns: 8 },
  );
});

test('a machine that is off holds the rotation with the remedy, and can be left out', async () => {
  const of = await world();
  const model = new Model(of);
  await model.start();
  for (const name of NAMES) await model.boots(name);
  const own = createChangeOrders(model.changes);
  expect((await own.preview(MUSTER_SCOPE, REQUEST)).steps.map(({ name }) => name)).toEqual([
    ...['generate', 'trust', 'issue', 'distrust', 'forget'],
  ]);
  await own.begin(MUSTER_SCOPE, REQUEST, 'test');
  for (let n = 0; n < 60; n++) {
    of.clock.advance(duration('6s'));
    for (const agent of model.agents.slice(1)) await model.asks(agent);
    await model.changes.look(MUSTER_SCOPE);
  }
  const { holding } = own.show(MUSTER_SCOPE);
  expect([holding?.code, holding?.remedy]).toEqual([
    'machine-silent',
    'Power it on, or leave it out: `muster change _muster leave-out m1`.',
  ]);
  await own.leaveOut(MUSTER_SCOPE, { without: ['m1'], leave: [] }, { by: 'test' });
  for (let n = 0; n < 20; n++) {
    of.clock.advance(duration('6s'));
    for (const agent of model.agents.slice(1)) await model.asks(agent);
    await model.changes.look(MUSTER_SCOPE);
  }
  expect(own.show(MUSTER_SCOPE).ended?.as).toBe('done');
  await expect(own.begin(MUSTER_SCOPE, { ...REQUEST, keysets: ['ca'] }, 'test')).rejects.toThrow(
    'name the cluster',
  );
  await expect(own.begin(MUSTER_SCOPE, { ...REQUEST, without: ['m9'] }, 'test')).rejects.toThrow(
    'm9 is not a machine',
  );
  await model.changes.close();
});
