/** Checks each Network, and all of them against each other. */
import { parseDuration } from '../base/duration.ts';
import { ip, ipNetwork, networkHolds, overlap } from '../base/ip.ts';
import {
  broadcastOf,
  type Cidr,
  cidr,
  contains,
  formatIpv4,
  type Ipv4,
  ipv4,
  parseCidr,
  parseIpv4,
} from '../base/ipv4.ts';
import { type Candidate, type CrossFault, placeOf, report } from './candidate.ts';
import { codeOf, type DhcpOption, NETWORK_FIELDS } from './dhcp-options.ts';
import type { NetworkSpec } from './kinds.ts';
import type { Path } from './yaml.ts';

export interface NetworkView {
  readonly candidate: Candidate<'Network'>;
  readonly spec: NetworkSpec;
  readonly subnet: Cidr;
  readonly last: Ipv4;
}

export function networkView(candidate: Candidate<'Network'>): NetworkView {
  const { spec } = candidate.document;
  const subnet = cidr(spec.subnet);
  return { candidate, spec, subnet, last: broadcastOf(subnet) };
}

/**
 * Whether a host can have this address: it is inside the subnet and neither the network nor the
 * broadcast address.
 */
export function isHost(network: NetworkView, address: Ipv4): boolean {
  if (!contains(network.subnet, address)) return false;
  return network.subnet.prefix >= 31 || (address !== network.subnet.base && address !== network.last);
}

const OWN = 'the machine itself';
/** Ranges in which no machine has an address that others reach. */
const SPECIAL = [
  ['0.0.0.0/8', 'hosts without an address'],
  ['127.0.0.0/8', OWN],
  ['224.0.0.0/4', 'multicast'],
] as const;

export function checkNetwork(network: NetworkView, found: CrossFault[]): void {
  const { candidate, spec } = network;
  for (const field of ['address', 'gateway'] as const) {
    const text = spec[field];
    // Muster's own address is outside the subnet if the network is only reached through relays.
    if (field === 'address' && text !== undefined && !contains(network.subnet, ipv4(text))) continue;
    if (text !== undefined && !isHost(network, ipv4(text)))
      report(
        found,
        candidate,
        ['spec', field],
        `${field} ${text} is not a host address inside ${spec.subnet}`,
      );
  }
  const special = SPECIAL.find(([range]) => overlap(ipNetwork(range), ipNetwork(spec.subnet)));
  if (special !== undefined && spec.subnet !== '0.0.0.0/0')
    report(
      found,
      candidate,
      ['spec', 'subnet'],
      `subnet ${spec.subnet} is in ${special[0]}, which is for ${special[1]}; no machine can have its addresses`,
    );
  for (const field of ['dns', 'ntp'] as const)
    for (const [n, text] of (spec[field] ?? []).entries())
      if (
        // A machine may have a server of its own.
        SPECIAL.some(([range, what]) => what !== OWN && networkHolds(ipNetwork(range), ip(text))) ||
        text === '255.255.255.255' ||
        (contains(network.subnet, ipv4(text)) && !isHost(network, ipv4(text)))
      )
        report(found, candidate, ['spec', field, n], `${text} is not the address of a server`);
  checkOptions(network, found);
  checkPools(network, found);
  for (const field of ['leaseTime', 'bootLeaseTime'] as const) {
    const text = spec.dhcp[field];
    const span = text === undefined ? undefined : parseDuration(text);
    if (span !== undefined && (span < 30_000 || span > 0xfffffffe * 1000))
      report(found, candidate, ['spec', 'dhcp', field], `${field} ${text} is not between 30s and 136 years`);
  }
  const prefixes = new Set<string>();
  for (const [n, { prefix }] of (spec.vendorClasses ?? []).entries()) {
    if (prefixes.has(prefix))
      report(
        found,
        candidate,
        ['spec', 'vendorClasses', n, 'prefix'],
        `the prefix "${prefix}" is listed twice`,
        {
          code: 'E_DUPLICATE',
        },
      );
    prefixes.add(prefix);
  }
}

/** Options of the operator's own that have no effect, or that have a field. */
function checkOptions({ candidate, spec }: NetworkView, found: CrossFault[]): void {
  const { options = [], mode } = spec.dhcp;
  if (options.length > 0 && mode !== 'server' && mode !== 'reservations')
    report(
      found,
      candidate,
      ['spec', 'dhcp', 'options'],
      `mode ${mode} gives no addresses, so the options have no effect; remove them, or write them where the addresses are given`,
    );
  for (const [at, list] of [
    [[], options] as const,
    ...(spec.dhcp.pools ?? []).map((pool, k) => [['pools', k], pool.options ?? []] as const),
  ])
    for (const [n, one] of list.entries())
      for (const via of gatewaysOutside(one, spec.subnet))
        report(
          found,
          candidate,
          ['spec', 'dhcp', ...at, 'options', n, 'value'],
          `${via} is outside of ${spec.subnet}, so clients have no way to it; name a gateway inside, or add {to: ${via}/32, via: 0.0.0.0} if it is on this link`,
        );
  for (const [n, { option, vendorClass }] of options.entries()) {
    const field = NETWORK_FIELDS[codeOf(option) ?? 0];
    if (field !== undefined && vendorClass === undefined)
      report(
        found,
        candidate,
        ['spec', 'dhcp', 'options', n, 'option'],
        `option ${option} of a network has a field of its own: write \`${field}\``,
      );
  }
}

