/**
 * Carries out the changes of all clusters: keeps their records, collects what machines report,
 * and lets the engine advance each change about once a second. A server that is killed at any
 * point continues from the record.
 */

import type { AgentFacts } from '../../agent/wire/facts.ts';
import { type Clock, pause } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { errorTexts } from '../../base/error-text.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventSink } from '../../events/event.ts';
import { clusterOfScope, KEYS, MUSTER_SCOPE } from '../../store/keys.ts';
import type { Store, Write } from '../../store/store.ts';
import type { RunningChange, RunningChangeOf } from '../plan/running-change.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import type { Move, Note } from './engine.ts';
import type { AnyKind, ChangedMachine } from './kind.ts';
import {
  leaveOut,
  type NewChange,
  type Occasion,
  type Ordered,
  pauseChange,
  resumeChange,
} from './orders.ts';
import { type ChangeRecord, decodeChange, encodeChange } from './record.ts';
import type { MachineSeen } from './step.ts';

interface ChangesDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: EventSink;
  readonly metrics: Metrics;
  /** Whether this server may act; a restored one may not, until it is known to be the only one. */
  readonly serves: () => boolean;
  /** Why nothing of a cluster may be changed now; undefined: it may. */
  readonly holds: (cluster: string) => Fault | undefined;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  /** The machines of a change of the boot host's own keys (`_muster`). */
  readonly ownMachines: () => readonly string[];
  readonly kinds: readonly AnyKind[];
  /**
   * Whether all programs of a machine that restart in turns run as its newest plan wants them;
   * undefined when it runs none.
   */
  readonly settled: (cluster: string, machine: string) => boolean | undefined;
}

/** One poll of an agent. */
export interface HeardPoll {
  readonly facts: AgentFacts;
  /** When the poll arrived, monotonic: the plan that answers it is not older. */
  readonly since: Millis;
  /** Whether the agent has carried out the plan that answers the poll. */
  readonly applied: boolean;
  /** See {@link MachineSeen.listener}. */
  readonly listener?: string;
}

/** What a change no longer waits for. */
export interface LeftOut {
  /** Machines. */
  readonly without: readonly string[];
  /** What depends on what the change ends, by the names that the change shows. */
  readonly leave: readonly string[];
}

export interface Changes {
  /**
   * Begins a change.
   *
   * @throws {MusterError} E_CHANGE while another one is under way, E_USAGE for unknown steps,
   *   the code of what holds the cluster while nothing of it may be changed
   */
  begin(change: Omit<NewChange<unknown>, 'id'>, by: string): Promise<ChangeRecord>;
  /** @throws {MusterError} E_CHANGE when no change is under way; the same holds for all orders. */
  pause(cluster: string, by: string): Promise<ChangeRecord>;
  resume(cluster: string, by: string): Promise<ChangeRecord>;
  /** @throws {MusterError} E_CHANGE also when the change has passed its point of no return */
  rollBack(cluster: string, by: string): Promise<ChangeRecord>;
  /** Waits no longer for machines, and leaves things behind. */
  leaveOut(cluster: string, what: LeftOut, by: string): Promise<ChangeRecord>;
  /** Changes what is ordered of the change that is under way, for example who comes first. */
  amend(cluster: string, order: unknown, note: Note): Promise<ChangeRecord>;
  /** The change that is under way, or the last one; from memory. */
  record(cluster: string): ChangeRecord | undefined;
  /** Machine → what it is waited for; `` is the cluster as a whole. */
  waiting(cluster: string): Readonly<Record<string, string>>;
  readonly running: RunningChangeOf;
  /** Notes what a machine reported. */
  heard(cluster: string, machine: string, poll: HeardPoll): void;
  /** @throws {MusterError} E_CHANGE for a kind that this version of Muster does not know */
  kindOf(of: Pick<ChangeRecord, 'kind'>): AnyKind;
  /** The machines of a cluster; undefined while its documents are incomplete. */
  machinesOf(cluster: string): readonly ChangedMachine[] | undefined;
  /** Does what is due for a cluster's change now, as it is done once a second anyway. */
  look(cluster: string): Promise<void>;
  /** Continues the changes that are under way, and carries out those that begin later. */
  start(): void;
  close(): Promise<void>;
}

