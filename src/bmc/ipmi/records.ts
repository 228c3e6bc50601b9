/**
 * What IPMI keeps in records: sensors (SDR, section 43), the event log (SEL, section 32), and the
 * parts of the machine (FRU). Pure.
 */
import type { BmcLogEntry, BmcSensor, SensorKind, SensorState } from '../views.ts';
import { readingIn, sentenceIn, wordIn } from '../views.ts';
import type { Command } from './commands.ts';

const of = (netFn: number, command: number, ...data: readonly number[]): Command => ({
  netFn,
  command,
  data: Buffer.from(data),
});
const STORAGE = 0x0a;
const low = (value: number): number => value & 0xff;
const high = (value: number): number => (value >> 8) & 0xff;

export const fruArea = of(STORAGE, 0x10, 0);
export const readFru = (from: number, count: number): Command =>
  of(STORAGE, 0x11, 0, low(from), high(from), count);
export const reserveSensors = of(STORAGE, 0x22);
/** A part of a record of a sensor; `reservation` is what reserving answered. */
export const sensorPart = (reservation: Buffer, record: number, from: number, count: number): Command =>
  of(STORAGE, 0x23, reservation[0] ?? 0, reservation[1] ?? 0, low(record), high(record), from, count);
export const sensorReading = (number: number): Command => of(0x04, 0x2d, number);
/** An entry of the log, whole; {@link LAST} is the newest. */
export const logEntry = (record: number): Command =>
  of(STORAGE, 0x43, 0, 0, low(record), high(record), 0, 0xff);
/** The number of the newest record, and of none. */
export const LAST = 0xffff;

/** The number of the record after the one that was answered, and the record. */
export function recordIn(data: Buffer): { readonly next: number; readonly record: Buffer } | undefined {
  return data.length < 3 ? undefined : { next: data.readUInt16LE(0), record: data.subarray(2) };
}

/** The version of the BMC's own firmware, from the answer to Get Device ID. */
export const firmwareIn = (data: Buffer): string =>
  data.length < 4 ? '' : `${data[2]! & 0x7f}.${data[3]!.toString(16).padStart(2, '0')}`;

/** A full record of a sensor with thresholds: what its readings mean. */
export interface SensorRecord {
  readonly number: number;
  readonly name: string;
  readonly kind: SensorKind;
  readonly unit: string;
  /** How the octet of a reading is signed: 0 not, 1 as one's complement, 2 as two's. */
  readonly format: number;
  readonly factor: number;
  readonly offset: number;
}

const FULL = 0x01;
const THRESHOLDS = 0x01;
const UNITS: Readonly<Record<number, string>> = {
  1: '°C',
  2: '°F',
  3: 'K',
  4: 'V',
  5: 'A',
  6: 'W',
  18: 'RPM',
};
const KINDS: Readonly<Record<number, SensorKind>> = {
  1: 'temperature',
  2: 'voltage',
  3: 'current',
  4: 'fan',
};

/** A number of so many bits with a sign. */
const signed = (value: number, bits: number): number =>
  value >= 2 ** (bits - 1) ? value - 2 ** bits : value;

/** Reads a record; undefined: one of another kind, which has no reading. */
export function sensorIn(record: Buffer): SensorRecord | undefined {
  const body = record.subarray(5);
  if (record[3] !== FULL || body.length < 43) return undefined;
  const [format, isLinear] = [body[15]! >> 6, (body[18]! & 0x7f) === 0];
  if (body[8] !== THRESHOLDS || format === 3 || !isLinear) return undefined;
  const m = signed(body[19]! | ((body[20]! & 0xc0) << 2), 10);
  const b = signed(body[21]! | ((body[22]! & 0xc0) << 2), 10);
  const [exponent, ofB] = [signed(body[24]! >> 4, 4), signed(body[24]! & 0x0f, 4)];
  const percent = (body[15]! & 0x01) !== 0;
  const unit = percent ? '%' : (UNITS[body[16]!] ?? '');
  return {
    number: body[2]!,
    name: wordIn(fieldText(body.subarray(42))) ?? `sensor ${body[2]}`,
    kind: unit === 'W' ? 'power' : (KINDS[body[7]!] ?? 'other'),
    ...{ unit, format },
    factor: m * 10 ** exponent,
    offset: b * 10 ** (ofB + exponent),
  };
}

/** A reading of a sensor, from the answer to Get Sensor Reading. */
export function readSensor({ format, factor, offset, ...sensor }: SensorRecord, data: Buffer): BmcSensor {
  const { name, kind, unit } = sensor;
  const [octet = 0, flags = 0, thresholds = 0] = data;
  // Bit 6: it is scanned; bit 5: it has no reading.
  if (data.length < 2 || (flags & 0x60) !== 0x40) return { name, kind, unit };
  const raw = format === 0 ? octet : format === 2 ? signed(octet, 8) : octet > 127 ? octet - 255 : octet;
  const value = readingIn(raw * factor + offset);
  const state = stateIn(thresholds);
  return { name, kind, unit, ...(value !== undefined && { value }), state };
}

/** The thresholds that a reading has passed: lower and upper, not critical and more. */
const stateIn = (thresholds: number): SensorState =>
  (thresholds & 0x36) !== 0 ? 'critical' : (thresholds & 0x09) !== 0 ? 'warning' : 'ok';

