/**
 * What lasts for a while, when the clock is 400 days off for a minute: nothing ends, nothing lasts
 * longer, and nothing is lost, also if the server restarts in between.
 */
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openOperators } from '../../src/api/accounts/operators.ts';
import { Sealed } from '../../src/api/accounts/sealed.ts';
import { Sessions } from '../../src/api/accounts/sessions.ts';
import { PendingOrders } from '../../src/api/pending-orders.ts';
import { ManualClock } from '../../src/base/clock.ts';
import { duration, type Millis } from '../../src/base/duration.ts';
import { ipv4 } from '../../src/base/ipv4.ts';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { nextDue, surplus } from '../../src/cluster/backup/due.ts';
import { attachEventJournal } from '../../src/events/journal.files.ts';
import { createEventLog } from '../../src/events/log.ts';
import { PacketLimit } from '../../src/events/packet-limit.ts';
import { openLeaseBook } from '../../src/pxe/dhcp/leases.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { mac } from './pxe/dhcp/kit.ts';

const MINUTE = duration('1m');
const DAY = duration('1d');
const ADDRESS = ipv4('10.77.0.9');

/** What is there at one moment, after each restart of the server. */
interface Kept {
  /** Makes one; it lasts for `lasts` from now. */
  make(): Promise<void> | void;
  /** Whether the one that was made is still in force. */
  isThere(): Promise<boolean> | boolean;
  close?(): Promise<void> | void;
}

interface Row {
  readonly what: string;
  readonly lasts: Millis;
  /** What a restart ends: it is in memory. */
  readonly inMemory?: true;
  /** It has no force while the clock is ahead, and is there again afterwards. */
  readonly byClock?: true;
  readonly open: (parts: { clock: ManualClock; store: Store; directory: string }) => Promise<Kept> | Kept;
}

/** The text of the token that was made. */
const secret = { text: '' };

const tokenRow = (operators: Awaited<ReturnType<typeof openOperators>>, clock: ManualClock): Kept => ({
  async make() {
    await operators.put('ada', [{ role: 'viewer' }]);
    const until = (clock.now() + 30 * DAY) as Millis;
    const order = { operator: 'ada', label: 'ci', grants: [{ role: 'viewer' as const }], until };
    secret.text = (await operators.addToken(order)).text.reveal();
  },
  async isThere() {
    // Another token is made meanwhile, which makes room by removing ended ones.
    const until = (clock.now() + DAY) as Millis;
    await operators.addToken({ operator: 'ada', label: 'other', grants: [{ role: 'viewer' }], until });
    return operators.bearer(secret.text) !== undefined;
  },
});

const ROWS: readonly Row[] = [
  {
    what: 'the session of an operator',
    lasts: duration('1h'),
    inMemory: true,
    open({ clock, store }) {
      const sessions = new Sessions({ clock, store, log: silentLog });
      let text = '';
      return {
        async make() {
          text = (await sessions.begin('ada')).text.reveal();
        },
        isThere: () => sessions.owner(text)?.owner === 'ada',
      };
    },
  },
  {
    what: 'a log-in that was begun',
    lasts: duration('10m'),
    inMemory: true,
    open({ clock }) {
      const sealed = new Sealed('test', clock);
      let text = '';
      return {
        make() {
          text = sealed.seal({ a: 1 }, duration('10m'));
        },
        isThere: () => sealed.open(text) !== undefined,
      };
    },
  },
  {
    what: 'an order that waits for a second person',
    lasts: duration('1h'),
    inMemory: true,
    open({ clock }) {
      const orders = new PendingOrders(clock);
      return {
        make() {
          const order = { route: {}, params: {}, body: Buffer.of(), carryOut: () => ({}) } as never;
          expect(() => orders.hold(order, {} as never)).toThrow('the order waits');
        },
        isThere: () => orders.list().length > 0,
      };
    },
  },
  {
    what: 'the token of a program',
    lasts: (30 * DAY) as Millis,
    byClock: true,
    open: async ({ clock, store }) => tokenRow(await openOperators({ store, clock, log: silentLog }), clock),
  },
  {
    what: 'a lease',
    lasts: duration('1h'),
    async open({ clock, store }) {
      const events = { record: () => {} };
      const book = await openLeaseBook({ store, clock, events, metrics: createMetrics() });
      return {
        async make() {
          const now = book.now();
          const expires = (now + duration('1h')) as Millis;
          const lease = { v: 1, mac: mac(1), state: 'bound', since: now, at: now, expires } as const;
          await book.write({ kind: 'write', network: 'lab', address: ADDRESS, lease, writes: [] });
        },
        // Another client gets the address as soon as the lease is over.
        isThere: () => !book.network('lab').isFreeFor(ADDRESS, mac(2), book.now()),
        close: () => book.close(),
      };
    },
  },
];