/** The pause between two looks at a change. */
const EVERY = duration('1s');
/**
 * A plan may be made from keysets that were read this long ago (src/cluster/plan/planner.ts), so
 * that only later polls count for a step.
 */
const PLANS_LAG = duration('5s');

interface Kept {
  record: ChangeRecord;
  revision: number;
  /** When the boot host's part of the step was known to be done, monotonic. */
  actedAt: Millis;
  waiting: Readonly<Record<string, string>>;
}

interface Heard extends HeardPoll {
  readonly at: Millis;
}

/**
 * Reads all changes. They continue with `start`, because the kinds of change ask for records: a
 * round before the caller has the result would ask a variable that has no value yet.
 */
export async function openChanges(deps: ChangesDeps): Promise<Changes> {
  const changes = new RunningChanges(deps);
  await changes.read();
  return changes;
}

class RunningChanges implements Changes {
  readonly #deps: ChangesDeps;
  readonly #kept = new Map<string, Kept>();
  readonly #heard = new Map<string, Heard>();
  readonly #stopping = new AbortController();
  readonly #textOf;
  readonly #startedAt: Millis;
  #started = false;
  readonly #loops = new Map<string, Promise<void>>();
  /** The last work on each cluster's record: orders and the engine write one after the other. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(deps: ChangesDeps) {
    this.#deps = deps;
    this.#textOf = errorTexts(deps.log);
    this.#startedAt = deps.clock.monotonic();
  }

  async read(): Promise<void> {
    const { records } = await this.#deps.store.list(KEYS.change.prefix());
    for (const { key, value, revision } of records) {
      const record = decodeChange(key, value);
      this.#kept.set(record.cluster, { record, revision, actedAt: this.#startedAt, waiting: {} });
      this.#measure(record);
    }
  }

  start(): void {
    this.#started = true;
    for (const cluster of this.#kept.keys()) this.#work(cluster);
  }

  begin(change: Omit<NewChange<unknown>, 'id'>, by: string): Promise<ChangeRecord> {
    const { cluster, kind } = change;
    return this.#inTurn(cluster, async () => {
      const why = this.#deps.holds(cluster);
      if (why !== undefined) throw new MusterError(why.code, why.message);
      const before = this.#kept.get(cluster);
      const occasion = { by, now: this.#deps.clock.now() };
      const id = `${kind}-${new Date(occasion.now).toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
      const ordered = this.kindOf(change).begin({ ...change, id }, before?.record, occasion);
      const past: Write[] = before
        ? [{ key: KEYS.pastChange.key(cluster, before.record.id), put: encodeChange(before.record) }]
        : [];
      return this.#write(cluster, ordered, past);
    });
  }

  pause(cluster: string, by: string): Promise<ChangeRecord> {
    return this.#order(cluster, by, pauseChange);
  }

  resume(cluster: string, by: string): Promise<ChangeRecord> {
    return this.#order(cluster, by, resumeChange);
  }

  rollBack(cluster: string, by: string): Promise<ChangeRecord> {
    return this.#order(cluster, by, (record, occasion) => this.kindOf(record).rollBack(record, occasion));
  }

  leaveOut(cluster: string, { without, leave }: LeftOut, by: string): Promise<ChangeRecord> {
    return this.#order(cluster, by, (record, occasion) => {
      const order = leave.length === 0 ? record.order : this.kindOf(record).leave(record, leave);
      return leaveOut({ ...record, order }, without, occasion);
    });
  }

  amend(cluster: string, order: unknown, note: Note): Promise<ChangeRecord> {
    return this.#order(cluster, 'muster', (record) => ({ record: { ...record, order }, notes: [note] }));
  }

  record(cluster: string): ChangeRecord | undefined {
    return this.#kept.get(cluster)?.record;
  }

  waiting(cluster: string): Readonly<Record<string, string>> {
    return this.#kept.get(cluster)?.waiting ?? {};
  }

  readonly running = (cluster: string): RunningChange | undefined => {
    const record = this.record(cluster);
    if (!record || record.ended) return undefined;
    const { kind, order, step, route, acted } = record;
    return {
      kind,
      order,
      step,
      back: route === 'back',
      acted,
      paused: record.paused !== undefined,
      held: record.holding !== undefined,
      hasTurn: (machine) => this.kindOf(record).hasTurn(record, machine),
      rehearsal: (machine) => this.kindOf(record).rehearsal(record, machine),
    };
  };

  heard(cluster: string, machine: string, poll: HeardPoll): void {
    this.#heard.set(`${cluster} ${machine}`, { ...poll, at: this.#deps.clock.monotonic() });
  }

  kindOf({ kind }: Pick<ChangeRecord, 'kind'>): AnyKind {
    const found = this.#deps.kinds.find(({ name }) => name === kind);
    if (found) return found;
    throw new MusterError('E_CHANGE', `this version of Muster does not know changes of the kind ${kind}`);
  }

  machinesOf(cluster: string): readonly ChangedMachine[] | undefined {
    if (cluster === MUSTER_SCOPE) return this.#deps.ownMachines().map((name) => ({ name, roles: [] }));
    return this.#deps.clusters.get(clusterOfScope(cluster))?.resolved?.machines;
  }

  async look(cluster: string): Promise<void> {
    while (await this.#tryAdvance(cluster));
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#loops.values());
  }

  #order(
    cluster: string,
    by: string,
    make: (record: ChangeRecord, occasion: Occasion) => Ordered<unknown>,
  ): Promise<ChangeRecord> {
    return this.#inTurn(cluster, async () => {
      const record = this.record(cluster);
      if (!record || record.ended) throw new MusterError('E_CHANGE', `${cluster}: no change is under way`);
      return this.#write(cluster, make(record, { by, now: this.#deps.clock.now() }));
    });
  }

  #inTurn<T>(cluster: string, work: () => Promise<T>): Promise<T> {
    const next = (this.#turns.get(cluster) ?? Promise.resolve()).then(work, work);
    this.#turns.set(cluster, next);
    return next;
  }

  /** Stores a record before it has an effect, and tells what happened. */
  async #write(
    cluster: string,
    { record, notes }: Ordered<unknown>,
    also: readonly Write[] = [],
  ): Promise<ChangeRecord> {
    const { store, clock } = this.#deps;
    const before = this.#kept.get(cluster);
    const key = KEYS.change.key(cluster);
    const expect = before?.revision ?? 'absent';
    const result = await store.commit([{ key, put: encodeChange(record), expect }, ...also]);
    if (!result.ok) throw new MusterError('E_CONFLICT', `the change of ${cluster} was changed meanwhile`);
    const resumed = before?.record.paused !== undefined && record.paused === undefined;
    const same =
      before?.record.id === record.id &&
      before.record.step === record.step &&
      before.record.route === record.route &&
      before.record.acted &&
      !resumed;
    this.#kept.set(cluster, {
      record,
      revision: result.revision,
      actedAt: same ? before.actedAt : clock.monotonic(),
      // What an earlier step waited for would be shown beside the name of this one.
      waiting: same ? before.waiting : {},
    });
    for (const note of notes) this.#tell(record, note);
    this.#measure(record);
    this.#work(cluster);
    return record;
  }

  #tell({ cluster, kind, id, step }: ChangeRecord, { code, text, machine }: Note): void {
    this.#deps.events.record({
      kind: 'cluster.change',
      subject: machine ?? (cluster === MUSTER_SCOPE ? 'muster' : `Cluster/${clusterOfScope(cluster)}`),
      reason: { code, text },
      fields: { change: kind, id, step },
    });
  }

  #measure({ cluster, kind, ended, holding }: ChangeRecord): void {
    const { metrics } = this.#deps;
    metrics.set('muster_change_under_way', { cluster, kind }, ended ? 0 : 1);
    metrics.set('muster_change_held', { cluster, kind }, holding && !ended ? 1 : 0);
  }

  /** Works on the cluster's change until it has ended. */
  #work(cluster: string): void {
    if (!this.#started || this.#loops.has(cluster) || this.#stopping.signal.aborted) return;
    const loop = this.#loop(cluster)
      .catch((error: unknown) => this.#deps.log.error({ err: error, cluster }, 'carrying out a change'))
      .finally(() => this.#loops.delete(cluster));
    this.#loops.set(cluster, loop);
  }

  async #loop(cluster: string): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const kept = this.#kept.get(cluster);
      if (!kept || kept.record.ended) return;
      if (!(await this.#tryAdvance(cluster))) await pause(this.#deps.clock, EVERY, signal);
    }
  }

  async #tryAdvance(cluster: string): Promise<boolean> {
    if (!this.#deps.serves()) return false;
    const why = this.#deps.holds(cluster);
    if (why !== undefined) {
      const kept = this.#kept.get(cluster);
      if (kept) kept.waiting = { '': why.message };
      return false;
    }
    try {
      return await this.#inTurn(cluster, () => this.#advance(cluster));
    } catch (error) {
      this.#deps.log.debug({ err: error, cluster }, 'a change cannot advance yet');
      const kept = this.#kept.get(cluster);
      if (kept) kept.waiting = { '': this.#textOf(error, { cluster }) };
      return false;
    }
  }

  /** One move. Resolves with whether the next one may be due at once. */
  async #advance(cluster: string): Promise<boolean> {
    const kept = this.#kept.get(cluster);
    if (!kept || kept.record.ended) return false;
    const { record } = kept;
    const { clock } = this.#deps;
    const kind = this.kindOf(record);
    const age = (clock.monotonic() - kept.actedAt) as Millis;
    const machines = this.#machines(cluster, kept);
    // Without its machines a step would wait for nobody, and end.
    if (machines === undefined && !record.paused)
      throw new MusterError(
        'E_CHANGE',
        `the documents of ${cluster} are incomplete, so its machines are not known`,
      );
    const move = await kind.move(record, machines ?? [], age, clock.now());
    switch (move.do) {
      case 'act':
        await this.#act(cluster, kind, record);
        return true;
      case 'write':
        await this.#write(cluster, move, evidenceOf(cluster, record.id, move));
        return true;
      case 'wait':
        kept.waiting = move.waiting;
        return false;
    }
  }

  async #act(cluster: string, kind: AnyKind, record: ChangeRecord): Promise<void> {
    const { holding, ...rest } = record;
    try {
      const order = await kind.act(record);
      await this.#write(cluster, { record: { ...rest, order, acted: true }, notes: [] });
    } catch (error) {
      const text = `The boot host cannot do its part: ${this.#textOf(error, { cluster })}.`;
      if (holding?.text !== text) {
        const remedy = 'It is tried again until it succeeds or the change is rolled back.';
        const held = { at: this.#deps.clock.now(), code: 'boot-host', text, remedy };
        await this.#write(cluster, { record: { ...rest, holding: held }, notes: [{ code: 'held', text }] });
      }
      throw error;
    }
  }

  /** Undefined while the cluster's documents are incomplete. */
  #machines(cluster: string, { actedAt }: Kept): readonly MachineSeen[] | undefined {
    const now = this.#deps.clock.monotonic();
    return this.machinesOf(cluster)?.map(({ name, roles }): MachineSeen => {
      const heard = this.#heard.get(`${cluster} ${name}`);
      const settled = this.#deps.settled(cluster, name);
      const isFresh = heard !== undefined && heard.since >= actedAt + PLANS_LAG;
      return {
        name,
        roles,
        ...(isFresh && { facts: heard.facts }),
        ...(isFresh && heard.listener !== undefined && { listener: heard.listener }),
        applied: isFresh && heard.applied,
        ...(settled !== undefined && { settled }),
        ...(heard && { silentFor: (now - heard.at) as Millis }),
      };
    });
  }
}

/** The write that keeps the evidence of a step that has just ended. */
function evidenceOf(
  cluster: string,
  id: string,
  { finished }: Extract<Move<unknown>, { do: 'write' }>,
): Write[] {
  if (!finished) return [];
  const { route, step, evidence } = finished;
  const put = JSON.stringify({ v: 1, evidence });
  return [{ key: KEYS.changeEvidence.key(cluster, id, route, step), put }];
}
