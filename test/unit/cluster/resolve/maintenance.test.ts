/** Maintenance windows, also where clocks change. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { opening, whyMaintenanceWaits, windowsOf } from '../../../../src/cluster/resolve/maintenance.ts';
import { DAYS, type MaintenanceWindow, maintenanceSpec } from '../../../../src/resources/maintenance-spec.ts';

const at = (text: string): number => Date.parse(text);

test.for<[string, Partial<MaintenanceWindow>, string, true | string]>([
  ['before it opens', { time: '22:00' }, '2026-11-27T21:59:59Z', '2026-11-27T22:00+00:00'],
  ['at its beginning', { time: '22:00' }, '2026-11-27T22:00:00Z', true],
  ['after midnight', { time: '22:00' }, '2026-11-28T01:59:59Z', true],
  ['at its end', { time: '22:00' }, '2026-11-28T02:00:00Z', '2026-11-28T22:00+00:00'],
  ['on another day', { days: ['sun'] }, '2026-11-27T22:00:00Z', '2026-11-29T22:00+00:00'],
  ['a day later, after midnight', { days: ['fri'] }, '2026-11-28T01:00:00Z', true],
  ['in its zone', { zone: 'America/New_York' }, '2026-11-28T03:00:00Z', true],
  ['in winter', { zone: 'Europe/Berlin' }, '2026-12-01T20:59:00Z', '2026-12-01T22:00+01:00'],
  ['in summer', { zone: 'Europe/Berlin' }, '2026-06-01T20:01:00Z', true],
  // 02:30 does not exist in Berlin on 29 March 2026, and it is 02:30 twice on 25 October.
  [
    'where clocks skip',
    { zone: 'Europe/Berlin', time: '02:30' },
    '2026-03-29T01:29:00Z',
    '2026-03-29T03:30+02:00',
  ],
  ['where clocks repeat', { zone: 'Europe/Berlin', time: '02:30' }, '2026-10-25T00:30:00Z', true],
])('a window is open or says when: %s', ([, window, now, wanted]) => {
  const found = opening([{ time: '22:00', duration: '4h', ...window }], at(now));
  expect(found).toMatchObject(wanted === true ? { open: true } : { open: false, text: wanted });
});

test('a window that is open for a week is always open', () => {
  const windows = [{ days: ['wed' as const], time: '09:00', duration: '7d' }];
  for (let hour = 0; hour < 200; hour++)
    expect(opening(windows, at('2026-11-27T00:00:00Z') + hour * duration('1h')).open).toBe(true);
});

test('a Cluster without windows waits for none', () => {
  const windows = [{ time: '22:00', duration: '1h' }];
  const now = at('2026-11-27T12:00:00Z');
  expect(whyMaintenanceWaits(undefined, now)).toBeUndefined();
  expect(whyMaintenanceWaits({ windows }, now)).toBe(
    'the maintenance window daily 22:00 (1h, UTC) opens at 2026-11-27T22:00+00:00',
  );
});

test.for<[unknown, string]>([
  [{ time: '24:00', duration: '1h' }, 'not a time of day'],
  [{ time: '22:00', duration: '5m' }, '15m to 7d'],
  [{ time: '22:00', duration: '8d' }, '15m to 7d'],
  [{ time: '22:00', duration: '1h', zone: 'Berlin' }, 'not a time zone'],
  [{ time: '22:00', duration: '1h', days: [] }, 'too_small'],
])('a window that cannot be meant is refused: %j', ([window, why]) => {
  const read = maintenanceSpec.safeParse({ windows: [window] });
  expect(JSON.stringify(read.error?.issues)).toContain(why);
});

const window = (...zones: string[]) =>
  fc.record({
    days: fc.uniqueArray(fc.constantFrom(...DAYS), { minLength: 1 }),
    time: fc
      .tuple(fc.nat(23), fc.nat(59))
      .map((both) => both.map((n) => String(n).padStart(2, '0')).join(':')),
    zone: fc.constantFrom(...zones),
    duration: fc.integer({ min: 15, max: 7 * 24 * 60 }).map((minutes) => `${minutes}m`),
  });
const minuteOf2026 = fc.nat(365 * 24 * 60).map((n) => at('2026-01-01T00:00:00Z') + n * duration('1m'));

test('windows are closed until the time that is named, and open from then on', () => {
  const zones = ['UTC', 'Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe'];
  fc.assert(
    fc.property(fc.array(window(...zones), { minLength: 1, maxLength: 3 }), minuteOf2026, (windows, now) => {
      const found = opening(windows, now);
      if (found.open) return;
      expect(found.at).toBeGreaterThan(now);
      expect(opening(windows, found.at - 1)).toEqual(found);
      expect(opening(windows, found.at).open).toBe(true);
    }),
  );
});

test('a window opens when the clocks of its zone show its day and time', () => {
  fc.assert(
    fc.property(window('UTC', 'Asia/Kolkata', 'America/Phoenix'), minuteOf2026, (one, now) => {
      const found = opening([one], now);
      if (found.open) return;
      const shown = new Intl.DateTimeFormat('en-GB', {
        weekday: 'short',
        hour: '2-digit',
        minute: '2-digit',
        hourCycle: 'h23',
        timeZone: one.zone,
      }).format(found.at);
      const wanted = one.days.map((day) => `${day} ${one.time}`);
      expect(wanted).toContain(shown.toLowerCase().replace(',', ''));
    }),
  );
});

const NOON = Date.parse('2026-11-27T12:00:00Z') as Millis;
const SATURDAY = 'the maintenance window sat 22:00 (4h, Europe/Berlin) opens at 2026-11-28T22:00+01:00';

/** What the windows of a Cluster with these settings hold at noon on a Friday. */
function heldAt(maintenance: object | undefined, doubt?: string, now?: boolean) {
  const windows = windowsOf({
    catalog: { get: () => ({ document: { spec: { ...(maintenance && { maintenance }) } } }) } as never,
    clock: { doubt: () => (doubt === undefined ? undefined : ({ text: doubt } as never)), now: () => NOON },
  });
  return {
    rolls: windows.closed('blue', now),
    workers: windows.closedForUpgrades('blue', 'workers', now),
    servers: windows.closedForUpgrades('blue', 'servers', now),
  };
}
const windows = [{ days: ['sat'], time: '22:00', zone: 'Europe/Berlin', duration: '4h' }];

test.for<[object, { workers: boolean; servers: boolean }]>([
  [{}, { workers: false, servers: false }],
  [{ upgrades: true }, { workers: true, servers: false }],
  [{ controlPlanes: true }, { workers: true, servers: true }],
  [
    { upgrades: false, controlPlanes: true },
    { workers: false, servers: true },
  ],
  [
    { upgrades: true, controlPlanes: false },
    { workers: true, servers: false },
  ],
])('upgrades wait for a window where the Cluster says so: %j', ([settings, { workers, servers }]) => {
  expect(heldAt({ windows, ...settings })).toEqual({
    rolls: SATURDAY,
    workers: workers ? SATURDAY : undefined,
    servers: servers ? SATURDAY : undefined,
  });
});

test('while the clock is in doubt, no machine gets a turn, with windows or without', () => {
  const why = 'the clock of the boot host is in doubt: it jumped';
  for (const maintenance of [undefined, { windows }, { windows, controlPlanes: true }])
    for (const now of [false, true])
      expect(heldAt(maintenance, 'it jumped', now)).toEqual({ rolls: why, workers: why, servers: why });
  const nothing = { rolls: undefined, workers: undefined, servers: undefined };
  expect(heldAt({ windows, controlPlanes: true }, undefined, true)).toEqual(nothing);
});
