/** Snapshots of clusters' etcd. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import { keysBrought } from '../../cluster/backup/readers.ts';
import { type Snapshot, snapshotForm } from '../../cluster/backup/snapshot.ts';
import type { Snapshots } from '../../cluster/backup/snapshots.ts';
import type { FoundingOrders } from '../../cluster/etcd/commands.ts';
import type { EncryptionKeyset } from '../../pki/encryption.ts';
import type { Pki } from '../../pki/pki.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { itemsOf, part, raw as rawType, time } from '../contract/contract.ts';
import { partOf } from '../listing.ts';
import { operation, raw, reply } from '../operation.ts';
import { timestamp } from '../times.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  readonly founding: FoundingOrders;
  readonly snapshots: Pick<Snapshots, 'order' | 'list' | 'get' | 'verify' | 'read'>;
  readonly pki: Pick<Pki, 'encryption'>;
}

type SnapshotDeps = Pick<Deps, 'snapshots'>;

const snapshot = z
  .strictObject({
    ...snapshotForm(time),
    readers: z.array(z.string()).optional().meta({
      description: 'Ended encryption keys with which API servers read again after a restore of it.',
    }),
    vaultKey: z.string(),
  })
  .meta({ id: 'Snapshot' });

/** A snapshot as it is shown, without its sealed key. */
function viewOf(
  { v: _, sealed, takenAt, copies = [], ...one }: Snapshot,
  keyset: EncryptionKeyset | undefined,
) {
  const readers = keysBrought(keyset, one);
  return {
    ...one,
    ...(readers.length > 0 && { readers }),
    takenAt: timestamp(takenAt),
    vaultKey: sealed.kid,
    copies: copies.map((copy) => ({ ...copy, at: timestamp(copy.at) })),
  };
}

/** A cluster with a document, or one whose founding is recorded. */
function checkCluster(name: string, { catalog, founding }: Pick<Deps, 'catalog' | 'founding'>): void {
  if (catalog.get('Cluster', name) === undefined && founding.record(name) === undefined)
    throw new MusterError('E_NOT_FOUND', `there is no Cluster "${name}"; \`muster get clusters\` lists them`);
}

export const SNAPSHOTS = [
  operation(
    'GET /v1/clusters/:name/backups',
    {
      access: 'view',
      summary: "Lists the snapshots of a cluster's etcd, the one that is being taken, and the last failure.",
      query: z.strictObject(part),
      answer: z.strictObject({
        ...itemsOf(snapshot),
        faults: z.array(z.string()),
        ordered: z
          .strictObject({
            id: z.string(),
            machine: z.string().optional(),
            received: z.int(),
            waits: z.string().optional().meta({ description: 'Why no member takes it yet.' }),
          })
          .optional(),
        failed: z.strictObject({ id: z.string(), at: time, text: z.string() }).optional(),
        due: time.optional(),
      }),
    },
    async ({ params: { name }, query }, deps: Deps) => {
      checkCluster(name, deps);
      const { items, failed, due, ...list } = await deps.snapshots.list(name);
      const keyset = await deps.pki.encryption(name);
      const views = items.map((one) => viewOf(one, keyset));
      return {
        ...list,
        ...partOf(query, views, ({ id }) => id),
        ...(failed && { failed: { ...failed, at: timestamp(failed.at) } }),
        ...(due !== undefined && { due: timestamp(due) }),
      };
    },
  ),
  operation(
    'POST /v1/clusters/:name/backup',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Orders a snapshot of etcd, which a healthy member takes with its next poll.',
      answer: z.strictObject({ id: z.string() }),
      statuses: [202],
    },
    ({ params: { name } }, deps: Pick<Deps, 'snapshots' | 'catalog' | 'founding'>) => {
      checkCluster(name, deps);
      return reply(deps.snapshots.order(name), 202);
    },
  ),
  operation(
    'POST /v1/clusters/:name/backups/:id/verify',
    {
      access: 'operate',
      costly: true,
      takes: 'role',
      summary: 'Reads a snapshot to its end and checks it.',
      answer: snapshot,
    },
    async ({ params }, { snapshots, pki }: Pick<Deps, 'snapshots' | 'pki'>) => {
      const found = await snapshots.get(params.name, params.id);
      await snapshots.verify(found);
      return viewOf(found, await pki.encryption(found.cluster));
    },
  ),
  operation(
    'POST /v1/clusters/:name/backups/:id/content',
    {
      access: 'administer',
      costly: true,
      takes: 'proof',
      summary: 'Answers with a snapshot in the clear, for `muster cluster backup get`; secret.',
      answer: rawType('application/octet-stream', 'The snapshot, as etcd restores it.'),
    },
    async ({ params }, { snapshots }: SnapshotDeps) => {
      const found = await snapshots.get(params.name, params.id);
      beforeChange(`give out snapshot ${found.id}`);
      return raw({
        status: 200,
        headers: { 'content-type': 'application/octet-stream', 'content-length': String(found.size) },
        body: snapshots.read(found),
      });
    },
  ),
] as const;
