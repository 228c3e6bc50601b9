/** A scenario of the virtual rack: machines, what Muster is told of them, what happens, and what must be true at the end. */
import { z } from 'zod';
import { duration, type Millis, millis, parseDuration } from '../base/duration.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import { cidrText, ipv4Text, mac, name, duration as spanText, uuid } from '../resources/fields.ts';

/** The steps of a boot that a wait can name besides phases. */
const phase = z.enum([
  'discovered',
  'registered',
  'booting',
  'starting',
  'configured',
  'ready',
  'failed',
  'held',
]);

const nic = z.strictObject({
  mac,
  segment: z.enum(['main', 'dead']).default('main').meta({
    description: 'main: the segment that Muster serves. dead: a segment where nobody answers.',
  }),
  boot: z
    .boolean()
    .optional()
    .meta({ description: 'The firmware boots from this card. Default: the first on segment main.' }),
});

const disk = z.strictObject({
  sizeMiB: z.int().min(1).max(4096).default(32),
  /** Filled with this text, over and over, so that a single changed octet shows. */
  filledWith: z.string().min(1).default('this disk belongs to somebody else\n'),
});

const labMachine = z.strictObject({
  name,
  firmware: z.enum(['bios', 'uefi', 'uefi-http']),
  memoryMiB: z.int().min(128).max(16384).default(1536),
  nics: z.array(nic).min(1),
  uuid: uuid.optional(),
  serial: z.string().optional(),
  manufacturer: z.string().default('Muster Lab'),
  product: z.string().default('Virtual Rack'),
  clock: z
    .string()
    .regex(/^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2})?$/, 'write a UTC time like 2015-01-01T00:00:00')
    .optional()
    .meta({ description: 'What its hardware clock says at power-on. Default: the right time.' }),
  disks: z.array(disk).default([]),
});

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
    serial: z
      .string()
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

const expectation = z
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
    serial: z.string().optional().meta({ description: 'Its console has shown this regular expression.' }),
    noSerial: z.string().optional(),
  })
  .refine(oneCheck.check, { message: oneCheck.message });
export type Expectation = z.output<typeof expectation>;

const step = z
  .strictObject({
    powerOn: z.array(z.string()).optional().meta({ description: 'These machines, together.' }),
    powerOff: z.array(z.string()).optional(),
    wait: wait.optional(),
    check: expectation.optional().meta({ description: 'Must be true now, not only at the end.' }),
    muster: z
      .array(z.string())
      .min(1)
      .optional()
      .meta({ description: 'Words of a command line: ["machine", "accept", "m-525400aa0003"].' }),
    apply: z
      .array(z.record(z.string(), z.unknown()))
      .optional()
      .meta({ description: 'Documents, by `muster apply`.' }),
  })
  .refine(exactlyOne(['powerOn', 'powerOff', 'wait', 'check', 'muster', 'apply']).check, {
    message: exactlyOne(['powerOn', 'powerOff', 'wait', 'check', 'muster', 'apply']).message,
  });
export type Step = z.output<typeof step>;

const scenarioSchema = z.strictObject({
  name,
  about: z.string(),
  subnet: cidrText.default('10.77.0.0/24'),
  bootHost: ipv4Text.default('10.77.0.1').meta({ description: "Muster's address on the main segment." }),
  images: z.array(z.enum(['debian-13', 'debian-12', 'probe'])).default([]),
  dnsmasq: z
    .strictObject({
      address: ipv4Text,
      pool: z.strictObject({ start: ipv4Text, end: ipv4Text }),
    })
    .optional()
    .meta({ description: 'Another DHCP server beside, on the main segment.' }),
  documents: z
    .array(z.record(z.string(), z.unknown()))
    .min(1)
    .meta({ description: 'The configuration directory: whole Muster documents.' }),
  machines: z.array(labMachine).min(1),
  steps: z.array(step).optional().meta({
    description: 'Default: power on all, wait until each is ready and has said what it is.',
  }),
  limit: spanText.default('15m').meta({ description: 'The whole run.' }),
  patience: spanText.default('60s').meta({ description: 'A wait without any progress of its machine.' }),
  expect: z.array(expectation).min(1),
});

