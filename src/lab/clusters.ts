/**
 * The clusters of a run, as a client of their etcd sees them. The client gets its certificate from
 * Muster, writes to all members, and reads the keys back.
 */
import type { Clock } from '../base/clock.ts';
import { type Millis, millis } from '../base/duration.ts';
import type { EtcdView } from '../cluster/etcd/founding.ts';
import type { EtcdClient } from '../cluster/joining/user-credentials.ts';
import { connectEtcd, type LabEtcd } from './etcd.socket.ts';
import { type EtcdState, spanOf } from './steps.ts';
import { lost, startWriter, type Writer } from './writer.ts';

/** The pause between two reads while a state is waited for. */
const POLL = millis(500);
/** The pause between two requests for the client's certificate while the cluster has no keys. */
const ASK = millis(3000);

interface ClustersDeps {
  readonly clock: Clock;
  /**
   * Makes a client certificate, and returns it with the members' addresses. Throws while the
   * cluster has no keys.
   */
  readonly credentials: (cluster: string) => Promise<EtcdClient>;
  /** Resolves with the first event about the cluster's founding, or when the run is over. */
  readonly opened: (cluster: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface Clusters {
  startWriting(cluster: string): void;
  stopWriting(cluster: string): Promise<void>;
  /** Notes that power is cut now. `written.upTo` is a time before this moment. */
  noteCut(): void;
  /**
   * Resolves with undefined when etcd is in that state, otherwise with a text that says what was
   * found.
   */
  look(state: EtcdState): Promise<string | undefined>;
  /**
   * Repeats `look` until etcd is in that state, and resolves with undefined; or ends with a text
   * that says what was found, and the reason that `stalled` gives.
   */
  wait(state: EtcdState, stalled: () => string | undefined): Promise<string | undefined>;
  /** The number of writes that were acknowledged so far. */
  writes(cluster: string): number;
  close(): Promise<void>;
}

interface Client {
  /** The connection; undefined before its first use, and after it failed. */
  etcd: Promise<LabEtcd> | undefined;
  writer: Writer | undefined;
  /** Resolves when the writer runs, or when the run is over. */
  begun: Promise<void> | undefined;
  /** The id of the etcd cluster that was seen first, to notice a second cluster. */
  firstId: string | undefined;
}

/** Opens the clusters of a run; each is connected when it is first used. */
export function openClusters({ clock, credentials, opened, signal }: ClustersDeps): Clusters {
  const clients = new Map<string, Client>();
  let cutAt: Millis | undefined;
  let closed = false;
  const over = () => closed || signal.aborted;

  const clientOf = (cluster: string): Client => {
    const known = clients.get(cluster);
    if (known) return known;
    const client: Client = { etcd: undefined, writer: undefined, begun: undefined, firstId: undefined };
    clients.set(cluster, client);
    return client;
  };
  const pause = (span: Millis) => new Promise<void>((next) => clock.after(span, next));

  const connected = (cluster: string): Promise<LabEtcd> => {
    const client = clientOf(cluster);
    client.etcd ??= credentials(cluster)
      .then(connectEtcd)
      .catch((error: unknown) => {
        client.etcd = undefined;
        throw error;
      });
    return client.etcd;
  };

  /**
   * Connects again when `names` has a member that joined later, so that it is read at its own
   * address. The writer keeps writing to the members with which it began.
   */
  const includeNewMembers = async (
    cluster: string,
    etcd: LabEtcd,
    names: readonly string[],
  ): Promise<void> => {
    if (names.every((name) => name === '' || etcd.members.some((known) => known.name === name))) return;
    const client = clientOf(cluster);
    client.etcd = undefined;
    await connected(cluster).then(
      () => client.writer || etcd.close(),
      () => {
        client.etcd = Promise.resolve(etcd);
      },
    );
  };

  const begin = async (cluster: string, client: Client): Promise<void> => {
    await opened(cluster);
    while (!over()) {
      const etcd = await connected(cluster).catch(() => undefined);
      if (etcd) {
        client.writer = startWriter(etcd, clock);
        return;
      }
      await pause(ASK);
    }
  };

  const lookAt = async (state: EtcdState): Promise<string | undefined> => {
    const { cluster, voters, written } = state;
    const etcd = await connected(cluster);
    const client = clientOf(cluster);
    if (written) {
      const until = written.upTo === undefined ? clock.now() : (cutAt ?? clock.now()) - spanOf(written.upTo);
      return await missingWrites(client, etcd, written, until as Millis);
    }
    const view = await etcd.view();
    if (!view) return 'no member answers a linearizable read';
    await includeNewMembers(
      cluster,
      etcd,
      view.members.map(({ name }) => name),
    );
    return memberFault(client, view, voters);
  };
  const look = (state: EtcdState): Promise<string | undefined> =>
    lookAt(state).catch((error: Error) => error.message);

  return {
    look,
    startWriting(cluster) {
      const client = clientOf(cluster);
      client.begun ??= begin(cluster, client);
    },
    async stopWriting(cluster) {
      await clientOf(cluster).writer?.stop();
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
    writes: (cluster) => clientOf(cluster).writer?.acknowledged.size ?? 0,
    async close() {
      closed = true;
      for (const client of clients.values()) {
        await client.writer?.stop();
        (await client.etcd?.catch(() => undefined))?.close();
      }
    },
  };
}

/** Which acknowledged writes a member lacks; undefined when all are there. */
async function missingWrites(
  { writer }: Client,
  etcd: LabEtcd,
  { on, alone }: NonNullable<EtcdState['written']>,
  until: Millis,
): Promise<string | undefined> {
  if (!writer || writer.acknowledged.size === 0) return 'nothing was acknowledged yet';
  for (const member of on) {
    const missing = lost(writer, await etcd.keys(member, alone === true), until);
    if (missing.length > 0)
      return `${member} lacks ${missing.length} of ${writer.acknowledged.size}, e.g. ${missing.slice(0, 3).join(', ')}`;
  }
  return undefined;
}

/**
 * Whether etcd has exactly `voters` members that answer or, without `voters`, still the id that was
 * seen first. Returns undefined, or a text that says what was found.
 */
function memberFault(client: Client, view: EtcdView, voters: number | undefined): string | undefined {
  if (voters === undefined)
    return view.clusterId === client.firstId
      ? undefined
      : `its id is ${view.clusterId}, and was ${client.firstId ?? 'never seen'}`;
  const good = view.members.filter(({ healthy, learner }) => healthy && !learner).length;
  if (good !== voters || view.members.length !== voters)
    return `${view.members.length} members, of which ${good} are voters that answer`;
  client.firstId ??= view.clusterId;
  return undefined;
}
