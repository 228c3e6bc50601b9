/**
 * The schema by which Profiles select machines by what their agents report of their parts. The
 * fields have the names that `muster get inventory -o yaml` shows.
 */
import { z } from 'zod';
import { parseSize, parseSpeed } from '../base/size.ts';

const size = z
  .string()
  .refine(
    (text) => parseSize(text) !== undefined,
    'not a size; write a number and a unit, e.g. "64GiB" or "1.92TB"',
  )
  .meta({ description: 'A size with unit: MB, GB, TB, MiB, GiB, TiB.' });

const speed = z
  .string()
  .refine((text) => parseSpeed(text) !== undefined, 'not a speed; write it like "25Gbit" or "100Mbit"')
  .meta({ description: 'The speed of a link with unit: Mbit, Gbit.' });

const pattern = z.string().min(1).max(128);

/** `read` gives the number behind a value. */
const range = <S extends z.ZodType>(value: S, read: (value: z.output<S>) => number) =>
  z
    .strictObject({ min: value.optional(), max: value.optional() })
    .refine(({ min, max }) => min !== undefined || max !== undefined, { message: 'say min, max or both' })
    .refine(({ min, max }) => min === undefined || max === undefined || read(min) <= read(max), {
      message: 'min is larger than max, so nothing fits',
    });

const counted = range(z.int().min(0).max(100_000).meta({ description: 'A whole number.' }), Number);
/** A malformed size has an issue of its own. */
const sizeRange = range(size, (text) => parseSize(text) ?? 0);
const speedRange = range(speed, (text) => parseSpeed(text) ?? 0);

/** Which disks of an inventory are meant; disks at USB only where `transport` says so. */
export const diskFields = {
  size: sizeRange.optional().meta({
    description: 'Size of the disk. Manufacturers count in GB and TB: a disk of 960 GB fits "960GB".',
  }),
  rotational: z
    .boolean()
    .optional()
    .meta({ description: 'true: a disk that turns. false: flash. Virtual disks often say true.' }),
  transport: z.enum(['nvme', 'sata', 'sas', 'fc', 'usb', 'virtio']).optional().meta({
    description: 'How the disk is attached. Without it, disks at USB do not count.',
  }),
  model: pattern
    .optional()
    .meta({ description: 'Model of the disk, or the beginning of one followed by *.' }),
} as const;

const some = (fields: object): boolean => Object.values(fields).some((value) => value !== undefined);
const SOME = { message: 'say what is wanted; an empty mapping selects nothing' };

const disks = z
  .strictObject({
    count: counted.optional().meta({ description: 'How many disks fit the other fields. Default min: 1.' }),
    ...diskFields,
  })
  .refine(some, SOME)
  .meta({ description: 'The disks that the machine has to have.' });

const cards = z
  .strictObject({
    count: counted.optional().meta({ description: 'How many cards fit the other fields. Default min: 1.' }),
    speed: speedRange.optional().meta({ description: 'Speed of the link; a card without a link has none.' }),
    driver: pattern
      .optional()
      .meta({ description: 'Driver of the card, or the beginning of one followed by *, e.g. "mlx5*".' }),
    switch: pattern.optional().meta({
      description: 'Name of the switch at the other end (LLDP), or the beginning of one followed by *.',
    }),
    port: pattern.optional().meta({
      description: 'Port of the switch (LLDP), or the beginning of one followed by *, e.g. "Ethernet1*".',
    }),
  })
  .refine(some, SOME)
  .meta({ description: 'The network cards that the machine has to have. One card has to fit all fields.' });

export const inventorySelector = z
  .strictObject({
    processors: counted
      .optional()
      .meta({ description: 'Processors as the kernel counts them (threads of all cores).' }),
    memory: sizeRange.optional().meta({
      description:
        'Memory. Kernels report up to a sixteenth less than is installed, so that much less fits `min` as well.',
    }),
    disks: disks.optional(),
    cards: cards.optional(),
  })
  .refine(some, SOME)
  .meta({
    description:
      'What the agent of the machine reports of its parts (`muster get inventory`). A machine that has not reported yet is not selected. It is the machine’s claim: the Profile cannot bring it Secrets. The inventory with which a machine boots counts until `muster machine accept` (docs/inventory.md).',
  });

export type InventorySelector = z.output<typeof inventorySelector>;
