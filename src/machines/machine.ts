/** Machines as values: their identity, their status and their boot sessions. */
import { z } from 'zod';
import { type Parsed, reason, texts } from '../base/body.ts';
import type { Millis } from '../base/duration.ts';
import type { Mac } from '../base/mac.ts';
import type { MachineSpec } from '../resources/kinds.ts';
import { testForm } from './life/burn-in-order.ts';
import { OUT_STATES } from './life/life.ts';
import { rescueForm } from './life/rescue-order.ts';
import { wipeForm } from './life/wipe-order.ts';

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

/** What a machine reports about itself when it boots; each part may be missing or wrong. */
const identity = {
  macs: z.array(z.string() as unknown as z.ZodType<Mac>),
  uuid: z.string().optional(),
  serial: z.string().optional(),
  manufacturer: z.string().optional(),
  product: z.string().optional(),
  assetTag: z.string().optional(),
};
const identityForm = z.strictObject(identity);
export type Identity = Parsed<z.output<typeof identityForm>>;

/** What was seen on the wire; what an operator wrote is in the document's spec. */
const seen = z
  .strictObject({
    ...identity,
    /** The addresses that it booted from. */
    bootMacs: identity.macs.optional(),
    arch: z.enum(['x86_64', 'aarch64']).optional(),
    firmware: z.enum(['bios', 'uefi']).optional(),
    network: z.string().optional(),
    address: z.string().optional(),
  })
  .meta({ id: 'Seen', description: 'What the machine said of itself at its boots; nobody checked it.' });

/**
 * How far an installation has come: `ordered` by an operator · `writing` the disk is being written
 * · `written` everything is on the disk and was read back · `installed` the system on that disk has
 * reported that it is ready.
 */
export const INSTALL_STATES = ['ordered', 'writing', 'written', 'installed'] as const;

/**
 * What the server knows of a machine.
 *
 * @param at The form of its times: ms since 1970 in the store, RFC 3339 in the API.
 */
export const statusForm = <At extends z.ZodType>(at: At) => ({
  phase: z.enum(PHASES),
  reason: reason.optional(),
  /** When the phase last changed. */
  since: at,
  firstSeen: at.optional(),
  lastSeen: at.optional(),
  seen,
  session: z.string().optional(),
  /** Boots since the last ready report; the loop guard counts these. */
  bootsWithoutReady: z.int(),
  /** Tail of the log that a failed boot sent, at most 16 KiB. */
  logTail: z.string().optional(),
  /** What its agent last reported; when it polled is kept in memory (heartbeats.ts). */
  agent: z
    .strictObject({
      /** When one of the other fields changed. */
      since: at,
      version: z.string(),
      bootId: z.string(),
      /** The last step of its plan that it reached. */
      step: z.string().optional(),
      /** Why it does not continue. */
      hold: reason.optional(),
      /**
       * The Secrets that it has applied: NAME:KEY → a keyed digest of the value, which tells
       * nothing about it.
       */
      secrets: texts.optional(),
      /** The state of its boot disk; absent when it has none or has not reported it yet. */
      bootDisk: reason.optional(),
      kept: z.string().optional().meta({
        description: 'SHA-256 of the root image that its boot disk starts.',
      }),
      full: texts.optional().meta({ description: 'Nearly full mount point → percent in use.' }),
      ended: texts.optional().meta({ description: 'Program that has ended → its last complaint.' }),
      /** Absent: an agent that cannot be upgraded in place. */
      build: z.string().optional().meta({ description: "SHA-256 of the agent's bundle." }),
      refused: z
        .strictObject({ code: z.string(), text: z.string(), digest: z.string(), attempt: z.int() })
        .optional()
        .meta({ description: 'A bundle of the agent that the machine did not keep.' }),
    })
    .optional(),
  /** The installation of its system on a disk (`home: disk`). */
  install: z
    .strictObject({
      at,
      state: z.enum(INSTALL_STATES),
      image: z.string().optional().meta({ description: 'SHA-256 of the image of the disk.' }),
      disk: z.string().optional().meta({ description: 'Serial number of the disk.' }),
      released: z
        .string()
        .optional()
        .meta({ description: 'Serial number of the disk whose data may go, as an operator said.' }),
      step: z.string().optional().meta({ description: 'The last step, and how far it came.' }),
    })
    .optional(),
  /**
   * It was given a root image that is another one than its boot disk starts, and has not done its
   * plan with it yet.
   */
  trial: z
    .strictObject({
      image: z.string().meta({ description: 'SHA-256 of that root image.' }),
      session: z.string().meta({ description: 'Public name of the boot session.' }),
    })
    .optional(),
  /** Another system may hold this machine's credentials. Stays until `muster machine rearm`. */
  alarm: z.strictObject({ at, code: z.string(), text: z.string() }).optional(),
  /**
   * It may be in somebody else's hands. Stays until `muster machine release`. `deletePods`: the
   * operator confirmed that its pods are deleted.
   */
  quarantine: z
    .strictObject({ at, code: z.string(), text: z.string(), deletePods: z.literal(true).optional() })
    .optional(),
  /** It is not in use; absent: it is. The states are those of life/life.ts. */
  life: z
    .strictObject({
      at,
      state: z.enum(OUT_STATES),
      text: z.string().meta({ description: 'Why, as an operator said.' }),
      by: z.string(),
      leaving: z.literal(true).optional().meta({
        description: 'It still leaves its cluster, or is about to be switched off.',
      }),
      byHand: z.literal(true).optional().meta({
        description: 'Nobody could switch it off: its documents name no BMC.',
      }),
      wipe: wipeForm.optional().meta({ description: 'What is to be wiped, or was.' }),
      test: testForm.optional().meta({ description: 'What is to be tested.' }),
      rescue: rescueForm.optional().meta({ description: 'Who looks at it, and for how long.' }),
    })
    .optional(),
});

const stored = z.strictObject({
  v: z.literal(1),
  ...statusForm(z.number() as unknown as z.ZodType<Millis>),
});
/** A machine's status, which the server keeps under `machine/NAME` in its store. */
export type MachineStatus = Parsed<z.output<typeof stored>>;
export type AgentStatus = NonNullable<MachineStatus['agent']>;
export type Trial = NonNullable<MachineStatus['trial']>;
export type Install = NonNullable<MachineStatus['install']>;
export type Alarm = NonNullable<MachineStatus['alarm']>;
export type Quarantine = NonNullable<MachineStatus['quarantine']>;
export type Life = NonNullable<MachineStatus['life']>;

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
  /** Serial number of the disk from which a system runs that was installed. */
  readonly disk?: string;
  /** Only with `failed`. */
  readonly logTail?: string;
}