/** Names of kinds of sensors, as the log names them (table 42-3). */
const SENSORS: Readonly<Record<number, string>> = {
  1: 'Temperature',
  2: 'Voltage',
  3: 'Current',
  4: 'Fan',
  5: 'Chassis Intrusion',
  6: 'Platform Security',
  7: 'Processor',
  8: 'Power Supply',
  9: 'Power Unit',
  12: 'Memory',
  13: 'Drive',
  15: 'System Firmware',
  16: 'Event Log',
  17: 'Watchdog',
  18: 'System Event',
  19: 'Critical Interrupt',
  20: 'Button',
  30: 'Boot Error',
  31: 'OS Boot',
  32: 'OS Stop',
  34: 'ACPI Power State',
  35: 'Watchdog',
  40: 'Management',
  41: 'Battery',
  43: 'Version Change',
};

/** What kinds of sensors report besides readings, by the number of the event. */
const EVENTS: Readonly<Record<number, readonly string[]>> = {
  7: ['IERR', 'thermal trip', 'BIST failed', 'hangs in POST', 'did not start', 'configuration error'],
  8: ['present', 'failed', 'failure predicted', 'input lost', 'input out of range'],
  9: ['off', 'cycled', '240 VA off', 'interlock off', 'AC lost', 'soft control failed', 'failed'],
  12: [
    'correctable ECC error',
    'uncorrectable ECC error',
    'parity error',
    'scrub failed',
    'disabled',
    'ECC limit',
  ],
  13: [
    'present',
    'fault',
    'failure predicted',
    'hot spare',
    'consistency check',
    'array critical',
    'array failed',
  ],
  15: ['POST error', 'hangs', 'progress'],
  16: [
    'memory errors not logged',
    'event not logged',
    'cleared',
    'all events not logged',
    'full',
    'almost full',
  ],
  19: ['NMI', 'bus time-out', 'I/O check NMI', 'software NMI', 'PCI PERR', 'PCI SERR'],
  34: ['S0: on', 'S1', 'S2', 'S3', 'S4', 'S5: soft off', 'off'],
  35: ['expired', 'hard reset', 'power down', 'power cycle'],
};
const PASSED = [
  'low',
  'low, critical',
  'low, past recovery',
  'high',
  'high, critical',
  'high, past recovery',
];

/** An entry of the log; undefined for a record that is cut off. */
export function logEntryIn(record: Buffer): BmcLogEntry | undefined {
  if (record.length < 16) return undefined;
  const type = record[2]!;
  const isTimed = type < 0xe0;
  const seconds = isTimed ? record.readUInt32LE(3) : 0;
  // Times below are counted from the BMC's start: it did not know the date.
  const at = seconds > 0x2000_0000 && seconds !== 0xffff_ffff ? { at: seconds * 1000 } : {};
  if (type !== 0x02)
    return { ...at, text: `record of the vendor: ${record.subarray(isTimed ? 7 : 3, 16).toString('hex')}` };
  const [kind, number, event, data] = [record[10]!, record[11]!, record[12]!, record[13]!];
  const offset = data & 0x0f;
  const of = SENSORS[kind] ?? `sensor of kind 0x${kind.toString(16)}`;
  const isThreshold = (event & 0x7f) === THRESHOLDS;
  const what = isThreshold
    ? PASSED[offset >> 1]
    : (event & 0x7f) === 0x6f
      ? EVENTS[kind]?.[offset]
      : undefined;
  const over = (event & 0x80) === 0 ? '' : ', over';
  const text = sentenceIn(
    `${of} #${number}: ${what ?? `event 0x${(event & 0x7f).toString(16)}/${offset}`}${over}`,
  );
  const severity: SensorState =
    !isThreshold || over !== '' ? 'ok' : [0, 3].includes(offset >> 1) ? 'warning' : 'critical';
  return { ...at, ...(isThreshold && { severity }), text };
}

/** The text of a field, whose first octet says form and length; undefined: no field follows. */
function fieldText(octets: Buffer): string | undefined {
  const [head = 0xc1] = octets;
  if (head === 0xc1) return undefined;
  const text = octets.subarray(1, 1 + (head & 0x3f));
  return head >> 6 === 2 ? sixBits(text) : text.toString('latin1').replaceAll('\0', '');
}

/** Four characters in three octets, from the blank on. */
function sixBits(octets: Buffer): string {
  return Array.from({ length: Math.floor((octets.length * 8) / 6) }, (_, n) => {
    const [at, shift] = [(n * 6) >> 3, (n * 6) & 7];
    return String.fromCharCode(0x20 + (((octets[at]! | ((octets[at + 1] ?? 0) << 8)) >> shift) & 0x3f));
  }).join('');
}

/** Where the areas of the FRU begin, in octets; 0: there is none. */
export const areasIn = (header: Buffer): { readonly board: number; readonly product: number } => ({
  board: 8 * (header[3] ?? 0),
  product: 8 * (header[4] ?? 0),
});
/** How long an area is, by its second octet. */
export const areaLength = (beginning: Buffer): number => 8 * (beginning[1] ?? 0);

/** The texts of an area: of a board they follow the date, of a product the language. */
export function fruTexts(area: Buffer, kind: 'board' | 'product'): readonly string[] {
  const texts: string[] = [];
  let at = kind === 'board' ? 6 : 3;
  for (let text = fieldText(area.subarray(at)); text !== undefined && at < area.length; ) {
    texts.push(text);
    at += 1 + (area[at]! & 0x3f);
    text = fieldText(area.subarray(at));
  }
  return texts;
}
