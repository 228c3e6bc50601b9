/**
 * The durable state of the change of a cluster: `change/CLUSTER` in the store. There is at most one
 * at a time. When a change has ended, its record stays as the report until the next change begins;
 * then it is kept as `past-change/CLUSTER/ID`.
 */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';

const evidence = z.strictObject({
  /** Ms since 1970, like all times of a record. */
  at: z.int(),
  text: z.string(),
});
export type Evidence = z.output<typeof evidence>;

/**
 * A step that is over. The evidence of its machines is in a record of its own, since that of a
 * thousand machines for all steps would not fit into one record.
 */
const past = z.strictObject({
  step: z.string(),
  route: z.enum(['forward', 'back']),
  since: z.int(),
  until: z.int(),
  /** How many machines have shown evidence. */
  machines: z.int(),
  /** What was observed of the cluster as a whole. */
  text: z.string().optional(),
});

const schema = z.strictObject({
  v: z.literal(1),
  cluster: z.string(),
  id: z.string().min(1),
  /** For example `rotation`. */
  kind: z.string(),
  /** What was ordered; the kind checks it. */
  order: z.unknown(),
  /** The operator who ordered it, or `muster`. */
  by: z.string(),
  at: z.int(),
  route: z.enum(['forward', 'back']),
  step: z.string(),
  /** When the step began. */
  since: z.int(),
  /** Whether the boot host has done its part of the step. */
  acted: z.boolean(),
  /** Machine → its evidence for this step. */
  evidence: z.record(z.string(), evidence),
  /** Machines whose turn it is, in steps that few machines do at a time. */
  turns: z.array(z.string()),
  /** When a machine last got its turn. */
  turnedAt: z.int().optional(),
  past: z.array(past),
  /** Steps before which the change pauses by itself. */
  pauseBefore: z.array(z.string()),
  paused: z.strictObject({ at: z.int(), by: z.string() }).optional(),
  holding: z.strictObject({ at: z.int(), code: z.string(), text: z.string(), remedy: z.string() }).optional(),
  /** Machines that are not waited for, for example because they are off. */
  without: z.array(z.string()),
  ended: z.strictObject({ at: z.int(), as: z.enum(['done', 'rolled-back']) }).optional(),
});

/** `order` is checked by the kind of change before it is used. */
export type ChangeRecord<Order = unknown> = Omit<z.output<typeof schema>, 'order'> & {
  readonly order: Order;
};

/** The record `change-evidence/CLUSTER/ID/ROUTE/STEP`: what machines showed in a past step. */
export interface StepEvidence {
  readonly v: 1;
  readonly evidence: Readonly<Record<string, Evidence>>;
}

const stepEvidence = z.strictObject({ v: z.literal(1), evidence: z.record(z.string(), evidence) });

export const encodeChange = (record: ChangeRecord): string => JSON.stringify(record);

/**
 * Reads a stored change.
 *
 * @throws {MusterError} E_CHANGE when the record is not a change of a version known here. Such a
 *   record is never treated as absent, because a second change would be started.
 */
export function decodeChange(key: string, value: string): ChangeRecord {
  const read = schema.safeParse(parsed(value));
  if (!read.success) throw new MusterError('E_CHANGE', `${key} is not a change of a version known here`);
  return read.data as ChangeRecord;
}

/**
 * Reads the stored evidence of a step.
 *
 * @throws {MusterError} E_CHANGE when the record is not of a version known here.
 */
export function decodeStepEvidence(key: string, value: string): StepEvidence {
  const read = stepEvidence.safeParse(parsed(value));
  if (!read.success) throw new MusterError('E_CHANGE', `${key} is not evidence of a version known here`);
  return read.data;
}
