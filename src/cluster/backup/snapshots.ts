/**
 * Snapshots of clusters' etcd: decides which member takes one and when, receives it from its agent,
 * and gives it to the machine that restores it.
 */
import { randomBytes } from 'node:crypto';
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { AgentSnapshots } from '../../agent/wire/protocol.ts';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis, spanText } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import type { EventSink } from '../../events/event.ts';
import { type BackupSpec, KEPT_SNAPSHOTS, type SnapshotCopy } from '../../resources/backup-spec.ts';
import type { FoundingRecord } from '../etcd/founding.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { nextDue, STALLED, surplus } from './due.ts';
import { newSnapshotId, readStatus, type Snapshot } from './snapshot.ts';
import type { Receiving, SnapshotFiles } from './snapshot-files.files.ts';

interface SnapshotsDeps {
  readonly files: SnapshotFiles;
  readonly copies: {
    put(snapshot: Snapshot, to: SnapshotCopy): Promise<void>;
    remove(snapshot: Pick<Snapshot, 'cluster' | 'id'>, to: SnapshotCopy): Promise<void>;
  };
  /** How a copy is named in lists. */
  readonly nameOfCopy: (to: SnapshotCopy) => string;
  /** The setting `backup` of a Cluster. */
  readonly setting: (cluster: string) => BackupSpec | undefined;
  /** The records of founding of all clusters, from memory. */
  readonly records: () => readonly FoundingRecord[];
  /** Whether a member of etcd answered a read when it was last asked, so that it can be copied. */
  readonly reads: (cluster: string, member: string) => boolean;
  /** The alarm of a cluster's etcd, which explains what waits. */
  readonly alarm: (cluster: string) => string | undefined;
  /** Ids of the keys that encrypt the Secrets of a cluster. */
  readonly encryption: (cluster: string) => Promise<readonly string[]>;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: EventSink;
}

/** A snapshot that was ordered and is not here yet. */
interface Order {
  readonly id: string;
  readonly cluster: string;
  readonly by: Snapshot['by'];
  /** The machine whose plan has it; undefined until a healthy member polls. */
  machine?: string;
  /** When it last advanced, by the monotonic clock. */
  movedAt: Millis;
  receiving?: Receiving;
  /** Machine → why it did not take the snapshot when it last polled. */
  readonly refused: Map<string, string>;
}

/** An attempt that failed; ms since 1970. */
export interface FailedSnapshot {
  readonly id: string;
  readonly at: number;
  readonly text: string;
}

export interface SnapshotList {
  readonly items: readonly Snapshot[];
  /** Files that are not understood. */
  readonly faults: readonly string[];
  readonly ordered?: {
    readonly id: string;
    readonly machine?: string;
    readonly received: number;
    /** Why no member takes it yet. */
    readonly waits?: string;
  };
  readonly failed?: FailedSnapshot;
  /** When the next one is due, ms since 1970; absent: only when ordered. */
  readonly due?: number;
}

export interface Snapshots {
  /** The line for the plan of a machine that polls; undefined when it has nothing to do. */
  line(resolved: ResolvedCluster, machine: ClusterMachine, facts: AgentFacts): PlanLine | undefined;
  readonly agents: AgentSnapshots;
  /**
   * Orders a snapshot. The first healthy member that polls takes it.
   *
   * @throws {MusterError} E_SNAPSHOT when the cluster was never founded or is being restored
   */
  order(cluster: string): { readonly id: string };
  list(cluster: string): Promise<SnapshotList>;
  /**
   * Why the newest snapshot of a founded cluster is older than twice what its setting asks for;
   * undefined when it is not, or nothing is asked for.
   */
  late(cluster: string): string | undefined;
  /** @throws {MusterError} E_NOT_FOUND when there is no such snapshot */
  get(cluster: string, id: string): Promise<Snapshot>;
  /** @throws {MusterError} E_SNAPSHOT when it cannot be read to its end */
  verify(snapshot: Snapshot): Promise<void>;
  read(snapshot: Snapshot): AsyncIterable<Uint8Array>;
  /** Reads when each cluster's newest snapshot was taken. */
  resume(clusters: readonly string[]): Promise<void>;
  /** Resolves when no copy is being made. */
  close(): Promise<void>;
}

