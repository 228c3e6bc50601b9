/** Machines as values: their identity, their status and their boot sessions. */
import type { Millis } from '../base/duration.ts';
import type { Mac } from '../base/mac.ts';
import type { Reason } from '../events/event.ts';
import type { MachineSpec } from '../resources/kinds.ts';

/**
 * What a machine reports about itself when it boots; each part may be missing or wrong.
 */
export interface Identity {
  readonly macs: readonly Mac[];
  readonly uuid?: string;
  readonly serial?: string;
  readonly manufacturer?: string;
  readonly product?: string;
  readonly assetTag?: string;
}

/**
 * Phases, moved only by what a live boot session reports (src/machines/phases.ts holds the
 * transition table): `discovered` seen, unknown · `registered` has a document · `booting` a session
 * is open · `starting` its kernel is up · `configured` its configuration is applied · `ready` ·
 * `failed` it said so or its time ran out · `held` the loop guard or an operator stopped it.
 */
export const PHASES = [
  'discovered',
  'registered',
  'booting',
  'starting',
  'configured',
  'ready',
  'failed',
  'held',
] as const;
export type Phase = (typeof PHASES)[number];

/** A machine's status, which the server keeps under `machine/NAME` in its store. */
export interface MachineStatus {
  readonly v: 1;
  readonly phase: Phase;
  readonly reason?: Reason;
  /** When the phase last changed. */
  readonly since: Millis;
  readonly firstSeen?: Millis;
  readonly lastSeen?: Millis;
  /** What was seen on the wire; what an operator wrote is in the document's spec. */
  readonly seen: Identity & {
    /** The addresses that it booted from. */
    readonly bootMacs?: readonly Mac[];
    readonly arch?: 'x86_64' | 'aarch64';
    readonly firmware?: 'bios' | 'uefi';
    readonly network?: string;
    readonly address?: string;
  };
  readonly session?: string;
  /** Boots since the last ready report; the loop guard counts these. */
  readonly bootsWithoutReady: number;
  /** Tail of the log that a failed boot sent, at most 16 KiB. */
  readonly logTail?: string;
  /** What its agent last reported; when it polled is kept in memory (heartbeats.ts). */
  readonly agent?: AgentStatus;
  /** Another system may hold this machine's credentials. Stays until `muster machine rearm`. */
  readonly alarm?: Alarm;
  /** It may be in somebody else's hands. Stays until `muster machine release`. */
  readonly quarantine?: Quarantine;
}

/** What a machine's agent reports about its work. */
export interface AgentStatus {
  /** When one of the other fields changed. */
  readonly since: Millis;
  readonly version: string;
  readonly bootId: string;
  /** The last step of its plan that it reached. */
  readonly step?: string;
  /** Why it does not continue. */
  readonly hold?: Reason;
  /**
   * The Secrets that it has applied: NAME:KEY → a keyed digest of the value, which tells nothing
   * about it.
   */
  readonly secrets?: Readonly<Record<string, string>>;
  /** SHA-256 of the agent's bundle; absent: an agent that cannot be upgraded in place. */
  readonly build?: string;
  /** A bundle of the agent that the machine did not keep, and the attempt in which it got it. */
  readonly refused?: Reason & { readonly digest: string; readonly attempt: number };
  /** The state of its boot disk; absent when it has none or has not reported it yet. */
  readonly bootDisk?: Reason;
  /** Program of its cluster that should run and has ended → the last complaint that it wrote. */
  readonly ended?: Readonly<Record<string, string>>;
}

export interface Alarm extends Reason {
  readonly at: Millis;
}

export interface Quarantine extends Alarm {
  /** The operator confirmed that its pods are deleted. */
  readonly deletePods?: true;
}

/** A machine with its status, and with its document if it has one. */
export interface KnownMachine {
  readonly name: string;
  readonly spec?: MachineSpec;
  readonly labels?: Readonly<Record<string, string>>;
  readonly status: MachineStatus;
}

/** The steps that a machine reports, in the order in which they happen. */
export const REPORT_STEPS = ['kernel', 'configured', 'ready', 'failed'] as const;
export type ReportStep = (typeof REPORT_STEPS)[number];

/** The steps of a boot session, in the order in which they happen. */
export const SESSION_STEPS = ['opened', 'loader', 'script', ...REPORT_STEPS] as const;
export type SessionStep = (typeof SESSION_STEPS)[number];

export const SESSION_ENDS = ['ready', 'failed', 'superseded', 'expired'] as const;

/**
 * One network boot, from the first DHCP answer to ready. Script and configuration carry its random
 * id; a report is believed only with the id of a live session. Stored under `session/ID` from the
 * first ACK or script on.
 */
export interface BootSession {
  readonly v: 1;
  readonly id: string;
  readonly machine: string;
  readonly mac: Mac;
  readonly network: string;
  readonly openedAt: Millis;
  /** Present when the session is over: ready, failed, superseded by a newer one, or too old. */
  readonly closed?: { readonly at: Millis; readonly why: (typeof SESSION_ENDS)[number] };
  readonly steps: readonly { readonly step: SessionStep; readonly at: Millis }[];
  /** The profile and image of its script, so that configuration and reports fit what was booted. */
  readonly profile?: string;
  readonly image?: string;
  /**
   * The first loader that was sent in this session. A second request from iPXE does not get a
   * loader again.
   */
  readonly loader?: string;
  /**
   * The address that fetched the script; for people, and for templates where none is reserved. It
   * proves nothing.
   */
  readonly peer?: string;
  /** The machine was unknown and got the discovery system: the session permits nothing else. */
  readonly discovery?: true;
  /** When a document of the session first carried a ticket (tickets.ts). */
  readonly ticketAt?: Millis;
}

/**
 * What a machine reports: POST to {@link import('../pxe/http/routes.ts').MACHINE_ROUTES} `report`.
 */
export interface MachineReport {
  readonly step: ReportStep;
  readonly detail?: string;
  /** Only with `failed`. */
  readonly logTail?: string;
}
