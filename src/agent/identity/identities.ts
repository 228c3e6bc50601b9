/**
 * The valid certificate of each machine. The records are in the store, so that a restart
 * forgets nothing, and in memory, because every poll reads them.
 *
 *     agent/MACHINE     the valid certificate
 *     ticket/SESSION    which key redeemed that session's ticket; it never changes
 */
import { z } from 'zod';
import type { Millis } from '../../base/duration.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store, Write } from '../../store/store.ts';

const identityRecord = z.object({
  v: z.literal(1),
  machine: z.string(),
  serial: z.string(),
  /** Pin of its public key. */
  pin: z.string(),
  /** The generation of the transport CA that signed. */
  generation: z.string(),
  session: z.string(),
  at: z.int().transform((value) => value as Millis),
  /** The renewed certificate for the same key; both count. */
  next: z.object({ serial: z.string(), generation: z.string() }).optional(),
  /** Serial number of the certificate that counted until another key got this one. */
  before: z.string().optional(),
  /**
   * The machine was removed: its certificates do not count, and this key gets no other one, until
   * an operator decides.
   */
  revoked: z.object({ at: z.int().transform((value) => value as Millis), code: z.string() }).optional(),
  /** The TPM that the machine showed: without it nobody gets a certificate any more. */
  tpm: z
    .object({
      /** SHA-256 of its endorsement key (SPKI). */
      ek: z.string(),
      since: z.int().transform((value) => value as Millis),
      /** Whether a document named it or an operator had approved when it was recorded. */
      vouched: z.boolean(),
    })
    .optional(),
});
export type AgentRecord = Omit<z.output<typeof identityRecord>, 'v'>;

const redeemedRecord = z.object({
  v: z.literal(1),
  session: z.string(),
  machine: z.string(),
  /** SHA-256 of the ticket. */
  ticket: z.string(),
  pin: z.string(),
  serial: z.string(),
  address: z.string(),
  at: z.int().transform((value) => value as Millis),
});
export type Redeemed = Omit<z.output<typeof redeemedRecord>, 'v'>;

export interface Identities {
  get(machine: string): AgentRecord | undefined;
  /**
   * The machine whose current or renewed certificate has this serial number. Constant time.
   */
  holder(serial: string): AgentRecord | undefined;
  /**
   * The machine that had this certificate until another key got one. Constant time.
   */
  replaced(serial: string): string | undefined;
  list(): readonly AgentRecord[];
  /** How this session's ticket was redeemed; undefined while it was not. */
  redeemed(session: string): Promise<Redeemed | undefined>;
  /**
   * Writes that make this certificate the machine's. Their commit conflicts if another request
   * redeemed the ticket or replaced the certificate meanwhile. Without `tpm` the recorded one
   * stays.
   */
  writes(redeemed: Redeemed, generation: string, tpm?: AgentRecord['tpm']): readonly Write[];
  /**
   * Writes that record a renewed certificate. Their commit conflicts if the record changed
   * meanwhile.
   */
  renewing(machine: string, next: NonNullable<AgentRecord['next']>): readonly Write[];
  /** The machine polled with the renewed certificate: the older one does not count any more. */
  renewed(machine: string): Promise<void>;
  /** Reads the machine's record again, after {@link writes} or {@link renewing} were committed. */
  took(machine: string): Promise<void>;
  /**
   * Revokes the machine's certificates: they do not count any more, and its key gets no other one.
   * The record stays, with the time.
   */
  withdraw(machine: string, revoked: NonNullable<AgentRecord['revoked']>): Promise<void>;
  /** Undoes {@link withdraw}. */
  restore(machine: string): Promise<void>;
  /**
   * Forgets the machine's certificates and that its session's ticket was redeemed. Resolves to the
   * record that was there.
   */
  revoke(machine: string): Promise<AgentRecord | undefined>;
}

