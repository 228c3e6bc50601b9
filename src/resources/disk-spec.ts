/** The schemas by which documents select the disks of a machine. */
import { z } from 'zod';
import { absolutePath } from './fields.ts';

/** Selects one disk of a machine. Exactly one disk must match. */
export const diskSelector = z
  .strictObject({
    path: absolutePath
      .optional()
      .meta({ description: 'A path of the disk that does not change, e.g. /dev/disk/by-id/…' }),
    serial: z
      .string()
      .regex(/^[A-Za-z0-9._:@+-]{1,64}$/, 'not a serial number: letters, digits and "._:@+-", at most 64')
      .optional()
      .meta({ description: 'Serial number of the disk, as `lsblk -o SERIAL` shows it.' }),
    sizeMiB: z
      .int()
      .min(64)
      .max(1e9)
      .optional()
      .meta({ description: 'Size of the disk in MiB, rounded down.' }),
  })
  .refine((disk) => Object.keys(disk).length > 0, { message: 'say which disk: path, serial or sizeMiB' });

export const dataDisk = diskSelector.meta({
  description:
    'The disk that keeps the data of etcd, containerd and kubelet across reboots. Muster formats it once, if it is blank, and never again. If several of Cluster, Profile and Machine name one, Machine wins over Profile, and Profile over Cluster.',
});

export const bootDisk = diskSelector.meta({
  description:
    'The disk from which a machine of a cluster boots while the boot server does not answer. It keeps the system that the machine last booted from the network. Muster formats it if it is blank; it needs 2 GiB or more. Requires a dataDisk; if both select the same disk, Muster makes two partitions. Machine wins over Profile, and Profile over Cluster.',
});
