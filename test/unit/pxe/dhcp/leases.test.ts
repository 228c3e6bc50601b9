import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis, millis } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { ExpiryQueue } from '../../../../src/base/expiry.ts';
import { broadcastOf, cidr, formatIpv4, type Ipv4, ipv4 } from '../../../../src/base/ipv4.ts';
import { type Log, silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { readLease } from '../../../../src/pxe/dhcp/lease.ts';
import { openLeaseBook } from '../../../../src/pxe/dhcp/leases.ts';
import { inPool, Pool } from '../../../../src/pxe/dhcp/pool.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store, Write } from '../../../../src/store/store.ts';
import { IPXE, lease, mac, message, network, UEFI, world } from './kit.ts';

const small = (last: string) => network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4(last) }] });

/** A store whose commits wait until the test lets them continue or fail. */
function slowStore() {
  const inner = openMemoryStore();
  const waiting: (() => void)[] = [];
  let broken: Error | undefined;
  const store: Store = {
    ...inner,
    get: (key) => inner.get(key),
    list: (prefix) => inner.list(prefix),
    watch: (...args) => inner.watch(...args),
    compact: (revision) => inner.compact(revision),
    close: () => inner.close(),
    async commit(writes: readonly Write[]) {
      await new Promise<void>((resolve) => waiting.push(resolve));
      if (broken) throw broken;
      return inner.commit(writes);
    },
  };
  return {
    store,
    inner,
    waiting,
    release: () => waiting.splice(0).forEach((go) => void go()),
    breakWith: (error: Error | undefined) => {
      broken = error;
    },
  };
}

describe('the pool', () => {
  it('never gives out the ends of the subnet, .0, .255, its own address or the gateway', async () => {
    const subnet = cidr('10.77.0.0/23');
    const pools = [{ start: subnet.base, end: broadcastOf(subnet) }];
    const w = await world({ networks: [network({ subnet, pools })] });
    const given = new Set<string>();
    for (let n = 0; ; n++) {
      const address = await lease(w, { mac: mac(n) });
      if (address === 'exhausted') break;
      expect(given.has(address)).toBe(false);
      given.add(address);
    }
    expect(given.size).toBe(512 - 6);
    for (const no of ['10.77.0.0', '10.77.0.255', '10.77.1.0', '10.77.1.255', '10.77.0.1', '10.77.0.254'])
      expect(given.has(no)).toBe(false);
  });

  it('says which address a client has now, and none after that ends', async () => {
    const w = await world();
    const given = ipv4(await lease(w, { mac: mac(1) }));
    await lease(w, { mac: mac(2) });
    expect(w.leases.addressOf(mac(1))).toBe(given);
    expect(w.leases.addressOf(mac(3))).toBeUndefined();
    w.clock.advance(duration('30d'));
    expect(w.leases.addressOf(mac(1))).toBeUndefined();
  });

  it('that is exhausted gives no answer and records it; a freed address is given out immediately, to any client', async () => {
    const w = await world({ networks: [small('10.77.0.101')] });
    for (const n of [1, 2]) await lease(w, { mac: mac(n) });
    for (let n = 3; n < 50; n++)
      expect((await w.send(message('DISCOVER', { mac: mac(n) }))).reply).toBeUndefined();
    expect(w.events.at(-1)).toMatchObject({
      kind: 'dhcp.exhausted',
      subject: mac(49),
      reason: { code: 'exhausted', text: expect.stringContaining('enlarge dhcp.pools') },
      fields: { detail: 'network rack, pools 10.77.0.100-10.77.0.101' },
    });
    const source = { address: ipv4('10.77.0.100'), port: 68 };
    await w.send(message('RELEASE', { mac: mac(1), ciaddr: '10.77.0.100' }), { source });
    expect(await lease(w, { mac: mac(50) })).toBe('10.77.0.100');
  });

  it('that is exhausted is logged once a minute per network, with the number of clients that got no address', async () => {
    const lines: [fields: object, message: string][] = [];
    const log: Log = { ...silentLog, child: () => log, warn: (...line) => void lines.push(line) };
    const w = await world({ networks: [small('10.77.0.100')], log });
    await lease(w, { mac: mac(1) });
    const ask = async (from: number, to: number) => {
      for (let n = from; n < to; n++) await w.send(message('DISCOVER', { mac: mac(n) }));
    };
    await ask(2, 50);
    expect(lines).toEqual([
      [
        {
          network: 'rack',
          outcome: 'exhausted',
          mac: mac(2),
          unanswered: 1,
          detail: 'network rack, pools 10.77.0.100-10.77.0.100',
        },
        expect.stringContaining('shorten dhcp.leaseTime'),
      ],
    ]);
    w.clock.advance(duration('1m'));
    await ask(50, 60);
    expect(lines.slice(1)).toEqual([[expect.objectContaining({ unanswered: 48 }), expect.anything()]]);
  });

  it('gives out expired addresses, the longest expired first, when no unused one is left', async () => {
    const w = await world({ networks: [small('10.77.0.102')] });
    for (const n of [1, 2, 3]) {
      await lease(w, { mac: mac(n) });
      w.clock.advance(millis(1000));
    }
    await w.send(message('REQUEST', { mac: mac(1), ciaddr: '10.77.0.100' }));
    w.clock.advance(millis(3_700_000));
    expect(await lease(w, { mac: mac(4) })).toBe('10.77.0.101');
    expect(await lease(w, { mac: mac(5) })).toBe('10.77.0.102');
    expect(await lease(w, { mac: mac(6) })).toBe('10.77.0.100');
  });

  it('asks about each address at most twice, however many clients come', () => {
    const rules = {
      subnet: cidr('10.0.0.0/8'),
      ranges: [{ start: ipv4('10.0.0.1'), end: ipv4('10.255.255.254') }],
      taken: [],
    };
    const pool = new Pool(rules);
    const held = new Set<Ipv4>();
    let asked = 0;
    for (let n = 0; n < 20_000; n++) {
      const address = pool.peek((a) => {
        asked++;
        return !held.has(a);
      })!;
      held.add(address);
    }
    expect(held.size).toBe(20_000);
    expect(asked).toBeLessThanOrEqual(40_000);
  });

  it('only ever gives out addresses of its ranges that nobody holds', () => {
    const rules = {
      subnet: cidr('10.77.0.0/24'),
      ranges: [
        { start: ipv4('10.77.0.10'), end: ipv4('10.77.0.17') },
        { start: ipv4('10.77.0.250'), end: ipv4('10.77.0.255') },
      ],
      taken: [ipv4('10.77.0.12')],
    };
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -12, max: 12 }), { maxLength: 60 }), (moves) => {
        const pool = new Pool(rules);
        const held: Ipv4[] = [];
        for (const move of moves) {
          if (move >= 0) {
            const address = pool.peek((a) => !held.includes(a));
            if (address === undefined) {
              expect(held).toHaveLength(7 + 5);
              continue;
            }
            expect(inPool(rules, address) && !held.includes(address)).toBe(true);
            held.push(address);
          } else {
            const [back] = held.splice(-move % Math.max(1, held.length), 1);
            if (back !== undefined) pool.giveBack(back);
          }
        }
      }),
      { seed: 20261120, numRuns: 300 },
    );
  });
});