export type LabMachine = z.output<typeof labMachine>;
type Parsed = z.output<typeof scenarioSchema>;
export interface Scenario extends Omit<Parsed, 'steps' | 'limit' | 'patience'> {
  readonly steps: readonly Step[];
  readonly limit: Millis;
  readonly patience: Millis;
}

/**
 * Checks a parsed YAML value. Throws E_SCHEMA with a fault for each place that is wrong; `file` names it in the messages.
 */
export function readScenario(value: unknown, file: string): Scenario {
  const parsed = scenarioSchema.safeParse(value);
  if (!parsed.success) {
    throw refuse(
      file,
      parsed.error.issues.map((issue) => ({ path: pathText(issue.path), message: issue.message })),
    );
  }
  const scenario = parsed.data;
  const faults = crossFaults(scenario);
  if (faults.length > 0) throw refuse(file, faults);
  return {
    ...scenario,
    steps: scenario.steps ?? defaultSteps(scenario),
    limit: duration(scenario.limit),
    patience: duration(scenario.patience),
  };
}

function refuse(file: string, faults: readonly { path: string; message: string }[]): MusterError {
  const list: Fault[] = faults.map(({ path, message }) => ({
    code: 'E_SCHEMA',
    path,
    message: `${file}: ${message}`,
  }));
  return new MusterError('E_SCHEMA', `${file}: ${list.length} faults`, { faults: list });
}

function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((part, i) => (typeof part === 'number' ? `[${part}]` : `${i > 0 ? '.' : ''}${String(part)}`))
    .join('');
}

function defaultSteps(scenario: Parsed): Step[] {
  const names = scenario.machines.map((machine) => machine.name);
  return [
    { powerOn: names },
    ...names.map((machine): Step => ({ wait: { machine, phase: 'ready' } })),
    ...names.map((machine): Step => ({ wait: { machine, facts: true } })),
  ];
}

/** What the schema alone cannot see: names that nobody has, doubled cards, a card to boot from. */
function crossFaults(scenario: Parsed): { path: string; message: string }[] {
  const faults: { path: string; message: string }[] = [];
  const names = new Set<string>();
  const macs = new Map<string, string>();
  for (const [index, machine] of scenario.machines.entries()) {
    const at = `machines[${index}]`;
    if (names.has(machine.name))
      faults.push({ path: `${at}.name`, message: `"${machine.name}" is there twice` });
    names.add(machine.name);
    for (const card of machine.nics) {
      const owner = macs.get(card.mac);
      if (owner) faults.push({ path: `${at}.nics`, message: `${card.mac} belongs to ${owner} already` });
      macs.set(card.mac, machine.name);
    }
    if (machine.nics.filter((card) => card.boot).length > 1)
      faults.push({ path: `${at}.nics`, message: 'only one card can be the one to boot from' });
    if (!bootNic(machine))
      faults.push({ path: `${at}.nics`, message: 'no card on segment main and none with boot: true' });
  }
  const known = (machine: string | undefined, path: string) => {
    if (machine !== undefined && !names.has(machine))
      faults.push({
        path,
        message: `no machine of this scenario is called "${machine}"; there are ${[...names].join(', ')}`,
      });
  };
  for (const [index, { machine }] of scenario.expect.entries()) known(machine, `expect[${index}].machine`);
  for (const [index, one] of (scenario.steps ?? []).entries()) {
    const at = `steps[${index}]`;
    known(one.wait?.machine, `${at}.wait.machine`);
    known(one.check?.machine, `${at}.check.machine`);
    for (const machine of [...(one.powerOn ?? []), ...(one.powerOff ?? [])]) known(machine, at);
  }
  return faults;
}

/** The card that the firmware boots from. */
export function bootNic(machine: LabMachine): LabMachine['nics'][number] | undefined {
  return machine.nics.find((card) => card.boot) ?? machine.nics.find((card) => card.segment === 'main');
}

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

export const spanOf = (text: string): Millis => parseDuration(text) ?? millis(0);
