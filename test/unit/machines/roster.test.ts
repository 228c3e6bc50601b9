import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration, millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { Mac } from '../../../src/base/mac.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { DISCOVERY, MAX_DISCOVERED, openRoster } from '../../../src/machines/roster.ts';
import { createSessions, MAX_SESSION_AGE, OPENING_WINDOW } from '../../../src/machines/sessions.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

const mac = (n: number) =>
  `00:1b:${[n >> 24, n >> 16, n >> 8, n].map((o) => (o & 255).toString(16).padStart(2, '0')).join(':')}` as Mac;
const node = (name: string, ...macs: Mac[]) => ({
  apiVersion: 'muster/v1',
  kind: 'Machine',
  metadata: { name },
  spec: { macs },
});

async function open(store = openMemoryStore(), clock = new ManualClock()) {
  const log = silentLog;
  const events = createEventLog({ metrics: createMetrics(), clock, log, perSubject: 20, subjects: 100_000 });
  const catalog = await openCatalog({ metrics: createMetrics(), store, events, log, clock });
  const roster = await openRoster({ metrics: createMetrics(), store, catalog, events, clock, log });
  return { store, clock, events, catalog, roster };
}

describe('the roster', () => {
  it('opens quickly with ten thousand machines, and finds each by address', async () => {
    const { store, catalog, roster } = await open();
    for (let from = 0; from < 10_000; from += 100)
      await catalog.apply(Array.from({ length: 100 }, (_, n) => node(`n${from + n}`, mac(from + n))));
    await roster.close();
    const started = process.cpuUsage();
    const again = await open(store);
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(5000);
    expect(again.roster.size).toBe(10_000);
    for (const n of [0, 4711, 9999]) expect(again.roster.byMac(mac(n))!.name).toBe(`n${n}`);
  });

  it('keeps a bounded number of discovered machines and drops the one not seen for longest', async () => {
    const { roster, clock } = await open();
    for (let n = 0; n < MAX_DISCOVERED + 10; n++) {
      if (n % DISCOVERY.perSecond === 0) clock.advance(duration('1s'));
      if (n === 1000) roster.see(roster.byMac(mac(0))!, {});
      roster.discover({ bootMac: mac(n) });
      if (n === DISCOVERY.perSecond * 100) roster.see(roster.byMac(mac(0))!, {});
    }
    expect(roster.size).toBe(MAX_DISCOVERED);
    expect(roster.byMac(mac(0)), 'it was seen again meanwhile').toBeDefined();
    expect(roster.byMac(mac(1))).toBeUndefined();
  }, 20_000);

  it('limits the rate of discoveries', async () => {
    const { roster, clock } = await open();
    const discover = (from: number, n: number) =>
      Array.from({ length: n }, (_, k) => roster.discover({ bootMac: mac(from + k) })).filter(Boolean).length;
    expect(discover(0, DISCOVERY.burst + 500)).toBe(DISCOVERY.burst);
    clock.advance(duration('2s'));
    expect(discover(10_000, 1000)).toBe(2 * DISCOVERY.perSecond);
  });

  it('names a discovered machine by its address, with a suffix if a document has that name', async () => {
    const { roster, catalog } = await open();
    await catalog.apply([node('m-001b00000001', mac(77))]);
    expect(roster.discover({ bootMac: mac(1) })!.name).toBe('m-001b00000001-2');
  });

  it('writes sightings behind, in commits that the store accepts, and deletes records of dropped machines', async () => {
    const { roster, store, clock } = await open();
    for (let n = 0; n < 500; n++) roster.discover({ bootMac: mac(n) });
    expect((await store.list('machine/')).records).toHaveLength(0);
    clock.advance(duration('1s'));
    await roster.flush();
    expect((await store.list('machine/')).records).toHaveLength(500);
    expect(roster.forget('m-001b00000007')).toBe(true);
    expect(roster.forget('m-001b00000007')).toBe(false);
    await roster.flush();
    expect((await store.list('machine/')).records).toHaveLength(499);
  });

  it('tries again when the store refuses a commit, and loses nothing', async () => {
    const { roster, store, clock } = await open();
    const commit = store.commit.bind(store);
    let refused = 0;
    store.commit = () => {
      refused++;
      return Promise.reject(new Error('disk full'));
    };
    roster.discover({ bootMac: mac(1) });
    clock.advance(duration('1s'));
    await expect(roster.flush()).rejects.toThrow('disk full');
    expect(refused).toBeGreaterThan(0);
    store.commit = commit;
    clock.advance(duration('10s'));
    await roster.flush();
    expect((await store.list('machine/')).records).toHaveLength(1);
  });

  it('keeps a machine whose document is deleted as discovered, and forgets one that was never seen', async () => {
    const { roster, catalog } = await open();
    await catalog.apply([node('seen', mac(1)), node('written', mac(2))]);
    roster.see(roster.get('seen')!, { bootMac: mac(1) });
    await catalog.delete('Machine', 'seen');
    await catalog.delete('Machine', 'written');
    expect(roster.list()).toMatchObject([{ name: 'seen', status: { phase: 'discovered' } }]);
    expect(roster.byMac(mac(1))!.name).toBe('seen');
    await catalog.apply([node('other', mac(1))]);
    expect(roster.list().map(({ name, status }) => [name, status.phase])).toEqual([['other', 'registered']]);
  });

  it('does the same for documents that were deleted while it was closed', async () => {
    const { roster, catalog, store } = await open();
    await catalog.apply([node('seen', mac(1)), node('written', mac(2))]);
    roster.see(roster.get('seen')!, { bootMac: mac(1) });
    await roster.close();
    await catalog.delete('Machine', 'seen');
    await catalog.delete('Machine', 'written');
    const again = await open(store);
    expect(again.roster.list()).toMatchObject([{ name: 'seen', status: { phase: 'discovered' } }]);
    await again.roster.close();
    expect((await store.list('machine/')).records).toHaveLength(1);
  });

  it('skips records that it cannot read', async () => {
    const store = openMemoryStore();
    await store.commit([
      { key: 'machine/a', put: '{' },
      { key: 'machine/b', put: '{"v":1,"phase":"dancing"}' },
      { key: 'session/x', put: '[]' },
      {
        key: 'machine/c',
        put: '{"v":1,"phase":"ready","since":1,"bootsWithoutReady":0,"seen":{"macs":[null]}}',
      },
      {
        key: 'session/y',
        put: `{"v":1,"id":"y","machine":"c","mac":"${mac(1)}","network":"n","openedAt":1,"steps":[null]}`,
      },
    ]);
    const { roster } = await open(store);
    expect(roster.size).toBe(0);
    expect(roster.sessions.size).toBe(0);
  });

  it('knows which machine has an address after a document moved it', async () => {
    const { roster, catalog } = await open();
    const at = (name: string, m: Mac, address: string) => ({
      ...node(name, m),
      spec: { macs: [m], addresses: [address] },
    });
    const spec = { subnet: '10.0.0.0/24', dhcp: { mode: 'reservations' } };
    await catalog.apply([{ apiVersion: 'muster/v1', kind: 'Network', metadata: { name: 'rack' }, spec }]);
    await catalog.apply([at('a', mac(1), '10.0.0.5')]);
    expect(roster.byAddress(0x0a000005 as never)!.name).toBe('a');
    await catalog.apply([at('a', mac(1), '10.0.0.6'), at('b', mac(2), '10.0.0.5')]);
    expect(roster.byAddress(0x0a000005 as never)!.name).toBe('b');
    expect(roster.byAddress(0x0a000006 as never)!.name).toBe('a');
  });
});

