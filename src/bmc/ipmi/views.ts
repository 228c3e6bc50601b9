/** Reads what IPMI keeps in records, one after the other, with limits. */
import {
  type BmcInventory,
  type BmcLogEntry,
  type BmcSensor,
  type BmcShown,
  type BmcViewName,
  inventoryOf,
  MOST,
} from '../views.ts';
import { type Command, deviceId } from './commands.ts';
import {
  areaLength,
  areasIn,
  firmwareIn,
  fruArea,
  fruTexts,
  LAST,
  logEntry,
  logEntryIn,
  readFru,
  readSensor,
  recordIn,
  reserveSensors,
  sensorIn,
  sensorPart,
  sensorReading,
} from './records.ts';

/** Sends a command; rejects with a BmcFault. */
type Send = (command: Command) => Promise<Buffer>;

/** BMCs have small buffers: ipmitool asks for as few octets at once. */
const CHUNK = 16;
const MAX_AREA = 512;
const HEADER = 5;
const NOTHING = Buffer.alloc(0);

/** Reads one view. */
export async function shownBy(view: BmcViewName, send: Send): Promise<BmcShown> {
  if (view === 'inventory') return { inventory: await inventoryBy(send) };
  return view === 'sensors' ? { sensors: await sensorsBy(send) } : { log: await logBy(send) };
}

/** What the BMC refuses is not there. */
const ifThere = (asked: Promise<Buffer>): Promise<Buffer | undefined> =>
  asked.catch((error: { readonly code?: string }) => {
    if (error.code === 'refused') return undefined;
    throw error;
  });

async function inventoryBy(send: Send): Promise<BmcInventory> {
  const version = firmwareIn(await send(deviceId));
  const info = await ifThere(send(fruArea));
  const words = ((info?.[2] ?? 0) & 1) === 1 ? 2 : 1;
  const part = async (from: number, count: number): Promise<Buffer> => {
    const parts: Buffer[] = [];
    for (let at = 0; at < count; at += CHUNK) {
      const octets = Math.min(CHUNK, count - at);
      const answer = await ifThere(send(readFru((from + at) / words, octets / words)));
      if (answer === undefined || answer.length < 2) break;
      parts.push(answer.subarray(1));
    }
    return Buffer.concat(parts);
  };
  const area = async (kind: 'board' | 'product', from: number): Promise<readonly string[]> => {
    if (from === 0) return [];
    const length = areaLength(await part(from, 8));
    return fruTexts(await part(from, Math.min(MAX_AREA, length)), kind);
  };
  const { board, product } = areasIn(info === undefined ? NOTHING : await part(0, 8));
  const [maker, name, , , serial] = await area('product', product);
  const [boardMaker, boardName, boardSerial] = await area('board', board);
  return inventoryOf(
    { manufacturer: maker || boardMaker, model: name || boardName, serial: serial || boardSerial },
    [{ name: 'BMC', version }],
  );
}

async function sensorsBy(send: Send): Promise<readonly BmcSensor[]> {
  const reservation = await send(reserveSensors);
  const found: BmcSensor[] = [];
  for (let n = 0, record = 0; n < MOST.sensors && record !== LAST; n++) {
    const head = recordIn((await ifThere(send(sensorPart(reservation, record, 0, HEADER)))) ?? NOTHING);
    if (head === undefined) break;
    let whole = head.record;
    const length = HEADER + (whole[4] ?? 0);
    while (whole.length < length) {
      const count = Math.min(CHUNK, length - whole.length);
      const part = recordIn(await send(sensorPart(reservation, record, whole.length, count)));
      if (part === undefined || part.record.length === 0) break;
      whole = Buffer.concat([whole, part.record]);
    }
    const sensor = sensorIn(whole);
    if (sensor)
      found.push(readSensor(sensor, (await ifThere(send(sensorReading(sensor.number)))) ?? NOTHING));
    // A list that leads back would have no end.
    if (head.next <= record) break;
    record = head.next;
  }
  return found;
}

/** The newest entries: most BMCs number them in a row, so that reading begins near the end. */
async function logBy(send: Send): Promise<readonly BmcLogEntry[]> {
  const newest = await ifThere(send(logEntry(LAST)));
  const last = newest && recordIn(newest)?.record;
  if (last === undefined || last.length < 2) return [];
  const from = last.readUInt16LE(0) - MOST.log + 1;
  const begun = from > 0 ? await ifThere(send(logEntry(from))) : undefined;
  const entries: BmcLogEntry[] = [];
  let read = recordIn(begun ?? (await ifThere(send(logEntry(0)))) ?? NOTHING);
  for (let n = 0; n < 8 * MOST.log && read !== undefined; n++) {
    const entry = logEntryIn(read.record);
    if (entry) entries.push(entry);
    if (read.next === LAST) break;
    read = recordIn((await ifThere(send(logEntry(read.next)))) ?? NOTHING);
  }
  return entries.slice(-MOST.log);
}
