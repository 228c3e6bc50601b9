/** The schema of Image documents. */
import { z } from 'zod';
import { kernelArgument, sha256 } from './fields.ts';

/**
 * A file that machines fetch, identified by its hash. The file is in the asset store.
 */
export const asset = z.strictObject({
  url: z.string().optional().meta({
    description:
      'Where the file came from: http://, https:// or file://. `muster image add` fetches it from there.',
  }),
  sha256: sha256,
  size: z
    .int()
    .min(0)
    .max(1e15)
    .optional()
    .meta({ description: 'Octets, for display only: the hash alone is compared.' }),
  name: z
    .string()
    .regex(/^[A-Za-z0-9._+-]+$/)
    .optional()
    .meta({ description: 'File name in URLs.' }),
});

const CONFIG_FORMATS = ['cloud-init', 'ignition', 'none'] as const;

export const imageSpec = z
  .strictObject({
    os: z
      .string()
      .meta({ description: 'Operating system family: debian, ubuntu, flatcar, fedora-coreos, probe …' }),
    version: z
      .string()
      .optional()
      .meta({ description: 'Version of the operating system, for display only.' }),
    arch: z
      .enum(['x86_64', 'aarch64'])
      .meta({ description: 'Architecture of the image. A machine of another architecture is held.' }),
    kernel: asset.meta({ description: 'The kernel.' }),
    initrds: z.array(asset).optional().meta({ description: 'Initial RAM disks, loaded in this order.' }),
    root: asset.optional().meta({
      description:
        "The root image (squashfs). Muster puts its SHA-256 on the kernel command line; the initrd of Muster's images verifies it before mounting.",
    }),
    disk: asset.optional().meta({
      description:
        'The octets of a whole disk with a GPT partition table, for profiles with `home: disk`. Kernel and initrds are then those of the system that installs it (`muster image add NAME --disk FILE`).',
    }),
    pieces: asset.optional().meta({
      description: 'The SHA-256 of each 4 MiB of `disk`, one a line. Machines check what they fetch by it.',
    }),
    configFormat: z.enum(CONFIG_FORMATS).meta({
      description:
        'The format of the configuration that the image reads on first boot. none: the image gets no configuration, and the `config` of all documents has no effect.',
    }),
    cloudInitVersion: z.string().optional().meta({
      description:
        'Version of cloud-init in the image, e.g. "22.4". Muster renders for it, because its behaviour differs between versions.',
    }),
    ignitionVersion: z
      .string()
      .optional()
      .meta({ description: 'Ignition spec version to render, e.g. "3.3.0" (default) or newer.' }),
    kernelArguments: z
      .array(kernelArgument)
      .optional()
      .meta({ description: 'Kernel arguments that every boot of the image gets.' }),
    programs: z
      .array(z.string().regex(/^[A-Za-z0-9._+-]+$/, 'not the name of a program'))
      .optional()
      .meta({
        description:
          'Programs in the image that a machine of a cluster may need, such as haproxy. `muster apply` warns when a Cluster needs one that is not listed, and refuses `trust: tpm` without tpm2, and `dataDisk.encrypt` without cryptsetup. Absent: unknown, and Muster does not warn. The recipes of `muster image build` fill it in.',
      }),
    reports: z.boolean().optional().meta({
      description:
        'true: the image contains /etc/muster/muster-report.sh and its systemd units, so that the configuration need not bring them. Default false. With configFormat none, machines can report only this way; without it they never become ready.',
    }),
  })
  .refine(({ disk, pieces }) => (disk === undefined) === (pieces === undefined), {
    message: 'disk and pieces need each other; `muster image add NAME --disk FILE` writes both',
  })
  .refine(({ disk, configFormat }) => disk === undefined || configFormat === 'cloud-init', {
    message:
      'an image of a disk needs configFormat cloud-init: only that configuration can be put on the disk yet',
    path: ['configFormat'],
  });
