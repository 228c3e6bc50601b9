/** Handlers for snapshots of clusters' etcd. */
import { MusterError } from '../base/errors.ts';
import { beforeChange } from '../base/rehearsal.ts';
import { keysBrought } from '../cluster/backup/readers.ts';
import type { Snapshot } from '../cluster/backup/snapshot.ts';
import type { SnapshotList } from '../cluster/backup/snapshots.ts';
import type { EncryptionKeyset } from '../pki/encryption.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';
import { partOf } from './listing.ts';
import { type Timestamp, timestamp } from './times.ts';

type H = Handler<ApiDeps>;

type SnapshotCopyView = Omit<NonNullable<Snapshot['copies']>[number], 'at'> & { readonly at: Timestamp };

/** A snapshot as the API shows it, without its sealed key. */
export type SnapshotView = Omit<Snapshot, 'v' | 'takenAt' | 'sealed' | 'copies'> & {
  readonly takenAt: Timestamp;
  /** The vault key that its own key is sealed with. */
  readonly vaultKey: string;
  readonly copies: readonly SnapshotCopyView[];
  /** Ended encryption keys with which API servers read again after a restore; absent: none. */
  readonly readers?: readonly string[];
};

/** The snapshots of a cluster as the API shows them. */
export type SnapshotListView = Omit<SnapshotList, 'items' | 'failed' | 'due'> & {
  readonly items: readonly SnapshotView[];
  readonly failed?: { readonly id: string; readonly at: Timestamp; readonly text: string };
  readonly due?: Timestamp;
};

function viewOf(
  { v: _, sealed, takenAt, copies = [], ...snapshot }: Snapshot,
  keyset: EncryptionKeyset | undefined,
): SnapshotView {
  const readers = keysBrought(keyset, snapshot);
  return {
    ...snapshot,
    ...(readers.length > 0 && { readers }),
    takenAt: timestamp(takenAt),
    vaultKey: sealed.kid,
    copies: copies.map((copy) => ({ ...copy, at: timestamp(copy.at) })),
  };
}

/** A cluster with a document, or one whose founding is recorded. */
function clusterOf({ params }: Parameters<H>[0], { catalog, founding }: ApiDeps): string {
  const name = params.name ?? '';
  if (catalog.get('Cluster', name) === undefined && founding.record(name) === undefined)
    throw new MusterError('E_NOT_FOUND', `there is no Cluster "${name}"; \`muster get clusters\` lists them`);
  return name;
}

/** Lists the snapshots of a cluster. */
export const listSnapshots: H = async (request, deps) => {
  const cluster = clusterOf(request, deps);
  const { items, failed, due, ...list } = await deps.snapshots.list(cluster);
  const keyset = await deps.pki.encryption(cluster);
  const views = items.map((one) => viewOf(one, keyset));
  const view: SnapshotListView = {
    ...list,
    ...partOf(request.query, views, ({ id }) => id),
    ...(failed && { failed: { ...failed, at: timestamp(failed.at) } }),
    ...(due !== undefined && { due: timestamp(due) }),
  };
  return json(view);
};

/** Orders a snapshot; a healthy member takes it with its next poll. */
export const orderSnapshot: H = (request, deps) => json(deps.snapshots.order(clusterOf(request, deps)), 202);

/** Reads a snapshot to its end. */
export const verifySnapshot: H = async ({ params }, { snapshots, pki }) => {
  const snapshot = await snapshots.get(params.name ?? '', params.id ?? '');
  await snapshots.verify(snapshot);
  return json(viewOf(snapshot, await pki.encryption(snapshot.cluster)));
};

/** Answers with a snapshot in the clear. */
export const snapshotContent: H = async ({ params }, { snapshots }) => {
  const snapshot = await snapshots.get(params.name ?? '', params.id ?? '');
  beforeChange(`give out snapshot ${snapshot.id}`);
  return {
    status: 200,
    headers: { 'content-type': 'application/octet-stream', 'content-length': String(snapshot.size) },
    body: snapshots.read(snapshot),
  };
};
