/** A machine in the roster, and the roster's interface. */
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { Reason } from '../events/event.ts';
import type { Entry } from '../resources/catalog.ts';
import type { Write } from '../store/store.ts';
import type { Heartbeats } from './heartbeats.ts';
import type {
  AgentStatus,
  Alarm,
  Install,
  KnownMachine,
  Life,
  MachineStatus,
  Quarantine,
  Trial,
} from './machine.ts';
import type { PhaseEvent } from './phases.ts';
import type { Evidence, Recognition } from './recognition.ts';
import type { LiveSession, Sessions } from './sessions.ts';
import type { Sighting } from './status.ts';

/** A machine in the roster. Only the roster changes it. */
export interface Member {
  readonly name: string;
  readonly entry: Entry<'Machine'> | undefined;
  readonly status: MachineStatus;
  /** Increases whenever document or status change; what was derived from them is stale then. */
  readonly version: number;
  readonly lastSeen: Millis | undefined;
}

export interface StatusChange {
  readonly reason?: Reason | undefined;
  readonly session?: string;
  readonly bootsWithoutReady?: number;
  readonly logTail?: string | undefined;
  readonly agent?: AgentStatus | undefined;
  readonly trial?: Trial | undefined;
  readonly alarm?: Alarm | undefined;
  readonly install?: Install | undefined;
  readonly quarantine?: Quarantine | undefined;
  readonly life?: Life | undefined;
}

/** A record of an unknown machine that is dropped. */
export interface GoneRecord {
  readonly name: string;
  /** The machine whose new document names it, if that is why. */
  readonly into?: string;
}

export interface Roster {
  readonly sessions: Sessions;
  readonly heartbeats: Heartbeats;
  readonly size: number;
  get(name: string): Member | undefined;
  /** Ordered by name. */
  list(): readonly KnownMachine[];
  view(member: Member): KnownMachine;
  recognise(evidence: Evidence): Recognition;
  /** The one documented machine that has this serial number. */
  withSerial(serial: string | undefined): string | undefined;
  /** The machine that alone claims this boot address. */
  byMac(mac: Mac): Member | undefined;
  /** The machine whose document reserves this address. */
  byAddress(address: Ipv4): Member | undefined;
  /** Records an unknown machine; undefined when too many are new at once. */
  discover(sighting: Sighting & { readonly bootMac: Mac }): Member | undefined;
  /** Adds a sighting to the machine's status; costs next to nothing when it adds nothing. */
  see(member: Member, sighting: Sighting): void;
  /**
   * Merges discovered records that turned out to be this machine, and drops them. `accepted`: a new
   * document names them.
   */
  fold(into: Member, names: readonly string[], accepted?: boolean): void;
  /**
   * Gives two machines with documents what was seen of each other's hardware: their documents have
   * exchanged it. Changes nothing where that was done already.
   */
  exchange(one: Member, other: Member): void;
  /** Calls `listener` for each record that is dropped, until the returned function is called. */
  onGone(listener: (gone: GoneRecord) => void): () => void;
  /**
   * Applies `event` to the phase table and merges `change`. When the table has no such transition
   * it records an event, changes nothing and returns false.
   */
  move(member: Member, event: PhaseEvent, change?: StatusChange): boolean;
  /** Changes status without moving the phase. */
  change(member: Member, change: StatusChange): void;
  /** Drops a machine without a document. False when there is none of that name. */
  forget(name: string): boolean;
  /**
   * Commits statuses and sessions in one transaction with `also`. Resolves when they are durable.
   * Rejects with the store's error; statuses and sessions are then kept in memory and written
   * later.
   */
  commit(
    members: readonly Member[],
    sessions: readonly LiveSession[],
    also?: readonly Write[],
  ): Promise<void>;
  /**
   * The write of a session, for the caller to commit. The session counts as stored from then on.
   */
  sessionWrite(live: LiveSession): Write;
  /** Marks a session to be written behind. */
  saveLater(live: LiveSession): void;
  /** Writes all records that wait. */
  flush(): Promise<void>;
  /** Expires sessions and drops old records; the boot service calls it periodically. */
  sweep(): void;
  /** Stops following the catalogue and writes all records that wait. */
  close(): Promise<void>;
}

/**
 * The machine that an operator names.
 *
 * @throws {MusterError} E_NOT_FOUND when no machine has this name
 */
export function memberNamed(roster: Pick<Roster, 'get'>, name: string): Member {
  const member = roster.get(name);
  if (member === undefined)
    throw new MusterError('E_NOT_FOUND', `there is no machine "${name}"; \`muster get machines\` lists them`);
  return member;
}
