/**
 * Selects the data disk and the boot disk of a machine, and checks whether it can have a boot disk.
 * Pure.
 */
import type { DiskSelector, ImageSpec } from './kinds.ts';

interface Disks {
  readonly dataDisk?: DiskSelector | undefined;
  readonly bootDisk?: DiskSelector | undefined;
}

/**
 * Returns the disk that the first layer with `field` names. `layers`: narrowest first (Machine,
 * Profile, Cluster).
 */
export function narrowestDisk(
  field: keyof Disks,
  layers: readonly (Disks | undefined)[],
): DiskSelector | undefined {
  for (const layer of layers) if (layer?.[field] !== undefined) return layer[field];
  return undefined;
}

/**
 * Says why a machine with this data disk and image cannot have a boot disk; undefined when it can.
 * Without `image` only the data disk is checked.
 */
export function bootDiskFault(
  data: DiskSelector | undefined,
  image?: Pick<ImageSpec, 'root' | 'configFormat'>,
): string | undefined {
  if (data === undefined)
    return 'a boot disk needs a dataDisk as well: it keeps the keys and the plan with which the machine starts by itself';
  if (image !== undefined && (image.root === undefined || image.configFormat === 'none'))
    return 'a boot disk needs an image with a root image and with cloud-init or Ignition, such as one made by `muster image build debian`';
  return undefined;
}
