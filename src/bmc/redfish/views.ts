/** Reads inventory, sensors and event log of a system and of the chassis that it is in. */
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import {
  type BmcInventory,
  type BmcLogEntry,
  type BmcSensor,
  type BmcShown,
  type BmcViewName,
  inventoryOf,
  MOST,
  readingIn,
  type SensorKind,
  type SensorState,
  sentenceIn,
  wordIn,
} from '../views.ts';
import { isOwnPath, membersOf, type Resource } from './model.ts';

/** Reads a resource; rejects with a BmcFault. */
type Get = (path: string) => Promise<Resource>;
type Body = Resource['body'];

/** At most so many resources of a collection whose members are only named. */
const MOST_READ = 24;
const MOST_PAGES = 8;

/** Reads one view. */
export async function shownBy(view: BmcViewName, get: Get, system: string): Promise<BmcShown> {
  const read = await get(system);
  if (view === 'inventory') return { inventory: await inventoryBy(get, read) };
  return view === 'sensors' ? { sensors: await sensorsBy(get, read) } : { log: await logBy(get, read) };
}

const linkIn = (value: unknown): string | undefined => {
  const path = textOf(fieldsOf(value)['@odata.id']);
  return isOwnPath(path) ? path : undefined;
};
const firstLink = (value: unknown): string | undefined => listOf(value).map(linkIn).find(Boolean);

/** What the BMC does not have, or keeps from this account, is not shown. */
async function ifThere(get: Get, path: string | undefined): Promise<Resource | undefined> {
  if (path === undefined) return undefined;
  return get(path).catch((error: { readonly code?: string }) => {
    if (error.code === 'not-understood' || error.code === 'refused') return undefined;
    throw error;
  });
}

/** The members of a collection: those that are in it, and the first of those that it names. */
async function members(get: Get, collection: Resource | undefined, most: number): Promise<readonly Body[]> {
  const found: Body[] = [];
  for (const one of listOf(collection?.body.Members).slice(0, most)) {
    const body = fieldsOf(one);
    if (Object.keys(body).length > 1) found.push(body);
    else if (found.length < MOST_READ) found.push((await ifThere(get, linkIn(one)))?.body ?? {});
  }
  return found;
}

/** What manages a system; undefined: the system names nothing, or it is kept from this account. */
export const managerOf = (get: Get, { body }: Resource): Promise<Resource | undefined> =>
  ifThere(get, firstLink(fieldsOf(body.Links).ManagedBy));

async function inventoryBy(get: Get, system: Resource): Promise<BmcInventory> {
  const { Manufacturer, Model, SerialNumber, BiosVersion } = system.body;
  const manager = await managerOf(get, system);
  const listed = await ifThere(get, '/redfish/v1/UpdateService/FirmwareInventory');
  const firmware = [
    { name: 'BMC', version: manager?.body.FirmwareVersion },
    { name: 'BIOS', version: BiosVersion },
    ...(await members(get, listed, MOST.firmware)).map(({ Name, Version }) => ({
      name: Name,
      version: Version,
    })),
  ];
  return inventoryOf({ manufacturer: Manufacturer, model: Model, serial: SerialNumber }, firmware);
}

const HEALTH: Readonly<Record<string, SensorState>> = { OK: 'ok', Warning: 'warning', Critical: 'critical' };
const stateIn = (health: unknown): { readonly state?: SensorState } => {
  const state = HEALTH[textOf(health)];
  return state === undefined || !Object.hasOwn(HEALTH, textOf(health)) ? {} : { state };
};

/** A member of a list of Thermal, of Power, or of Sensors. */
function sensorOf(body: Body, kind: SensorKind, value: unknown, unit: string): readonly BmcSensor[] {
  const { Name, FanName, MemberId, Status } = body;
  const { State, Health } = fieldsOf(Status);
  if (State === 'Absent') return [];
  const name = wordIn(Name) ?? wordIn(FanName) ?? wordIn(MemberId);
  if (name === undefined) return [];
  const reading = readingIn(value);
  return [{ name, kind, unit, ...(reading !== undefined && { value: reading }), ...stateIn(Health) }];
}

