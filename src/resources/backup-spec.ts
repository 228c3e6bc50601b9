/** The setting `backup` of a Cluster: snapshots of its etcd. */
import { z } from 'zod';
import { absolutePath, duration } from './fields.ts';

/** Snapshots that are kept unless the Cluster says how many. */
export const KEPT_SNAPSHOTS = 28;

const copy = z.union([
  z.strictObject({
    directory: absolutePath.meta({
      description:
        'A directory of the boot host, for example of a mounted share. It must exist: Muster does not make it, so that nothing is written where a share is not mounted.',
    }),
  }),
  z.strictObject({
    command: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'not the name of a program; write it without a path')
      .meta({
        description:
          'Name of a program in /etc/muster/backup-commands of the boot host. It is called with put or remove, the name of the cluster, the id of the snapshot, and for put the paths of its two files.',
      }),
  }),
]);

export const backupSpec = z.strictObject({
  every: duration.optional().meta({
    description: 'How often a snapshot of etcd is taken, for example 6h. Absent: only when ordered.',
  }),
  keep: z
    .int()
    .min(1)
    .max(1000)
    .optional()
    .meta({
      description: `How many snapshots are kept; the oldest are removed. Default ${KEPT_SNAPSHOTS}.`,
    }),
  to: z.array(copy).max(8).optional().meta({
    description: 'Where copies go in addition to the state directory of the boot host. They are sealed.',
  }),
});

export type BackupSpec = z.output<typeof backupSpec>;
export type SnapshotCopy = NonNullable<BackupSpec['to']>[number];
