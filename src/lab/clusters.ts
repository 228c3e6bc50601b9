/**
 * The clusters of a run as their client sees them: it gets its certificate from Muster, writes, and
 * looks.
 */
import type { Clock } from '../base/clock.ts';
import { type Millis, millis } from '../base/duration.ts';
import type { EtcdClient } from '../cluster/joining/user-credentials.ts';
import { connectEtcd, type LabEtcd } from './etcd.socket.ts';
import { type EtcdState, spanOf } from './steps.ts';
import { lost, startWriter, type Writer } from './writer.ts';

/** Between two looks. */
const POLL = millis(500);
/** Between two requests for the client's certificate, while the cluster has no keys. */
const ASK = millis(3000);

export interface ClustersDeps {
  readonly clock: Clock;
  /** Throws while the cluster has no keys. */
  readonly client: (cluster: string) => Promise<EtcdClient>;
  /** Resolves with the first sign of the cluster's founding, or when the run is over. */
  readonly opened: (cluster: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface Clusters {
  startWriting(cluster: string): void;
  stopWriting(cluster: string): Promise<void>;
  /** When power was cut: what was acknowledged before is what counts. */
  noteCut(): void;
  /** Undefined: it is so. Else what is there instead; asked again until it is so. */
  look(state: EtcdState): Promise<string | undefined>;
  /** Undefined: it became so. `stalled` ends the wait with its reason. */
  wait(state: EtcdState, stalled: () => string | undefined): Promise<string | undefined>;
  /** How many writes were acknowledged, for people. */
  writes(cluster: string): number;
  close(): Promise<void>;
}

interface Seat {
  /** The client, or its coming. */
  etcd: Promise<LabEtcd> | undefined;
  writer: Writer | undefined;
  /** Resolves when the writer runs, or the run is over. */
  begun: Promise<void> | undefined;
  firstId: string | undefined;
}

export function openClusters({ clock, client, opened, signal }: ClustersDeps): Clusters {
  const seats = new Map<string, Seat>();
  let cutAt: Millis | undefined;
  let closed = false;
  const over = () => closed || signal.aborted;

  const seatOf = (cluster: string): Seat => {
    const known = seats.get(cluster);
    if (known) return known;
    const seat: Seat = { etcd: undefined, writer: undefined, begun: undefined, firstId: undefined };
    seats.set(cluster, seat);
    return seat;
  };
  const pause = (span: Millis) => new Promise<void>((next) => clock.after(span, next));

  const connected = (cluster: string): Promise<LabEtcd> => {
    const seat = seatOf(cluster);
    seat.etcd ??= client(cluster)
      .then(connectEtcd)
      .catch((error: unknown) => {
        seat.etcd = undefined;
        throw error;
      });
    return seat.etcd;
  };

  /**
   * A member that joined since is asked at its own address; the writer keeps to the members that it
   * began with.
   */
  const meet = async (cluster: string, etcd: LabEtcd, names: readonly string[]): Promise<void> => {
    if (names.every((name) => name === '' || etcd.members.some((known) => known.name === name))) return;
    const seat = seatOf(cluster);
    seat.etcd = undefined;
    await connected(cluster).then(
      () => seat.writer || etcd.close(),
      () => {
        seat.etcd = Promise.resolve(etcd);
      },
    );
  };

  const begin = async (cluster: string, seat: Seat): Promise<void> => {
    await opened(cluster);
    while (!over()) {
      const etcd = await connected(cluster).catch(() => undefined);
      if (etcd) {
        seat.writer = startWriter(etcd, clock);
        return;
      }
      await pause(ASK);
    }
  };

  const lookAt = async (state: EtcdState): Promise<string | undefined> => {
    const { cluster, voters, written } = state;
    const etcd = await connected(cluster);
    const seat = seatOf(cluster);
    if (written) {
      if (!seat.writer || seat.writer.acknowledged.size === 0) return 'nothing was acknowledged yet';
      const until = written.upTo === undefined ? clock.now() : (cutAt ?? clock.now()) - spanOf(written.upTo);
      for (const member of written.on) {
        const missing = lost(seat.writer, await etcd.keys(member, written.alone === true), until as Millis);
        if (missing.length > 0)
          return `${member} lacks ${missing.length} of ${seat.writer.acknowledged.size}, e.g. ${missing.slice(0, 3).join(', ')}`;
      }
      return undefined;
    }
    const view = await etcd.view();
    if (!view) return 'no member answers a linearizable read';
    await meet(
      cluster,
      etcd,
      view.members.map(({ name }) => name),
    );
    if (voters !== undefined) {
      const good = view.members.filter(({ healthy, learner }) => healthy && !learner).length;
      if (good !== voters || view.members.length !== voters)
        return `${view.members.length} members, of which ${good} are voters that answer`;
      seat.firstId ??= view.clusterId;
      return undefined;
    }
    return view.clusterId === seat.firstId
      ? undefined
      : `its id is ${view.clusterId}, and was ${seat.firstId ?? 'never seen'}`;
  };
  const look = (state: EtcdState): Promise<string | undefined> =>
    lookAt(state).catch((error: Error) => error.message);

  return {
    look,
    startWriting(cluster) {
      const seat = seatOf(cluster);
      seat.begun ??= begin(cluster, seat);
    },
    async stopWriting(cluster) {
      await seatOf(cluster).writer?.stop();
    },
    noteCut() {
      cutAt = clock.now();
    },
    async wait(state, stalled) {
      for (;;) {
        const fault = await look(state);
        if (fault === undefined) return undefined;
        const why = stalled();
        if (why !== undefined) return `${fault}; ${why}`;
        await pause(POLL);
      }
    },
    writes: (cluster) => seatOf(cluster).writer?.acknowledged.size ?? 0,
    async close() {
      closed = true;
      for (const seat of seats.values()) {
        await seat.writer?.stop();
        (await seat.etcd?.catch(() => undefined))?.close();
      }
    },
  };
}
