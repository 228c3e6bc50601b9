/** The stored form of a founding's record. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { KEYS } from '../../store/keys.ts';
import { type FoundingRecord, LEAVING_STAGES, STAGES } from './founding.ts';

const member = z.strictObject({ name: z.string(), address: z.string() });
const texts = z.record(z.string(), z.string());

const schema = z.strictObject({
  v: z.literal(1),
  cluster: z.string(),
  id: z.string().min(1),
  openedAt: z.int(),
  openedBy: z.enum(['all-asked', 'person']),
  members: z.array(member),
  grants: texts,
  founded: z.strictObject({ at: z.int(), by: z.string(), snapshot: z.string().optional() }).optional(),
  joined: texts,
  lists: z.record(z.string(), z.array(member)),
  replacing: z
    .strictObject({
      member: z.string(),
      address: z.string(),
      filesystem: z.string(),
      stage: z.enum(STAGES),
      added: z.strictObject({ id: z.string(), members: z.array(member) }).optional(),
    })
    .optional(),
  former: z.array(z.string()).optional(),
  leaving: z
    .record(
      z.string(),
      z.strictObject({
        stage: z.enum(LEAVING_STAGES),
        since: z.int(),
        member: z.string().optional(),
        node: z.boolean(),
        clear: z.boolean(),
        drainUntil: z.int(),
        quarantine: z.literal(true).optional(),
      }),
    )
    .optional(),
  reset: z.strictObject({ at: z.int(), cleared: z.array(z.string()) }).optional(),
  restoring: z
    .strictObject({
      member: z.string(),
      address: z.string(),
      filesystem: z.string(),
      id: z.string().min(1),
      at: z.int(),
      snapshot: z.string().optional(),
    })
    .optional(),
});

/** The members at the founding, except those that have left since. */
export const recordedMembers = ({ members, former }: FoundingRecord): FoundingRecord['members'] =>
  members.filter(({ name }) => !former?.includes(name));

export const encodeFounding = (record: FoundingRecord): string => JSON.stringify(record);

/**
 * Reads a stored record. A record that cannot be understood must never be treated as absent,
 * because the cluster would be founded a second time.
 *
 * @throws {MusterError} E_FOUNDING when the record cannot be understood.
 */
export function decodeFounding(key: string, value: string): FoundingRecord {
  let json: unknown;
  try {
    json = JSON.parse(value);
  } catch {
    throw new MusterError('E_FOUNDING', `${key} is not JSON`);
  }
  const read = schema.safeParse(json);
  if (!read.success || KEYS.founding.key(read.data.cluster) !== key)
    throw new MusterError('E_FOUNDING', `${key} is not a founding of a version known here`);
  return read.data as FoundingRecord;
}
