/** The roll as a kind of change: what the boot host does to the machines that have their turn. */
import type { AgentFacts } from '../../../agent/wire/facts.ts';
import type { PlanLine } from '../../../agent/wire/plan.ts';
import type { Clock } from '../../../base/clock.ts';
import type { Millis } from '../../../base/duration.ts';
import { expectedText } from '../../../base/error-text.ts';
import type { Order } from '../../../bmc/order.ts';
import { firstReady, type Kube } from '../../kube.ts';
import {
  addressOf,
  type ClusterMachine,
  type ResolvedCluster,
  withRole,
} from '../../model/resolved-cluster.ts';
import { runsKubelet } from '../../plan/checks.ts';
import type { ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { Windows } from '../../resolve/windows.ts';
import type { FindDown } from '../down.ts';
import type { Hooks } from '../hooks/hooks.ts';
import type { AtStep, ChangeWork } from '../kind.ts';
import { drainRound, type NodeSeen, takeBack, uncordon, uncordonAll } from '../nodes.ts';
import type { ChangeRecord } from '../record.ts';
import type { Rollouts } from '../rollouts.ts';
import { hangOf, rollOf } from './hang.ts';
import { NOTHING_SEEN, type RollOrder, type RollSeen, rollOrder, type WantedImage } from './order.ts';
import { ROLL } from './table.ts';

/** What restarts a machine that hangs while it reboots. */
export interface RollPower {
  /** Whether it may be restarted: a document names its BMC. */
  has(machine: string): boolean;
  /** The last order about its power. */
  last(machine: string): Order | undefined;
  /** When its last boot began that was seen; monotonic. */
  booted(machine: string): Millis | undefined;
  /** Switches it off and on again, once. */
  cycle(machine: string, by: string): Promise<unknown>;
}

export interface RollDeps {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  /** The boot id that a machine reported last. */
  readonly bootId: (machine: string) => string | undefined;
  /** The image that a machine would boot now. */
  readonly wants: (machine: string) => WantedImage | undefined;
  /**
   * Why a machine may not go down now, and the note that it was ordered to (rollouts.ts): what
   * other rolls and orders have taken down counts there as well.
   */
  readonly rollouts: Pick<Rollouts, 'whyStays' | 'reboots' | 'rebootsFor'>;
  /** The BMCs of machines. */
  readonly power: RollPower;
  /** Why no machine of a cluster may go down now, by its maintenance windows. */
  readonly closed: Windows['closed'];
  /** The workers that are down besides those that have their turn. */
  readonly down: FindDown;
  /** Whether hooks of the cluster let a machine begin (hooks.ts). */
  readonly hooks: Pick<Hooks, 'gate' | 'forget'>;
  /** The roll of a cluster that is under way. */
  readonly record: (cluster: string) => ChangeRecord<RollOrder> | undefined;
}

export interface Roll extends ChangeWork<RollOrder, RollSeen> {
  /** The line that reboots a machine whose turn it is; undefined when it has to keep running. */
  line(resolved: ResolvedCluster, machine: ClusterMachine, facts: AgentFacts): Promise<PlanLine | undefined>;
}

export function roll(deps: RollDeps): Roll {
  // Both are only in memory: a restarted server drains again before it orders a reboot.
  const drained = openMarks();
  const ordered = openMarks();

  return {
    ...ROLL,
    name: 'roll',
    schema: rollOrder,

    async act({ cluster, order }) {
      const resolved = deps.clusters.get(cluster)?.resolved;
      const record = deps.record(cluster);
      const nodes = resolved?.machines.filter((one) => order.machines[one.name] && runsKubelet(one)) ?? [];
      if (resolved && record && nodes.length > 0) await uncordonAll(await apiOf(deps, resolved), record.id);
      return order;
    },

    async look({ cluster, order }, seen) {
      const resolved = deps.clusters.get(cluster)?.resolved;
      const record = deps.record(cluster);
      if (resolved === undefined || record === undefined || record.route === 'back') return NOTHING_SEEN;
      const nodes: Record<string, NodeSeen> = {};
      const wants: Record<string, string | undefined> = {};
      for (const name of underWay(record)) {
        const machine = resolved.machines.find((one) => one.name === name);
        if (machine === undefined) continue;
        wants[name] = deps.wants(name)?.root;
        const silentFor = seen.find((one) => one.name === name)?.silentFor;
        const of = { resolved, record, machine, order, drained, ordered, silentFor };
        nodes[name] = (await hang(deps, of)) ?? (await round(deps, of).catch(unreached));
      }
      return { nodes, wants };
    },

    closed: ({ cluster, order }) => deps.closed(cluster, order.now),
    begun: ({ nodes }, machine) => nodes[machine]?.drained === true,

    async down({ cluster, order }, machines) {
      const record = deps.record(cluster);
      return order.groups && record ? deps.down(record, machines) : new Map();
    },

    async line(resolved, machine, { bootId }) {
      const { name } = machine;
      const record = deps.record(resolved.name);
      if (record === undefined || record.route === 'back' || !underWay(record).includes(name))
        return undefined;
      if (record.order.machines[name]?.bootId !== bootId) return undefined;
      if (!drained.has(record, name) && !ordered.has(record, name)) return undefined;
      // Another machine may have gone down since this one was drained.
      if (!(await deps.rollouts.reboots(resolved, machine, bootId, record.order))) return undefined;
      ordered.add(record, name);
      return { do: 'reboot', id: bootId };
    },
  };
}

/** A set of machines, for one roll each. */
interface Marks {
  has(record: ChangeRecord<RollOrder>, machine: string): boolean;
  add(record: ChangeRecord<RollOrder>, machine: string): void;
  remove(record: ChangeRecord<RollOrder>, machine: string): void;
}

function openMarks(): Marks {
  /** `CLUSTER MACHINE` → the id of the roll. */
  const marks = new Map<string, string>();
  return {
    has: ({ cluster, id }, machine) => marks.get(`${cluster} ${machine}`) === id,
    add: ({ cluster, id }, machine) => void marks.set(`${cluster} ${machine}`, id),
    remove: ({ cluster }, machine) => void marks.delete(`${cluster} ${machine}`),
  };
}

/** The machines that have their turn and have not shown their evidence. */
const underWay = ({ turns, evidence, without }: ChangeRecord<RollOrder>): readonly string[] =>
  turns.filter((name) => evidence[name] === undefined && !without.includes(name));

const apiOf = ({ kubes }: RollDeps, resolved: ResolvedCluster): Promise<Kube> =>
  firstReady(withRole(resolved, 'control-plane').map((one) => kubes(resolved.name, addressOf(one))));

/** The only control plane is down while it reboots. */
const unreached = (error: unknown): NodeSeen => ({
  drained: false,
  back: false,
  text: `no API server answers: ${expectedText(error)}`,
});

interface RoundOf {
  readonly resolved: ResolvedCluster;
  readonly record: ChangeRecord<RollOrder>;
  readonly machine: ClusterMachine;
  readonly order: AtStep<RollOrder>['order'];
  /** Machines that may reboot as soon as the cluster can do without them. */
  readonly drained: Marks;
  /** Machines whose plan had the line that reboots them. */
  readonly ordered: Marks;
  /** How long ago the machine reported; undefined: this server has not heard it. */
  readonly silentFor: Millis | undefined;
}

const STAYS = { drained: true, back: false } as const;
const REBOOTING: NodeSeen = { ...STAYS, text: 'it reboots' };

/**
 * Restarts a machine that was ordered to reboot and is not heard any more, where the cluster can do
 * without what may still run on it. Undefined: it has time, has booted, or has no BMC.
 */
async function hang(deps: RollDeps, of: RoundOf): Promise<NodeSeen | undefined> {
  const { resolved, record, machine, order, silentFor } = of;
  const { power, rollouts } = deps;
  const { name } = machine;
  const rebootsFor = rollouts.rebootsFor(record.cluster, name);
  if (rebootsFor === undefined || !power.has(name)) return undefined;
  if (deps.bootId(name) !== order.machines[name]?.bootId) return undefined;
  const now = deps.clock.now();
  const last = power.last(name);
  const booted = deps.clock.monotonic() - (power.booted(name) ?? 0);
  const quiet = Math.min(rebootsFor, silentFor ?? rebootsFor, booted) as Millis;
  const found = hangOf({
    ...{ rebootsFor, quiet, now },
    order: last && last.at >= now - rebootsFor ? last : undefined,
  });
  if (found !== 'cycle') return found && { ...STAYS, ...found };
  const why = record.paused ? 'the roll is paused' : await rollouts.whyStays(resolved, machine, order);
  if (why !== undefined) return { ...STAYS, text: `it hangs, and is not switched off and on: ${why}` };
  await power.cycle(name, rollOf(record.cluster));
  return { ...STAYS, restarts: true, text: 'it hangs while it reboots, and is switched off and on again' };
}

/**
 * Drains the node of a machine, lets it reboot when the cluster can do without it, and takes the
 * node back after that. While the roll is paused, or no window is open, a machine that was ordered
 * to reboot finishes, and the node of one that was not takes pods again.
 */
async function round(deps: RollDeps, of: RoundOf): Promise<NodeSeen> {
  const { resolved, record, machine, order } = of;
  const { name } = machine;
  const bootId = deps.bootId(name);
  const booted = bootId !== undefined && bootId !== order.machines[name]?.bootId;
  const node = runsKubelet(machine);
  if (booted)
    return node ? takeBack(await apiOf(deps, resolved), name, { bootId }) : { ...STAYS, back: true };
  if (of.ordered.has(record, name)) return REBOOTING;
  const why = record.paused ? 'the roll is paused' : deps.closed(record.cluster, order.now);
  if (why !== undefined) {
    of.drained.remove(record, name);
    deps.hooks.forget(record, name);
    if (node) await uncordon(await apiOf(deps, resolved), name);
    return { drained: false, back: false, text: why, ...(!record.paused && { yields: true }) };
  }
  // The engine (engine.ts) says what it waits for, and has its hooks asked.
  if (deps.hooks.gate(record, machine, 'before').is !== 'open') {
    of.drained.remove(record, name);
    return { drained: false, back: false };
  }
  if (node) {
    const seen = await drainRound(await apiOf(deps, resolved), name, record.id);
    if (!seen.drained) {
      of.drained.remove(record, name);
      return seen;
    }
  }
  of.drained.add(record, name);
  const stays = await deps.rollouts.whyStays(resolved, machine, order);
  return stays === undefined ? REBOOTING : { ...STAYS, text: `it does not reboot yet. ${stays}` };
}
