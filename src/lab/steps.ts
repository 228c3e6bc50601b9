/**
 * What happens in a scenario, what is waited for and what must be true: the schemas of steps, waits
 * and expectations.
 */
import { z } from 'zod';
import { type Millis, millis, parseDuration } from '../base/duration.ts';
import { PHASES } from '../machines/machine.ts';
import { ipv4Text, mac, name, duration as spanText } from '../resources/fields.ts';

const expression = z.string().refine(
  (text) => {
    try {
      return new RegExp(text) instanceof RegExp;
    } catch {
      return false;
    }
  },
  { message: 'not a regular expression' },
);

/** The steps of a boot that a wait can name besides phases. */
const phase = z.enum(PHASES);

const fields = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
const eventMatch = z.strictObject({
  kind: z.string(),
  reason: z.string().optional().meta({ description: "The reason's code." }),
  fields: fields.optional().meta({ description: 'These fields with these values, among others.' }),
});
export type EventMatch = z.output<typeof eventMatch>;

const exactlyOne = (keys: readonly string[]) => ({
  check: (value: object) =>
    keys.filter((key) => (value as Record<string, unknown>)[key] !== undefined).length === 1,
  message: `say exactly one of ${keys.join(', ')}`,
});

const WAITS = ['phase', 'held', 'event', 'facts', 'serial'] as const;
const oneWait = exactlyOne(WAITS);
const ETCD_STATES = ['voters', 'sameEtcd', 'written'] as const;
const wait = z
  .strictObject({
    machine: z.string(),
    phase: phase.optional(),
    held: z.string().optional().meta({ description: 'Held, with this reason.' }),
    event: eventMatch.optional(),
    facts: z
      .literal(true)
      .optional()
      .meta({ description: 'Until the system on it has said what it is (MUSTER-FACTS, MUSTER-PROBE).' }),
    serial: expression
      .optional()
      .meta({ description: 'Until its console has shown this regular expression.' }),
  })
  .refine(oneWait.check, { message: oneWait.message });
export type Wait = z.output<typeof wait>;

const CHECKS = [
  'phase',
  'held',
  'address',
  'addresses',
  'hostname',
  'file',
  'user',
  'unit',
  'clockWithin',
  'sessions',
  'firmware',
  'event',
  'noEvent',
  'disksUntouched',
  'dhcpServer',
  'bootedFrom',
  'document',
  'serial',
  'noSerial',
] as const;
export type Check = (typeof CHECKS)[number];
const oneCheck = exactlyOne(CHECKS);

export const expectation = z
  .strictObject({
    machine: z.string(),
    phase: phase.optional(),
    held: z.string().optional().meta({ description: 'Held, with this reason.' }),
    address: ipv4Text.optional().meta({ description: 'The address that it has a lease for.' }),
    addresses: z
      .record(z.string(), z.array(z.string()))
      .optional()
      .meta({ description: 'By MAC: exactly these IPv4 addresses, as `ip -j addr` shows them.' }),
    hostname: z.string().optional(),
    file: z
      .strictObject({
        path: z.string(),
        mode: z
          .string()
          .regex(/^[0-7]{4}$/)
          .optional(),
        owner: z.string().optional(),
        group: z.string().optional(),
        content: z.string().optional(),
        absent: z.literal(true).optional(),
      })
      .optional(),
    user: z
      .strictObject({
        name: z.string(),
        uid: z.int().optional(),
        shell: z.string().optional(),
        home: z.string().optional(),
        groups: z.array(z.string()).optional().meta({ description: 'Among others.' }),
        sshKeys: z.array(z.string()).optional().meta({ description: 'Exactly these.' }),
        sudo: z.boolean().optional(),
      })
      .optional(),
    unit: z.strictObject({ name: z.string(), state: z.string() }).optional().meta({
      description: 'As `systemctl is-active` says.',
    }),
    clockWithin: spanText.optional().meta({ description: "Its clock is that close to the host's." }),
    sessions: z.int().min(0).optional().meta({ description: 'That many boot sessions were opened.' }),
    firmware: z.enum(['bios', 'uefi']).optional().meta({ description: 'As Muster saw it.' }),
    event: eventMatch.extend({ count: z.int().min(1).optional() }).optional(),
    noEvent: eventMatch.optional(),
    disksUntouched: z.literal(true).optional(),
    dhcpServer: ipv4Text.optional().meta({ description: 'The server that gave it its lease.' }),
    bootedFrom: mac.optional().meta({ description: 'The network card that its system was told to use.' }),
    document: z.strictObject({ name: z.string(), contains: z.string() }).optional().meta({
      description: 'What the probe system received.',
    }),
    serial: expression.optional().meta({ description: 'Its console has shown this regular expression.' }),
    noSerial: expression.optional(),
  })
  .refine(oneCheck.check, { message: oneCheck.message });