it('the expiry queue gives entries in the order in which they are due', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 1000 }), { maxLength: 200 }), (times) => {
      const queue = new ExpiryQueue<number>();
      for (const [n, at] of times.entries()) queue.add(n, at as Millis);
      const out: number[] = [];
      for (let a = queue.take(millis(1000)); a !== undefined; a = queue.take(millis(1000)))
        out.push(times[a]!);
      expect(out).toEqual([...times].sort((a, b) => a - b));
    }),
    { seed: 20261120 },
  );
});

it('the expiry queue forgets entries that are removed, and keeps the order of the others', () => {
  const entry = fc.record({ at: fc.integer({ min: 0, max: 1000 }), removed: fc.boolean() });
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 200 }), (entries) => {
      const queue = new ExpiryQueue<number>();
      const places = entries.map(({ at }, n) => queue.add(n, at as Millis));
      const removed = places.filter((_, n) => entries[n]!.removed);
      for (const place of [...removed, ...removed]) queue.remove(place);
      expect(queue.size).toBe(entries.length - removed.length);
      const out: number[] = [];
      for (let a = queue.take(millis(1000)); a !== undefined; a = queue.take(millis(1000)))
        out.push(entries[a]!.at);
      const kept = entries.filter((one) => !one.removed).map(({ at }) => at);
      expect(out).toEqual(kept.sort((a, b) => a - b));
      for (const place of places) queue.remove(place);
      expect(queue.size).toBe(0);
    }),
    { seed: 20261126, numRuns: 300 },
  );
});

