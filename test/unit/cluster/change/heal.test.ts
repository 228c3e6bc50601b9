/**
 * Lost machines are replaced by spares: never two at a time, never without a quorum, never when
 * many are silent, never while the power of the lost one is unknown.
 */
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import type { PowerState } from '../../../../src/bmc/bmc.ts';
import { newOrder, type Order } from '../../../../src/bmc/order.ts';
import {
  areMany,
  LOST_CODES,
  type LostFacts,
  moveOf,
  restartedSince,
} from '../../../../src/cluster/change/heal/guard.ts';
import { HEALS } from '../../../../src/cluster/change/heal/order.ts';
import { type Candidate, spareFor, whyUnfit } from '../../../../src/cluster/change/heal/spare.ts';
import { Watch, type WatchDeps } from '../../../../src/cluster/change/heal/watch.ts';
import type { ChangeRecord } from '../../../../src/cluster/change/record.ts';
import type { FoundingStatus } from '../../../../src/cluster/etcd/status.ts';
import type { KubeAnswer } from '../../../../src/cluster/kube.ts';
import { etcdPeerUrl } from '../../../../src/cluster/model/ports.ts';
import type { ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import type { NewEvent } from '../../../../src/events/event.ts';

const MINUTE = duration('1m');
const AFTER = duration('15m');

/** A machine that is lost in every respect. */
const LOST: LostFacts = {
  silentFor: AFTER,
  after: AFTER,
  cluster: { silent: 1, of: 3 },
  host: { silent: 1, of: 3 },
  changing: undefined,
  isOrdered: false,
  quorum: true,
  memberAnswers: false,
  node: 'not-ready',
  answers: false,
  replaced: { count: 0, max: 1 },
  spare: 's1',
  power: 'off',
  restarted: 'no',
};

describe('the decision', () => {
  test('a machine that is off, and silent in every respect, is replaced', () => {
    expect(moveOf(LOST)).toEqual({ do: 'replace', code: 'replaced', spare: 's1' });
  });

  test.each<[Partial<LostFacts>, string]>([
    [{ silentFor: (AFTER - 1) as Millis }, 'wait'],
    [{ cluster: { silent: 2, of: 7 } }, 'refuse many-silent'],
    [{ host: { silent: 3, of: 11 } }, 'refuse many-silent'],
    [{ changing: 'a roll is under way' }, 'refuse changing'],
    [{ isOrdered: true }, 'refuse ordered'],
    [{ quorum: undefined }, 'refuse quorum-unknown'],
    [{ quorum: false }, 'refuse no-quorum'],
    [{ memberAnswers: true }, 'refuse member-answers'],
    [{ node: 'unknown' }, 'refuse node-unknown'],
    [{ node: 'ready' }, 'refuse node-ready'],
    [{ answers: true }, 'refuse answers'],
    [{ replaced: { count: 1, max: 1 } }, 'refuse max'],
    [{ spare: undefined }, 'refuse no-spare'],
    [{ power: 'unknown' }, 'ask by-hand'],
    [{ power: undefined }, 'ask by-hand'],
    [{ power: 'on' }, 'restart restarts'],
    [{ power: 'on', restarted: 'failed' }, 'ask by-hand'],
    [{ power: 'on', restarted: 'yes' }, 'replace replaced'],
    [{ power: 'paused', restarted: 'yes' }, 'replace replaced'],
    [{ cluster: { silent: 2, of: 8 }, host: { silent: 3, of: 12 } }, 'replace replaced'],
    [{ memberAnswers: undefined, node: 'none' }, 'replace replaced'],
  ])('%j: %s', (fact, wanted) => {
    const move = moveOf({ ...LOST, ...fact });
    expect('code' in move ? `${move.do} ${move.code}` : move.do).toBe(wanted);
    if ('code' in move) expect(LOST_CODES[move.code]).toBeTruthy();
  });

  test('whatever the facts: none is replaced without a quorum, among many, in a change, or in doubt', () => {
    const counted = fc
      .record({ silent: fc.nat(20), of: fc.nat(40) })
      .map(({ silent, of }) => ({ silent: Math.min(silent, of), of }));
    const facts: fc.Arbitrary<LostFacts> = fc.record({
      silentFor: fc.constantFrom(0, AFTER - 1, AFTER, 2 * AFTER) as fc.Arbitrary<Millis>,
      after: fc.constant(AFTER),
      cluster: counted,
      host: counted,
      changing: fc.constantFrom(undefined, 'a roll is under way'),
      isOrdered: fc.boolean(),
      quorum: fc.constantFrom(undefined, true, false),
      memberAnswers: fc.constantFrom(undefined, true, false),
      node: fc.constantFrom('ready', 'not-ready', 'none', 'unknown'),
      answers: fc.boolean(),
      replaced: fc.record({ count: fc.nat(3), max: fc.integer({ min: 1, max: 3 }) }),
      spare: fc.constantFrom(undefined, 's1'),
      power: fc.constantFrom<PowerState | undefined>(undefined, 'on', 'off', 'paused', 'unknown'),
      restarted: fc.constantFrom('no', 'yes', 'failed'),
    });
    // Most facts as of a lost machine, so that every rule is the only one against it.
    const nearly = fc
      .tuple(facts, fc.subarray(Object.keys(LOST) as (keyof LostFacts)[], { maxLength: 3 }))
      .map(([other, fields]) => ({
        ...LOST,
        ...Object.fromEntries(fields.map((field) => [field, other[field]])),
      }));
    fc.assert(
      fc.property(fc.oneof(facts, nearly), (seen) => {
        const move = moveOf(seen);
        if (move.do === 'wait') return;
        expect(seen.silentFor).toBeGreaterThanOrEqual(seen.after);
        if (move.do === 'refuse') return;
        expect(areMany(seen.cluster) || areMany(seen.host)).toBe(false);
        expect(seen.changing).toBeUndefined();
        expect(seen.isOrdered).toBe(false);
        expect(seen.quorum).toBe(true);
        expect(seen.memberAnswers).not.toBe(true);
        expect(['not-ready', 'none']).toContain(seen.node);
        expect(seen.answers).toBe(false);
        expect(seen.replaced.count).toBeLessThan(seen.replaced.max);
        expect(seen.spare).toBeDefined();
        if (move.do === 'restart') expect(['on', 'paused']).toContain(seen.power);
        if (move.do === 'replace') {
          const isRestarted = seen.restarted === 'yes' && (seen.power === 'on' || seen.power === 'paused');
          expect(seen.power === 'off' || isRestarted).toBe(true);
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('a restart counts when the BMC carried it out since the silence began', () => {
    const base = newOrder({ id: '', machine: 'm1', want: 'cycle', by: HEALS, at: 100 });
    const end = { proved: false, code: 'post-stuck', text: '', at: 200 } as const;
    expect(restartedSince(undefined, 50)).toBe('no');
    expect(restartedSince({ ...base, begun: 110 }, 50)).toBe('no');
    expect(restartedSince({ ...base, begun: 110, end }, 50)).toBe('yes');
    expect(restartedSince({ ...base, begun: 110, end }, 150)).toBe('no');
    expect(restartedSince({ ...base, end }, 50)).toBe('failed');
    expect(restartedSince({ ...base, want: 'off', begun: 110, end }, 50)).toBe('no');
  });
});

const mac = (n: number): string => `52:54:00:00:00:${String(n).padStart(2, '0')}`;
const candidate = (name: string, n: number, more: Partial<Candidate> = {}): Candidate => ({
  name,
  labels: { role: 'spare' },
  spec: { macs: [mac(n)] },
  isOfApi: true,
  status: { firstSeen: 1 as Millis, seen: { macs: [] } },
  cluster: undefined,
  hasBmc: true,
  ...more,
});
const SPARES = { selector: { labels: { role: 'spare' } } };

describe('the spare', () => {
  const lost = candidate('m1', 1, { labels: {}, cluster: 'blue' });
  test.each<[string, Partial<Candidate>, RegExp]>([
    ['of a cluster', { cluster: 'red' }, /a machine of red/],
    ['taken out', { status: { ...lost.status, life: { state: 'taken-out' } as never } }, /taken-out/],
    ['in quarantine', { status: { ...lost.status, quarantine: {} as never } }, /gives it nothing/],
    ['never seen', { status: { seen: { macs: [] } } }, /never booted/],
    ['of a file', { isOfApi: false }, /s1 belongs to a file/],
    [
      'of another architecture',
      { status: { ...lost.status, seen: { macs: [], arch: 'aarch64' } } },
      /aarch64, and not x86_64/,
    ],
  ])('%s is none', (_, more, why) => {
    const arch = { ...lost, status: { ...lost.status, seen: { macs: [], arch: 'x86_64' as const } } };
    expect(whyUnfit(candidate('s1', 2, more), arch)).toMatch(why);
    expect(spareFor(arch, SPARES, [arch, candidate('s1', 2, more)])).toBeUndefined();
  });

  test('with a BMC comes first, and one without the labels not at all', () => {
    const all = [
      candidate('s0', 3, { labels: {} }),
      candidate('s1', 2, { hasBmc: false }),
      candidate('s2', 4),
    ];
    expect(spareFor(lost, SPARES, all)?.name).toBe('s2');
    expect(spareFor(lost, SPARES, all.slice(0, 2))?.name).toBe('s1');
  });

  test('does not get a name whose document names a disk by its number, unless it names its own', () => {
    const named = { ...lost, spec: { ...lost.spec, dataDisk: { serial: 'D1' } } };
    expect(whyUnfit(candidate('s1', 2), named)).toMatch(/dataDisk by its number/);
    const own = candidate('s1', 2, { spec: { macs: [mac(2)], dataDisk: { serial: 'D2' } } });
    expect(whyUnfit(own, named)).toBeUndefined();
  });
});

/** A rack as it is, and as the boot host sees it. */
class World {
  now = 0;
  /** Machines that run. */
  readonly runs = new Set<string>();
  /** Machines behind a switch of the boot host's network that failed; they serve. */
  readonly cut = new Set<string>();
  /** Machines whose agent alone died. */
  readonly mute = new Set<string>();
  readonly power = new Map<string, PowerState | undefined>();
  readonly last = new Map<string, Order>();
  readonly began: string[] = [];
  readonly cycled: string[] = [];
  readonly said: string[] = [];
  /** The API servers answer. */
  api = true;
  roll = false;
  record: ChangeRecord | undefined;
  spares: Candidate[] = [candidate('s1', 91), candidate('s2', 92)];
  settings = { ...SPARES, max: 1, after: '15m' };
  /** The real state at the moment of each begin. */
  check: (machine: string) => void = () => {};
  watch: Watch;
  readonly names: readonly string[];

  constructor(members: number, workers: number) {
    const named = (prefix: string, count: number) =>
      Array.from({ length: count }, (_, n) => `${prefix}${n + 1}`);
    this.members = named('m', members);
    this.names = [...this.members, ...named('w', workers)];
    for (const name of this.names) {
      this.runs.add(name);
      this.power.set(name, 'on');
    }
    this.watch = this.start();
  }

  readonly members: readonly string[];

  address = (name: string): string => `10.0.0.${this.names.indexOf(name) + 1}`;
  heard = (name: string): boolean => this.runs.has(name) && !this.cut.has(name) && !this.mute.has(name);
  hasQuorum = (without?: string): boolean =>
    this.members.filter((name) => this.runs.has(name) && name !== without).length >
    Math.floor(this.members.length / 2);

  resolved = (): ResolvedCluster =>
    ({
      name: 'blue',
      etcd: { topology: 'stacked' },
      machines: this.names.map((name) => ({
        name,
        addresses: [this.address(name)],
        roles: this.members.includes(name) ? ['control-plane', 'etcd'] : ['worker'],
      })),
    }) as unknown as ResolvedCluster;

  founding = async (): Promise<FoundingStatus> =>
    ({
      cluster: 'blue',
      members: [],
      record: { founded: { at: 0, by: 'm1' }, joined: {} },
      ...(this.hasQuorum() && {
        view: {
          clusterId: 'c',
          members: this.members.map((name) => ({
            id: name,
            name,
            peerUrls: [etcdPeerUrl(this.address(name))],
            learner: false,
            healthy: this.runs.has(name),
          })),
        },
      }),
    }) as unknown as FoundingStatus;

  kube = async (path: string): Promise<KubeAnswer> => {
    if (!this.api) throw new Error('no API server answers');
    const name = path.split('/').at(-1)!;
    const status = this.runs.has(name) ? 'True' : 'Unknown';
    const body = { metadata: { name }, status: { conditions: [{ type: 'Ready', status }] } };
    return { body, text: '', date: 0 };
  };

  /** A server that starts: it knows orders and changes, and nothing else. */
  start(): Watch {
    const clock = {
      now: () => this.now as Millis,
      monotonic: () => this.now as Millis,
      after: () => () => {},
    };
    const deps: WatchDeps = {
      clusters: () => [this.resolved()],
      expected: () => true,
      heard: this.heard,
      waits: () => undefined,
      machines: () => [
        ...this.spares,
        ...this.names.map((name, n) => candidate(name, n + 1, { labels: {}, cluster: 'blue' })),
      ],
      settings: () => this.settings,
      founding: this.founding,
      kubes: () => this.kube,
      power: {
        has: (name) => this.power.get(name) !== undefined,
        last: (name) => this.last.get(name),
        read: (name) => ({ state: this.power.get(name) ?? 'unknown' }),
        look: async (name) => ({ state: this.power.get(name) ?? 'unknown' }),
        give: async ([name], { want, by }) => {
          this.cycled.push(name!);
          const at = this.now;
          const end = { proved: false, code: 'post-stuck', text: '', at } as const;
          this.last.set(name!, {
            ...newOrder({ id: '', machine: name!, want, by, at }),
            begun: at,
            end,
          });
        },
        answers: async (name) => this.runs.has(name) && !this.cut.has(name),
        exchange: async () => {},
      },
      orders: {
        record: () => this.record,
        rollBack: async () => {
          this.record = undefined;
          return {} as never;
        },
        begin: async (cluster, { machine, with: spare }) => {
          if (this.record !== undefined && !this.record.ended) throw new Error('a change is under way');
          this.check(machine as string);
          this.began.push(machine as string);
          const order = { machine, spare, fence: 'bmc', macs: [], at: this.now };
          this.record = {
            cluster,
            id: 'heal-1',
            kind: 'heal',
            order,
            step: 'fence',
            route: 'forward',
          } as never;
          return {} as never;
        },
      },
      holds: () => (this.roll ? { message: 'a roll is under way' } : undefined),
      serves: () => true,
      events: {
        record: ({ subject, reason }: NewEvent) => void this.said.push(`${subject} ${reason?.code}`),
      },
      clock,
      log: silentLog,
    };
    this.watch = new Watch(deps);
    return this.watch;
  }

  async pass(minutes: number): Promise<void> {
    for (let n = 0; n < minutes; n++) {
      this.now += MINUTE;
      await this.watch.round();
    }
  }

  /** The change replaces it, and the replacement runs. */
  finish(): void {
    const { machine, spare } = this.record!.order as { machine: string; spare: string };
    this.record = undefined;
    this.power.set(machine, 'on');
    this.runs.add(machine);
    const life = { state: 'taken-out', by: HEALS, at: 0, text: '' } as never;
    this.spares = this.spares.map((one) =>
      one.name === spare ? { ...one, status: { ...one.status, life } } : one,
    );
  }

  die(name: string, power: PowerState | 'none' = 'off'): void {
    this.runs.delete(name);
    this.power.set(name, power === 'none' ? undefined : power);
  }
}

describe('the watch', () => {
  let world: World;
  beforeEach(() => {
    world = new World(3, 5);
  });

  test('a machine that is off is replaced after the time, and another one only when somebody has looked', async () => {
    world.die('m3');
    await world.pass(15);
    expect(world.began).toEqual([]);
    await world.pass(2);
    expect(world.began).toEqual(['m3']);
    world.finish();
    world.die('w1');
    await world.pass(30);
    expect(world.began).toEqual(['m3']);
    expect(world.watch.lost()).toMatchObject([{ machine: 'w1', code: 'max' }]);
    world.spares = [candidate('s1', 91), candidate('s2', 92)];
    await world.pass(2);
    expect(world.began).toEqual(['m3', 'w1']);
    expect(world.said).toEqual(['m3 replaced', 'w1 max', 'w1 replaced']);
  });

  test('one that is on is switched off and on first, and has as long again to come back', async () => {
    world.die('w2', 'on');
    await world.pass(17);
    expect(world.cycled).toEqual(['w2']);
    await world.pass(13);
    expect(world.began).toEqual([]);
    await world.pass(4);
    expect(world.began).toEqual(['w2']);
    expect(world.cycled).toEqual(['w2']);
  });

  test('one without a BMC waits for a person, who gets the command', async () => {
    world.die('m1', 'none');
    await world.pass(20);
    expect(world.began).toEqual([]);
    expect(world.watch.lost()).toEqual([
      {
        ...{ machine: 'm1', cluster: 'blue', code: 'by-hand', text: LOST_CODES['by-hand'] },
        command: 'muster cluster heal blue m1 --off m1',
      },
    ]);
    expect(world.said).toEqual(['m1 by-hand']);
    world.runs.add('m1');
    await world.pass(1);
    expect(world.watch.lost()).toEqual([]);
  });

  test('a machine that comes back before its place is gone keeps that', async () => {
    world.die('m3');
    await world.pass(17);
    expect(world.record).toBeDefined();
    world.runs.add('m3');
    await world.pass(1);
    expect(world.record).toBeUndefined();
  });

  test('a server that starts waits for the whole time again', async () => {
    world.die('m3');
    await world.pass(14);
    world.start();
    await world.pass(14);
    expect(world.began).toEqual([]);
    await world.pass(3);
    expect(world.began).toEqual(['m3']);
  });

  test('where an agent alone is dead, or a switch, nothing is replaced', async () => {
    world.mute.add('m3');
    await world.pass(40);
    for (const name of world.names) world.cut.add(name);
    await world.pass(40);
    expect([world.began, world.cycled]).toEqual([[], []]);
    expect(world.said).toContain('m3 member-answers');
    expect(world.said).toContain('m3 many-silent');
  });

  test('in whatever order things fail: one at a time, with a quorum, few silent, the power known', async () => {
    const name = fc.constantFrom('m1', 'm2', 'm3', 'w1', 'w2', 'w3', 'w4', 'w5');
    const event = fc.oneof(
      fc.record({ do: fc.constant('die'), name, power: fc.constantFrom('off', 'on', 'unknown', 'none') }),
      fc.record({ do: fc.constantFrom('back', 'cut', 'join', 'mute', 'unmute'), name }),
      fc.record({ do: fc.constantFrom('restart', 'api', 'roll', 'finish', 'look', 'cut-all', 'join-all') }),
      fc.record({ do: fc.constant('pass'), minutes: fc.integer({ min: 1, max: 40 }) }),
    ) as fc.Arbitrary<{ do: string; name: string; power?: PowerState | 'none'; minutes: number }>;
    let replaced = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 14 }), async (events) => {
        const rack = new World(3, 5);
        rack.check = (machine) => {
          replaced++;
          expect(rack.runs.has(machine)).toBe(false);
          expect(rack.record).toBeUndefined();
          expect(rack.roll).toBe(false);
          expect(rack.api).toBe(true);
          expect(rack.hasQuorum(machine)).toBe(true);
          expect(rack.names.filter((one) => !rack.heard(one)).length).toBeLessThanOrEqual(2);
          const power = rack.power.get(machine);
          expect(power === 'off' || (power === 'on' && rack.cycled.includes(machine))).toBe(true);
        };
        const doing: Readonly<Record<string, (of: (typeof events)[number]) => unknown>> = {
          die: (of) => rack.die(of.name, of.power),
          back: (of) => rack.runs.add(of.name),
          cut: (of) => rack.cut.add(of.name),
          join: (of) => rack.cut.delete(of.name),
          mute: (of) => rack.mute.add(of.name),
          unmute: (of) => rack.mute.delete(of.name),
          restart: () => rack.start(),
          api: () => (rack.api = !rack.api),
          roll: () => (rack.roll = !rack.roll),
          finish: () => rack.record && rack.finish(),
          look: () => (rack.spares = [candidate('s1', 91), candidate('s2', 92)]),
          'cut-all': () => rack.names.map((one) => rack.cut.add(one)),
          'join-all': () => rack.cut.clear(),
          pass: ({ minutes }) => rack.pass(minutes),
        };
        for (const one of events) await doing[one.do]!(one);
        await rack.pass(20);
      }),
      { numRuns: 300 },
    );
    expect(replaced).toBeGreaterThan(10);
  });
});