describe('sessions', () => {
  const setup = (max?: number) => {
    const clock = new ManualClock();
    return { clock, sessions: createSessions({ metrics: createMetrics(), clock, ...(max ? { max } : {}) }) };
  };
  const of = (machine: string) => ({ machine, mac: mac(1), network: 'rack' });

  it('have ids that cannot be guessed', () => {
    const { sessions } = setup();
    const ids = Array.from({ length: 100 }, () => sessions.open(of('a')).session.id);
    expect(new Set(ids).size).toBe(100);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{22}$/);
  });

  it('are over when they are too old by the monotonic clock', () => {
    const { clock, sessions } = setup();
    const live = sessions.open(of('a'));
    sessions.promote(live);
    clock.advance(millis(MAX_SESSION_AGE - 1));
    expect(sessions.isLive(live)).toBe(true);
    clock.advance(millis(1));
    expect(sessions.isLive(live)).toBe(false);
    sessions.sweep();
    expect(live.session.closed).toMatchObject({ why: 'expired' });
  });

  it('do not end the reports of the previous boot until their own script is served', () => {
    const { sessions } = setup();
    const first = sessions.open(of('a'));
    sessions.promote(first);
    const second = sessions.open(of('a'));
    expect(sessions.isLive(first)).toBe(true);
    expect(sessions.promote(second)).toBe(first);
    expect(sessions.isLive(first)).toBe(false);
  });

  it('are bounded, and those long over are deleted from the store', () => {
    const { clock, sessions } = setup(10);
    const stored = Array.from({ length: 15 }, (_, n) => {
      const live = sessions.open(of(`m${n}`));
      live.stored = true;
      return live.session.id;
    });
    expect(sessions.size).toBe(10);
    expect(sessions.sweep()).toEqual(stored.slice(0, 5));
    clock.advance(millis(OPENING_WINDOW + 1000));
    sessions.sweep();
    clock.advance(duration('2h'));
    expect([...sessions.sweep()].sort()).toEqual(stored.slice(5).sort());
    expect(sessions.size).toBe(0);
  });

  it('that fall silent together are ended a few at a time, until all are ended', () => {
    const { clock, sessions } = setup();
    const lives = Array.from({ length: 2000 }, (_, n) => sessions.open(of(`m${n}`)));
    clock.advance(millis(OPENING_WINDOW + 1));
    const open = () => lives.filter((live) => live.session.closed === undefined).length;
    sessions.sweep();
    expect(open()).toBeGreaterThan(1000);
    expect(open()).toBeLessThan(2000);
    for (let n = 0; n < 20; n++) sessions.sweep();
    expect(open()).toBe(0);
  });

  it('are not over while their machine is heard, however often they are examined', () => {
    const { clock, sessions } = setup();
    const live = sessions.open(of('a'));
    for (let n = 0; n < 20; n++) {
      clock.advance(millis(OPENING_WINDOW - 1));
      sessions.sweep();
      expect(sessions.opening('a')).toBe(live);
      sessions.touch(live);
    }
    clock.advance(OPENING_WINDOW);
    sessions.sweep();
    expect(sessions.opening('a')).toBe(live);
    clock.advance(millis(1));
    sessions.sweep();
    expect(live.session.closed).toMatchObject({ why: 'expired' });
  });

  it('stay while they are the last of their machine, and are dropped long after they were replaced', () => {
    const { clock, sessions } = setup();
    const first = sessions.open(of('a'));
    sessions.promote(first);
    sessions.close(first, 'ready');
    clock.advance(duration('24h'));
    sessions.sweep();
    expect(sessions.current('a')).toBe(first);
    const second = sessions.open(of('a'));
    sessions.promote(second);
    sessions.sweep();
    expect(sessions.size).toBe(1);
    expect(sessions.current('a')).toBe(second);
  });

  it('are overdue only once, also when their deadline was moved', () => {
    const { clock, sessions } = setup();
    const live = sessions.open(of('a'));
    sessions.promote(live);
    const from = clock.monotonic();
    sessions.expect(live, millis(from + 60_000));
    sessions.expect(live, millis(from + 30_000));
    sessions.expect(live, millis(from + 40_000));
    clock.advance(millis(39_999));
    expect(sessions.overdue()).toEqual([]);
    clock.advance(millis(1));
    expect(sessions.overdue()).toEqual([live]);
    clock.advance(duration('1h'));
    expect(sessions.overdue()).toEqual([]);
  });

  it('that were dropped are forgotten everywhere: a minute of a flood leaves nothing in the queue', () => {
    const { clock, sessions } = setup(500);
    const mostWaiting: number[] = [];
    for (let second = 0; second < 60; second++) {
      for (let n = 0; n < 2500; n++) sessions.open(of(`m-${second}-${n}`));
      clock.advance(millis(1000));
      sessions.overdue();
      sessions.sweep();
      mostWaiting.push(sessions.waiting);
    }
    expect(Math.max(...mostWaiting)).toBeLessThanOrEqual(500);
    expect(sessions.size).toBe(500);
  });

  it('of machines that boot outlast a flood of DISCOVERs', () => {
    const { sessions } = setup(10);
    const booting = sessions.open(of('a'));
    sessions.promote(booting);
    for (let n = 0; n < 1000; n++) sessions.open(of(`flood${n}`));
    expect(sessions.size).toBe(10);
    expect(sessions.get(booting.session.id)).toBe(booting);
    expect(sessions.isLive(booting)).toBe(true);
  });

  it('are read back from the store unchanged', () => {
    const { clock, sessions } = setup();
    const live = sessions.open(of('a'));
    sessions.promote(live);
    sessions.mark(live, 'script');
    sessions.set(live, { profile: 'worker', image: 'debian', peer: '10.0.0.1' });
    const opening = sessions.open(of('b'));
    const again = createSessions({ metrics: createMetrics(), clock });
    again.load([opening.session, live.session]);
    expect(again.current('a')!.session).toEqual(live.session);
    expect(again.isLive(again.current('a')!)).toBe(true);
    expect(again.opening('b')!.session.id).toBe(opening.session.id);
    clock.advance(duration('16m'));
    expect(again.overdue().map((one) => one.session.machine)).toEqual(['a']);
    expect(again.overdue()).toEqual([]);
  });
});
