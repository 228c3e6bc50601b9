/** What BMCs say of their machines: records of IPMI, and resources of Redfish. */
import { expect, test } from 'vitest';
import { BmcFault } from '../../../src/bmc/bmc.ts';
import { fruTexts, logEntryIn, readSensor, sensorIn } from '../../../src/bmc/ipmi/records.ts';
import { shownBy as byIpmi } from '../../../src/bmc/ipmi/views.ts';
import { shownBy as byRedfish } from '../../../src/bmc/redfish/views.ts';
import { MOST } from '../../../src/bmc/views.ts';
import { FULL_RECORD, LOG_RECORD, PRODUCT } from './records.ts';

test('a record of a sensor says how its octet is read, and a reading that is none is not shown', () => {
  const sensor = sensorIn(FULL_RECORD)!;
  const reading = (...octets: readonly number[]) => readSensor(sensor, Buffer.from(octets));
  expect(reading(147, 0xc0, 0)).toEqual({
    ...{ name: 'CPU Temp', kind: 'temperature', unit: '°C', value: 47, state: 'ok' },
  });
  expect(reading(195, 0xc0, 0x18).state).toBe('critical');
  expect(reading(180, 0xc0, 0x08).state).toBe('warning');
  expect(reading(0, 0xe0, 0)).not.toHaveProperty('value');
  expect(reading()).not.toHaveProperty('value');
});

test('entries of the log and texts of parts are read', () => {
  expect(logEntryIn(LOG_RECORD)).toEqual({
    at: 0x6553f100 * 1000,
    severity: 'critical',
    text: 'Fan #65: low, critical',
  });
  expect(fruTexts(PRODUCT, 'product')).toEqual(['Maker', 'R740', '', '', 'S-1']);
  // "IPMI" in six bits a character, as the specification shows it.
  const packed = Buffer.concat([Buffer.alloc(3), Buffer.from([0x83, 0x29, 0xdc, 0xa6, 0xc1])]);
  expect(fruTexts(packed, 'product')).toEqual(['IPMI']);
});

test('a list of sensors or of a log that leads back to its beginning ends', async () => {
  let asked = 0;
  const send = async (): Promise<Buffer> => {
    asked++;
    return Buffer.concat([Buffer.from([1, 0]), FULL_RECORD]);
  };
  await byIpmi('sensors', send);
  await byIpmi('log', send);
  await byIpmi('inventory', send);
  expect(asked).toBeLessThan(12 * MOST.log);
});

const resources = (bodies: Readonly<Record<string, object>>) => async (path: string) => {
  const body = bodies[path];
  if (body === undefined) throw new BmcFault('not-understood', 'status 404');
  return { path, body: body as Record<string, unknown> };
};
const at = (path: string) => ({ '@odata.id': `/redfish/v1/${path}` });

test('Redfish: hostile texts are shortened and plain, and links lead nowhere else', async () => {
  const get = resources({
    '/redfish/v1/Systems/1': {
      Manufacturer: '<b>\u001b[31mMaker\n',
      SerialNumber: 'x'.repeat(1000),
      Model: 7,
      BiosVersion: '2.1',
      Links: {
        ManagedBy: [{ '@odata.id': 'https://elsewhere/redfish/v1/Managers/1' }],
        Chassis: [at('Chassis/1')],
      },
      LogServices: at('Systems/1/LogServices'),
    },
    '/redfish/v1/UpdateService/FirmwareInventory': {
      Members: Array.from({ length: 500 }, (_, n) => ({ ...at(`F/${n}`), Name: `Part ${n}`, Version: '1' })),
    },
    '/redfish/v1/Chassis/1': { Sensors: at('Chassis/1/Sensors') },
    '/redfish/v1/Chassis/1/Sensors': { Members: [at('Chassis/1/Sensors/a'), at('Chassis/1/Sensors/b')] },
    '/redfish/v1/Chassis/1/Sensors/a': {
      ...{ Name: 'Inlet', ReadingType: 'Temperature', Reading: 24.5, ReadingUnits: 'Cel' },
      Status: { Health: 'OK', State: 'Enabled' },
    },
    '/redfish/v1/Chassis/1/Sensors/b': { Name: 'Gone', Status: { State: 'Absent' } },
    '/redfish/v1/Systems/1/LogServices': {
      Members: [at('Systems/1/LogServices/Other'), at('Systems/1/LogServices/Sel')],
    },
    '/redfish/v1/Systems/1/LogServices/Sel': { Entries: at('Systems/1/LogServices/Sel/Entries') },
    '/redfish/v1/Systems/1/LogServices/Sel/Entries': {
      Members: [
        { ...at('b'), Created: '2026-01-02T00:00:00Z', Message: 'second', Severity: 'Critical' },
        { ...at('a'), Created: '2026-01-01T00:00:00Z', Message: 'first\u0007', Severity: 'constructor' },
      ],
      'Members@odata.nextLink': '/redfish/v1/Systems/1/LogServices/Sel/Entries?$skip=2',
    },
    '/redfish/v1/Systems/1/LogServices/Sel/Entries?$skip=2': {
      Members: [{ ...at('c'), Message: 'undated' }],
    },
  });
  const system = '/redfish/v1/Systems/1';
  const { inventory } = await byRedfish('inventory', get, system);
  expect(inventory).toMatchObject({ manufacturer: '<b> [31mMaker', serial: 'x'.repeat(64) });
  expect(inventory).not.toHaveProperty('model');
  expect(inventory!.firmware.slice(0, 2)).toEqual([
    { name: 'BIOS', version: '2.1' },
    { name: 'Part 0', version: '1' },
  ]);
  expect(inventory!.firmware.length).toBeLessThanOrEqual(MOST.firmware);
  expect((await byRedfish('sensors', get, system)).sensors).toEqual([
    { name: 'Inlet', kind: 'temperature', value: 24.5, unit: '°C', state: 'ok' },
  ]);
  expect((await byRedfish('log', get, system)).log).toEqual([
    { text: 'undated' },
    { at: Date.parse('2026-01-01T00:00:00Z'), text: 'first' },
    { at: Date.parse('2026-01-02T00:00:00Z'), severity: 'critical', text: 'second' },
  ]);
});
