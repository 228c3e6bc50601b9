/**
 * Leases while the store cannot write: what nobody else could be given is confirmed from memory and
 * recorded later; new leases are neither offered nor confirmed.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { millis } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { formatIpv4, ipv4 } from '../../../../src/base/ipv4.ts';
import { UNRECORDED } from '../../../../src/pxe/dhcp/lease.ts';
import { OPTION } from '../../../../src/pxe/dhcp/options.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store, Write } from '../../../../src/store/store.ts';
import { mac, message, network, type World, world } from './kit.ts';

/** A store whose disk may be full. */
function fillable() {
  const inner = openMemoryStore();
  const disk = { full: false };
  const store: Store = {
    get: (key) => inner.get(key),
    list: (prefix) => inner.list(prefix),
    watch: (...args) => inner.watch(...args),
    compact: (revision) => inner.compact(revision),
    close: () => inner.close(),
    async commit(writes: readonly Write[]) {
      if (disk.full) throw new MusterError('E_STORE_WRITE', 'database or disk is full');
      return inner.commit(writes);
    },
  };
  return { store, disk };
}

const SERVER = '10.77.0.1';
const RESERVED = '10.77.0.21';
const known = { [mac(0)]: { name: 'n1', address: RESERVED, documented: true as const } };
const NETWORKS = [network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.103') }] })];

interface Confirmed {
  readonly outcome: string;
  readonly address?: string;
  readonly seconds?: number;
}

async function confirmed(w: World, bytes: Uint8Array): Promise<Confirmed> {
  const { outcome, reply } = await w.send(bytes);
  const time = reply?.packet.options.get(OPTION.leaseTime);
  return {
    outcome,
    ...(reply && { address: formatIpv4(reply.packet.yiaddr) }),
    ...(time && { seconds: time.readUInt32BE() }),
  };
}

/** Asks for an address as a client without one does. */
async function join(w: World, who: number): Promise<Confirmed> {
  const offer = await confirmed(w, message('DISCOVER', { mac: mac(who) }));
  if (offer.address === undefined) return offer;
  return confirmed(w, message('REQUEST', { mac: mac(who), address: offer.address, server: SERVER }));
}
const renew = (w: World, who: number, ciaddr: string): Promise<Confirmed> =>
  confirmed(w, message('REQUEST', { mac: mac(who), ciaddr }));

it('confirms a reserved address and a renewal from memory, offers nothing new, and records them when there is room', async () => {
  const { store, disk } = fillable();
  const w = await world({ store, known, networks: NETWORKS });
  expect(await join(w, 1)).toMatchObject({ outcome: 'acked', address: '10.77.0.100', seconds: 3600 });
  disk.full = true;
  // The offer was made before the store was known to fail.
  expect(await join(w, 2)).toEqual({ outcome: 'store_failed' });
  w.clock.advance(millis(3_000_000));
  const short = { seconds: UNRECORDED / 1000 };
  expect(await join(w, 2)).toEqual({ outcome: 'store_failing' });
  expect(await join(w, 0)).toEqual({ outcome: 'acked_unrecorded', address: RESERVED, ...short });
  expect(await renew(w, 1, '10.77.0.100')).toMatchObject({ outcome: 'renewed_unrecorded', ...short });
  expect(w.leases.unrecorded).toBe(2);
  expect((await store.list('lease/')).records).toHaveLength(1);
  // Long after the end of the recorded lease the client still has its address.
  for (let n = 0; n < 20; n++) {
    w.clock.advance(millis(UNRECORDED / 2));
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    expect(await renew(w, 1, '10.77.0.100')).toMatchObject({ outcome: 'renewed_unrecorded' });
  }
  disk.full = false;
  w.clock.advance(millis(5_000));
  for (let n = 0; n < 20; n++) await Promise.resolve();
  expect([w.leases.unrecorded, w.leases.failing]).toEqual([0, false]);
  expect((await store.list('lease/')).records).toHaveLength(2);
  expect(await join(w, 2)).toMatchObject({ outcome: 'acked', seconds: 3600 });
});

it('offers again once there is room, although nobody had to be recorded', async () => {
  const { store, disk } = fillable();
  const w = await world({ store, networks: NETWORKS });
  await join(w, 1);
  disk.full = true;
  await join(w, 2);
  w.clock.advance(millis(5_000));
  await Promise.resolve();
  expect(await join(w, 2)).toEqual({ outcome: 'store_failing' });
  disk.full = false;
  w.clock.advance(millis(5_000));
  for (let n = 0; n < 20; n++) await Promise.resolve();
  expect(await join(w, 2)).toMatchObject({ outcome: 'acked' });
});

it('keeps what a killed server confirmed without a record until that has ended', async () => {
  const { store, disk } = fillable();
  const clock = new ManualClock();
  const networks = [network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.100') }] })];
  const before = await world({ store, clock, networks });
  await join(before, 1);
  disk.full = true;
  clock.advance(millis(3_500_000));
  await renew(before, 1, '10.77.0.100');
  clock.advance(millis(200_000));
  disk.full = false;
  const after = await world({ store, clock, networks });
  expect(await join(after, 2)).toEqual({ outcome: 'exhausted' });
  expect(await renew(after, 1, '10.77.0.100')).toMatchObject({ outcome: 'renewed', seconds: 3600 });
  clock.advance(millis(3_700_000));
  expect(await join(after, 2)).toMatchObject({ outcome: 'acked', address: '10.77.0.100' });
});

it('confirms no address to two clients at a time, however the disk fills and heals and the server restarts', async () => {
  const kinds = ['join', 'renew', 'reboot', 'wait', 'nap', 'full', 'room', 'restart'] as const;
  type Kind = (typeof kinds)[number];
  const some = (maxLength: number, ...of: readonly Kind[]) =>
    fc.array(fc.record({ who: fc.integer({ min: 0, max: 3 }), what: fc.constantFrom(...of) }), { maxLength });
  const now = (...of: readonly Kind[]) => fc.constant(of.map((what) => ({ who: 0, what })));
  // A disk that is full for a while, with a restart at its end, is rare among random actions.
  const outage = fc
    .tuple(
      some(4, 'join', 'wait', 'join'),
      now('full'),
      some(8, 'renew', 'renew', 'wait', 'nap'),
      now('restart', 'room'),
      some(6, 'join', 'join', 'renew', 'nap'),
    )
    .map((parts) => parts.flat());
  const history = fc.oneof(some(60, ...kinds), outage);
  await fc.assert(
    fc.asyncProperty(history, fc.integer({ min: 100, max: 102 }), async (actions, last) => {
      const { store, disk } = fillable();
      const clock = new ManualClock();
      const pools = [{ start: ipv4('10.77.0.100'), end: ipv4(`10.77.0.${last}`) }];
      const open = () => world({ store, clock, known, networks: [network({ pools })] });
      let w = await open();
      const has = new Map<number, { readonly address: string; readonly until: number }>();
      const note = (who: number, { outcome, address, seconds }: Confirmed): void => {
        if (!/^(acked|renewed)/.test(outcome) || address === undefined) return;
        for (const [other, held] of has)
          if (other !== who && held.address === address && held.until > clock.now())
            throw new Error(`${address} is of ${other}, and ${who} got it (${outcome})`);
        has.set(who, { address, until: clock.now() + seconds! * 1000 });
      };
      for (const { who, what } of actions) {
        const held = has.get(who);
        if (what === 'join') note(who, await join(w, who));
        else if (what === 'renew' && held && held.until > clock.now())
          note(who, await renew(w, who, held.address));
        else if (what === 'reboot' && held) {
          const { address } = held;
          note(who, await confirmed(w, message('REQUEST', { mac: mac(who), address })));
        } else if (what === 'wait') clock.advance(millis(1_750_000));
        else if (what === 'nap') clock.advance(millis(290_000));
        else if (what === 'full' || what === 'room') disk.full = what === 'full';
        else if (what === 'restart') {
          w.leases.close();
          w = await open();
        }
        for (let n = 0; n < 10; n++) await Promise.resolve();
      }
      w.leases.close();
    }),
    { numRuns: 1500 },
  );
});