/** Makes the room's interface; it reads nothing before `resume`. */
export function createSnapshots(deps: SnapshotsDeps): Snapshots {
  const rounds = new SnapshotRounds(deps);
  return {
    line: (resolved, machine, facts) => rounds.line(resolved, machine, facts),
    agents: {
      take: (machine, part, body) => rounds.take(machine, part, body),
      end: (machine, snapshot) => rounds.end(machine, snapshot),
      give: (machine, id) => rounds.give(machine, id),
    },
    order: (cluster) => rounds.order(cluster),
    list: (cluster) => rounds.list(cluster),
    late: (cluster) => rounds.late(cluster),
    get: (cluster, id) => rounds.get(cluster, id),
    verify: (snapshot) => deps.files.verify(snapshot),
    read: (snapshot) => deps.files.read(snapshot),
    resume: (clusters) => rounds.resume(clusters),
    close: () => rounds.close(),
  };
}

class SnapshotRounds {
  readonly #deps: SnapshotsDeps;
  readonly #orders = new Map<string, Order>();
  /** When the newest snapshot of a cluster was taken. */
  readonly #newest = new Map<string, number>();
  readonly #failed = new Map<string, FailedSnapshot>();
  #copying: Promise<void> = Promise.resolve();

  constructor(deps: SnapshotsDeps) {
    this.#deps = deps;
  }

  async resume(clusters: readonly string[]): Promise<void> {
    for (const cluster of clusters) {
      const { items } = await this.#deps.files.list(cluster);
      const now = this.#deps.clock.now();
      const taken = items.map(({ takenAt }) => takenAt).filter((at) => at <= now);
      if (taken.length > 0) this.#newest.set(cluster, Math.max(...taken));
    }
  }

  line(
    { name: cluster }: Pick<ResolvedCluster, 'name'>,
    machine: Pick<ClusterMachine, 'name' | 'roles'>,
    facts: AgentFacts,
  ): PlanLine | undefined {
    if (!machine.roles.includes('etcd')) return undefined;
    const order = this.#orders.get(cluster) ?? this.#scheduled(cluster);
    if (order === undefined) return undefined;
    if (order.machine === machine.name && facts.hold?.code === 'snapshot-failed') {
      this.#fail(order, `${machine.name}: ${facts.hold.text}`);
      return undefined;
    }
    if (this.#failStalled(order)) return undefined;
    if (order.machine === undefined) {
      const why = this.#whyNot(cluster, machine.name, facts);
      if (why === undefined) {
        order.machine = machine.name;
        order.movedAt = this.#deps.clock.monotonic();
      } else order.refused.set(machine.name, why);
    }
    return order.machine === machine.name ? { do: 'snapshot-etcd', id: order.id } : undefined;
  }

  /**
   * Why a member cannot take a snapshot. An etcd that is full answers its health check with 503 and
   * is copied all the same: a snapshot only reads, and it may be what saves the cluster.
   */
  #whyNot(cluster: string, machine: string, { etcd, hold }: AgentFacts): string | undefined {
    if (hold !== undefined) return `${machine} is held: ${hold.text}`;
    if (etcd.wal !== 'present') return `${machine} has no data of etcd`;
    if (etcd.health === 'serving') return undefined;
    if (etcd.health === 'alive' && this.#deps.reads(cluster, machine)) return undefined;
    return `etcd of ${machine} ${etcd.health === 'down' ? 'does not run' : 'answers no read'}`;
  }

  /** Ends an order that nobody advanced for a while. Returns whether it did. */
  #failStalled(order: Order): boolean {
    if (!this.#stalled(order)) return false;
    const text =
      order.machine === undefined
        ? `no member could take it for ten minutes: ${this.#waits(order)}`
        : `${order.machine} sent nothing for ten minutes; see its journal`;
    this.#fail(order, text);
    return true;
  }

  #waits({ cluster, refused }: Order): string {
    const alarm = this.#deps.alarm(cluster);
    const each = [...refused.values()].join('; ') || 'no member of etcd has polled';
    return alarm === undefined ? each : `${each} (${alarm})`;
  }

