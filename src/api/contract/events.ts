/** Events as they are shown. */
import { z } from 'zod';
import { EVENT_KINDS, type EventKind } from '../../events/event.ts';
import { reason, time } from './contract.ts';

export const details = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
export const actor = z.strictObject({ uid: z.int().optional(), user: z.string(), pid: z.int().optional() });

export const event = z
  .strictObject({
    sequence: z.int().meta({ description: 'Increases by one with each event since the server started.' }),
    at: time,
    kind: z.enum(Object.keys(EVENT_KINDS) as [EventKind, ...EventKind[]]),
    subject: z
      .string()
      .meta({ description: 'The name of a machine, the MAC of an unknown one, or `Kind/name`.' }),
    session: z.string().optional(),
    network: z.string().optional(),
    reason: reason.optional(),
    fields: details.optional(),
    actor: actor.optional().meta({ description: 'The operator whose request caused it.' }),
  })
  .meta({ id: 'Event' });
