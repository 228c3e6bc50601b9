/** The commands of IPMI 2.0 that a simulated BMC knows (its sections 20 to 34), as a table. */
import type { BootTarget, PowerOrder } from '../../bmc/bmc.ts';
import { type Controller, SENSORS } from './controller.ts';
import type { Topic } from './faults.ts';

/** What a command sees besides its data. */
export interface Context {
  readonly controller: Controller;
  readonly guid: Buffer;
  /** The port at which it listens, for serial over LAN too. */
  readonly port: number;
  /** The session; undefined for the few commands that need none. */
  readonly session?: { privilege: number; readonly id: number };
  /** Begins or ends the console of this session: whether that was possible. */
  readonly console: { take(): boolean; leave(): void; readonly taken: boolean };
  /** The parameters of the boot options besides the flags, by number. */
  readonly options: Map<number, Buffer>;
}

/** Data of the answer, or a completion code. */
type Result = Buffer | number;
export interface CommandRow {
  readonly name: string;
  readonly topic: Topic;
  /** The privilege that it needs: 2 user, 3 operator, 4 administrator; 0: without a session. */
  readonly privilege: 0 | 2 | 3 | 4;
  run(data: Buffer, context: Context): Result;
}

const octets = (...values: readonly number[]): Buffer => Buffer.from(values);
const EMPTY = Buffer.alloc(0);
const OUT_OF_RANGE = 0xc9;
const INVALID = 0xcc;
const NOT_PRESENT = 0xcb;
const UNSUPPORTED = 0x80;

const CONTROLS: Readonly<Record<number, PowerOrder>> = {
  0: 'off',
  1: 'on',
  2: 'cycle',
  3: 'reset',
  5: 'shut-down',
};
/** Boot devices of the flags (table 28-14); the others are kept as "other". */
const DEVICES: Readonly<Record<number, BootTarget>> = { 0: 'none', 1: 'network', 2: 'disk', 6: 'setup' };
const FLAGS = 5;

function setBoot(data: Buffer, { controller, options }: Context): Result {
  const parameter = data[0]! & 0x7f;
  const value = Buffer.from(data.subarray(1));
  if (parameter === 0) {
    // Set in progress: 1 is refused while another has it (section 28.12).
    if (value[0] === 1 && options.get(0)?.[0] === 1) return 0x81;
    options.set(0, value);
    return EMPTY;
  }
  if (parameter > 7) return UNSUPPORTED;
  options.set(parameter, value);
  if (parameter !== FLAGS) return EMPTY;
  if (value.length < 5) return 0xc7;
  const [flags, device] = [value[0]!, (value[1]! >> 2) & 0x0f];
  const target = (flags & 0x80) === 0 ? 'none' : (DEVICES[device] ?? 'other');
  controller.setBoot({ target, uefi: (flags & 0x20) !== 0, persistent: (flags & 0x40) !== 0 });
  return EMPTY;
}

function getBoot(data: Buffer, { controller, options }: Context): Result {
  const parameter = data[0]! & 0x7f;
  if (parameter > 7) return UNSUPPORTED;
  const kept = options.get(parameter) ?? Buffer.alloc(parameter === FLAGS ? 5 : 1);
  if (parameter !== FLAGS) return Buffer.concat([octets(1, parameter), kept]);
  const { target, uefi, persistent } = controller.boot;
  const device = Object.entries(DEVICES).find(([, one]) => one === target)?.[0];
  if (target === 'none') return Buffer.concat([octets(1, FLAGS), Buffer.alloc(5)]);
  const flags = 0x80 | (persistent ? 0x40 : 0) | (uefi ? 0x20 : 0);
  const named = device === undefined ? kept[1]! : Number(device) << 2;
  return Buffer.concat([octets(1, FLAGS, flags, named), kept.subarray(2)]);
}

/** Entity, kind and unit of a sensor's record (tables 43-13, 42-3 and 43-15). */
const SENSOR_NUMBERS = { temperature: [7, 0x01, 1], fan: [29, 0x04, 18], power: [10, 0x0b, 6] } as const;

