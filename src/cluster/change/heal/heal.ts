/**
 * The replacement of a lost machine by a spare as a kind of change: the machine is proved to be
 * off, its certificate ends, the spare gets its name and addresses, boots, and joins the cluster.
 */
import type { Clock } from '../../../base/clock.ts';
import { duration } from '../../../base/duration.ts';
import { type Fault, MusterError } from '../../../base/errors.ts';
import type { PowerState } from '../../../bmc/bmc.ts';
import type { Order } from '../../../bmc/order.ts';
import type { Wanted } from '../../../bmc/orders.ts';
import type { SparesSpec } from '../../../resources/spares-spec.ts';
import { firstReady } from '../../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import { deleteNode } from '../drain.ts';
import type { ChangeKind, Prepared } from '../kind.ts';
import { CLUSTER, done, held, type Step, type Verdict, waiting } from '../step.ts';
import { LOST_CODES, whyKept } from './guard.ts';
import { type ObserveDeps, type Observed, observe } from './observe.ts';
import { HEAL, HEALS, type HealOrder, type HealRequest, healOrder, healRequest } from './order.ts';
import { type Candidate, spareFor, whyUnfit } from './spare.ts';

/** What healing asks of BMCs. */
export interface HealPower {
  has(machine: string): boolean;
  last(machine: string): Order | undefined;
  read(machine: string): { readonly state: PowerState } | undefined;
  /** Asks the BMC now. */
  look(machine: string): Promise<{ readonly state: PowerState }>;
  give(machines: readonly string[], wanted: Wanted): Promise<unknown>;
  answers(machine: string): Promise<boolean>;
  /** The documents of two machines have exchanged their BMCs. */
  exchange(one: string, other: string): Promise<void>;
}

