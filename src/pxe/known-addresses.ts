/**
 * Addresses outside of the served subnets that belong to machines all the same: a system may live
 * on a VLAN or in a routed network. They are answered over TCP (perimeter.ts), and are no evidence
 * of who asks.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import { cidr, contains, type Ipv4, parseIpv4 } from '../base/ipv4.ts';
import type { Catalog } from '../resources/catalog.ts';
import type { Outsiders } from './perimeter.ts';

export interface KnownAddresses extends Outsiders {
  /** An agent polled from this address, in dotted decimal, with its certificate. */
  heard(address: string): void;
}

/** This host itself. The kernel drops what comes from the network with such a source. */
const LOOPBACK = cidr('127.0.0.0/8');
/**
 * How many addresses of agents are kept. Beyond it the one that was silent longest is forgotten.
 */
const AGENTS = 16_384;
/** How often this host's own addresses are read. */
const READ_EVERY: Millis = duration('5s');

/**
 * Knows this host's own addresses, those that Machine documents give (spec.addresses and
 * spec.config.network), and those from which agents polled with their certificates.
 */
export function createKnownAddresses({
  own,
  catalog,
  clock,
}: {
  /** The addresses of this host's interfaces. */
  readonly own: () => readonly Ipv4[];
  readonly catalog: Pick<Catalog, 'list' | 'subscribe'>;
  readonly clock: Pick<Clock, 'monotonic'>;
}): KnownAddresses {
  const agents = new Set<Ipv4>();
  let documented: ReadonlySet<Ipv4> | undefined;
  let ours: ReadonlySet<Ipv4> = new Set();
  let readAt = Number.NEGATIVE_INFINITY;
  catalog.subscribe((changes) => {
    if (changes.some(({ kind }) => kind === 'Machine')) documented = undefined;
  });
  const isOurs = (address: Ipv4): boolean => {
    const now = clock.monotonic();
    if (now - readAt >= READ_EVERY) {
      ours = new Set(own());
      readAt = now;
    }
    return ours.has(address);
  };
  return {
    isDocumented(address) {
      documented ??= addressesOf(catalog);
      return contains(LOOPBACK, address) || documented.has(address) || isOurs(address);
    },
    isAgent: (address) => agents.has(address),
    heard(text) {
      const address = parseIpv4(text);
      if (address === undefined) return;
      agents.delete(address);
      agents.add(address);
      if (agents.size > AGENTS) agents.delete(agents.values().next().value!);
    },
  };
}

function addressesOf(catalog: Pick<Catalog, 'list'>): ReadonlySet<Ipv4> {
  const found = new Set<Ipv4>();
  for (const { document } of catalog.list('Machine')) {
    const { addresses = [], config } = document.spec;
    const interfaces = config?.network?.interfaces ?? [];
    for (const text of [...addresses, ...interfaces.flatMap((one) => one.addresses ?? [])]) {
      const address = parseIpv4(text.split('/')[0]!);
      if (address !== undefined) found.add(address);
    }
  }
  return found;
}