/** A full sensor record (section 43.1) with one threshold. */
function sensorRecord(number: number): Buffer {
  const { name, kind, upper } = SENSORS[number]!;
  const [entity, type, unit] = SENSOR_NUMBERS[kind];
  const body = Buffer.alloc(43);
  body.set([0x20, 0, number + 1, entity, 1, 0x7f, 0x68, type, 0x01], 0);
  // Readable upper critical threshold; a linear, unsigned value that is the reading itself.
  body.writeUInt16LE(upper > 0 ? 0x1010 : 0, 13);
  body[16] = unit;
  body[19] = kind === 'fan' ? 100 : 1;
  body[29] = 255;
  body[32] = upper;
  body[42] = 0xc0 | name.length;
  const record = Buffer.concat([body, Buffer.from(name, 'latin1')]);
  return Buffer.concat([octets(number + 1, 0, 0x51, 0x01, record.length), record]);
}

function getRecord(data: Buffer): Result {
  const number = data.readUInt16LE(2);
  const [from, count] = [data[4]!, data[5]!];
  const at = number === 0 ? 0 : number === 0xffff ? SENSORS.length - 1 : number - 1;
  if (at >= SENSORS.length) return NOT_PRESENT;
  const record = sensorRecord(at);
  const next = at + 1 < SENSORS.length ? octets(at + 2, 0) : octets(0xff, 0xff);
  return Buffer.concat([next, record.subarray(from, Math.min(record.length, from + count))]);
}

const seconds = (ms: number): Buffer => {
  const value = Buffer.alloc(4);
  value.writeUInt32LE(Math.floor(ms / 1000) >>> 0);
  return value;
};

/** An entry of the event log (section 32.1): an OEM record whose text is in the log of Redfish. */
function logEntry(data: Buffer, { controller }: Context): Result {
  const asked = data.readUInt16LE(2);
  const { log } = controller;
  const at = asked === 0 ? 0 : asked === 0xffff ? log.length - 1 : asked - 1;
  const entry = log[at];
  if (!entry) return NOT_PRESENT;
  const next = Buffer.alloc(2, 0xff);
  if (at + 1 < log.length) next.writeUInt16LE(at + 2);
  const record = Buffer.alloc(16);
  record.writeUInt16LE(at + 1);
  record[2] = 0x02;
  seconds(entry.at).copy(record, 3);
  // The state of the system's power (ACPI): S5, or S0.
  record.set([0x20, 0, 0x04, 0x22, 0x09, 0x6f, /off|shut/.test(entry.text) ? 5 : 0, 0xff, 0xff], 7);
  return Buffer.concat([next, record]);
}

/** The field replaceable unit's product area (Platform Management FRU 1.0, section 12). */
function fru({ identity }: Controller): Buffer {
  const field = (text: string): Buffer =>
    Buffer.concat([octets(0xc0 | Math.min(text.length, 62)), Buffer.from(text.slice(0, 62), 'latin1')]);
  const { manufacturer, product, serial } = identity;
  const texts = [manufacturer, product, '', '', serial, '', ''].map(field);
  const area = Buffer.concat([octets(1, 0, 25), ...texts, octets(0xc1)]);
  const padded = Buffer.concat([area, Buffer.alloc((8 - ((area.length + 1) % 8)) % 8)]);
  padded[1] = (padded.length + 1) / 8;
  const closed = (part: Buffer): Buffer =>
    Buffer.concat([part, octets(-part.reduce((total, one) => total + one, 0) & 0xff)]);
  return Buffer.concat([closed(octets(1, 0, 0, 0, 1, 0, 0)), closed(padded)]);
}

function readFru(data: Buffer, { controller }: Context): Result {
  const all = fru(controller);
  const from = data.readUInt16LE(1);
  const part = all.subarray(from, from + data[3]!);
  return part.length === 0 ? OUT_OF_RANGE : Buffer.concat([octets(part.length), part]);
}

/** The account in the slot that a command names; undefined for none. */
const slot = (data: Buffer, { controller }: Context, at = 0) => controller.accounts[data[at]! & 0x3f];

function setPassword(data: Buffer, context: Context): Result {
  const account = slot(data, context);
  if (!account) return OUT_OF_RANGE;
  const operation = data[1]! & 0x03;
  const given = data.subarray(2);
  const end = given.indexOf(0);
  const password = given.subarray(0, end < 0 ? given.length : end).toString('utf8');
  if (operation === 0) account.enabled = false;
  else if (operation === 1) account.enabled = true;
  else if (operation === 2) account.password = password;
  else if (account.password !== password) return UNSUPPORTED;
  return EMPTY;
}

function setName(data: Buffer, context: Context): Result {
  const account = slot(data, context);
  if (!account) return OUT_OF_RANGE;
  account.name = data.subarray(1).toString('utf8').replaceAll('\0', '');
  return EMPTY;
}