  order(cluster: string): { readonly id: string } {
    const before = this.#orders.get(cluster);
    if (before) return { id: before.id };
    const record = this.#founding(cluster);
    if (!record?.founded)
      throw new MusterError('E_SNAPSHOT', `etcd of ${cluster} was never founded, so it has no data`);
    if (record.restoring || record.reset)
      throw new MusterError(
        'E_SNAPSHOT',
        `etcd of ${cluster} ${record.reset ? 'was reset' : 'is being restored'}; order the snapshot when it serves again`,
      );
    beforeChange(`order a snapshot of ${cluster}`);
    return { id: this.#begin(cluster, 'operator').id };
  }

  async take(
    machine: string,
    { id, offset, expected }: { readonly id: string; readonly offset: number; readonly expected: number },
    body: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    const order = this.#orderOf(machine, id);
    const { files, clock } = this.#deps;
    order.movedAt = clock.monotonic();
    try {
      if (offset === 0) {
        await order.receiving?.abort();
        delete order.receiving;
        order.receiving = await files.receive(order.cluster, id, expected);
      }
      if (order.receiving?.size !== offset)
        throw new MusterError(
          'E_SNAPSHOT',
          `the part begins at octet ${offset}, but ${order.receiving?.size ?? 0} octets are here`,
        );
      await order.receiving.add(body);
      order.movedAt = clock.monotonic();
    } catch (error) {
      await order.receiving?.abort();
      delete order.receiving;
      throw error;
    }
  }

  async end(
    machine: string,
    { id, size, etcd, status }: Parameters<AgentSnapshots['end']>[1],
  ): Promise<void> {
    const order = this.#orderOf(machine, id);
    const { clock, events, encryption } = this.#deps;
    const { cluster, by, receiving } = order;
    const record = this.#founding(cluster);
    try {
      if (receiving === undefined || receiving.size !== size)
        throw new MusterError(
          'E_SNAPSHOT',
          `${receiving?.size ?? 0} of ${size} octets are here: the snapshot was cut off on its way`,
        );
      if (!record) throw new MusterError('E_SNAPSHOT', `${cluster} has no record of a founding`);
      const snapshot = await receiving.finish({
        id,
        cluster,
        takenAt: clock.now(),
        member: machine,
        by,
        founding: record.id,
        ...readStatus(status),
        etcd,
        encryption: [...(await encryption(cluster))],
      });
      this.#orders.delete(cluster);
      this.#failed.delete(cluster);
      this.#newest.set(cluster, snapshot.takenAt);
      events.record({
        kind: 'cluster.snapshot',
        subject: `Cluster/${cluster}`,
        reason: { code: 'taken', text: `${machine} took snapshot ${id} at revision ${snapshot.revision}.` },
        fields: { snapshot: id, member: machine, revision: snapshot.revision, size },
      });
      this.#copying = this.#copying.then(() => this.#follow(snapshot));
    } catch (error) {
      await receiving?.abort();
      delete order.receiving;
      throw error;
    }
  }

  async give(
    machine: string,
    id: string,
  ): Promise<{ readonly size: number; readonly octets: AsyncIterable<Uint8Array> }> {
    const record = this.#deps
      .records()
      .find(({ restoring }) => restoring?.member === machine && restoring.snapshot === id);
    if (record === undefined)
      throw new MusterError('E_SNAPSHOT', `${machine} was not ordered to restore snapshot ${id}`);
    const snapshot = await this.get(record.cluster, id);
    return { size: snapshot.size, octets: this.#deps.files.read(snapshot) };
  }

  async get(cluster: string, id: string): Promise<Snapshot> {
    const { items } = await this.#deps.files.list(cluster);
    const found = items.find((one) => one.id === id);
    if (found) return found;
    throw new MusterError(
      'E_NOT_FOUND',
      `${cluster} has no snapshot "${id}"; \`muster cluster backups ${cluster}\` lists them`,
    );
  }

  async list(cluster: string): Promise<SnapshotList> {
    const known = this.#orders.get(cluster);
    const order = known && !this.#failStalled(known) ? known : undefined;
    const failed = this.#failed.get(cluster);
    const due = this.#due(cluster);
    return {
      ...(await this.#deps.files.list(cluster)),
      ...(order && {
        ordered: {
          id: order.id,
          received: order.receiving?.size ?? 0,
          ...(order.machine === undefined ? { waits: this.#waits(order) } : { machine: order.machine }),
        },
      }),
      ...(failed && { failed }),
      ...(due !== undefined && { due }),
    };
  }

  late(cluster: string): string | undefined {
    const every = this.#deps.setting(cluster)?.every;
    const record = this.#founding(cluster);
    if (every === undefined || !record?.founded || record.reset) return undefined;
    const newest = this.#newest.get(cluster);
    const age = this.#deps.clock.now() - Math.max(newest ?? 0, record.founded.at);
    if (age <= 2 * duration(every)) return undefined;
    const failed = this.#failed.get(cluster);
    const last = newest === undefined ? 'it has none' : `the newest is ${spanText(age as Millis)} old`;
    return `snapshots are asked for every ${every}: ${last}${failed ? `; the last attempt failed: ${failed.text}` : ''}`;
  }

  close(): Promise<void> {
    return this.#copying;
  }

  #founding(cluster: string): FoundingRecord | undefined {
    return this.#deps.records().find((record) => record.cluster === cluster);
  }

  #due(cluster: string): number | undefined {
    const every = this.#deps.setting(cluster)?.every;
    if (every === undefined) return undefined;
    const known = { newest: this.#newest.get(cluster), failed: this.#failed.get(cluster)?.at };
    return nextDue(duration(every), known, this.#deps.clock.now());
  }

  /** The order that the schedule makes now, if any. */
  #scheduled(cluster: string): Order | undefined {
    if (this.#deps.clock.doubt() !== undefined) return undefined;
    const due = this.#due(cluster);
    if (due === undefined || due > this.#deps.clock.now()) return undefined;
    const record = this.#founding(cluster);
    if (!record?.founded || record.restoring || record.reset) return undefined;
    return this.#begin(cluster, 'schedule');
  }

  #begin(cluster: string, by: Order['by']): Order {
    const { clock } = this.#deps;
    const id = newSnapshotId(clock.now(), randomBytes(2));
    const order: Order = { id, cluster, by, movedAt: clock.monotonic(), refused: new Map() };
    this.#orders.set(cluster, order);
    return order;
  }

  #stalled({ movedAt }: Order): boolean {
    return this.#deps.clock.monotonic() - movedAt > STALLED;
  }

  #orderOf(machine: string, id: string): Order {
    const order = [...this.#orders.values()].find((one) => one.id === id && one.machine === machine);
    if (order) return order;
    throw new MusterError('E_SNAPSHOT', `${machine} was not ordered to take snapshot ${id.slice(0, 40)}`);
  }

  #fail(order: Order, text: string): void {
    const { clock, events, log } = this.#deps;
    const { cluster, id, receiving } = order;
    this.#orders.delete(cluster);
    this.#failed.set(cluster, { id, at: clock.now(), text });
    void receiving?.abort().catch((err: unknown) => log.warn({ err }, 'cannot remove part of a snapshot'));
    events.record({
      kind: 'cluster.snapshot',
      subject: `Cluster/${cluster}`,
      reason: { code: 'failed', text: `Snapshot ${id} was not taken: ${text}` },
      fields: { snapshot: id },
    });
  }

  /** Makes the copies of a new snapshot, and removes those that are surplus. Never rejects. */
  async #follow(snapshot: Snapshot): Promise<void> {
    const { files, copies, nameOfCopy, setting, clock, log } = this.#deps;
    const { cluster } = snapshot;
    const { to = [], keep = KEPT_SNAPSHOTS } = setting(cluster) ?? {};
    const made: NonNullable<Snapshot['copies']> = [];
    for (const one of to) {
      const fault = await copies.put(snapshot, one).then(() => undefined, String);
      made.push({ to: nameOfCopy(one), at: clock.now(), ...(fault !== undefined && { fault }) });
      if (fault !== undefined) this.#copyFailed(snapshot, nameOfCopy(one), fault);
    }
    try {
      if (made.length > 0) await files.describe({ ...snapshot, copies: made });
      if (setting(cluster) === undefined || clock.doubt() !== undefined) return;
      for (const id of surplus((await files.list(cluster)).items, keep, clock.now())) {
        for (const one of to)
          await copies
            .remove({ cluster, id }, one)
            .catch((error: unknown) => this.#copyFailed({ cluster, id }, nameOfCopy(one), String(error)));
        await files.remove(cluster, id);
      }
    } catch (err) {
      log.error({ cluster, err }, 'cannot keep the snapshots of etcd in order');
    }
  }

  #copyFailed({ cluster, id }: Pick<Snapshot, 'cluster' | 'id'>, to: string, fault: string): void {
    this.#deps.events.record({
      kind: 'cluster.snapshot',
      subject: `Cluster/${cluster}`,
      reason: { code: 'copy_failed', text: `The copy of snapshot ${id} in ${to} failed: ${fault}` },
      fields: { snapshot: id, to },
    });
  }
}