let directory: string;
beforeAll(async () => {
  directory = await fs.mkdtemp(path.join(os.tmpdir(), 'muster-clock-'));
});
afterAll(() => fs.rm(directory, { recursive: true }));

describe.each([400, -400])('a clock that is %i days off for a minute', (days) => {
  const step = days * DAY;

  test.each(ROWS)('neither ends nor lengthens $what', async ({ lasts, open, byClock }) => {
    const clock = new ManualClock();
    const kept = await open({ clock, store: openMemoryStore(), directory });
    await kept.make();
    clock.advance(MINUTE);
    clock.step(step);
    expect(await kept.isThere()).toBe(byClock === undefined || days < 0);
    clock.advance(MINUTE);
    clock.step(-step);
    expect(await kept.isThere()).toBe(true);
    clock.advance((lasts + MINUTE) as Millis);
    await setImmediate();
    expect(await kept.isThere()).toBe(false);
    await kept.close?.();
  });

  test.each(ROWS)('does not lengthen $what that was made meanwhile', async ({ lasts, open, inMemory }) => {
    const clock = new ManualClock();
    const store = openMemoryStore();
    clock.step(step);
    let kept = await open({ clock, store, directory });
    await kept.make();
    clock.advance(MINUTE);
    if (!inMemory) {
      await kept.close?.();
      clock.step(-step);
      kept = await open({ clock, store, directory });
    } else clock.step(-step);
    // By a record from the past, it ended long ago.
    if (days > 0 || inMemory) expect(await kept.isThere()).toBe(true);
    clock.advance((lasts + 2 * MINUTE) as Millis);
    await setImmediate();
    expect(await kept.isThere()).toBe(false);
    await kept.close?.();
  });

  test('neither deletes events, nor hides later ones, nor stops them', async () => {
    const clock = new ManualClock();
    const home = path.join(directory, `events-${days}`);
    const run = async (subject: string) => {
      const events = createEventLog({
        metrics: createMetrics(),
        ...{ clock, log: silentLog, limit: new PacketLimit(), perSubject: 100, subjects: 100 },
      });
      const journal = await attachEventJournal({
        metrics: createMetrics(),
        events,
        directory: home,
        log: silentLog,
        clock,
      });
      for (let n = 0; n < 3; n++) events.record({ kind: 'dhcp.offer', subject });
      await journal.close();
      return events.list({}).map((one) => one.subject);
    };
    await run('before');
    clock.step(step);
    await run('meanwhile');
    clock.step(-step);
    expect(await run('after')).toEqual(['before', 'meanwhile', 'after'].flatMap((one) => [one, one, one]));
  });

  test('neither stops the limits of events for longer than their window', () => {
    const limit = new PacketLimit();
    const now = new ManualClock().now();
    const burst = (at: number) =>
      Array.from({ length: 150 }, () => limit.take('dhcp.offer', 'm-525400000001', at as Millis)).filter(
        Boolean,
      ).length;
    expect(burst(now)).toBe(100);
    expect(burst(now + step)).toBe(100);
    expect(burst(now + MINUTE)).toBe(100);
  });

  test('neither stops the schedule of snapshots nor removes one that is wanted', () => {
    const now = Date.UTC(2026, 0, 1);
    const every = duration('6h');
    const wrong = { newest: now + step, failed: now + step };
    expect(nextDue(every, wrong, now)).toBeLessThanOrEqual(now);
    const taken = [
      { id: 'right', takenAt: now - DAY },
      { id: 'wrong', takenAt: now + step },
    ];
    expect(surplus(taken, 1, now)).toEqual(days > 0 ? [] : ['wrong']);
  });
});