describe('the lease book', () => {
  it('knows after a restart what it had acknowledged, and gives nobody an address that is held', async () => {
    const before = await world();
    for (let n = 1; n <= 20; n++) await lease(before, { mac: mac(n) });
    const after = await world({ store: before.store, clock: before.clock });
    expect(after.leases.list()).toEqual(before.leases.list());
    for (let n = 20; n >= 1; n--) expect(await lease(after, { mac: mac(n) })).toBe(`10.77.0.${99 + n}`);
    expect(await lease(after, { mac: mac(21) })).toBe('10.77.0.120');
  });

  it('answers a request that is repeated while its lease is being written once', async () => {
    const slow = slowStore();
    const w = await world({ store: slow.store });
    await w.send(message('DISCOVER'));
    const request = message('REQUEST', { address: '10.77.0.100', server: '10.77.0.1' });
    const first = w.send(request);
    expect(await w.send(request)).toMatchObject({ outcome: 'in_flight' });
    slow.release();
    expect((await first).outcome).toBe('acked');
    expect(await w.send(request)).toMatchObject({ outcome: 'acked' });
  });

  it('does not answer, and forgets nothing, while the store cannot write', async () => {
    const slow = slowStore();
    const w = await world({ store: slow.store });
    await w.send(message('DISCOVER'));
    const request = message('REQUEST', { address: '10.77.0.100', server: '10.77.0.1' });
    slow.breakWith(new MusterError('E_STORE_WRITE', 'disk full'));
    const failed = w.send(request);
    slow.release();
    expect(await failed).toMatchObject({ outcome: 'store_failed', detail: 'disk full' });
    expect((await failed).reply).toBeUndefined();
    expect(w.events.at(-1)).toMatchObject({ kind: 'dhcp.store', reason: { code: 'store_failed' } });
    slow.breakWith(undefined);
    const again = w.send(request);
    slow.release();
    expect((await again).outcome).toBe('acked');
  });

  it('refuses the client when another boot host was faster, and knows from then on', async () => {
    const w = await world();
    await w.send(message('DISCOVER'));
    const theirs = {
      v: 1,
      mac: mac(9),
      state: 'bound',
      since: w.clock.now(),
      expires: w.clock.now() + 600_000,
    };
    await w.store.commit([{ key: 'lease/rack/10.77.0.100', put: JSON.stringify(theirs), expect: 'absent' }]);
    const step = await w.send(message('REQUEST', { address: '10.77.0.100', server: '10.77.0.1' }));
    expect(step.outcome).toBe('nak_not_yours');
    expect(w.leases.list()).toMatchObject([{ mac: mac(9), state: 'bound' }]);
    expect(await lease(w)).toBe('10.77.0.101');
  });

  it('evaluates a packet once more when another record of the transaction lost a race', async () => {
    const w = await world({
      known: { [mac(1)]: { writes: [{ key: 'session/s', put: '{}', expect: 'absent' }] } },
    });
    await w.store.commit([{ key: 'session/s', put: '{}' }]);
    await w.send(message('DISCOVER', { options: UEFI! }));
    const step = await w.send(
      message('REQUEST', { options: UEFI!, address: '10.77.0.100', server: '10.77.0.1' }),
    );
    expect(step.outcome).toBe('store_failed');
    expect(w.asked.filter(({ step: asked }) => asked === 'ack')).toHaveLength(2);
    expect((await w.store.list('lease/')).records).toEqual([]);
  });

  it('two machines that ask for one address at the same moment do not both get it', async () => {
    const slow = slowStore();
    const w = await world({ store: slow.store, networks: [small('10.77.0.100')] });
    const ask = (n: number) =>
      w.send(message('REQUEST', { mac: mac(n), address: '10.77.0.100', server: '10.77.0.1' }));
    const both = [ask(1), ask(2)];
    slow.release();
    expect((await Promise.all(both)).map((step) => step.outcome)).toEqual(['acked', 'in_flight']);
  });

  it('writes nothing when the stored lease already says the same', async () => {
    const w = await world();
    await lease(w);
    const { revision } = await w.store.list('lease/');
    w.clock.advance(millis(60_000));
    expect(await lease(w, { options: [...IPXE!] })).toBe('10.77.0.100');
    expect((await w.store.list('lease/')).revision).toBe(revision);
  });

  it('never gives out the address of a malformed record, and reports it', async () => {
    const store = openMemoryStore();
    await store.commit([
      { key: 'lease/rack/10.77.0.100', put: '{"v":7}' },
      { key: 'lease/rack/nonsense', put: '{}' },
    ]);
    const w = await world({ store });
    expect(w.events.map((e) => [e.kind, e.subject])).toEqual([
      ['dhcp.store', 'lease/rack/10.77.0.100'],
      ['dhcp.store', 'lease/rack/nonsense'],
    ]);
    expect(await lease(w)).toBe('10.77.0.101');
    expect(await store.get('lease/rack/10.77.0.100')).toMatchObject({ value: '{"v":7}' });
  });

  it('does not grow with clients that come, take an offer and never return', async () => {
    const w = await world({ networks: [small('10.77.0.110')] });
    for (let n = 0; n < 2000; n++) {
      await w.send(message('DISCOVER', { mac: mac(n % 65536) }));
      w.clock.advance(millis(7_000));
    }
    expect(w.leases.list().length).toBeLessThanOrEqual(11);
    w.clock.advance(millis(70_000));
    expect(w.leases.list()).toEqual([]);
  });

  it('shows how many leases there are, and zero when there are none left', async () => {
    const clock = new ManualClock();
    const metrics = createMetrics();
    const book = await openLeaseBook({ store: openMemoryStore(), clock, metrics, events: { record() {} } });
    book.apply({
      kind: 'offer',
      network: 'rack',
      address: ipv4('10.77.0.100'),
      offer: {
        mac: mac(1),
        until: millis(clock.now() + 20_000),
        xid: 1,
        client: { mac: mac(1), stage: 'none' },
      },
    });
    clock.advance(millis(5_000));
    expect(await metrics.text()).toContain('muster_dhcp_leases{network="rack",state="offered"} 1');
    clock.advance(millis(30_000));
    expect(await metrics.text()).toContain('muster_dhcp_leases{network="rack",state="offered"} 0');
    book.close();
  });

  it('reads only what is a lease', () => {
    const good = { v: 1, mac: mac(1), state: 'bound', since: 1, expires: 2 };
    expect(readLease(JSON.stringify(good))).toEqual(good);
    for (const bad of [
      '',
      'null',
      '[]',
      '{',
      JSON.stringify({ ...good, v: 2 }),
      JSON.stringify({ ...good, mac: 'x' }),
      JSON.stringify({ ...good, state: 'odd' }),
      JSON.stringify({ ...good, expires: '1' }),
      JSON.stringify({ ...good, agent: 7 }),
    ])
      expect(readLease(bad)).toBeUndefined();
  });
});

