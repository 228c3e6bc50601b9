/** The schemas of a scenario's steps, waits and expectations. */
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

/** A machine's phase. */
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
  message: `give exactly one of ${keys.join(', ')}`,
});

const WAITS = ['phase', 'held', 'event', 'facts', 'serial'] as const;
const oneWait = exactlyOne(WAITS);
const ETCD_STATES = ['voters', 'sameEtcd', 'written'] as const;
const wait = z
  .strictObject({
    machine: z.string(),
    phase: phase.optional(),
    held: z.string().optional().meta({ description: 'Held with this reason.' }),
    event: eventMatch.optional(),
    facts: z
      .literal(true)
      .optional()
      .meta({ description: 'Until its system has reported its facts (MUSTER-FACTS, MUSTER-PROBE).' }),
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
    address: ipv4Text.optional().meta({ description: 'The address of its lease.' }),
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
      description: 'The state that `systemctl is-active` prints.',
    }),
    clockWithin: spanText
      .optional()
      .meta({ description: "Its clock differs from the host's by no more than this." }),
    sessions: z
      .int()
      .min(0)
      .optional()
      .meta({ description: 'The number of boot sessions that were opened.' }),
    firmware: z
      .enum(['bios', 'uefi'])
      .optional()
      .meta({ description: 'The firmware that Muster recognised.' }),
    event: eventMatch.extend({ count: z.int().min(1).optional() }).optional(),
    noEvent: eventMatch.optional(),
    disksUntouched: z.literal(true).optional(),
    dhcpServer: ipv4Text.optional().meta({ description: 'The DHCP server that gave it its lease.' }),
    bootedFrom: mac
      .optional()
      .meta({ description: 'The network card in the argument BOOTIF of its kernel.' }),
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
      description: 'It has this number of members, all are voters, and each answers a linearizable read.',
    }),
    sameEtcd: z
      .literal(true)
      .optional()
      .meta({ description: 'It is the etcd that was seen first, by its cluster id.' }),
    written: z
      .strictObject({
        on: z.array(z.string()).min(1),
        alone: z.literal(true).optional().meta({
          description: 'What the member itself has, without asking the others: it may have no quorum.',
        }),
        upTo: spanText.optional().meta({
          description: 'Only writes that were acknowledged at least this long before the last power cut.',
        }),
      })
      .optional()
      .meta({ description: 'Every write that was acknowledged to the client is on these machines.' }),
  })
  .refine(exactlyOne(ETCD_STATES).check, { message: exactlyOne(ETCD_STATES).message });
export type EtcdState = z.output<typeof etcdState>;

const ACTIONS = [
  'powerOn',
  'powerOff',
  'powerCut',
  'hang',
  'wipe',
  'newTpm',
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
    powerOn: names.optional().meta({ description: 'Switches these machines on together.' }),
    powerOff: names.optional(),
    powerCut: names.optional().meta({ description: 'Kills QEMU; the guest is not notified.' }),
    hang: names.optional().meta({
      description: 'Stops their processors: they stay on, and nothing of them answers.',
    }),
    wipe: names
      .optional()
      .meta({ description: 'Makes their blank disks blank again. The machines must be switched off.' }),
    newTpm: names.optional().meta({
      description: 'Gives them another TPM, as a new board has. The machines must be switched off.',
    }),
    bootHost: z.enum(['off', 'on']).optional().meta({
      description: 'Stops Muster gracefully, or starts it again with its state.',
    }),
    pause: spanText
      .optional()
      .meta({ description: 'For staggered starts; in other cases wait for an event instead.' }),
    wait: wait
      .optional()
      .meta({ description: 'Waits until the machine has shown this since it was last switched on.' }),
    check: expectation
      .optional()
      .meta({ description: 'An expectation that must be true now, not only at the end.' }),
    startWriting: name.optional().meta({
      description: "A client writes to this cluster's etcd over mTLS, from now on until stopWriting.",
    }),
    stopWriting: name.optional(),
    etcd: etcdState.optional().meta({ description: 'Waits until the client sees etcd in this state.' }),
    muster: z
      .array(z.string())
      .min(1)
      .optional()
      .meta({ description: 'Arguments of a command: ["machine", "accept", "m-525400aa0003"].' }),
    shell: z.string().optional().meta({
      description:
        "A command for sh on the boot host, in the run's folder, with `muster` as a program and $MUSTER_ARTIFACTS.",
    }),
    apply: z
      .array(z.record(z.string(), z.unknown()))
      .optional()
      .meta({ description: 'Documents for `muster apply`.' }),
    says: expression
      .optional()
      .meta({ description: 'A regular expression that the output of muster or shell must match.' }),
    exitCode: z
      .int()
      .min(0)
      .max(255)
      .optional()
      .meta({ description: 'The exit code that muster or shell must have. Default: 0.' }),
    within: spanText.optional().meta({
      description: 'Repeats muster or shell for up to this time, until output and exit code are as expected.',
    }),
  })
  .refine(oneAction.check, { message: oneAction.message })
  .refine(
    ({ muster, shell, says, exitCode, within }) =>
      muster !== undefined || shell !== undefined || (says ?? exitCode ?? within) === undefined,
    { message: 'says, exitCode and within need muster or shell in the same step' },
  );
export type Step = z.output<typeof step>;

/** The name of the check that an expectation makes. */
export function checkOf(expectation: Expectation): Check {
  return CHECKS.find((key) => expectation[key] !== undefined)!;
}

/** What a wait waits for, as a text. */
export function waitText(one: Wait): string {
  if (one.phase) return `${one.machine} to be ${one.phase}`;
  if (one.held) return `${one.machine} to be held (${one.held})`;
  if (one.event)
    return `${one.machine}: event ${one.event.kind}${one.event.reason ? ` (${one.event.reason})` : ''}`;
  if (one.serial) return `${one.machine} to show /${one.serial}/ on its console`;
  return `${one.machine} to report its facts`;
}

/** The state of etcd that a step waits for, as a text. */
export function etcdText({ cluster, voters, written }: EtcdState): string {
  if (voters !== undefined) return `etcd of ${cluster} has ${voters} voters, and each answers`;
  if (written) {
    const limit = written.upTo === undefined ? '' : ` up to ${written.upTo} before the cut`;
    return `all that was acknowledged${limit} is there on ${written.on.join(', ')}`;
  }
  return `etcd of ${cluster} is the one that was seen first`;
}

/** A span like `60s` in ms; 0 when it is not valid, which the schema excludes. */
export const spanOf = (text: string): Millis => parseDuration(text) ?? millis(0);
