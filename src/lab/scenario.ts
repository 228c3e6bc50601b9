/**
 * A scenario of the virtual rack: machines, the documents that Muster gets, the steps, and what
 * must be true at the end.
 */
import { z } from 'zod';
import { duration, type Millis } from '../base/duration.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import { cidrText, ipv4Text, mac, name, duration as spanText, uuid } from '../resources/fields.ts';
import { faultRule, traits } from './bmc/faults.ts';
import { expectation, type Step, step } from './steps.ts';

const nic = z.strictObject({
  mac,
  segment: z.enum(['main', 'dead']).default('main').meta({
    description: 'main: the segment that Muster serves. dead: a segment where nobody answers.',
  }),
  boot: z
    .boolean()
    .optional()
    .meta({ description: 'The firmware boots from this card. Default: the first card on segment main.' }),
});

const disk = z.strictObject({
  sizeMiB: z.int().min(1).max(65536).default(32),
  serial: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,20}$/, 'at most 20 letters, digits, "-" and "_"')
    .optional()
    .meta({ description: 'The serial number that the guest sees; virtio has room for 20 octets.' }),
  bus: z
    .enum(['virtio', 'nvme'])
    .default('virtio')
    .meta({ description: 'How it is connected. An NVMe disk has a serial number.' }),
  blank: z
    .literal(true)
    .optional()
    .meta({ description: 'The disk is all zeros, as from the factory (a sparse file).' }),
  copyOf: name.optional().meta({
    description: 'At every power-on the disk is a new copy of the disk of that machine with the same serial.',
  }),
  keep: z
    .literal(true)
    .optional()
    .meta({ description: "A blank disk stays in the run's folder at the end instead of being removed." }),
  /** A disk without `blank` is filled with this text, so that a single changed octet shows. */
  filledWith: z.string().min(1).default('this disk belongs to somebody else\n'),
});

const bmc = z.strictObject({
  protocol: z.enum(['redfish', 'ipmi']),
  address: ipv4Text.meta({ description: 'Its own address, on a network that no machine is on.' }),
  user: z.string().default('admin'),
  password: z.string().default('factory-password'),
  traits: traits.prefault({}),
  faults: z.array(faultRule).default([]),
});

const labMachine = z.strictObject({
  name,
  firmware: z.enum(['bios', 'uefi', 'uefi-http']),
  secureBoot: z.literal(true).optional().meta({
    description: 'Its UEFI firmware starts only what is signed for the keys of Microsoft.',
  }),
  memoryMiB: z.int().min(128).max(16384).default(1536),
  processors: z.int().min(1).max(8).default(1),
  nics: z.array(nic).min(1),
  uuid: uuid.optional(),
  serial: z.string().optional(),
  manufacturer: z.string().default('Muster Lab'),
  product: z.string().default('Virtual Rack'),
  clock: z
    .string()
    .regex(/^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2})?$/, 'write a UTC time like 2015-01-01T00:00:00')
    .optional()
    .meta({ description: 'The time of its hardware clock at power-on. Default: the right time.' }),
  disks: z.array(disk).default([]),
  tpm: z.literal(true).optional().meta({
    description: 'It has a TPM 2.0 (swtpm), which keeps its state while the machine is off.',
  }),
  bmc: bmc.optional().meta({
    description: 'It has a BMC, which switches it on and off, and shows its serial console.',
  }),
  diskSystem: z.literal('probe').optional().meta({
    description: 'Its disk boots the probe system, which knows nothing of Muster (BIOS).',
  }),
  bootOrder: z
    .enum(['network', 'disk', 'disk-only'])
    .default('network')
    .meta({ description: 'What the firmware tries first; disk-only: and nothing else.' }),
});

