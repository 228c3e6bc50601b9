/**
 * Ten minutes of 250 invented clients a second against each table in memory that packets fill: none
 * grows beyond its bound, and what a table gives up is counted. That is a tenth of what one host
 * can send (`torture/flood.test.ts`), and more than any of these tables holds.
 */
import { expect, it } from 'vitest';
import { ManualClock } from '../../src/base/clock.ts';
import { millis } from '../../src/base/duration.ts';
import { formatIpv4, type Ipv4, ipv4 } from '../../src/base/ipv4.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Mac } from '../../src/base/mac.ts';
import { createMetrics, type Metrics } from '../../src/base/metrics.ts';
import { EventLimit } from '../../src/events/event-limit.ts';
import { createEventLog } from '../../src/events/log.ts';
import { MAX_DISCOVERED, openRoster } from '../../src/machines/roster.ts';
import { createSessions, MAX_TENTATIVE } from '../../src/machines/sessions.ts';
import { openLeaseBook } from '../../src/pxe/dhcp/leases.ts';
import { openCatalog } from '../../src/resources/catalog.files.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import { message, network, onWire, world } from './pxe/dhcp/kit.ts';

const SECONDS = 600;
const PER_SECOND = 250;

const invented = (n: number): Mac =>
  `02:00:${n.toString(16).padStart(8, '0').match(/../g)!.join(':')}` as Mac;

/** Calls `each` for every client, and `second` when a second is over. */
function flood(clock: ManualClock, each: (n: number) => void, second: () => void = () => {}): void {
  for (let n = 0, at = 0; at < SECONDS; at++) {
    for (const end = n + PER_SECOND; n < end; n++) each(n);
    clock.advance(millis(1000));
    second();
  }
}

async function dropped(metrics: Metrics, table: string): Promise<number> {
  const found = new RegExp(`^muster_table_dropped_total\\{table="${table}"\\} (\\d+)`, 'm');
  return Number(found.exec(await metrics.text())?.[1] ?? 0);
}

it('boot sessions', async () => {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const sessions = createSessions({ clock, metrics });
  const booted = sessions.open({ machine: 'cp1', mac: '02:00:ff:ff:ff:ff' as Mac, network: 'rack' });
  sessions.promote(booted);
  let most = 0;
  const each = (n: number) => void sessions.open({ machine: `m-${n}`, mac: invented(n), network: 'rack' });
  flood(clock, each, () => {
    sessions.overdue();
    sessions.sweep();
    most = Math.max(most, sessions.waiting);
  });
  expect(sessions.size).toBe(MAX_TENTATIVE + 1);
  expect(most).toBeLessThanOrEqual(MAX_TENTATIVE + 1);
  expect(await dropped(metrics, 'sessions')).toBe(SECONDS * PER_SECOND - MAX_TENTATIVE);
  expect(sessions.current('cp1')).toBe(booted);
}, 30_000);

it('machines without a document', async () => {
  const clock = new ManualClock();
  const store = openMemoryStore();
  const metrics = createMetrics();
  const log = silentLog;
  const events = createEventLog({ metrics, clock, log, perSubject: 2, subjects: 100 });
  const catalog = await openCatalog({ metrics, store, events, log, clock });
  const roster = await openRoster({ store, catalog, events, clock, log, metrics });
  flood(clock, (n) => void roster.discover({ bootMac: invented(n) }));
  expect(roster.size).toBe(MAX_DISCOVERED);
  const recorded = SECONDS * PER_SECOND - (await dropped(metrics, 'discovery'));
  expect(recorded).toBeLessThan(2_000 + 100 * (SECONDS + 1));
  expect(await dropped(metrics, 'discovered')).toBe(recorded - MAX_DISCOVERED);
}, 60_000);

it('addresses that clients take from another server', async () => {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const events = { record: () => {} };
  const book = await openLeaseBook({ store: openMemoryStore(), clock, events, metrics });
  flood(clock, (n) => {
    const address = (ipv4('10.0.0.0') + n) as Ipv4;
    book.apply({ kind: 'elsewhere', network: 'rack', mac: invented(n), address });
  });
  expect(book.network('rack').sizes.elsewhere).toBe(20_000);
  expect(await dropped(metrics, 'elsewhere')).toBe(SECONDS * PER_SECOND - 20_000);
}, 60_000);

it('leases, offers, declines and counts of a network', async () => {
  const w = await world({
    networks: [
      network({
        relays: [ipv4('192.0.2.9')],
        pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.199') }],
      }),
    ],
  });
  const server = '10.77.0.1';
  let most = 0;
  // A whole exchange of 20 clients a second: a pool of a hundred addresses is soon empty.
  for (let at = 0, n = 0; at < SECONDS; at++) {
    for (const end = n + 20; n < end; n++) {
      const mac = invented(n);
      const giaddr = n % 3 === 0 ? '192.0.2.9' : n % 3 === 1 ? `10.77.0.${n % 250}` : undefined;
      const fields = { mac, ...(giaddr ? { giaddr } : {}) };
      const offer = await w.send(message('DISCOVER', fields));
      const address = offer.reply ? formatIpv4(onWire(offer).yiaddr) : `10.77.0.${100 + (n % 100)}`;
      await w.send(message('REQUEST', { ...fields, address, server }));
      await w.send(message('DECLINE', { ...fields, address, server }));
      const given = { source: { address: ipv4(address), port: 68 } };
      if (n % 5 === 0) await w.send(message('RELEASE', { ...fields, ciaddr: address, server }), given);
    }
    w.asked.length = 0;
    w.events.length = 0;
    w.clock.advance(millis(1000));
    most = Math.max(most, ...Object.values(w.leases.network('rack').sizes));
  }
  expect(most).toBeLessThanOrEqual(100);
  expect(w.leases.network('rack').sizes.doubts).toBe(64);
}, 60_000);

it('counts of events', () => {
  const clock = new ManualClock();
  const limit = new EventLimit(() => ({ perSubject: 100, perKind: 1_000_000_000 }), millis(600_000));
  flood(clock, (n) => void limit.take('dhcp.offer', invented(n), clock.now()));
  expect(limit.size).toBeLessThanOrEqual(50_001);
}, 30_000);
