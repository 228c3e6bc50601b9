/**
 * Looks for lost machines of clusters with `spares`, and begins their replacement where guard.ts
 * allows it. The replacement itself is a change (heal.ts), so there is one at a time, and a server
 * that starts continues it. How long a machine was silent is kept in memory: a boot host that was
 * away itself has heard nobody.
 */
import type { Clock } from '../../../base/clock.ts';
import { duration, type Millis, parseDuration } from '../../../base/duration.ts';
import type { Fault } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import { startRounds } from '../../../base/rounds.ts';
import type { EventSink } from '../../../events/event.ts';
import type { ResolvedCluster } from '../../model/resolved-cluster.ts';
import type { ChangeOrders } from '../change-orders.ts';
import { areMany, LOST_CODES, type LostCode, type LostFacts, moveOf, restartedSince } from './guard.ts';
import type { HealDeps } from './heal.ts';
import { observe } from './observe.ts';
import { HEAL, HEALS, healOrder } from './order.ts';
import { replacedBy, spareFor } from './spare.ts';

const EVERY = duration('15s');
const AFTER = duration('15m');

export interface WatchDeps extends Omit<HealDeps, 'by' | 'exchange' | 'clusters' | 'clock'> {
  /** The founded clusters, with their machines. */
  readonly clusters: () => readonly ResolvedCluster[];
  /** Machines whose agents should be heard: that joined a cluster, and were not switched off. */
  readonly expected: (machine: string) => boolean;
  readonly orders: Pick<ChangeOrders, 'begin' | 'record' | 'rollBack'>;
  /** Why nothing of a cluster may be changed now. */
  readonly holds: (cluster: string) => Pick<Fault, 'message'> | undefined;
  /** Whether this server may act. */
  readonly serves: () => boolean;
  readonly events: EventSink;
  readonly clock: Pick<Clock, 'after' | 'monotonic' | 'now'>;
  readonly log: Log;
}

/** What was found of a lost machine. */
export interface Lost {
  readonly machine: string;
  readonly cluster: string;
  readonly code: LostCode;
  readonly text: string;
  /** The command with which a person carries the replacement out, where only that is missing. */
  readonly command?: string;
}

export interface HealWatch {
  /** The lost machines that are not being replaced. */
  lost(): readonly Lost[];
  close(): void;
}

/** Starts the watch. */
export function watchLost(deps: WatchDeps): HealWatch {
  const watch = new Watch(deps);
  const how = { every: EVERY, failed: 'lost machines could not be looked at' };
  return { lost: () => watch.lost(), close: startRounds(deps, how, () => watch.round()) };
}

/** Since when a machine is silent, as this server saw it. */
interface Silence {
  readonly since: number;
  /** Monotonic; later when its power was ordered meanwhile. */
  readonly quietSince: Millis;
}

/** Exported for tests. */
export class Watch {
  readonly #deps: WatchDeps;
  readonly #silent = new Map<string, Silence>();
  #lost: readonly Lost[] = [];
  readonly #said = new Map<string, LostCode>();

  constructor(deps: WatchDeps) {
    this.#deps = deps;
  }

  lost(): readonly Lost[] {
    return this.#lost;
  }

