/** What answers to searches for Redfish services say, and what DHCP packets say of BMCs. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import type { Mac } from '../../../src/base/mac.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { answerOf, isAt, isSearch, readAnswer, SEARCH } from '../../../src/bmc/redfish/ssdp.ts';
import { openSightings } from '../../../src/bmc/sightings.ts';

const UUID = '92384634-2938-2342-8820-489239905423';
const head = (...lines: readonly string[]): Buffer => Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
const SERVICE = 'urn:dmtf-org:service:redfish-rest:1';

test('an answer as DSP0266 shows it names the service and its URL', () => {
  const answer = head(
    'HTTP/1.1 200 OK',
    'CACHE-CONTROL:max-age=1800',
    `ST:${SERVICE}:0`,
    `USN:uuid:${UUID}::${SERVICE}:0`,
    'AL:https://10.78.0.10/redfish/v1/',
    'EXT:',
  );
  const read = readAnswer(answer);
  expect(read).toEqual({ uuid: UUID, location: 'https://10.78.0.10/redfish/v1/' });
  expect([isAt(read!, '10.78.0.10'), isAt(read!, '10.78.0.11')]).toEqual([true, false]);
  expect(readAnswer(answerOf({ uuid: UUID, location: 'https://10.78.0.10/redfish/v1/' }))).toEqual(read);
});

test.each([
  ['of another service', [`USN: uuid:${UUID}::urn:schemas-upnp-org:device:basic:1`]],
  ['without a name', ['AL: https://10.78.0.10/redfish/v1']],
  ['with two names', [`USN: uuid:${UUID}::${SERVICE}`, `usn: uuid:${UUID}::${SERVICE}`]],
  ['with control characters', [`USN: uuid:${UUID}::${SERVICE}`, 'SERVER: \u001b]0;owned\u0007']],
  ['that is long', [`USN: uuid:${UUID}::${SERVICE}`, `SERVER: ${'x'.repeat(1100)}`]],
  ['of many lines', [`USN: uuid:${UUID}::${SERVICE}`, ...Array.from({ length: 40 }, (_, n) => `X${n}: y`)]],
])('an answer %s is none', (_, lines) => {
  expect(readAnswer(head('HTTP/1.1 200 OK', ...lines))).toBeUndefined();
});

test('a URL that is none of Redfish, or that misleads a reader, is left out', () => {
  const url = (text: string) =>
    readAnswer(head('HTTP/1.1 200 OK', `USN: uuid:${UUID}::${SERVICE}`, `LOCATION: ${text}`));
  for (const text of [
    'file:///etc/passwd',
    'https://10.78.0.10@evil.example/redfish/v1',
    'https://10.78.0.10/redfish/v1?next=//evil.example',
    'https://10.78.0.10/admin',
    'https://10.78.0.)0/redfish/v1',
    'nonsense',
  ])
    expect(url(text)).toEqual({ uuid: UUID });
  expect(url('<http://10.78.0.10:8000/redfish/v1>')?.location).toBe('http://10.78.0.10:8000/redfish/v1');
});

test('a question is one for Redfish, or for all', () => {
  expect(isSearch(SEARCH)).toBe(true);
  const other = (target: string) => Buffer.from(SEARCH.toString().replace(SERVICE, target));
  expect([isSearch(other('ssdp:all')), isSearch(other('upnp:rootdevice'))]).toEqual([true, false]);
  expect(isSearch(Buffer.from(SEARCH.toString().replace('ssdp:discover', 'x')))).toBe(false);
});

test('a flood of BMCs that ask for addresses is bounded, and counted', async () => {
  const metrics = createMetrics();
  const sightings = openSightings({ clock: new ManualClock(), metrics });
  const macOf = (n: number) =>
    `02:00:00:00:${(n >> 8).toString(16).padStart(2, '0')}:${(n & 255).toString(16).padStart(2, '0')}` as Mac;
  for (let n = 0; n < 5000; n++) sightings.saw({ mac: macOf(n), vendorClass: 'iDRAC' }, 'lan');
  expect(sightings.list()).toHaveLength(4096);
  expect(sightings.list().at(-1)?.mac).toBe(macOf(4999));
  expect(await metrics.text()).toContain('muster_table_dropped_total{table="bmcs"} 904');
});