function getAccess(data: Buffer, { controller }: Context): Result {
  const account = controller.accounts[data[1]! & 0x3f];
  if (!account) return OUT_OF_RANGE;
  const enabled = controller.accounts.filter((one) => one.enabled).length;
  const state = account.enabled ? 0x40 : 0x80;
  const access = (account.name === '' ? 0 : 0x10) | (account.privilege & 0x0f);
  return octets(controller.accounts.length - 1, state | enabled, 1, access);
}

const authCapabilities = (data: Buffer): Result => {
  // Bit 7 of what was asked: with the extensions of IPMI 2.0. No kind of 1.5 is offered.
  const extended = (data[0]! & 0x80) !== 0;
  return octets(1, extended ? 0x80 : 0, 0x04, extended ? 0x02 : 0, 0, 0, 0, 0);
};

function cipherSuites(data: Buffer, { controller }: Context): Result {
  const records = controller.traits.suites.map((suite) =>
    suite === 3 ? octets(0xc0, 3, 0x01, 0x41, 0x81) : octets(0xc0, 17, 0x03, 0x44, 0x81),
  );
  const from = (data[2]! & 0x3f) * 16;
  return Buffer.concat([octets(1), Buffer.concat(records).subarray(from, from + 16)]);
}

/** Parameters of serial over LAN (section 26.3) and of the LAN (section 23.2). */
const SERIAL: Readonly<Record<number, Buffer>> = {
  0: octets(0),
  1: octets(1),
  2: octets(0x80 | 0x02),
  3: octets(1, 200),
  4: octets(7, 20),
  5: octets(0x0a),
  6: octets(0x0a),
  7: octets(1),
};
const parameterOf =
  (table: Readonly<Record<number, Buffer>>) =>
  (data: Buffer, { port }: Context): Result => {
    const value = data[1] === 8 && table === SERIAL ? octets(port & 0xff, port >> 8) : table[data[1]!];
    return value ? Buffer.concat([octets(0x11), value]) : UNSUPPORTED;
  };

const row = (
  name: string,
  privilege: CommandRow['privilege'],
  topic: Topic,
  run: CommandRow['run'],
): CommandRow => ({ name, privilege, topic, run });

/** The payload types of a session: messages, and serial over LAN. */
const SOL = 1;

function activate(data: Buffer, { console, port }: Context): Result {
  if ((data[0]! & 0x3f) !== SOL) return UNSUPPORTED;
  if (!console.take()) return 0x80;
  return octets(0, 0, 0, 0, 0xff, 0x00, 0xff, 0x00, port & 0xff, port >> 8, 0xff, 0xff);
}

