/** Events and entries of the security log. */
import { z } from 'zod';
import { EVENT_KINDS, type EventKind } from '../../events/event.ts';
import { type Contracts, count, MAX_LIMIT, on, raw, reason, time, word } from './contract.ts';

const details = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
const actor = z.strictObject({ uid: z.int().optional(), user: z.string(), pid: z.int().optional() });

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

const entry = z
  .strictObject({
    sequence: z.int(),
    at: time,
    kind: z.string(),
    subject: z.string(),
    session: z.string().optional(),
    network: z.string().optional(),
    reason: reason.optional(),
    fields: details.optional(),
    actor: actor.optional(),
    prev: z.string(),
    hash: z.string(),
  })
  .meta({ id: 'AuditEntry' });

const query = z.strictObject({
  subject: word('A machine, a hardware address in any spelling, or `Kind/name`.'),
  after: count('Only those after this sequence number.', Number.MAX_SAFE_INTEGER),
  limit: count('At most so many of the newest.', MAX_LIMIT),
  follow: on('Streams them, and those that come (server-sent events); Last-Event-ID continues a stream.'),
});

const place = { sequence: z.int(), hash: z.string() };

export const EVENTS = {
  'GET /v1/events': {
    access: 'view',
    within: true,
    summary: 'Lists events, newest last, or streams them: those that are kept, then those that happen.',
    query,
    answer: z.strictObject({ kind: z.literal('EventList'), items: z.array(event) }),
    streams: true,
  },
  'GET /v1/audit': {
    access: 'audit',
    summary: 'Shows the security log: public key, newest entry, newest checkpoint, size.',
    answer: z.strictObject({
      kind: z.literal('AuditStatus'),
      key: z.strictObject({ id: z.string(), pem: z.string() }),
      head: z.strictObject(place).optional(),
      checkpoint: z.strictObject({ ...place, signature: z.string() }).optional(),
      first: z.int().optional(),
      octets: z.int(),
      segments: z.int(),
      failing: z.boolean(),
    }),
  },
  'GET /v1/audit/entries': {
    access: 'audit',
    summary: 'Lists the newest entries of the security log, newest last, or streams them.',
    query,
    answer: z.strictObject({ kind: z.literal('AuditEntryList'), items: z.array(entry) }),
    streams: true,
  },
  'GET /v1/audit/export': {
    access: 'audit',
    summary: 'Exports all of its lines, oldest first; the last is a checkpoint.',
    answer: raw('application/jsonl', 'One entry or checkpoint a line.'),
  },
} as const satisfies Contracts;
