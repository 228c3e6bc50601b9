/**
 * A modelled cluster whose machines reboot when their plan says so: the real table, engine and kind
 * of change, with a played API server and machines that die, lag and return.
 */
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import type { Clock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { named, newOrder, type Order } from '../../../../src/bmc/order.ts';
import { createFindDown } from '../../../../src/cluster/change/down.ts';
import type { WorkerGroup } from '../../../../src/cluster/change/groups.ts';
import type { Hooks } from '../../../../src/cluster/change/hooks/hooks.ts';
import { type AnyKind, anyKind } from '../../../../src/cluster/change/kind.ts';
import {
  leaveOut,
  type Occasion,
  type Ordered,
  pauseChange,
  resumeChange,
} from '../../../../src/cluster/change/orders.ts';
import type { ChangeRecord } from '../../../../src/cluster/change/record.ts';
import type { RollOrder } from '../../../../src/cluster/change/roll/order.ts';
import { type Roll, type RollDeps, type RollPower, roll } from '../../../../src/cluster/change/roll/roll.ts';
import { openRollouts, type Rollouts } from '../../../../src/cluster/change/rollouts.ts';
import type { MachineSeen } from '../../../../src/cluster/change/step.ts';
import type { LeavingMember } from '../../../../src/cluster/etcd/leaving.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import type { ClusterMachine, ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { resolved } from '../kit.ts';
import { QUIET_ROLLOUTS } from '../quiet.ts';
import { asked, decided, PlayedTurns } from '../turns-kit.ts';
import { NO_HOOKS } from './hooks-kit.ts';
import { NOT_ORDERED } from './not-ordered.ts';

/** Ms between two looks of the boot host. */
export const TICK = 10_000 as Millis;
/** For how long the API shows a node Ready after its machine went down. */
const STILL_READY = 40_000;

export interface Model {
  readonly name: string;
  readonly serves: boolean;
  boots: number;
  image: string;
  /** When its system runs; in the future while it boots. */
  upAt: number;
  /** Never comes back by itself. */
  dead: boolean;
  heardAt: number;
  unschedulable: boolean;
  annotations: Record<string, unknown>;
  /** The boot that its kubelet has reported, and since when the machine is down. */
  nodeBoot: number;
  downSince: number | undefined;
}

export const bootIdOf = ({ name, boots }: Model): string => `${name}-boot-${boots}`;

export class RolledCluster {
  readonly machines: Model[];
  readonly spec: ResolvedCluster;
  now = 120_000;
  /** The image that machines boot. */
  profile = 'b'.repeat(64);
  /** The image that machines boot instead, for example from their boot disks. */
  instead: string | undefined;
  /** Pods that a budget keeps, by node. */
  budget: string | undefined;
  /** Machines whose next boot does not end. */
  readonly broken = new Set<string>();
  record: ChangeRecord<RollOrder>;
  kind!: AnyKind;
  rolling!: Roll;
  rollouts!: Rollouts;
  readonly turns = new PlayedTurns(() => this.now + this.jumped);
  /** The machines that ran when the last one polled. */
  wasUp: ReadonlySet<string> = new Set();
  /** What a jump of the boot host's clock has added. */
  jumped = 0;
  closed: string | undefined;
  /** Members that are leaving etcd, and those that have left it. */
  leaving: () => readonly LeavingMember[] = () => [];
  readonly left = new Set<string>();
  /** Asked before and after turns; those of a server that starts again are set again. */
  hooks: Hooks = NO_HOOKS;
  /** Machines with a BMC, what each BMC does on `cycle`, and the name that ordered it. */
  bmcs = new Map<string, 'helps' | 'starts' | 'silent' | 'unknown'>();
  readonly cycled: string[] = [];
  readonly #orders = new Map<string, Order>();
  readonly power: RollPower = {
    has: (name) => this.bmcs.has(name),
    last: (name) => this.#orders.get(name),
    booted: () => undefined,
    cycle: async (name, by) => {
      this.cycled.push(`${name} by ${by}`);
      const { now } = this.clock;
      const order = newOrder({ id: '', machine: name, want: 'cycle', by, at: now() });
      const proved = { proved: true, code: 'proved', text: '', at: now() } as const;
      switch (this.bmcs.get(name)) {
        case 'helps':
          this.broken.delete(name);
          this.setDead(name, false);
          this.#orders.set(name, { ...order, end: proved });
          break;
        case 'starts':
          this.#orders.set(name, { ...order, end: proved });
          break;
        case 'unknown':
          this.#orders.set(name, named(order, now(), 'bmc-state-unknown'));
          break;
        default:
          this.#orders.set(name, order);
      }
    },
  };
  /** Somebody else ordered something, or an order ended. */
  powers(name: string, order: Order): void {
    this.#orders.set(name, order);
  }
  readonly clock: Clock = {
    now: () => (this.now + this.jumped) as Millis,
    doubt: () => undefined,
    monotonic: () => this.now as Millis,
    after: () => () => undefined,
  };

  /** A cluster whose machines have all reported. */
  static async open(
    servers: number,
    workers: number,
    maxUnavailable: number,
    groups?: WorkerGroup[],
  ): Promise<RolledCluster> {
    const cluster = new RolledCluster(servers, workers, { maxUnavailable, ...(groups && { groups }) });
    for (const { name } of cluster.machines) await cluster.poll(name, 0);
    return cluster;
  }

  private constructor(
    servers: number,
    workers: number,
    limits: Pick<RollOrder, 'maxUnavailable' | 'groups'>,
  ) {
    const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}${n}`);
    const machine = (name: string, serves: boolean): Model => ({
      ...{ name, serves, boots: 0, image: 'a'.repeat(64), upAt: 0, dead: false, heardAt: 0 },
      ...{ unschedulable: false, annotations: {}, nodeBoot: 0, downSince: undefined },
    });
    this.machines = [
      ...names('cp', servers).map((name) => machine(name, true)),
      ...names('w', workers).map((name) => machine(name, false)),
    ];
    this.spec = {
      ...resolved(),
      name: 'blue',
      machines: this.machines.map(({ name, serves }, n) => ({
        name,
        roles: serves ? (['control-plane', 'etcd'] as const) : (['worker'] as const),
        addresses: [`10.0.0.${n + 1}`],
      })),
    };
    this.startServer();
    const order: RollOrder = {
      machines: Object.fromEntries(
        this.machines.map((one) => [one.name, { bootId: bootIdOf(one), image: 'new' }]),
      ),
      images: { new: this.profile },
      servers: names('cp', servers),
      workers: names('w', workers),
      ...(workers > 0 && { canary: 'w0' }),
      ...limits,
    };
    const change = { cluster: 'blue', kind: 'roll', order, pauseBefore: [], without: [] };
    this.record = this.kind.begin({ ...change, id: 'roll-1' }, undefined, this.#occasion())
      .record as ChangeRecord<RollOrder>;
  }

  /** The boot host starts, for the first time or after it was killed. */
  startServer(): void {
    const { clock } = this;
    const hooks: Hooks = {
      gate: (...of) => this.hooks.gate(...of),
      ask: (...of) => this.hooks.ask(...of),
      forget: (...of) => this.hooks.forget(...of),
      paused: (...of) => this.hooks.paused(...of),
    };
    this.rollouts = openRollouts({
      ...QUIET_ROLLOUTS,
      clock,
      events: { record: () => undefined },
      askNow: async (resolved) => {
        const answers = await asked(clock, (name) => this.isUp(this.of(name)))(resolved);
        return { ...answers, etcd: new Set([...answers.etcd].filter((name) => !this.left.has(name))) };
      },
      leaving: () => this.leaving(),
      losing: () => this.leaving().flatMap(({ name, due }) => (due ? [name] : [])),
      givenTurns: this.turns.opened(),
      leftOut: () => this.record.without,
    });
    const deps: RollDeps = {
      clock,
      power: this.power,
      clusters: { get: () => ({ resolved: this.spec, faults: [] }) as never },
      kubes: (_, address) => this.kubeOf(address),
      bootId: (name) => this.facts(this.of(name)).bootId,
      wants: () => ({ name: 'new', root: this.profile }),
      rollouts: this.rollouts,
      down: createFindDown({
        clusters: { get: () => ({ resolved: this.spec, faults: [] }) as never },
        kubes: (_, address) => this.kubeOf(address),
        rebooting: this.rollouts.rebooting,
        clock,
      }),
      closed: (_, now) => (now ? undefined : this.closed),
      hooks,
      record: () => (this.record.ended ? undefined : this.record),
    };
    this.rolling = roll(deps);
    this.kind = anyKind({ ...this.rolling, ...NOT_ORDERED }, hooks);
  }

  #occasion(): Occasion {
    return { by: 'test', now: this.now + this.jumped };
  }

  of(name: string): Model {
    return this.machines.find((one) => one.name === name)!;
  }

  #specified(name: string): ClusterMachine {
    return this.spec.machines.find((one) => one.name === name)!;
  }

  isUp = (machine: Model): boolean => !machine.dead && machine.upAt <= this.now;

  down(): readonly Model[] {
    return this.machines.filter((one) => !this.isUp(one));
  }

  /** What the machine reported last; a machine that is down has reported nothing newer. */
  readonly #facts = new Map<string, AgentFacts>();
  facts(machine: Model): AgentFacts {
    return this.#facts.get(machine.name) ?? this.#report(machine);
  }
  #report(machine: Model): AgentFacts {
    return {
      agent: '1',
      bootId: bootIdOf(machine),
      image: machine.image,
      etcd: { wal: 'present', health: 'serving', revision: 'e' },
      apiserver: { health: 'ready', revision: 'a' },
    } as unknown as AgentFacts;
  }

  /** The machine polls, and does what its plan says. Returns whether it reboots. */
  async poll(name: string, bootTakes: number): Promise<boolean> {
    const machine = this.of(name);
    if (!this.isUp(machine)) return false;
    machine.downSince = undefined;
    machine.nodeBoot = machine.boots;
    machine.heardAt = this.now;
    const facts = this.#report(machine);
    this.#facts.set(name, facts);
    const specified = this.#specified(name);
    const line = await this.rolling.line(this.spec, specified, facts);
    const wanted = machine.serves ? { etcd: 'e', 'kube-apiserver': 'a' } : {};
    await decided(this.rollouts, this.spec, specified, facts, wanted);
    if (line?.do !== 'reboot' || line.id !== facts.bootId) return false;
    machine.boots++;
    machine.image = this.instead ?? this.profile;
    machine.upAt = this.now + bootTakes;
    machine.downSince = this.now;
    machine.dead = this.broken.has(name);
    return true;
  }

  /** Somebody pulls the plug, or repairs the machine. */
  setDead(name: string, dead: boolean): void {
    const machine = this.of(name);
    if (machine.dead === dead) return;
    machine.dead = dead;
    if (dead) machine.downSince ??= this.now;
    else {
      machine.boots++;
      machine.image = this.instead ?? this.profile;
      machine.upAt = this.now;
    }
  }

  operate(what: 'pause' | 'resume' | 'without' | 'cancel', name = ''): void {
    if (this.record.ended) return;
    const occasion = this.#occasion();
    const orders = {
      pause: () => pauseChange(this.record, occasion),
      resume: () => resumeChange(this.record, occasion),
      without: () => leaveOut(this.record, [name], occasion),
      cancel: () => this.kind.rollBack(this.record, occasion) as Ordered<RollOrder>,
    };
    if (what === 'cancel' && this.kind.whyNotBack(this.record) !== undefined) return;
    this.record = orders[what]().record;
  }

  /** The boot host looks once, and does what is due. Resolves with what is waited for. */
  async look(): Promise<Readonly<Record<string, string>>> {
    if (this.record.ended) return {};
    const seen = this.machines.map(
      (one): MachineSeen => ({
        name: one.name,
        roles: one.serves ? ['control-plane', 'etcd'] : ['worker'],
        facts: this.facts(one),
        applied: true,
        settled: true,
        silentFor: (this.now - one.heardAt) as Millis,
      }),
    );
    const move = await this.kind.move(this.record, seen, 3_600_000 as Millis, this.now + this.jumped);
    if (move.do === 'wait') return move.waiting;
    if (move.do === 'act') {
      // As in changes.ts, what the boot host cannot do is tried again.
      const acted = await this.kind.act(this.record).then(
        () => true,
        () => false,
      );
      this.record = { ...this.record, acted };
    } else this.record = move.record as ChangeRecord<RollOrder>;
    return {};
  }

  /**
   * Looks and polls until the roll has ended or no more time is left; calls `each` after every
   * poll, with the machine if it reboots.
   */
  async run(
    ticks: number,
    bootTakes = 60_000,
    each: (rebooted?: string) => void = () => undefined,
  ): Promise<void> {
    for (let n = 0; n < ticks && !this.record.ended; n++) {
      await this.look();
      for (const { name } of this.machines) {
        this.wasUp = new Set(this.machines.filter(this.isUp).map((one) => one.name));
        each((await this.poll(name, bootTakes)) ? name : undefined);
      }
      this.now += TICK;
    }
  }

  kubeOf(address: string): Kube {
    return async (path, call: KubeCall = {}) => {
      const server = this.machines[Number(address.split('.').at(-1)) - 1]!;
      if (!this.isUp(server)) throw new Error('connect ECONNREFUSED');
      return { body: this.#answer(path, call), text: '', date: 0 };
    };
  }

  #answer(path: string, { method = 'GET', body }: KubeCall): unknown {
    if (path.includes('/eviction')) throw new KubeRefusal(429, 'budget');
    if (path.startsWith('/api/v1/pods')) {
      const kept = this.budget !== undefined && path.endsWith(`%3D${this.budget}`);
      return { items: kept ? [{ metadata: { namespace: 'default', name: 'db-0' } }] : [] };
    }
    const [, , , , name = ''] = path.split('/');
    if (name === '') return { items: this.machines.map((one) => this.#node(one)) };
    const machine = this.machines.find((one) => one.name === name);
    if (machine === undefined) throw new KubeRefusal(404, name);
    if (method === 'PATCH') {
      const { metadata, spec } = body as { metadata?: { annotations?: object }; spec?: object };
      machine.annotations = Object.fromEntries(
        Object.entries({ ...machine.annotations, ...metadata?.annotations }).filter(
          ([, one]) => one !== null,
        ),
      );
      if (spec && 'unschedulable' in spec) machine.unschedulable = spec.unschedulable === true;
    }
    return this.#node(machine);
  }

  #node(machine: Model): unknown {
    const { name, annotations, unschedulable, downSince, nodeBoot } = machine;
    const ready = downSince === undefined || this.now - downSince < STILL_READY;
    return {
      metadata: { name, annotations },
      spec: { unschedulable },
      status: {
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'Unknown' }],
        nodeInfo: { kubeletVersion: 'v1.36.3', bootID: `${name}-boot-${nodeBoot}` },
      },
    };
  }
}