/** By network function and number: `06/01`. */
export const COMMANDS: Readonly<Record<string, CommandRow>> = {
  '06/01': row('get-device-id', 2, 'read', () =>
    octets(0x20, 0x01, 0x01, 0x00, 0x02, 0xbf, 0xff, 0xff, 0x00, 0x01, 0x00, 0, 0, 0, 0),
  ),
  '06/37': row('get-guid', 0, 'read', (_, { guid }) => guid),
  '06/38': row('get-channel-authentication', 0, 'other', authCapabilities),
  '06/54': row('get-channel-cipher-suites', 0, 'other', cipherSuites),
  '06/3b': row('set-privilege', 2, 'other', (data, { session }) => {
    const wanted = data[0]! & 0x0f;
    if (wanted > 4) return UNSUPPORTED;
    if (wanted !== 0) session!.privilege = wanted;
    return octets(session!.privilege);
  }),
  '06/3c': row('close-session', 2, 'other', () => EMPTY),
  '06/41': row('get-channel-access', 2, 'read', () => octets(0x02, 0x04)),
  '06/42': row('get-channel-info', 2, 'read', () => octets(1, 0x04, 0x01, 0x81, 0xf2, 0x1b, 0, 0, 0)),
  '06/43': row('set-user-access', 4, 'password', (data, context) => {
    const account = slot(data, context, 1);
    if (!account) return OUT_OF_RANGE;
    account.privilege = data[2]! & 0x0f;
    return EMPTY;
  }),
  '06/44': row('get-user-access', 2, 'read', getAccess),
  '06/45': row('set-user-name', 4, 'password', setName),
  '06/46': row('get-user-name', 2, 'read', (data, context) => {
    const account = slot(data, context);
    return account
      ? Buffer.concat([Buffer.from(account.name), Buffer.alloc(16)]).subarray(0, 16)
      : OUT_OF_RANGE;
  }),
  '06/47': row('set-user-password', 4, 'password', setPassword),
  '06/48': row('activate-payload', 3, 'console', activate),
  '06/49': row('deactivate-payload', 3, 'console', (_, { console }) => {
    if (!console.taken) return 0x80;
    console.leave();
    return EMPTY;
  }),
  '06/4a': row('get-payload-activation', 2, 'read', (_, { console }) => octets(1, console.taken ? 1 : 0, 0)),
  '06/4b': row('get-payload-instance', 2, 'read', () => Buffer.alloc(12)),
  '06/4d': row('get-user-payloads', 2, 'read', () => octets(0x02, 0, 0, 0)),
  '06/4e': row('get-channel-payloads', 2, 'read', () => octets(0x03, 0, 0x3f, 0, 0, 0, 0, 0)),
  '06/4f': row('get-payload-version', 2, 'read', () => octets(0x10)),
  '0c/21': row('set-serial-over-lan', 4, 'console', () => EMPTY),
  '0c/22': row('get-serial-over-lan', 2, 'read', parameterOf(SERIAL)),
  '0c/02': row('get-lan', 2, 'read', parameterOf({ 0: octets(0), 1: octets(0), 4: octets(1) })),
  '00/00': row('get-chassis-capabilities', 2, 'read', () => octets(0x00, 0x20, 0x20, 0x20, 0x20)),
  '00/01': row('chassis-status', 2, 'read', (_, { controller }) =>
    octets(controller.on ? 0x61 : 0x60, 0, controller.lit ? 0x50 : 0x40, 0),
  ),
  '00/02': row('chassis-control', 3, 'power', (data, { controller }) => {
    const order = CONTROLS[data[0]! & 0x0f];
    if (order === undefined) return INVALID;
    // Section 28.3: a machine that is off can only be switched on.
    if (order !== 'on' && order !== 'off' && !controller.on) return 0xd5;
    controller.order(order);
    return EMPTY;
  }),
  '00/04': row('chassis-identify', 3, 'identify', (data, { controller }) => {
    const forever = data.length > 1 && (data[1]! & 1) === 1;
    controller.identify(forever ? 1e6 : data.length === 0 ? 15 : data[0]!);
    return EMPTY;
  }),
  '00/07': row('restart-cause', 2, 'read', () => octets(0x01, 0x01)),
  '00/08': row('set-boot-options', 3, 'boot', setBoot),
  '00/09': row('get-boot-options', 3, 'read', getBoot),
  '0a/10': row('fru-area', 2, 'read', (data, { controller }) =>
    data[0] === 0 ? octets(fru(controller).length & 0xff, fru(controller).length >> 8, 0) : NOT_PRESENT,
  ),
  '0a/11': row('read-fru', 2, 'read', readFru),
  '0a/20': row('sensor-records', 2, 'read', () =>
    Buffer.concat([octets(0x51, SENSORS.length, 0, 0xff, 0xff), Buffer.alloc(8), octets(0x22)]),
  ),
  '0a/22': row('reserve-sensors', 2, 'read', () => octets(1, 0)),
  '0a/23': row('get-sensor-record', 2, 'read', getRecord),
  '04/2d': row('get-sensor', 2, 'read', (data) => {
    const sensor = SENSORS[data[0]! - 1];
    return sensor ? octets(sensor.value, 0xc0, 0xc0, 0x80) : NOT_PRESENT;
  }),
  '0a/40': row('log-info', 2, 'read', (_, { controller: { log } }) =>
    Buffer.concat([
      octets(0x51, log.length & 0xff, log.length >> 8, 0xff, 0x0f),
      seconds(log.at(-1)?.at ?? 0),
      seconds(0),
      octets(0x02),
    ]),
  ),
  '0a/42': row('reserve-log', 2, 'read', () => octets(1, 0)),
  '0a/43': row('get-log-entry', 2, 'read', logEntry),
  '0a/47': row('clear-log', 4, 'other', (_, { controller }) => {
    controller.log.length = 0;
    return octets(1);
  }),
  '0a/48': row('log-time', 2, 'read', (_, { controller }) => seconds(controller.now())),
};

export const keyOf = (netFn: number, command: number): string =>
  [netFn, command].map((value) => value.toString(16).padStart(2, '0')).join('/');
