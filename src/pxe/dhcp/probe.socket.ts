/**
 * The loop around {@link judge}: sends datagrams, waits, reads the ARP table and updates the lease
 * book.
 */
import { createSocket } from 'node:dgram';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../../base/clock.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { formatIpv4, type Ipv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import type { EventSink } from '../../events/event.ts';
import type { BootService } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { concludeDecline } from './conclude-decline.ts';
import { isOver } from './lease.ts';
import type { LeaseBook } from './leases.ts';
import type { NetworkIndex } from './networks.ts';
import { ASK, type Asked, judge, LOOK_AHEAD, parseArp } from './probe.ts';

/** The discard port (RFC 863). Only the ARP request that the kernel sends first matters. */
const DISCARD = 9;
/** How often the ARP table is read. */
const TICK: Millis = millis(1_000);

interface Parts {
  readonly index: () => NetworkIndex;
  readonly leases: LeaseBook;
  readonly boot: Pick<BootService, 'reservedFor'>;
  readonly events: EventSink;
  readonly log: Log;
  readonly clock: Clock;
}

/**
 * Probes free addresses of all networks with `probe: true`, and on every network the addresses that
 * clients declined. Returns a function that stops it.
 */
export function startProbing(parts: Parts): () => void {
  const { index, leases, boot, events, clock, log } = parts;
  const socket = createSocket({ type: 'udp4', lookup: (host, _options, done) => done(null, host, 4) });
  socket.on('error', (error) => log.debug({ err: error }, 'probe'));
  const asked = new Map<string, readonly Asked[]>();
  const doubted = new Map<string, readonly Asked[]>();
  /**
   * Addresses that were declined, and on which one reading found nobody. The kernel may have been
   * about to drop an old entry, and sends no request then, so a second reading decides.
   */
  const foundEmpty = new Map<string, ReadonlySet<Ipv4>>();
  const ask = (address: Ipv4) => socket.send(Buffer.of(0), DISCARD, formatIpv4(address), () => {});
  let stopped = false;
  let cancel = clock.after(millis(0), tick);

  async function look(network: ServedNetwork, arp: string): Promise<void> {
    const book = leases.network(network.name);
    const now = clock.now();
    const rules = index().rules.get(network);
    if (rules === undefined) return;
    book.follow(rules);
    const { free, taken, pending, askAgain } = judge(
      asked.get(network.name) ?? [],
      parseArp(arp, network.interface!),
      now,
    );
    for (const address of free) book.probedFree(address, now);
    for (const address of askAgain) ask(address);
    const waiting = new Set(pending.map((one) => one.address));
    const fresh = book.toProbe(LOOK_AHEAD - pending.length, now).filter((address) => !waiting.has(address));
    for (const address of fresh) ask(address);
    asked.set(network.name, [
      ...pending,
      ...fresh.map((address) => ({ address, due: (now + ASK) as Millis, suspect: false })),
    ]);
    for (const { address, mac } of taken) {
      // The client got the address while the probe was running: no conflict.
      const held = book.entry(address);
      if (held?.lease?.mac === mac && held.lease.state === 'bound' && !isOver(held.lease, now)) continue;
      if (held?.offer?.mac === mac && held.offer.until > now) continue;
      if (!book.isFreeFor(address, mac, now)) continue;
      const result = await leases.setAside(network.name, address, mac, 'conflict');
      if (result !== 'stored') continue;
      events.record({
        kind: 'dhcp.conflict',
        subject: mac,
        network: network.name,
        reason: {
          code: 'address_in_use',
          text: `${formatIpv4(address)} is free here and ${mac} uses it; it is set aside.`,
        },
        fields: { address: formatIpv4(address), mac },
      });
    }
  }

  /** Probes the addresses that clients declined, and ends the doubts that are answered. */
  async function settleDoubts(network: ServedNetwork, arp: string): Promise<void> {
    const { name } = network;
    const { doubts } = leases.network(name);
    const now = clock.now();
    const before = doubted.get(name) ?? [];
    const { free, taken, pending, askAgain } = judge(before, parseArp(arp, network.interface!), now);
    const emptyBefore = foundEmpty.get(name) ?? new Set();
    const empty = free.filter((address) => emptyBefore.has(address));
    const waiting = new Set(before.map((one) => one.address));
    const fresh = doubts.addresses().filter((address) => !waiting.has(address));
    const asking = [...fresh, ...free.filter((address) => !emptyBefore.has(address))];
    for (const address of [...askAgain, ...asking]) ask(address);
    const due = (now + ASK) as Millis;
    doubted.set(name, [...pending, ...asking.map((address) => ({ address, due, suspect: false }))]);
    const undecided = new Set([...pending.map((one) => one.address), ...asking]);
    foundEmpty.set(name, new Set([...emptyBefore, ...free].filter((address) => undecided.has(address))));
    const answers = [...empty.map((address) => ({ address, mac: undefined })), ...taken];
    for (const { address, mac } of answers) {
      const reserved = boot.reservedFor?.(address, network) !== undefined;
      await concludeDecline({ leases, events, now, reserved }, name, address, mac);
    }
  }

  async function round(): Promise<void> {
    const local = index().all.filter((network) => network.interface !== undefined);
    const inAdvance = local.filter(
      (network) => network.probe && network.mode === 'server' && network.pools.length > 0,
    );
    const declined = local.filter((network) => leases.network(network.name).doubts.addresses().length > 0);
    if (inAdvance.length === 0 && declined.length === 0) return;
    const arp = await readFile('/proc/net/arp', 'utf8');
    for (const network of declined) await settleDoubts(network, arp);
    for (const network of inAdvance) await look(network, arp);
  }

  function tick(): void {
    round()
      .catch((error: unknown) => log.warn({ err: error }, 'probing free addresses failed'))
      .finally(() => {
        if (!stopped) cancel = clock.after(TICK, tick);
      });
  }

  return () => {
    stopped = true;
    cancel();
    socket.close();
  };
}
