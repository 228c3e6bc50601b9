/** The stored form of a founding's record. */
import { z } from 'zod';
import type { Parsed } from '../../base/body.ts';
import { MusterError } from '../../base/errors.ts';
import { KEYS } from '../../store/keys.ts';

const member = z.strictObject({ name: z.string(), address: z.string() });
const texts = z.record(z.string(), z.string());

export const STAGES = ['remove', 'add', 'start', 'promote', 'off'] as const;

const replacing = z.strictObject({
  member: z.string(),
  address: z.string(),
  filesystem: z.string(),
  /**
   * The next step, from which the executor continues after a restart. `off`: an operator cancelled
   * the replacement.
   */
  stage: z.enum(STAGES),
  /** From stage `start` on: etcd's id of the learner, and etcd's list of members. */
  added: z.strictObject({ id: z.string(), members: z.array(member) }).optional(),
});

/**
 * A machine that leaves. It passes through the stages in their order, and skips those that it does
 * not need.
 */
const leaving = <At extends z.ZodType>(at: At) =>
  z.strictObject({
    stage: z.enum(['drain', 'etcd', 'node', 'down']),
    /** When the order was given; identifies the order. */
    since: at,
    /** Its address as a member of etcd; absent for a machine that is not a member. */
    member: z.string().optional(),
    /** Whether the machine has a Node. */
    node: z.boolean(),
    /** Whether the machine's data filesystem is cleared. */
    clear: z.boolean(),
    /** How long the drain may take; a time in the past means that the node is not drained. */
    drainUntil: at,
    /** It is in quarantine or out of use, and comes back when that ends. */
    quarantine: z.literal(true).optional(),
  });

const restoring = <At extends z.ZodType>(at: At) =>
  z.strictObject({
    member: z.string(),
    address: z.string(),
    filesystem: z.string(),
    /** The id of the new founding, to which the restored copy belongs. */
    id: z.string().min(1),
    at,
    /** The snapshot that is restored; absent: the member's own data are. */
    snapshot: z.string().optional(),
  });

/**
 * The record `founding/CLUSTER` in the store; it outlives the Cluster's document.
 *
 * @param at The form of its times: ms since 1970 in the store, RFC 3339 in the API.
 */
export const foundingForm = <At extends z.ZodType>(at: At) =>
  z.strictObject({
    v: z.literal(1),
    cluster: z.string(),
    /** Random; etcd's token is made from it. */
    id: z.string().min(1),
    openedAt: at,
    openedBy: z.enum(['all-asked', 'person']),
    /** The members at the founding, with the addresses in `--initial-cluster`. */
    members: z.array(member),
    /**
     * Member → the only filesystem on which it may found. A member that had not asked before the
     * opening is absent, and is bound when it first asks.
     */
    grants: texts,
    /** The first evidence of a quorum, which ends the founding for all members. */
    founded: z
      .strictObject({
        at,
        by: z.string(),
        snapshot: z.string().optional().meta({ description: 'The snapshot from which it was restored.' }),
      })
      .optional(),
    /**
     * Member → its own filesystem. Data were seen there, so the member is never granted `new`
     * again.
     */
    joined: texts,
    /**
     * Member that was added later → etcd's list of members at that moment. The member starts with
     * this list every time.
     */
    lists: z.record(z.string(), z.array(member)),
    /** The replacement that is being carried out; there is at most one at a time. */
    replacing: replacing.optional(),
    /** Members that were taken out of etcd and have not come back. */
    former: z.array(z.string()).optional(),
    /** Machines that an operator ordered out, whether or not they are members of etcd. */
    leaving: z.record(z.string(), leaving(at)).optional(),
    /**
     * Set when an operator ordered that all machines are cleared. Then only an operator can found
     * the cluster again.
     */
    reset: z.strictObject({ at, cleared: z.array(z.string()) }).optional(),
    /**
     * Set when an operator ordered a restore because the quorum is lost, from one member's data or
     * from a snapshot.
     */
    restoring: restoring(at).optional(),
  });

const schema = foundingForm(z.int());
export type FoundingRecord = Parsed<z.output<typeof schema>>;
/** A member with the address of its peer URL, `https://ADDRESS:2380`. */
export type MemberAddress = Parsed<z.output<typeof member>>;
export type Replacing = Parsed<z.output<typeof replacing>>;
export type Leaving = NonNullable<FoundingRecord['leaving']>[string];
export type Restoring = NonNullable<FoundingRecord['restoring']>;

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
