/** What machines report of their parts. */
import { z } from 'zod';
import { type Contracts, labelledPart, listOf, time, word } from './contract.ts';

const disk = z.strictObject({
  name: z.string().meta({ description: 'As the kernel of this boot named it.' }),
  bytes: z.int(),
  rotational: z.boolean(),
  transport: z.string().optional().meta({ description: '`nvme`, `sata`, `sas`, `usb` …' }),
  serial: z.string().optional(),
  wwn: z.string().optional(),
  model: z.string().optional(),
});

const card = z.strictObject({
  name: z.string(),
  mac: z.string(),
  link: z.boolean(),
  mbits: z.int().optional().meta({ description: 'The speed of the link, Mbit/s.' }),
  driver: z.string().optional(),
  neighbour: z
    .strictObject({
      system: z.string().optional(),
      chassis: z.string().optional(),
      port: z.string().optional(),
      portDescription: z.string().optional(),
    })
    .optional()
    .meta({ description: 'What the switch says of itself by LLDP.' }),
});

const inventory = z
  .strictObject({
    machine: z.string(),
    changedAt: time,
    from: z.enum(['agent', 'discovery']).meta({
      description:
        '`agent`: sent with the certificate of the machine. `discovery`: sent from the discovery system over plain HTTP, so that anybody on the segment may have written it.',
    }),
    processors: z.strictObject({ threads: z.int(), model: z.string().optional() }).optional(),
    memoryBytes: z.int().optional(),
    disks: z.array(disk),
    cards: z.array(card),
    system: z
      .strictObject({
        manufacturer: z.string().optional(),
        product: z.string().optional(),
        serial: z.string().optional(),
      })
      .optional(),
    firmware: z
      .strictObject({
        vendor: z.string().optional(),
        version: z.string().optional(),
        date: z.string().optional(),
      })
      .optional(),
    bmc: z.strictObject({ address: z.string() }).optional(),
    missing: z
      .array(z.strictObject({ part: z.string(), text: z.string() }))
      .optional()
      .meta({
        description:
          'Parts that the machine could not find out, because a program that it asked did not end.',
      }),
  })
  .meta({ id: 'Inventory', description: 'What a machine reports of itself. It is the machine’s claim.' });

export const INVENTORY = {
  'GET /v1/inventory': {
    access: 'view',
    within: true,
    summary: 'Lists what machines report of their parts: processors, memory, disks, cards.',
    query: z.strictObject({
      machine: word('Only this one: a name or hardware address.'),
      ...labelledPart,
    }),
    answer: listOf('InventoryList', inventory),
  },
} as const satisfies Contracts;
