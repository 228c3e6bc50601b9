/** The schemas by which documents select the disks of a machine. */
import { z } from 'zod';
import { absolutePath } from './fields.ts';
import { diskFields } from './inventory-selector.ts';

/** Selects one disk of a machine. Exactly one disk must match. */
const selectorFields = {
  path: absolutePath
    .optional()
    .meta({ description: 'A path of the disk that does not change, e.g. /dev/disk/by-id/…' }),
  serial: z
    .string()
    .regex(
      /^ *[A-Za-z0-9._:@+#/=()-][A-Za-z0-9._:@+#/=() -]{0,63}$/,
      'not a serial number: letters, digits, blanks and "._:@+#/=()-", at most 64',
    )
    .optional()
    .meta({
      description:
        'Serial number of the disk, as `lsblk -o SERIAL` and `muster get inventory` show it. Blanks at its ends do not count.',
    }),
  sizeMiB: z
    .int()
    .min(64)
    .max(1e9)
    .optional()
    .meta({ description: 'Size of the disk in MiB, rounded down.' }),
} as const;

/**
 * A serial number in the form in which serial numbers are compared and passed to machines: without
 * blanks at its ends, and with `_` for what selectors and udev's names cannot have
 * (src/agent/scripts/muster-serial.sh does the same).
 */
export const serialWord = (serial: string): string =>
  serial
    .trim()
    .replaceAll(/[ \t]+/g, ' ')
    .replaceAll(/[^A-Za-z0-9._:@+-]/g, '_');

interface Selected {
  readonly path?: string | undefined;
  readonly serial?: string | undefined;
  readonly sizeMiB?: number | undefined;
}
const selects = ({ path, serial, sizeMiB }: Selected): boolean =>
  path !== undefined || serial !== undefined || sizeMiB !== undefined;
const SELECTS = { message: 'say which disk: path, serial or sizeMiB' };

/** Who gives back the key of an encrypted data filesystem. */
export const DATA_ENCRYPTIONS = ['tpm', 'boot-host'] as const;
export type DataEncryption = (typeof DATA_ENCRYPTIONS)[number];

const encrypt = z.enum(DATA_ENCRYPTIONS).optional().meta({
  description:
    'Encrypts the data filesystem when Muster makes it (LUKS2); one that exists stays as it is. tpm: the TPM 2.0 of the machine seals the key. boot-host: the boot host keeps the key and gives it to the agent at each boot, so the machine cannot start without it (docs/operating.md).',
});
const needsBootHost = z.boolean().optional().meta({
  description:
    'true: the machine needs the boot host although it has a boot disk, because its dataDisk is encrypted with `encrypt: boot-host`. Required in that case.',
});

/** Chooses the data disk from the inventory that the machine reports. */
const chooses = {
  ...diskFields,
  choose: z.enum(['largest', 'smallest']).optional().meta({
    description:
      'Which disk is taken if several fit; of equal ones, the first by serial number. Without it, exactly one has to fit.',
  }),
} as const;

const CHOICE = Object.keys(chooses) as (keyof typeof chooses)[];

type Chosen = { readonly [F in keyof typeof chooses]?: unknown };

/** Whether the boot host chooses the disk from the machine's inventory (docs/inventory.md). */
export const isByInventory = (disk: Chosen): boolean => CHOICE.some((field) => disk[field] !== undefined);

export const dataDisk = z
  .strictObject({ ...selectorFields, ...chooses, encrypt })
  .refine((disk) => selects(disk) || isByInventory(disk), {
    message: `say which disk: path, serial, sizeMiB, or ${CHOICE.join(', ')}`,
  })
  .refine((disk) => !selects(disk) || !isByInventory(disk), {
    message: `path, serial and sizeMiB name the disk; ${CHOICE.join(', ')} choose it from the inventory: write one of both`,
  })
  .meta({
    description:
      'The disk that keeps the data of etcd, containerd and kubelet across reboots. Muster formats it once, if it is blank, and never again. If several of Cluster, Profile and Machine name one, Machine wins over Profile, and Profile over Cluster. By size, rotational, transport, model or choose, the boot host chooses the disk from the inventory, once (docs/inventory.md).',
  });

export const etcdDisk = z
  .strictObject({ ...selectorFields, encrypt })
  .refine(selects, SELECTS)
  .meta({
    description:
      'A disk that keeps the data of etcd alone, on members of etcd; the dataDisk, which is required as well, keeps everything else. Muster formats it once, if it is blank, and uses it as a whole. A member that has its data on the dataDisk keeps them there until it is taken out with `--clear` and added again. Machine wins over Profile, and Profile over Cluster.',
  });

export const bootDisk = z
  .strictObject({ ...selectorFields, needsBootHost })
  .refine(selects, SELECTS)
  .meta({
    description:
      'The disk from which a machine of a cluster boots while the boot server does not answer. It keeps the system that the machine last booted from the network. Muster formats it if it is blank; it needs 2 GiB or more. Requires a dataDisk; if both select the same disk, Muster makes two partitions. Machine wins over Profile, and Profile over Cluster.',
  });

export const installDisk = z
  .strictObject({
    serial: selectorFields.serial,
    wwn: z
      .string()
      .regex(/^[!-~]{1,96}$/, 'not a world wide name: visible characters without blanks, at most 96')
      .optional()
      .meta({ description: 'World wide name of the disk, as `muster get inventory -o yaml` shows it.' }),
    ...chooses,
  })
  .refine(({ serial, wwn, ...disk }) => serial !== undefined || wwn !== undefined || isByInventory(disk), {
    message: `say which disk: serial, wwn, ${CHOICE.join(', ')}`,
  })
  .meta({
    description:
      'The disk on which `home: disk` installs the system. The machine reports its disks when it installs, and exactly one has to fit, or `choose` says which; disks at USB do not count without `transport: usb`. A disk with data is left alone until an operator releases it. Machine wins over Profile.',
  });

/** A partition, as the kernel or udev names it: the name of the disk, and what follows it. */
const PARTITION =
  /^(\/dev\/(?:(?:sd|vd|hd|xvd)[a-z]+(?=[0-9])|(?:nvme[0-9]+n|mmcblk|nbd|loop|md)[0-9]+(?=p[0-9])|disk\/.+(?=-part[0-9])))(?:p|-part)?[0-9]+$/;

/** Whether a path names a partition of a disk. */
export const isPartition = (path: string): boolean => PARTITION.test(path);

/** The path of the disk of a partition; undefined for a path that names none. */
export const diskOf = (path: string): string | undefined => PARTITION.exec(path)?.[1];