const KINDS: Readonly<Record<string, SensorKind>> = {
  Temperature: 'temperature',
  Rotational: 'fan',
  Power: 'power',
  Voltage: 'voltage',
  Current: 'current',
};
const kindOf = (type: string): SensorKind => (Object.hasOwn(KINDS, type) ? KINDS[type]! : 'other');
const UNITS: Readonly<Record<string, string>> = { Cel: '°C', '{rev}/min': 'RPM', Percent: '%' };
const unitOf = (text: string): string =>
  Object.hasOwn(UNITS, text) ? UNITS[text]! : (wordIn(text)?.slice(0, 12) ?? '');

async function sensorsBy(get: Get, system: Resource): Promise<readonly BmcSensor[]> {
  const chassis = await ifThere(get, firstLink(fieldsOf(system.body.Links).Chassis));
  const { Thermal, Power, Sensors } = chassis?.body ?? {};
  const thermal = (await ifThere(get, linkIn(Thermal)))?.body ?? {};
  const power = (await ifThere(get, linkIn(Power)))?.body ?? {};
  const each = (list: unknown, sensor: (body: Body) => readonly BmcSensor[]): readonly BmcSensor[] =>
    listOf(list).slice(0, MOST.sensors).map(fieldsOf).flatMap(sensor);
  const found = [
    ...each(thermal.Temperatures, (one) => sensorOf(one, 'temperature', one.ReadingCelsius, '°C')),
    ...each(thermal.Fans, (one) => sensorOf(one, 'fan', one.Reading, unitOf(textOf(one.ReadingUnits)))),
    ...each(power.PowerControl, (one) => sensorOf(one, 'power', one.PowerConsumedWatts, 'W')),
    ...each(power.Voltages, (one) => sensorOf(one, 'voltage', one.ReadingVolts, 'V')),
  ];
  // Newer BMCs have only the collection.
  const listed = found.length > 0 ? undefined : await ifThere(get, linkIn(Sensors));
  const more = (await members(get, listed, MOST.sensors)).flatMap((one) =>
    sensorOf(one, kindOf(textOf(one.ReadingType)), one.Reading, unitOf(textOf(one.ReadingUnits))),
  );
  return [...found, ...more].slice(0, MOST.sensors);
}

/** The next page of a collection; its query is the only one that a path of ours has. */
function nextPage({ body }: Resource): string | undefined {
  const next = textOf(body['Members@odata.nextLink']);
  const [path = '', query = ''] = next.split('?', 2);
  return isOwnPath(path) && /^[\w$=&%.-]{1,200}$/.test(query) ? `${path}?${query}` : undefined;
}

/** The log that is the machine's, by the names that vendors give it. */
const LOGS = /\/(sel|iml|eventlog|event|log1?|standardlog)\/?$/i;

async function logBy(get: Get, system: Resource): Promise<readonly BmcLogEntry[]> {
  const manager = await managerOf(get, system);
  const services: string[] = [];
  for (const owner of [system, manager]) {
    const listed = await ifThere(get, linkIn(owner?.body.LogServices));
    if (listed) services.push(...membersOf(listed));
  }
  const chosen = services.find((path) => LOGS.test(path)) ?? services[0];
  const service = await ifThere(get, chosen);
  let page = await ifThere(get, linkIn(service?.body.Entries));
  const entries: BmcLogEntry[] = [];
  for (let n = 0; page !== undefined && n < MOST_PAGES; n++) {
    entries.push(...(await members(get, page, 1000)).flatMap(entryOf));
    page = await ifThere(get, nextPage(page));
  }
  // Some list the newest first.
  return entries.sort((one, other) => (one.at ?? 0) - (other.at ?? 0)).slice(-MOST.log);
}

function entryOf({ Created, Message, MessageId, Severity }: Body): readonly BmcLogEntry[] {
  const at = Date.parse(textOf(Created));
  const text = sentenceIn(Message) || sentenceIn(MessageId);
  if (text === '') return [];
  const { state } = stateIn(Severity);
  // A clock that was never set says 1970.
  return [{ ...(at > 0 && { at }), ...(state !== undefined && { severity: state }), text }];
}