/**
 * The gateways of static routes that a client cannot reach. A router (option 3) may be outside,
 * because clients add a route to it themselves.
 */
function gatewaysOutside({ option, type, value }: DhcpOption, subnet: string): readonly string[] {
  if (type === 'hex' || ![121, 249].includes(codeOf(option) ?? 0)) return [];
  const routes = [value].flat().flatMap((one) => (typeof one === 'object' && 'to' in one ? [one] : []));
  const links = [subnet, ...routes.filter(({ via }) => via === '0.0.0.0').map(({ to }) => to)].map(parseCidr);
  return routes
    .map(({ via }) => via)
    .filter((text) => {
      const address = text === '0.0.0.0' ? undefined : parseIpv4(text);
      return address !== undefined && !links.some((link) => link !== undefined && contains(link, address));
    });
}

function checkPools(network: NetworkView, found: CrossFault[]): void {
  const { candidate, spec } = network;
  const pools = spec.dhcp.pools ?? [];
  const at = (n: number, ...rest: string[]): Path => ['spec', 'dhcp', 'pools', n, ...rest];
  if (pools.length > 0 && spec.dhcp.mode !== 'server')
    report(
      found,
      candidate,
      ['spec', 'dhcp', 'pools'],
      `mode ${spec.dhcp.mode} gives no addresses from pools; remove them or use mode server`,
    );
  const ranges = pools.map((pool, n) => ({ n, start: ipv4(pool.start), end: ipv4(pool.end) }));
  for (const { n, start, end } of ranges) {
    for (const [field, address] of [
      ['start', start],
      ['end', end],
    ] as const)
      if (!isHost(network, address))
        report(
          found,
          candidate,
          at(n, field),
          `pool ${field} ${formatIpv4(address)} is not a host address inside ${spec.subnet}`,
        );
    if (start > end)
      report(
        found,
        candidate,
        at(n),
        `pool starts at ${formatIpv4(start)}, after its end ${formatIpv4(end)}`,
      );
    for (const field of ['address', 'gateway'] as const) {
      const own = spec[field] === undefined ? undefined : ipv4(spec[field]);
      if (own !== undefined && own >= start && own <= end)
        report(
          found,
          candidate,
          at(n),
          `the pool contains the ${field} ${spec[field]}, which would be leased to a machine`,
        );
    }
  }
  const sorted = ranges.filter((range) => range.start <= range.end).sort((a, b) => a.start - b.start);
  for (const [i, range] of sorted.entries()) {
    const before = sorted[i - 1];
    if (before && before.end >= range.start)
      report(
        found,
        candidate,
        at(range.n),
        `pools overlap: number ${range.n + 1} begins inside number ${before.n + 1}`,
      );
  }
}

export function checkOverlaps(networks: readonly NetworkView[], found: CrossFault[]): void {
  const sorted = [...networks].sort(
    (a, b) => a.subnet.base - b.subnet.base || a.subnet.prefix - b.subnet.prefix,
  );
  let widest: NetworkView | undefined;
  for (const network of sorted) {
    if (widest && widest.last >= network.subnet.base)
      report(
        found,
        network.candidate,
        ['spec', 'subnet'],
        `subnet ${network.spec.subnet} overlaps ${widest.spec.subnet} of ${placeOf(widest.candidate, ['spec', 'subnet'])}`,
        { code: 'E_DUPLICATE', other: widest.candidate },
      );
    if (!widest || network.last > widest.last) widest = network;
  }
}

/** Returns a function that finds the network of an address by binary search. */
export function networkIndex(networks: readonly NetworkView[]): (address: Ipv4) => NetworkView | undefined {
  const sorted = [...networks].sort((a, b) => a.subnet.base - b.subnet.base);
  return (address) => {
    let low = 0;
    let high = sorted.length - 1;
    let found: NetworkView | undefined;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const network = sorted[middle]!;
      if (network.subnet.base <= address) {
        found = network;
        low = middle + 1;
      } else high = middle - 1;
    }
    return found && contains(found.subnet, address) ? found : undefined;
  };
}
