/**
 * Selects the data disk and the boot disk of a machine, and checks whether it can have a boot disk.
 * Pure.
 */
import { type DataEncryption, diskOf, serialWord } from './disk-spec.ts';
import type { BootDiskSpec, DataDiskSpec, ImageSpec } from './kinds.ts';

export interface Disks {
  readonly dataDisk?: DataDiskSpec | undefined;
  readonly etcdDisk?: DataDiskSpec | undefined;
  readonly bootDisk?: BootDiskSpec | undefined;
}

/**
 * Returns the disk that the first layer with `field` names. `layers`: narrowest first (Machine,
 * Profile, Cluster).
 */
export function narrowestDisk<F extends keyof Disks>(
  field: F,
  layers: readonly (Disks | undefined)[],
): Disks[F] {
  for (const layer of layers) if (layer?.[field] !== undefined) return layer[field];
  return undefined;
}

/**
 * Says why a machine with this data disk and image cannot have this boot disk; undefined when it
 * can. Without `image` only the disks are checked.
 */
export function bootDiskFault(
  boot: Pick<BootDiskSpec, 'needsBootHost'>,
  data: DataDiskSpec | undefined,
  image?: Pick<ImageSpec, 'root' | 'configFormat'>,
): string | undefined {
  if (data === undefined)
    return 'a boot disk needs a dataDisk as well: it keeps the keys and the plan with which the machine starts by itself';
  if (data.encrypt === 'boot-host' && boot.needsBootHost !== true)
    return 'the machine cannot start from its boot disk alone, because only the boot host has the key of its dataDisk (encrypt: boot-host); write "needsBootHost: true" in bootDisk if that is meant, or use "encrypt: tpm"';
  if (image !== undefined && (image.root === undefined || image.configFormat === 'none'))
    return 'a boot disk needs an image with a root image and with cloud-init or Ignition, such as one made by `muster image build debian`';
  return undefined;
}

/**
 * Says why a machine with these other disks cannot have this etcd disk; undefined when it can. That
 * the image has the programs is checked as for a data disk.
 */
export function etcdDiskFault(
  etcd: DataDiskSpec,
  { data, boot }: { readonly data?: DataDiskSpec | undefined; readonly boot?: BootDiskSpec | undefined },
): string | undefined {
  if (data === undefined)
    return 'etcdDisk needs a dataDisk as well: it keeps the keys of the machine, containers and kubelet';
  for (const [field, other] of Object.entries({ dataDisk: data, bootDisk: boot }))
    if (other !== undefined && isSameDisk(other, etcd))
      return `etcdDisk and ${field} select the same disk; leave etcdDisk out, or name another disk`;
  if (boot !== undefined && etcd.encrypt === 'boot-host' && boot.needsBootHost !== true)
    return 'the machine cannot start from its boot disk alone, because only the boot host has the key of its etcdDisk (encrypt: boot-host); write "needsBootHost: true" in bootDisk if that is meant, or use "encrypt: tpm"';
  return undefined;
}

/** Says why an agent would not find the disk: it looks among whole disks only. */
export function wholeDiskFault(
  disk: DataDiskSpec | BootDiskSpec | undefined,
  field: keyof Disks,
): string | undefined {
  const whole = disk?.path === undefined ? undefined : diskOf(disk.path);
  return whole === undefined
    ? undefined
    : `${field} is ${disk?.path}, which is a partition, and Muster uses whole disks; write ${whole}`;
}

const selectorOf = ({ path, serial, sizeMiB }: DataDiskSpec | BootDiskSpec): string =>
  JSON.stringify([path, serial === undefined ? serial : serialWord(serial), sizeMiB]);

/** What an Image lists under `programs` when its machines can encrypt in that way. */
const NEEDED_PROGRAMS = {
  tpm: { cryptsetup: 'cryptsetup', tpm2: 'tpm2-tools' },
  'boot-host': { cryptsetup: 'cryptsetup' },
} as const satisfies Record<DataEncryption, Readonly<Record<string, string>>>;

/**
 * Says why machines of this image cannot have this data disk or etcd disk; undefined when they
 * can, or when the image does not list its programs.
 */
export function dataDiskFault(
  data: DataDiskSpec | undefined,
  image: { readonly name: string; readonly programs?: readonly string[] | undefined },
  field: 'dataDisk' | 'etcdDisk' = 'dataDisk',
): string | undefined {
  const { programs } = image;
  if (data?.encrypt === undefined || programs === undefined) return undefined;
  const lacking = Object.entries(NEEDED_PROGRAMS[data.encrypt]).filter(([name]) => !programs.includes(name));
  if (lacking.length === 0) return undefined;
  const packages = lacking.map(([, debian]) => debian).join(' and ');
  const names = lacking.map(([name]) => name).join(' and ');
  return `${field} with encrypt: ${data.encrypt} needs ${packages}, and the programs of Image/${image.name} do not list ${names}; build the image again by \`muster image build\`, or add them and list them`;
}

type Selector = Pick<DataDiskSpec, 'path' | 'serial'>;

/** Whether both select the same disk, also one by its serial number and one by its path. */
const isSameDisk = (one: DataDiskSpec | BootDiskSpec, other: DataDiskSpec | BootDiskSpec): boolean =>
  selectorOf(one) === selectorOf(other) || isAt(one, other.path) || isAt(other, one.path);

/**
 * Whether `path` is that of the disk. udev ends the names in /dev/disk/by-id with the serial number
 * and, for NVMe, the namespace.
 */
export function isAt({ path: own, serial }: Selector, path: string | undefined): boolean {
  if (path === undefined) return false;
  if (own !== undefined) return own === path;
  const names = path.startsWith('/dev/disk/by-id/') ? [path, path.replace(/_[0-9]+$/, '')] : [];
  return names.some((name) => name.endsWith(`_${serial}`) || name.endsWith(`-${serial}`));
}
