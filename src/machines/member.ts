/** A machine as the roster holds it, and what the roster is asked. */
import type { Millis } from '../base/duration.ts';
import type { Ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { Reason } from '../events/event.ts';
import type { Entry } from '../resources/catalog.ts';
import type { Write } from '../store/store.ts';
import type { Heartbeats } from './heartbeats.ts';
import type { AgentStatus, Alarm, KnownMachine, MachineStatus } from './machine.ts';
import type { PhaseEvent } from './phases.ts';
import type { Evidence, Recognition } from './recognition.ts';
import type { LiveSession, Sessions } from './sessions.ts';
import type { Sighting } from './status.ts';

/** A machine in the roster. Only the roster changes it. */
export interface Member {
  readonly name: string;
  readonly entry: Entry<'Machine'> | undefined;
  readonly status: MachineStatus;
  /** Increases whenever document or status changed: what was derived from them is then stale. */
  readonly version: number;
  readonly lastSeen: Millis | undefined;
}

export interface StatusChange {
  readonly reason?: Reason | undefined;
  readonly session?: string;
  readonly bootsWithoutReady?: number;
  readonly logTail?: string | undefined;
  readonly agent?: AgentStatus | undefined;
  readonly alarm?: Alarm | undefined;
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
  /** The machine that alone claims this boot address. */
  byMac(mac: Mac): Member | undefined;
  /** The machine whose document reserves this address. */
  byAddress(address: Ipv4): Member | undefined;
  /** Records a machine that nobody knows; undefined when it is one too many at once. */
  discover(sighting: Sighting & { readonly bootMac: Mac }): Member | undefined;
  /** Adds what was seen of it; free when it adds nothing. */
  see(member: Member, sighting: Sighting): void;
  /** Discovered records that are this machine too: what was seen moves over, they go. */
  fold(into: Member, names: readonly string[]): void;
  /**
   * Moves the phase by the table; false (and an event) when it cannot move so. Other fields change
   * in either case but that.
   */
  move(member: Member, event: PhaseEvent, change?: StatusChange): boolean;
  /** Changes status without moving the phase. */
  change(member: Member, change: StatusChange): void;
  /** Drops a machine without document. False when there is none. */
  forget(name: string): boolean;
  /**
   * Commits status and session, with `also`, durably; rejects as the store does (nothing is lost in
   * memory then).
   */
  commit(
    members: readonly Member[],
    sessions: readonly LiveSession[],
    also?: readonly Write[],
  ): Promise<void>;
  /** The write of a session, for somebody else's commit. */
  sessionWrite(live: LiveSession): Write;
  /** Marks a session to be written behind. */
  saveLater(live: LiveSession): void;
  /** Writes what is still to be written. */
  flush(): Promise<void>;
  /** Expires sessions, drops old records. The boot service calls it by its timer. */
  sweep(): void;
  /** Ends the catalog's subscription and writes what is left. */
  close(): Promise<void>;
}