const scenarioSchema = z.strictObject({
  name,
  about: z.string(),
  subnet: cidrText.default('10.77.0.0/24'),
  bootHost: ipv4Text.default('10.77.0.1').meta({ description: "Muster's address on the main segment." }),
  images: z
    .array(
      z.enum([
        'debian-13',
        'debian-13-ignition',
        'debian-13-kubernetes',
        'debian-13-kubernetes-ignition',
        'debian-12',
        'debian-13-imported',
        'debian-13-disk',
        'probe',
        'discovery',
      ]),
    )
    .default([]),
  dnsmasq: z
    .strictObject({
      address: ipv4Text,
      pool: z.strictObject({ start: ipv4Text, end: ipv4Text }),
    })
    .optional()
    .meta({ description: 'Another DHCP server on the main segment.' }),
  artifacts: z
    .strictObject({
      binaries: z
        .array(
          z.strictObject({
            name: z.string(),
            version: z.string(),
            package: z
              .string()
              .meta({ description: 'The name of a package that scripts/packages.sh has unpacked.' }),
            file: z.string().meta({ description: 'The path of the program inside the package.' }),
          }),
        )
        .default([]),
      given: z
        .literal(true)
        .optional()
        .meta({ description: 'Also imports everything in the directory that MUSTER_ARTIFACTS names.' }),
    })
    .optional()
    .meta({ description: 'Binaries and container images for the boot host, by `muster artifacts import`.' }),
  documents: z
    .array(z.record(z.string(), z.unknown()))
    .min(1)
    .meta({ description: 'The configuration directory: whole Muster documents.' }),
  machines: z.array(labMachine).min(1),
  steps: z.array(step).optional().meta({
    description: 'Default: power on all machines and wait until each is ready and has reported its facts.',
  }),
  together: z.literal(true).optional().meta({
    description: 'All machines of one powerOn start at the same time, even if the host has few processors.',
  }),
  limit: spanText.default('15m').meta({ description: 'The time limit of the whole run.' }),
  patience: spanText
    .default('60s')
    .meta({ description: 'A wait fails when its machine makes no progress for this long.' }),
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
 * Checks a parsed YAML value; `file` is its name in the messages.
 *
 * @throws {MusterError} E_SCHEMA with a fault for each place that is wrong.
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

/**
 * Faults that the schema cannot find: names that no machine has, MAC addresses and names that are
 * used twice, a machine without a card from which it can boot.
 */
function crossFaults(scenario: Parsed): { path: string; message: string }[] {
  const faults: { path: string; message: string }[] = [];
  const names = new Set<string>();
  const macs = new Map<string, string>();
  for (const [index, machine] of scenario.machines.entries()) {
    const at = `machines[${index}]`;
    if (names.has(machine.name))
      faults.push({ path: `${at}.name`, message: `"${machine.name}" is listed twice` });
    names.add(machine.name);
    for (const card of machine.nics) {
      const owner = macs.get(card.mac);
      if (owner) faults.push({ path: `${at}.nics`, message: `${card.mac} already belongs to ${owner}` });
      macs.set(card.mac, machine.name);
    }
    if (machine.nics.filter((card) => card.boot).length > 1)
      faults.push({ path: `${at}.nics`, message: 'only one card can have boot: true' });
    for (const { copyOf, serial } of machine.disks)
      if (copyOf !== undefined && diskOf(scenario, copyOf, serial) === undefined)
        faults.push({
          path: `${at}.disks`,
          message: `${copyOf} has no disk with the serial ${serial ?? '(none)'}`,
        });
    if (!bootNic(machine))
      faults.push({ path: `${at}.nics`, message: 'no card on segment main and none with boot: true' });
  }
  const known = (machine: string | undefined, path: string) => {
    if (machine !== undefined && !names.has(machine))
      faults.push({
        path,
        message: `no machine of this scenario is called "${machine}"; its machines are ${[...names].join(', ')}`,
      });
  };
  for (const [index, { machine }] of scenario.expect.entries()) known(machine, `expect[${index}].machine`);
  for (const [index, one] of (scenario.steps ?? []).entries()) {
    const at = `steps[${index}]`;
    known(one.wait?.machine, `${at}.wait.machine`);
    known(one.check?.machine, `${at}.check.machine`);
    for (const machine of [
      one.powerOn,
      one.powerOff,
      one.powerCut,
      one.hang,
      one.wipe,
      one.newTpm,
      one.etcd?.written?.on,
    ].flat())
      known(machine, at);
    for (const machine of one.wipe ?? [])
      if (!scenario.machines.find(({ name }) => name === machine)?.disks.some(({ blank }) => blank))
        faults.push({ path: at, message: `${machine} has no blank disk` });
    for (const machine of one.newTpm ?? [])
      if (!scenario.machines.find(({ name }) => name === machine)?.tpm)
        faults.push({ path: at, message: `${machine} has no TPM` });
  }
  return faults;
}

/** The index of the disk of `machine` with that serial; undefined when there is none. */
export function diskOf(
  { machines }: Pick<Scenario, 'machines'>,
  machine: string,
  serial: string | undefined,
): number | undefined {
  const disks = machines.find(({ name }) => name === machine)?.disks ?? [];
  const index = disks.findIndex((one) => serial !== undefined && one.serial === serial);
  return index < 0 ? undefined : index;
}

/** The card from which the firmware boots; undefined when there is none. */
export function bootNic(machine: LabMachine): LabMachine['nics'][number] | undefined {
  return machine.nics.find((card) => card.boot) ?? machine.nics.find((card) => card.segment === 'main');
}
