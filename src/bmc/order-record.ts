/** The stored form of an order. */
import { z } from 'zod';
import { parsed } from '../base/foreign-json.ts';
import { BMC_FAULTS, BOOT_TARGETS, POWER_ORDERS, POWER_STATES } from './bmc.ts';
import { type EndName, NAMES, type Order, STEPS, WANTS } from './order.ts';

const state = z.enum(POWER_STATES);

const record = z.strictObject({
  v: z.literal(1),
  id: z.string(),
  machine: z.string(),
  want: z.enum(WANTS),
  boot: z.strictObject({ target: z.enum(BOOT_TARGETS), uefi: z.boolean() }).optional(),
  by: z.string(),
  at: z.number(),
  from: z.number(),
  patience: z.number(),
  hardAfter: z.number().optional(),
  once: z.boolean().optional(),
  recovered: z.array(z.number()).optional(),
  group: z.strictObject({ id: z.string(), atOnce: z.int() }).optional(),
  step: z.enum(STEPS),
  since: z.number(),
  read: state.optional(),
  state: state.optional(),
  sets: z.int(),
  rung: z.int(),
  command: z.enum(POWER_ORDERS).optional(),
  sent: z.number().optional(),
  begun: z.number().optional(),
  fault: z
    .strictObject({
      code: z.enum(BMC_FAULTS),
      message: z.string(),
    })
    .optional(),
  end: z
    .strictObject({
      proved: z.boolean(),
      code: z.enum(['proved', ...(Object.keys(NAMES) as EndName[])]),
      text: z.string(),
      at: z.number(),
    })
    .optional(),
});

export const encodeOrder = (order: Order): string => JSON.stringify({ v: 1, ...order });

/** Reads a record; undefined for one that is not of a version known here. */
export function decodeOrder(text: string): Order | undefined {
  const read = record.safeParse(parsed(text)).data;
  if (read === undefined) return undefined;
  const { v: _, ...order } = read;
  return order;
}
