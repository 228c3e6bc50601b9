/**
 * Times in the API's answers: RFC 3339 in UTC, for example `2026-11-26T04:27:12.123Z`. Records in
 * the store keep milliseconds since 1970.
 */
import { publicName } from '../base/ids.ts';
import type { FoundingRecord } from '../cluster/etcd/founding.ts';
import type { MusterEvent } from '../events/event.ts';
import type { KnownMachine, MachineStatus } from '../machines/machine.ts';

/** An RFC 3339 time in UTC. */
export type Timestamp = string;

/** `T`, with timestamps instead of milliseconds in the fields `K`. */
export type WithTimestamps<T, K extends keyof T> = {
  [P in keyof T]: P extends K ? Timestamp | Extract<T[P], undefined> : Exclude<T[P], undefined>;
};

/** Formats milliseconds since 1970 for the API. */
export const timestamp = (milliseconds: number): Timestamp => new Date(milliseconds).toISOString();

/** A copy of `value` with timestamps in those of `fields` that are present. */
export function withTimestamps<T extends object, K extends keyof T>(
  value: T,
  ...fields: readonly K[]
): WithTimestamps<T, K> {
  const times = fields
    .filter((field) => value[field] !== undefined)
    .map((field) => [field, timestamp(value[field] as number)]);
  return { ...value, ...Object.fromEntries(times) };
}

/** An event as the API shows it. */
export type EventView = WithTimestamps<MusterEvent, 'at'>;
/** Converts an event to what the API shows. */
export const eventView = (event: MusterEvent): EventView => withTimestamps(event, 'at');

type Agent = NonNullable<MachineStatus['agent']>;
type Alarm = NonNullable<MachineStatus['alarm']>;

/** A machine's status as the API shows it, without the version of its stored shape. */
export type StatusView = Omit<
  WithTimestamps<MachineStatus, 'since' | 'firstSeen' | 'lastSeen'>,
  'v' | 'agent' | 'alarm' | 'install' | 'quarantine' | 'life'
> & {
  readonly agent?: WithTimestamps<Agent, 'since'>;
  readonly alarm?: WithTimestamps<Alarm, 'at'>;
  readonly install?: WithTimestamps<NonNullable<MachineStatus['install']>, 'at'>;
  readonly quarantine?: WithTimestamps<NonNullable<MachineStatus['quarantine']>, 'at'>;
  readonly life?: WithTimestamps<NonNullable<MachineStatus['life']>, 'at'>;
};

/** Converts a stored status to what the API shows. The id of a boot session permits reports. */
export function statusView({
  v: _,
  agent,
  alarm,
  install,
  quarantine,
  life,
  session,
  ...status
}: MachineStatus): StatusView {
  return {
    ...withTimestamps(status, 'since', 'firstSeen', 'lastSeen'),
    ...(session !== undefined && { session: publicName(session) }),
    ...(agent && { agent: withTimestamps(agent, 'since') }),
    ...(alarm && { alarm: withTimestamps(alarm, 'at') }),
    ...(install && { install: withTimestamps(install, 'at') }),
    ...(quarantine && { quarantine: withTimestamps(quarantine, 'at') }),
    ...(life && { life: withTimestamps(life, 'at') }),
  };
}

/** The part of a status that a table of machines shows. */
export function briefStatus({
  phase,
  reason,
  since,
  seen: { macs, address, serial, manufacturer, product },
  bootsWithoutReady,
  agent,
  alarm,
  quarantine,
  life,
}: MachineStatus): Partial<StatusView> {
  return {
    phase,
    ...(reason && { reason }),
    since: timestamp(since),
    seen: {
      macs,
      ...(address !== undefined && { address }),
      ...(serial !== undefined && { serial }),
      ...(manufacturer !== undefined && { manufacturer }),
      ...(product !== undefined && { product }),
    },
    bootsWithoutReady,
    ...(agent?.hold && { agent: withTimestamps(agent, 'since') }),
    ...(alarm && { alarm: withTimestamps(alarm, 'at') }),
    ...(quarantine && { quarantine: withTimestamps(quarantine, 'at') }),
    ...(life && { life: withTimestamps(life, 'at') }),
  };
}

/** A machine as the API shows it in the answer to an order. */
export const machineView = ({ status, ...machine }: KnownMachine) => ({
  ...machine,
  status: statusView(status),
});

/** The record of a founding as the API shows it. */
export type FoundingRecordView = ReturnType<typeof foundingView>;

/** Converts the record of a founding to what the API shows. */
export function foundingView({ founded, leaving, reset, restoring, ...record }: FoundingRecord) {
  return {
    ...withTimestamps(record, 'openedAt'),
    ...(founded && { founded: withTimestamps(founded, 'at') }),
    ...(leaving && {
      leaving: Object.fromEntries(
        Object.entries(leaving).map(([machine, one]) => [
          machine,
          withTimestamps(one, 'since', 'drainUntil'),
        ]),
      ),
    }),
    ...(reset && { reset: withTimestamps(reset, 'at') }),
    ...(restoring && { restoring: withTimestamps(restoring, 'at') }),
  };
}