  async round(): Promise<void> {
    const { clusters, serves } = this.#deps;
    const all = clusters();
    const expected = all
      .flatMap(({ machines }) => machines.map(({ name }) => name))
      .filter(this.#deps.expected);
    this.#listen(expected);
    if (!serves()) return;
    const host = { silent: this.#silent.size, of: expected.length };
    const found: Lost[] = [];
    for (const resolved of all) {
      await this.#callOff(resolved.name);
      found.push(...(await this.#lookAt(resolved, host)));
    }
    this.#lost = found;
    for (const [machine] of this.#said)
      if (!found.some((one) => one.machine === machine)) this.#said.delete(machine);
  }

  /** Notes who is silent. */
  #listen(expected: readonly string[]): void {
    const { heard, clock } = this.#deps;
    const now = clock.monotonic();
    const silent = new Set(expected.filter((machine) => !heard(machine)));
    for (const machine of this.#silent.keys()) if (!silent.has(machine)) this.#silent.delete(machine);
    for (const machine of silent) {
      const before = this.#silent.get(machine);
      const quietSince = before && !this.#isOrdered(machine) ? before.quietSince : now;
      this.#silent.set(machine, { since: before?.since ?? clock.now(), quietSince });
    }
  }

  /** The machine of a cluster that is being replaced. */
  #replacing(cluster: string): string | undefined {
    const record = this.#deps.orders.record(cluster);
    const order = record?.kind === HEAL && !record.ended ? healOrder.safeParse(record.order) : undefined;
    return order?.data?.machine;
  }

  /** A machine that is heard before it lost its place keeps that. */
  async #callOff(cluster: string): Promise<void> {
    const { orders, heard } = this.#deps;
    const machine = this.#replacing(cluster);
    if (machine === undefined || !heard(machine)) return;
    const { id, route, step } = orders.record(cluster)!;
    if (route === 'forward' && step === 'fence') await orders.rollBack(cluster, { by: 'muster', id });
  }

  async #lookAt(resolved: ResolvedCluster, host: LostFacts['host']): Promise<readonly Lost[]> {
    const { name: cluster, machines } = resolved;
    const { settings: settingsOf, clock } = this.#deps;
    const settings = settingsOf(cluster);
    if (settings === undefined) return [];
    const after = parseDuration(settings.after ?? '') ?? AFTER;
    const replacing = this.#replacing(cluster);
    const silent = machines.filter(({ name }) => this.#silent.has(name)).map(({ name }) => name);
    const counted = {
      silent: silent.length,
      of: machines.filter(({ name }) => this.#deps.expected(name)).length,
    };
    const now = clock.monotonic();
    const due = silent.filter(
      (name) => name !== replacing && now - this.#silent.get(name)!.quietSince >= after,
    );
    const found: Lost[] = [];
    for (const machine of due) {
      const facts = await this.#factsOf(resolved, machine, { after, cluster: counted, host }, settings);
      const move = moveOf(facts);
      if (move.do === 'wait') continue;
      const { code } = move;
      const text = facts.changing && code === 'changing' ? facts.changing : LOST_CODES[code];
      const command =
        move.do === 'ask' ? `muster cluster heal ${cluster} ${machine} --off ${machine}` : undefined;
      this.#say({ machine, cluster, code, text, ...(command && { command }) }, facts.spare);
      if (move.do === 'restart') {
        // It has as long again to come back.
        this.#silent.set(machine, { ...this.#silent.get(machine)!, quietSince: now });
        await this.#deps.power.give([machine], { want: 'cycle', by: HEALS });
      }
      if (move.do === 'replace') {
        await this.#deps.orders.begin(cluster, { kind: HEAL, machine, with: move.spare }, 'muster');
        // The next one is looked at when the cluster is whole again.
        return found;
      }
      if (move.do !== 'restart' && code !== 'ordered')
        found.push({ machine, cluster, code, text, ...(command && { command }) });
    }
    return found;
  }

  async #factsOf(
    resolved: ResolvedCluster,
    machine: string,
    of: Pick<LostFacts, 'after' | 'cluster' | 'host'>,
    settings: NonNullable<ReturnType<WatchDeps['settings']>>,
  ): Promise<LostFacts> {
    const { power, orders, holds, clock } = this.#deps;
    const all = this.#deps.machines();
    const own = all.find(({ name }) => name === machine);
    const silence = this.#silent.get(machine)!;
    const record = orders.record(resolved.name);
    const isBusy = record !== undefined && !record.ended;
    const known = {
      ...of,
      silentFor: (clock.monotonic() - silence.quietSince) as Millis,
      isOrdered: this.#isOrdered(machine),
      replaced: { count: replacedBy(settings, all), max: settings.max ?? 1 },
      spare: own && spareFor(own, settings, all)?.name,
      power: power.has(machine) ? (power.read(machine)?.state ?? 'unknown') : undefined,
      restarted: restartedSince(power.last(machine), silence.since),
    } as const;
    const why = isBusy ? `a ${record.kind} is under way` : holds(resolved.name)?.message;
    // Nobody is asked about many: the answer would change nothing.
    if (why !== undefined || areMany(of.cluster) || areMany(of.host) || known.isOrdered)
      return {
        ...known,
        changing: why,
        quorum: undefined,
        memberAnswers: undefined,
        node: 'unknown',
        answers: false,
      };
    const asking = { ...this.#deps, answers: (name: string) => power.answers(name) };
    const { isVoter: _, ...seen } = await observe(asking, resolved, machine);
    return { ...known, ...seen };
  }

  #isOrdered(machine: string): boolean {
    const last = this.#deps.power.last(machine);
    return last !== undefined && last.end === undefined;
  }

  #say({ machine, cluster, code, text, command }: Lost, spare: string | undefined): void {
    if (this.#said.get(machine) === code) return;
    this.#said.set(machine, code);
    this.#deps.events.record({
      kind: 'machine.lost',
      subject: machine,
      reason: { code, text: `It is lost: ${text}${command ? `. Then: ${command}` : ''}.` },
      fields: { cluster, ...(spare !== undefined && { spare }) },
    });
  }
}