/** Reads all records from the store. A record that cannot be read is logged and skipped. */
export async function openIdentities({
  store,
  log,
}: {
  readonly store: Store;
  readonly log: Log;
}): Promise<Identities> {
  const byMachine = new Map<string, AgentRecord & { readonly revision: number }>();
  const bySerial = new Map<string, AgentRecord>();
  const replaced = new Map<string, string>();
  const drop = (record: AgentRecord): void => {
    for (const serial of serials(record)) bySerial.delete(serial);
    if (record.before !== undefined) replaced.delete(record.before);
  };
  const set = (record: AgentRecord, revision: number): void => {
    const before = byMachine.get(record.machine);
    if (before !== undefined) drop(before);
    if (record.before !== undefined) replaced.set(record.before, record.machine);
    byMachine.set(record.machine, { ...record, revision });
    for (const serial of serials(record)) bySerial.set(serial, record);
  };
  for (const { key, value, revision } of (await store.list(KEYS.agent.prefix())).records) {
    const read = identityRecord.safeParse(parsed(value));
    if (read.success) set(read.data, revision);
    else log.warn({ key }, 'a stored record cannot be read and is ignored');
  }
  const refresh = async (machine: string): Promise<void> => {
    const record = await store.get(KEYS.agent.key(machine));
    const read = record && identityRecord.safeParse(parsed(record.value));
    if (record && read?.success) set(read.data, record.revision);
  };
  const write = async (machine: string, change: (record: AgentRecord) => AgentRecord): Promise<void> => {
    const found = byMachine.get(machine);
    if (found === undefined) return;
    const { revision, ...record } = found;
    const put = JSON.stringify({ v: 1, ...change(record) });
    await store.commit([{ key: KEYS.agent.key(machine), put, expect: revision }]);
    await refresh(machine);
  };
  return {
    get: (machine) => byMachine.get(machine),
    holder: (serial) => bySerial.get(serial),
    replaced: (serial) => replaced.get(serial),
    list: () => [...byMachine.values()],
    async redeemed(session) {
      const record = await store.get(KEYS.ticket.key(session));
      if (record === undefined) return undefined;
      return redeemedRecord.parse(parsed(record.value));
    },
    writes(redeemed, generation, proven) {
      const { machine, session } = redeemed;
      const before = byMachine.get(machine);
      const { serial, pin, at } = redeemed;
      const earlier = before !== undefined && before.pin !== pin ? { before: before.serial } : {};
      const tpm = proven ?? before?.tpm;
      const record = { machine, serial, pin, generation, session, at, ...earlier, ...(tpm && { tpm }) };
      return [
        {
          key: KEYS.ticket.key(session),
          put: JSON.stringify({ v: 1, ...redeemed }),
          expect: 'absent',
        },
        {
          key: KEYS.agent.key(machine),
          put: JSON.stringify({ v: 1, ...record }),
          expect: before?.revision ?? 'absent',
        },
        // A ticket of an earlier boot is refused anyway.
        ...(before !== undefined && before.session !== session
          ? [{ key: KEYS.ticket.key(before.session), delete: true } as const]
          : []),
      ];
    },
    renewing(machine, next) {
      const { revision, ...record } = byMachine.get(machine)!;
      return [
        { key: KEYS.agent.key(machine), put: JSON.stringify({ v: 1, ...record, next }), expect: revision },
      ];
    },
    renewed: (machine) => write(machine, ({ next, ...record }) => ({ ...record, ...next })),
    withdraw: (machine, revoked) => write(machine, (record) => ({ ...record, revoked })),
    restore: (machine) => write(machine, ({ revoked: _, ...record }) => record),
    took: refresh,
    async revoke(machine) {
      const before = byMachine.get(machine);
      if (before === undefined) return undefined;
      await store.commit([
        { key: KEYS.agent.key(machine), delete: true },
        { key: KEYS.ticket.key(before.session), delete: true },
      ]);
      byMachine.delete(machine);
      drop(before);
      return before;
    },
  };
}

const serials = ({ serial, next }: AgentRecord): readonly string[] => [
  serial,
  ...(next ? [next.serial] : []),
];
