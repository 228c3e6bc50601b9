/** What the replacement of a lost machine by a spare orders. Pure. */
import { z } from 'zod';
import { requestFor } from '../request.ts';

/** The kind of change, and the name by which it orders the power of machines. */
export const HEAL = 'heal';
export const HEALS = 'cluster.spares';

export const healRequest = requestFor(HEAL, {
  machine: z.string().meta({ description: 'The machine that is lost.' }),
  with: z.string().optional().meta({
    description: 'The spare that takes its place; absent: one that the Cluster selects.',
  }),
  off: z.string().optional().meta({
    description:
      "The lost machine's name, repeated: it is switched off, and nobody will switch it on. Absent: its BMC switches it off.",
  }),
});
export type HealRequest = z.output<typeof healRequest>;

export const healOrder = z.strictObject({
  machine: z.string(),
  spare: z.string(),
  /** Who proves that the machine is off. */
  fence: z.enum(['bmc', 'person']),
  /** The hardware addresses of the spare, which become those of the machine. */
  macs: z.array(z.string()),
  /** When it was ordered, ms since 1970: orders about power count from then on. */
  at: z.int(),
});
export type HealOrder = z.output<typeof healOrder>;
