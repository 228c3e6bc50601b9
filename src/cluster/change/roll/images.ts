/** The image that a machine of a cluster runs, and the one that it would boot. */
import { z } from 'zod';
import type { Parsed } from '../../../base/body.ts';
import type { Running } from '../../resolve/release.ts';
import type { WantedImage } from './order.ts';

/** The images of a machine, as the API shows them as well. */
export const imagesOfMachine = z.strictObject({
  runs: z.string().optional().meta({
    description: 'The name of the Image that it booted, or the beginning of the SHA-256 of its root image.',
  }),
  wants: z.string().optional().meta({ description: 'The name of the Image that it would boot.' }),
  outdated: z.boolean().meta({ description: 'It is known that the two differ.' }),
});
export type ImageOfMachine = Parsed<z.output<typeof imagesOfMachine>> & { readonly machine: string };

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
