/** Times in answers are RFC 3339 in UTC; no answer has milliseconds since 1970. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { foundingView, machineView, statusView, timestamp } from '../../../src/api/times.ts';
import { millis } from '../../../src/base/duration.ts';
import type { FoundingRecord } from '../../../src/cluster/etcd/founding.ts';
import type { MachineStatus } from '../../../src/machines/machine.ts';
import { openWorld, type World } from './world.ts';

const AT = millis(Date.UTC(2026, 10, 26, 4, 27, 12, 123));
const SHOWN = '2026-11-26T04:27:12.123Z';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

/** Paths of all numbers that look like times: milliseconds after September 2001. */
function epochs(value: unknown, path = ''): string[] {
  if (typeof value === 'number') return value > 1e12 ? [path] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([field, inner]) => epochs(inner, `${path}/${field}`));
}

test('a time is written in UTC with its zone', () => {
  expect(timestamp(AT)).toBe(SHOWN);
});

test('a machine has timestamps in its status, its agent and its alarm', () => {
  const status: MachineStatus = {
    v: 1,
    phase: 'ready',
    since: AT,
    firstSeen: AT,
    lastSeen: AT,
    seen: { macs: [] },
    bootsWithoutReady: 0,
    agent: { since: AT, version: '1', bootId: 'b' },
    alarm: { code: 'two_keys', text: 'two systems', at: AT },
  };
  const view = statusView(status);
  expect(view).toMatchObject({ since: SHOWN, firstSeen: SHOWN, lastSeen: SHOWN });
  expect(view).toMatchObject({ agent: { since: SHOWN }, alarm: { at: SHOWN } });
  expect(view).not.toHaveProperty('v');
  expect(epochs(machineView({ name: 'a', status }))).toEqual([]);
});

test('an unknown time is left out', () => {
  const status: MachineStatus = {
    v: 1,
    phase: 'registered',
    since: AT,
    seen: { macs: [] },
    bootsWithoutReady: 0,
  };
  expect(Object.keys(statusView(status))).not.toContain('lastSeen');
});

test('the record of a founding has timestamps at every depth', () => {
  const record: FoundingRecord = {
    v: 1,
    cluster: 'blue',
    id: 'f',
    openedAt: AT,
    openedBy: 'person',
    members: [],
    grants: {},
    founded: { at: AT, by: 'm1' },
    joined: {},
    lists: {},
    leaving: { w1: { stage: 'drain', since: AT, node: true, clear: false, drainUntil: AT } },
    reset: { at: AT, cleared: [] },
    restoring: { member: 'm1', address: '10.77.0.1', filesystem: 'x', id: 'r', at: AT },
  };
  const view = foundingView(record);
  expect(view).toMatchObject({ openedAt: SHOWN, founded: { at: SHOWN }, reset: { at: SHOWN } });
  expect(view).toMatchObject({
    leaving: { w1: { since: SHOWN, drainUntil: SHOWN } },
    restoring: { at: SHOWN },
  });
  expect(epochs(view)).toEqual([]);
});

test.each(['/v1/status', '/version', '/v1/machines', '/v1/events', '/v1/leases', '/v1/pki'])(
  '%s answers without milliseconds since 1970',
  async (path) => {
    await world.client.call('POST', '/v1/machines/add', { body: { json: { mac: '52:54:00:00:00:09' } } });
    world.clock.advance(millis(60_000));
    expect(epochs(await world.client.call('GET', path))).toEqual([]);
  },
);