export interface HealDeps extends Omit<ObserveDeps, 'answers'> {
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly power: HealPower;
  /** All machines with documents. */
  readonly machines: () => readonly Candidate[];
  readonly settings: (cluster: string) => SparesSpec | undefined;
  /** Whether the agent of a machine is heard. */
  readonly heard: (machine: string) => boolean;
  /** Why its agent waits for an operator. */
  readonly waits: (machine: string) => { readonly text: string } | undefined;
  /** Who ordered the change of a cluster that is under way. */
  readonly by: (cluster: string) => string | undefined;
  readonly exchange: (
    machine: string,
    by: { readonly spare: string; readonly macs: readonly string[]; readonly by: string },
  ) => Promise<void>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** What is seen while a machine is being replaced. */
interface Seen {
  readonly isHeard: boolean;
  readonly waits: string | undefined;
  /** The last order about its power since the replacement was ordered. */
  readonly power: Order | undefined;
  readonly hasBmc: boolean;
  /** Asked only while it joins. */
  readonly observed: Observed | undefined;
}
type HealStep = Step<HealOrder, Seen>;

const boot = { scope: { on: 'boot-host' }, takes: {} } as const;
/** A machine that joins is held after this time, so that operators hear of it. */
const JOINS_WITHIN = duration('30m');
/** etcd and the API are asked at most so often. */
const FRESH = duration('3s');

const FENCE: HealStep = {
  ...boot,
  name: 'fence',
  sentence: 'The BMC of the lost machine switches it off, and proves that.',
  acts: true,
  whole: ({ order: { machine }, cluster: { power } }) => {
    const isOff = power?.want === 'off' || power?.want === 'shut-down';
    if (!isOff || power?.end === undefined) return waiting(`the BMC of ${machine} switches it off`);
    if (power.end.proved) return done(`${machine}: ${power.end.text}`);
    return held(
      'not-fenced',
      `${machine} is not proved to be off: ${power.end.text}`,
      `\`muster power off ${machine}\` tries it again. If its BMC is dead, take the power away by hand, then \`muster change ${CLUSTER} roll-back\` and \`muster cluster heal ${CLUSTER} ${machine} --off ${machine}\`.`,
    );
  },
};
const EXCHANGE: HealStep = {
  ...boot,
  name: 'exchange',
  sentence: 'Its certificate ends, and the spare gets its name and addresses.',
  acts: true,
  noReturn: true,
  whole: ({ order: { machine, spare } }) =>
    done(`${machine} has the hardware of ${spare}, and ${spare} is what is left of ${machine}`),
};
const START: HealStep = {
  ...boot,
  name: 'start',
  sentence: 'The spare boots under its new name, and its agent gets a certificate.',
  acts: true,
  whole: ({ order, cluster }) => starts(order, cluster),
};
const JOIN: HealStep = {
  ...boot,
  name: 'join',
  sentence: 'It joins: its member of etcd as a learner first, and its Node.',
  whole: ({ order: { machine }, cluster: { observed }, age }) => {
    if (observed === undefined) return waiting('etcd and the API are being asked');
    const text = whyNotJoined(observed);
    if (text === undefined) return done(`${machine} is back in the cluster`);
    return age < JOINS_WITHIN
      ? waiting(text)
      : held(
          'not-joined',
          `${machine} has not joined: ${text}.`,
          `\`muster explain ${machine}\` says what it does.`,
        );
  },
};
const STOP: HealStep = {
  ...boot,
  name: 'stop',
  sentence: 'Nothing is replaced. A machine that was switched off stays off.',
};

function starts({ machine, spare }: HealOrder, { isHeard, waits, power, hasBmc }: Seen): Verdict {
  if (isHeard) return done(`the agent of ${machine} is heard`);
  if (waits !== undefined)
    return held('approval', `${machine} waits for an operator: ${waits}`, `\`muster explain ${machine}\``);
  if (!hasBmc)
    return held(
      'start-by-hand',
      `No BMC switches the spare on that is ${machine} now (it was ${spare}).`,
      'Switch it on, or restart it from the network.',
    );
  if (power?.want === 'cycle' && power.end !== undefined && !power.end.proved)
    return held(
      'does-not-start',
      `${machine} does not start: ${power.end.text}`,
      `Look at it: \`muster machine console ${machine}\`; \`muster power cycle ${machine} --boot network\` tries it again.`,
    );
  return waiting(`${machine} boots`);
}

function whyNotJoined({ isVoter, node }: Observed): string | undefined {
  if (isVoter === false) return 'its member of etcd does not vote yet';
  return node === 'ready' || node === 'none' ? undefined : 'its Node is not ready';
}

const fault = (message: string): Fault => ({ code: 'E_HEAL', message });

/**
 * Makes the kind.
 *
 * @throws {MusterError} its methods: E_HEAL for a machine that keeps its place, E_USAGE and
 *   E_NOT_FOUND for one that the cluster does not have
 */
export function healing(deps: HealDeps): ChangeKind<HealOrder, Seen, HealRequest> {
  const { clusters, power, clock } = deps;
  const asking = { ...deps, answers: (machine: string) => power.answers(machine) };
  const last = new Map<string, { readonly at: number; readonly observed: Observed }>();

  const resolvedOf = (cluster: string): ResolvedCluster => {
    const resolved = clusters.get(cluster)?.resolved;
    if (resolved === undefined) throw noCluster(cluster);
    return resolved;
  };
  const observed = async (cluster: string, machine: string): Promise<Observed> => {
    const known = last.get(cluster);
    const now = clock.monotonic();
    if (known !== undefined && now - known.at < FRESH) return known.observed;
    const seen = await observe(asking, resolvedOf(cluster), machine);
    last.set(cluster, { at: now, observed: seen });
    return seen;
  };

  /** @throws {MusterError} E_HEAL when it may run, or is not known to be off */
  const mustBeOff = async (cluster: string, { machine, fence }: HealOrder): Promise<void> => {
    const why = deps.heard(machine)
      ? 'its agent is heard again'
      : keptBy(await observe(asking, resolvedOf(cluster), machine));
    if (why !== undefined) throw new MusterError('E_HEAL', `${machine} keeps its place: ${why}`);
    const state = power.has(machine) ? (await power.look(machine)).state : 'unknown';
    // A person says that it is off where no BMC can, and not against what one says.
    if (state === 'off' || (fence === 'person' && state === 'unknown')) return;
    throw new MusterError('E_HEAL', `${machine} keeps its place: its BMC says that its power is ${state}`);
  };

  const exchange = async (cluster: string, order: HealOrder): Promise<void> => {
    const { machine, spare, macs } = order;
    const own = deps.machines().find(({ name }) => name === machine);
    // After the documents were changed, its BMC is that of the spare.
    if (!own?.spec.macs.some((mac) => macs.includes(mac))) {
      await mustBeOff(cluster, order);
      const resolved = resolvedOf(cluster);
      const roles = resolved.machines.find(({ name }) => name === machine)?.roles ?? [];
      if (roles.some((role) => role !== 'etcd')) {
        const others = withRole(resolved, 'control-plane').filter(({ name }) => name !== machine);
        // Its pods start elsewhere at once: it is off.
        await deleteNode(await firstReady(others.map((one) => deps.kubes(cluster, addressOf(one)))), machine);
      }
    }
    const by = deps.by(cluster);
    await deps.exchange(machine, { spare, macs, by: by === undefined || by === 'muster' ? HEALS : by });
  };

  return {
    name: HEAL,
    request: healRequest,
    schema: healOrder,
    prepare: (cluster, request) => prepare(deps, asking, resolvedOf(cluster), request),
    mustStay: (_cluster, { name }) => `${name} is not waited for: a replacement is of one machine`,
    forward: ({ fence }) => [...(fence === 'bmc' ? [FENCE] : []), EXCHANGE, START, JOIN],
    back: () => [STOP],
    async act({ cluster, step, order }) {
      const { machine, at } = order;
      if (step === FENCE.name) {
        if (deps.heard(machine)) throw new MusterError('E_HEAL', `${machine} is heard again`);
        await power.give([machine], { want: 'off', by: HEALS });
      } else if (step === EXCHANGE.name) await exchange(cluster, order);
      else if (step === START.name && power.has(machine)) {
        const before = power.last(machine);
        if (before?.want !== 'cycle' || before.at < at)
          await power.give([machine], { want: 'cycle', boot: 'network', by: HEALS });
      }
      last.delete(cluster);
      return order;
    },
    async look({ cluster, step, order: { machine, at } }) {
      const order = power.last(machine);
      return {
        isHeard: deps.heard(machine),
        waits: deps.waits(machine)?.text,
        power: order !== undefined && order.at >= at ? order : undefined,
        hasBmc: power.has(machine),
        observed: step === JOIN.name ? await observed(cluster, machine) : undefined,
      };
    },
  };
}

/** Why a machine keeps its place, whatever its power is. */
function keptBy(seen: Observed): string | undefined {
  const code = whyKept(seen);
  return seen.changing ?? (code && LOST_CODES[code]);
}

/** @throws {MusterError} E_USAGE for a machine that the cluster does not have, E_NOT_FOUND */
async function prepare(
  deps: HealDeps,
  asking: ObserveDeps,
  resolved: ResolvedCluster,
  { machine, with: named, off }: HealRequest,
): Promise<Prepared<HealOrder>> {
  const { name: cluster } = resolved;
  if (!resolved.machines.some(({ name }) => name === machine))
    throw new MusterError('E_USAGE', `${machine} is not a machine of ${cluster}`);
  if (off !== undefined && off !== machine)
    throw new MusterError('E_USAGE', `to say that ${machine} is off, repeat its name: --off ${machine}`);
  const all = deps.machines();
  const lost = all.find(({ name }) => name === machine);
  const settings = deps.settings(cluster);
  if (lost === undefined) throw new MusterError('E_NOT_FOUND', `${machine} has no document`);
  const spare = named ? all.find(({ name }) => name === named) : settings && spareFor(lost, settings, all);
  if (spare === undefined)
    throw new MusterError(
      'E_HEAL',
      named
        ? `there is no machine "${named}" with a document`
        : settings
          ? `${cluster} has no spare that fits ${machine}: ${whyNone(lost, all, settings)}`
          : `${cluster} names no spares; say which machine takes the place: --with NAME`,
    );
  const seen = await observe(asking, resolved, machine);
  const { life, quarantine } = lost.status;
  const out = life ? `it is ${life.state}` : quarantine && 'it is in quarantine';
  const why = out ?? (deps.heard(machine) ? 'its agent is heard' : keptBy(seen));
  const unfit = whyUnfit(spare, lost);
  const isByBmc = deps.power.has(machine) && off === undefined;
  const faults = [
    ...(why === undefined ? [] : [fault(`${machine} keeps its place: ${why}`)]),
    ...(unfit === undefined ? [] : [fault(`${spare.name} is no spare: ${unfit}`)]),
    ...(isByBmc || off !== undefined
      ? []
      : [fault(`no BMC proves that ${machine} is off: switch it off, and say so with --off ${machine}`)]),
  ];
  return {
    order: {
      machine,
      spare: spare.name,
      fence: isByBmc ? 'bmc' : 'person',
      macs: spare.spec.macs,
      at: deps.clock.now(),
    },
    faults,
    about: {
      [machine]: `gets the hardware of ${spare.name} (${spare.spec.macs.join(', ')})`,
      [spare.name]: `becomes what ${machine} was, taken out until it is brought back`,
    },
  };
}

function whyNone(lost: Candidate, all: readonly Candidate[], settings: SparesSpec): string {
  const { labels } = settings.selector;
  const such = all.filter(
    (one) =>
      one.name !== lost.name && Object.entries(labels).every(([label, value]) => one.labels[label] === value),
  );
  if (such.length === 0) return 'no Machine has the labels of `spares.selector`';
  return such
    .map((one) => `${one.name}: ${whyUnfit(one, lost)}`)
    .slice(0, 3)
    .join('; ');
}