export type Expectation = z.output<typeof expectation>;

const etcdState = z
  .strictObject({
    cluster: name,
    voters: z.int().min(1).optional().meta({
      description: 'It has so many members, all of them voters, and each answers a linearizable read.',
    }),
    sameEtcd: z
      .literal(true)
      .optional()
      .meta({ description: 'It is the etcd that was seen first, by its cluster id.' }),
    written: z
      .strictObject({
        on: z.array(z.string()).min(1),
        alone: z
          .literal(true)
          .optional()
          .meta({ description: 'What the member has by itself: it may have no quorum.' }),
        upTo: spanText
          .optional()
          .meta({ description: 'Only what was acknowledged until so long before the last power cut.' }),
      })
      .optional()
      .meta({ description: 'Every write that the client saw acknowledged is there, on these machines.' }),
  })
  .refine(exactlyOne(ETCD_STATES).check, { message: exactlyOne(ETCD_STATES).message });
export type EtcdState = z.output<typeof etcdState>;

const ACTIONS = [
  'powerOn',
  'powerOff',
  'powerCut',
  'wipe',
  'bootHost',
  'pause',
  'wait',
  'check',
  'startWriting',
  'stopWriting',
  'etcd',
  'muster',
  'shell',
  'apply',
] as const;
const oneAction = exactlyOne(ACTIONS);
const names = z.array(z.string()).min(1);

export const step = z
  .strictObject({
    powerOn: names.optional().meta({ description: 'These machines, together.' }),
    powerOff: names.optional(),
    powerCut: names.optional().meta({ description: 'Killed, without a word to the guest.' }),
    wipe: names
      .optional()
      .meta({ description: 'Their blank disks are blank again. The machines must be switched off.' }),
    bootHost: z.enum(['off', 'on']).optional().meta({
      description: 'Muster ends in good order, and is there again with the state that it has.',
    }),
    pause: spanText.optional().meta({ description: 'For staggered starts; else wait for what is meant.' }),
    wait: wait.optional().meta({ description: 'Seen since the machine was switched on last.' }),
    check: expectation.optional().meta({ description: 'Must be true now, not only at the end.' }),
    startWriting: name.optional().meta({
      description: "A client begins to write to this cluster's etcd, over mTLS, and goes on until stopped.",
    }),
    stopWriting: name.optional(),
    etcd: etcdState.optional().meta({ description: 'Waits until this is so, as the client sees it.' }),
    muster: z
      .array(z.string())
      .min(1)
      .optional()
      .meta({ description: 'Words of a command line: ["machine", "accept", "m-525400aa0003"].' }),
    shell: z.string().optional().meta({
      description:
        "A command for sh on the boot host, in the run's folder, with `muster` as a program and $MUSTER_ARTIFACTS.",
    }),
    apply: z
      .array(z.record(z.string(), z.unknown()))
      .optional()
      .meta({ description: 'Documents, by `muster apply`.' }),
    says: expression
      .optional()
      .meta({ description: 'What muster or shell must say, as a regular expression.' }),
    exitCode: z.int().min(0).max(255).optional().meta({ description: 'Of muster or shell. Default: 0.' }),
    within: spanText.optional().meta({
      description: 'For muster and shell: again, every two seconds, until it says so and ends so.',
    }),
  })
  .refine(oneAction.check, { message: oneAction.message })
  .refine(
    ({ muster, shell, says, exitCode, within }) =>
      muster !== undefined || shell !== undefined || (says ?? exitCode ?? within) === undefined,
    { message: 'says, exitCode and within go with muster or shell' },
  );
export type Step = z.output<typeof step>;

/** Which of the checks an expectation makes. */
export function checkOf(expectation: Expectation): Check {
  return CHECKS.find((key) => expectation[key] !== undefined)!;
}

/** Which of the waits a wait is. */
export function waitText(one: Wait): string {
  if (one.phase) return `${one.machine} to be ${one.phase}`;
  if (one.held) return `${one.machine} to be held (${one.held})`;
  if (one.event)
    return `${one.machine}: event ${one.event.kind}${one.event.reason ? ` (${one.event.reason})` : ''}`;
  if (one.serial) return `${one.machine} to show /${one.serial}/ on its console`;
  return `${one.machine} to say what it is`;
}

/** What is waited for, as a sentence. */
export function etcdText({ cluster, voters, written }: EtcdState): string {
  if (voters !== undefined) return `etcd of ${cluster} has ${voters} voters, and each answers`;
  if (written) {
    const limit = written.upTo === undefined ? '' : ` up to ${written.upTo} before the cut`;
    return `all that was acknowledged${limit} is there on ${written.on.join(', ')}`;
  }
  return `etcd of ${cluster} is the one that was founded`;
}

export const spanOf = (text: string): Millis => parseDuration(text) ?? millis(0);
