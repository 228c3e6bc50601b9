/** Which disks of a machine are used for what, and whether one can be booted from. Pure. */
import type { DiskSelector, ImageSpec } from './kinds.ts';

interface Disks {
  readonly dataDisk?: DiskSelector | undefined;
  readonly bootDisk?: DiskSelector | undefined;
}

/** The disk that the narrowest of `layers` names, which come narrowest first. */
export function narrowestDisk(
  field: keyof Disks,
  layers: readonly (Disks | undefined)[],
): DiskSelector | undefined {
  for (const layer of layers) if (layer?.[field] !== undefined) return layer[field];
  return undefined;
}

/**
 * Why a machine with this data disk cannot keep what it boots from; undefined when it can. Without
 * `image` that is not judged.
 */
export function bootDiskFault(
  data: DiskSelector | undefined,
  image?: Pick<ImageSpec, 'root' | 'configFormat'>,
): string | undefined {
  if (data === undefined)
    return 'a boot disk needs a dataDisk beside it: what a machine does by itself is kept there, with its keys';
  if (image !== undefined && (image.root === undefined || image.configFormat === 'none'))
    return 'a boot disk needs an image with a root image, and cloud-init or Ignition, such as `muster image build debian` makes';
  return undefined;
}