/** A model test: what must never happen, whatever clients do in any order. */
it('no address is ever acknowledged to two clients at a time', async () => {
  const action = fc.record({
    who: fc.integer({ min: 1, max: 6 }),
    what: fc.constantFrom('lease', 'renew', 'release', 'decline', 'reboot', 'wait', 'restart'),
    address: fc.integer({ min: 100, max: 103 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 40 }), async (actions) => {
      let w = await world({ networks: [small('10.77.0.103')] });
      const believed = new Map<string, { who: number; until: number }>();
      const acked = (who: number, address: string) => {
        const now = w.clock.now();
        const other = believed.get(address);
        if (other && other.who !== who && other.until > now)
          throw new Error(`${address}: ${other.who} and ${who}`);
        for (const [a, b] of believed) if (b.who === who) believed.delete(a);
        believed.set(address, { who, until: now + 3_600_000 });
      };
      for (const { who, what, address } of actions) {
        const text = `10.77.0.${address}`;
        const fields = { mac: mac(who) };
        if (what === 'wait') w.clock.advance(millis(1_000_000));
        else if (what === 'restart')
          w = await world({ networks: w.networks, store: w.store, clock: w.clock });
        else if (what === 'lease') {
          const got = await lease(w, { ...fields, address: text });
          if (got.includes('.')) acked(who, got);
        } else if (what === 'renew' || what === 'reboot') {
          const asked = what === 'renew' ? { ciaddr: text } : { address: text };
          const step = await w.send(message('REQUEST', { ...fields, ...asked }));
          if (step.outcome === 'renewed' || step.outcome === 'acked') acked(who, formatIpv4(step.address!));
        } else {
          const release = what === 'release';
          const asked = release ? { ciaddr: text } : { address: text };
          const step = await w.send(message(release ? 'RELEASE' : 'DECLINE', { ...fields, ...asked }));
          if (step.outcome === 'released' || step.outcome === 'declined') believed.delete(text);
        }
      }
    }),
    { seed: 20261120, numRuns: 200 },
  );
});
