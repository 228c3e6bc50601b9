/** The image that a machine of a cluster runs, and the one that it would boot. */
import type { Running } from '../../resolve/release.ts';
import type { WantedImage } from './order.ts';

export interface ImageOfMachine {
  readonly machine: string;
  /** The name of the Image, or the beginning of its root image's SHA-256; absent: not known. */
  readonly runs?: string;
  readonly wants?: string;
  /** Whether it is known that they differ. */
  readonly outdated: boolean;
}

export type ImageOf = (machine: string) => ImageOfMachine;

interface ImagesDeps {
  readonly running: Running;
  /** What the machine would boot now. */
  readonly wants: (machine: string) => WantedImage | undefined;
  /** The name of the Image with this root image. */
  readonly imageName: (root: string) => string | undefined;
}

/** Makes the function that compares the images of a machine. */
export const createImageOf =
  ({ running, wants, imageName }: ImagesDeps): ImageOf =>
  (machine) => {
    const cluster = running.clusterOf(machine);
    const root = cluster === undefined ? undefined : running.of(cluster)?.machines.get(machine)?.image;
    const wanted = wants(machine);
    const outdated = root !== undefined && wanted?.root !== undefined && wanted.root !== root;
    const runs = root === wanted?.root ? wanted?.name : root && (imageName(root) ?? root.slice(0, 12));
    return {
      machine,
      ...(root !== undefined && runs !== undefined && { runs }),
      ...(wanted && { wants: wanted.name }),
      outdated,
    };
  };
