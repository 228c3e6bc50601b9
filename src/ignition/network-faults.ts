/**
 * Checks the interfaces of a configuration against each other: what Linux or systemd-networkd would
 * refuse on the machine is refused when the document is applied. Pure.
 */
import { parseDuration } from '../base/duration.ts';
import { formatIp, type Ip, type IpNetwork, networkHolds, parseIp } from '../base/ip.ts';
import { interfaceKey, type NodeInterface } from '../resources/node-network.ts';
import type { Path } from '../resources/yaml.ts';
import { entryOf, gatewayOnLink, lowerOf } from './links.ts';

export interface NetworkFault {
  /** From the list of interfaces. */
  readonly path: Path;
  readonly message: string;
}

/** Faults of interfaces whose templates are expanded. */
export function networkFaults(interfaces: readonly NodeInterface[]): readonly NetworkFault[] {
  return interfaces.flatMap((one, n) =>
    [
      ...addressFaults(one),
      ...sharedFaults(interfaces, n),
      ...serverFaults(one),
      ...gatewayFaults(one),
      ...bondFaults(one, interfaces),
      ...partFaults(interfaces, n),
      ...mtuFaults(one, interfaces),
      ...partMtuFaults(one, interfaces),
      ...bridgeFaults(one),
      ...macFaults(one),
      ...carrierFaults(one, interfaces),
    ].map(({ path, message }) => ({ path: [n, ...path], message })),
  );
}

/**
 * What may not work: routes of which Linux uses one alone, and source addresses that no interface
 * has.
 */
export const networkDoubts = (interfaces: readonly NodeInterface[]): readonly NetworkFault[] => [
  ...routeDoubts(interfaces),
  ...sourceDoubts(interfaces),
];

/**
 * A route to the same network with the same metric as one before it, on any interface.
 * networkd installs that of the interface which is ready last; two of IPv6 are used in turns.
 */
function routeDoubts(interfaces: readonly NodeInterface[]): NetworkFault[] {
  const seen = new Map<string, number>();
  const doubts: NetworkFault[] = [];
  for (const [n, { routes = [], gateway, gateway6, metric = 0 }] of interfaces.entries()) {
    const take = (
      to: string,
      own: number,
      table: number,
      path: Path,
      doubt: (twin: string | undefined) => string,
    ) => {
      const network = parsed(to)?.network;
      const key = network && `${formatIp(network.base)}/${network.prefix} ${own} ${table}`;
      if (key === undefined) return;
      const twin = seen.get(key);
      if (twin === undefined) seen.set(key, n);
      else doubts.push(fault([n, ...path], doubt(interfaceKey(interfaces[twin]!))));
    };
    for (const [field, to, value] of [
      ['gateway', '0.0.0.0/0', gateway],
      ['gateway6', '::/0', gateway6],
    ] as const)
      if (value !== undefined)
        take(
          to,
          metric,
          MAIN_TABLE,
          [field],
          (twin) =>
            `${twin} has a default gateway with the same metric, and Linux may keep only one of the two; give one of them a higher metric, or write routes to what is behind this gateway`,
        );
    for (const [k, { to, metric: own = 0, table = MAIN_TABLE }] of routes.entries())
      take(
        to,
        own,
        table,
        ['routes', k],
        () =>
          `there is another route to ${to} with the same metric, and Linux may use one alone; give them metrics`,
      );
  }
  return doubts;
}

/** The table of routes that Linux reads where no policy names another one. */
const MAIN_TABLE = 254;

/** Linux installs no route with a source address that the machine does not have. */
function sourceDoubts(interfaces: readonly NodeInterface[]): NetworkFault[] {
  const isStatic = interfaces.every(
    ({ addresses = [], dhcp4, dhcp6, acceptRa }) =>
      addresses.length > 0 && !addresses.join().includes('${') && !dhcp4 && !dhcp6 && !acceptRa,
  );
  const own = interfaces.flatMap(({ addresses = [] }) =>
    addresses.flatMap((text) => parsed(text)?.address ?? []),
  );
  return interfaces.flatMap(({ routes = [] }, n) =>
    routes.flatMap(({ source }, k) =>
      !isStatic ||
      source === undefined ||
      source.includes('${') ||
      own.some((address) => same(source, address))
        ? []
        : [
            fault(
              [n, 'routes', k, 'source'],
              `no interface has ${source}; without it there would be no route`,
            ),
          ],
    ),
  );
}

const fault = (path: Path, message: string): NetworkFault => ({ path, message });

interface Parsed {
  readonly text: string;
  readonly address: Ip;
  readonly network: IpNetwork;
}

function parsed(text: string): Parsed | undefined {
  const [left, right] = text.split('/');
  const address = parseIp(left ?? '');
  if (address === undefined) return undefined;
  const prefix = Number(right);
  const bits = BigInt((address.family === 4 ? 32 : 128) - prefix);
  return {
    text,
    address,
    network: { base: { family: address.family, value: (address.value >> bits) << bits }, prefix },
  };
}

const UNUSABLE = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '224.0.0.0/4',
  '255.255.255.255/32',
  '::/127',
  '::ffff:0:0/96',
  'ff00::/8',
].map((text) => parsed(text)!.network);

function addressFaults({ addresses = [], gateway, gateway6, mtu }: NodeInterface): NetworkFault[] {
  const seen = new Set<string>();
  return addresses.flatMap((text, k) => {
    const one = parsed(text);
    if (one === undefined) return [];
    const path = ['addresses', k];
    const { address, network } = one;
    const plain = text.split('/')[0]!;
    const found: NetworkFault[] = [];
    if (seen.has(plain)) found.push(fault(path, `${plain} is listed twice; keep one`));
    seen.add(plain);
    const end = endOf(address, network);
    if (network.prefix === 0)
      return [...found, fault(path, 'a prefix length of 0 makes every host a neighbour; correct it')];
    if (UNUSABLE.some((range) => networkHolds(range, address)))
      found.push(fault(path, `${plain} cannot be the address of an interface`));
    else if (end === 'first') found.push(fault(path, `${text} is the network itself, not an address in it`));
    else if (end === 'last') found.push(fault(path, `${text} is the broadcast address of its network`));
    if ([gateway, gateway6].some((other) => other !== undefined && same(other, address)))
      found.push(fault(path, `${plain} is also the gateway of this interface`));
    if (address.family === 6 && mtu !== undefined && mtu < 1280)
      found.push(fault(['mtu'], `IPv6 needs an MTU of 1280 or more, and the interface has ${text}`));
    return found;
  });
}

/** An address of two interfaces; only a host address may be on several links. */
function sharedFaults(interfaces: readonly NodeInterface[], n: number): NetworkFault[] {
  return (interfaces[n]!.addresses ?? []).flatMap((text, k) => {
    if (/\/(32|128)$/.test(text)) return [];
    const plain = text.split('/')[0]!;
    const other = interfaces.findIndex(
      ({ addresses = [] }, m) => m < n && addresses.some((one) => one.split('/')[0] === plain),
    );
    return other < 0
      ? []
      : [fault(['addresses', k], `${interfaceKey(interfaces[other]!)} has ${plain} already`)];
  });
}

/** Loopback may have a resolver of the machine's own; these are systemd-resolved's. */
const STUBS = ['127.0.0.53', '127.0.0.54'];
const LOOPBACK = ['127.0.0.0/8', '::1/128'].map((text) => parsed(text)!.network);

function serverFaults({ nameservers = [] }: NodeInterface): NetworkFault[] {
  return nameservers.flatMap((text, k) => {
    const address = parseIp(text);
    const path = ['nameservers', k];
    if (STUBS.includes(text))
      return [fault(path, `${text} is systemd-resolved itself, which would ask itself; name another server`)];
    const isHost =
      address === undefined ||
      LOOPBACK.some((range) => networkHolds(range, address)) ||
      !UNUSABLE.some((range) => networkHolds(range, address));
    return isHost ? [] : [fault(path, `${text} can be no name server`)];
  });
}

const same = (text: string, address: Ip): boolean => {
  const other = parseIp(text);
  return other?.family === address.family && other.value === address.value;
};

const LINK_LOCAL = parsed('fe80::/10')!.network;

/** Gateways that no address of the interface can reach: networkd would install no such route. */
function gatewayFaults(one: NodeInterface): NetworkFault[] {
  const reach = [
    ...(one.addresses ?? []),
    ...(one.routes ?? []).flatMap(({ to, via }) => (via === undefined ? [to] : [])),
  ].flatMap((text) => parsed(text)?.network ?? []);
  const unreachable = (text: string): boolean => {
    const address = parseIp(text);
    if (address === undefined || networkHolds(LINK_LOCAL, address)) return false;
    const family = reach.filter(({ base }) => base.family === address.family);
    const isBare = (one.addresses ?? []).length === 0;
    const learns =
      address.family === 4 ? (one.dhcp4 ?? isBare) : (one.acceptRa ?? isBare) || one.dhcp6 === true;
    if (learns) return false;
    return !family.some((network) => networkHolds(network, address));
  };
  const gateways = (['gateway', 'gateway6'] as const).flatMap((field) => {
    const gateway = one[field];
    if (gateway === undefined) return [];
    const noHost = noHostFault(gateway, one.addresses ?? []);
    if (noHost !== undefined) return [fault([field], noHost)];
    if (gatewayOnLink(one, gateway) || !unreachable(gateway)) return [];
    return [
      fault(
        [field],
        `${gateway} is in none of the interface's networks, so there would be no default route; correct it, or set gatewayOnLink: true if the gateway is on this link all the same`,
      ),
    ];
  });
  const own = (one.addresses ?? []).flatMap((text) => parsed(text)?.address ?? []);
  const loops = (one.routes ?? []).flatMap(({ via }, k) =>
    via !== undefined && own.some((address) => same(via, address))
      ? [fault(['routes', k, 'via'], `${via} is the interface itself, and not a gateway`)]
      : [],
  );
  const routes = (one.routes ?? []).flatMap(({ via, onLink }, k) =>
    via === undefined || onLink || !unreachable(via)
      ? []
      : [
          fault(
            ['routes', k, 'via'],
            `${via} is in none of the interface's networks, so there would be no route; correct it, or set onLink: true if it is on this link all the same`,
          ),
        ],
  );
  return [...gateways, ...loops, ...routes];
}

/** What is wrong with a gateway that is no host in the networks of the interface. */
function noHostFault(gateway: string, addresses: readonly string[]): string | undefined {
  const address = parseIp(gateway);
  for (const text of addresses) {
    const network = parsed(text)?.network;
    const end = address && network && endOf(address, network);
    if (end === 'first') return `${gateway} is the network itself, not a gateway in it`;
    if (end === 'last') return `${gateway} is the broadcast address of its network`;
  }
  return undefined;
}

/** Whether an address is the first or the last of an IPv4 network, which no host has. */
function endOf(address: Ip, { base, prefix }: IpNetwork): 'first' | 'last' | undefined {
  if (address.family !== 4 || base.family !== 4 || prefix >= 31) return undefined;
  if (address.value === base.value) return 'first';
  return address.value === base.value + (1n << BigInt(32 - prefix)) - 1n ? 'last' : undefined;
}

/** Settings of a bond that its mode does not have. */
const OF_MODES: readonly {
  readonly field: 'lacpRate' | 'minLinks' | 'hashPolicy' | 'primary';
  readonly modes: readonly string[];
}[] = [
  { field: 'lacpRate', modes: ['802.3ad'] },
  { field: 'minLinks', modes: ['802.3ad'] },
  { field: 'hashPolicy', modes: ['802.3ad', 'balance-xor', 'balance-tlb'] },
  { field: 'primary', modes: ['active-backup', 'balance-tlb', 'balance-alb'] },
];

function bondFaults({ bond }: NodeInterface, interfaces: readonly NodeInterface[]): NetworkFault[] {
  if (bond === undefined) return [];
  const found = OF_MODES.flatMap(({ field, modes }) =>
    bond[field] === undefined || modes.includes(bond.mode)
      ? []
      : [fault(['bond', field], `a bond of mode ${bond.mode} has no ${field}; only ${modes.join(', ')}`)],
  );
  const means = (text: string) => entryOf(interfaces, text) ?? text;
  if (bond.primary !== undefined && !bond.interfaces.some((one) => means(one) === means(bond.primary!)))
    found.push(fault(['bond', 'primary'], `${bond.primary} is not one of the bond's interfaces`));
  if ((bond.minLinks ?? 0) > bond.interfaces.length)
    found.push(
      fault(['bond', 'minLinks'], `the bond has ${bond.interfaces.length} members, so it would never be up`),
    );
  const monitor = parseDuration(bond.monitor ?? '100ms') ?? 0;
  for (const field of ['upDelay', 'downDelay'] as const) {
    const delay = parseDuration(bond[field] ?? '0s') ?? 0;
    if (delay > 0 && (monitor === 0 || delay % monitor !== 0))
      found.push(fault(['bond', field], `must be a multiple of monitor, ${bond.monitor ?? '100ms'}`));
  }
  return found;
}

/** Whether the interfaces can be built on each other as they say. */
function partFaults(interfaces: readonly NodeInterface[], n: number): NetworkFault[] {
  const one = interfaces[n]!;
  const name = interfaceKey(one)!;
  const found: NetworkFault[] = [];
  if (circular(interfaces, n)) found.push(fault([], `${name} is built on itself`));
  const kind = one.bond ? 'bond' : 'bridge';
  for (const [k, reference] of lowerOf(one).entries()) {
    const path = one.vlan ? ['vlan', 'link'] : [kind, 'interfaces', k];
    const lower = entryOf(interfaces, reference);
    const part = lower === undefined ? undefined : interfaces[lower];
    if (one.bond && part?.bond) found.push(fault(path, 'a bond cannot be a member of a bond'));
    if (one.bridge && part?.bridge) found.push(fault(path, 'a bridge cannot be a port of a bridge'));
    if (one.vlan) continue;
    const other = interfaces.findIndex(
      (another, m) =>
        another.vlan === undefined &&
        lowerOf(another).some(
          (text, j) => (m < n || (m === n && j < k)) && sameLink(interfaces, text, reference),
        ),
    );
    if (other >= 0)
      found.push(fault(path, `${reference} is already a part of ${interfaceKey(interfaces[other]!)}`));
    const field = part && OWN_SETTINGS.find((key) => hasSetting(part[key]));
    if (field)
      found.push(
        fault(
          path,
          `${reference} is a part of ${name} and cannot have ${field} of its own; move it to ${name}`,
        ),
      );
  }
  const { vlan } = one;
  const twin =
    vlan &&
    interfaces.findIndex(
      (another, m) =>
        m < n && another.vlan?.id === vlan.id && sameLink(interfaces, another.vlan.link, vlan.link),
    );
  if (twin !== undefined && twin >= 0)
    found.push(
      fault(['vlan', 'id'], `${interfaces[twin]!.name} is VLAN ${vlan!.id} of ${vlan!.link} already`),
    );
  return found;
}

/** What a member of a bond or a port of a bridge cannot have. */
const OWN_SETTINGS = [
  'dhcp4',
  'dhcp6',
  'acceptRa',
  'addresses',
  'gateway',
  'gateway6',
  'routes',
  'rules',
  'nameservers',
] as const;
const hasSetting = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined && value !== false;

const sameLink = (interfaces: readonly NodeInterface[], a: string, b: string): boolean =>
  (entryOf(interfaces, a) ?? a) === (entryOf(interfaces, b) ?? b);

function circular(interfaces: readonly NodeInterface[], start: number): boolean {
  const below = (n: number) => lowerOf(interfaces[n]!).flatMap((text) => entryOf(interfaces, text) ?? []);
  const seen = new Set<number>();
  const next = below(start);
  while (next.length > 0) {
    const n = next.pop()!;
    if (n === start) return true;
    if (seen.has(n)) continue;
    seen.add(n);
    next.push(...below(n));
  }
  return false;
}

function mtuFaults({ mtu, vlan }: NodeInterface, interfaces: readonly NodeInterface[]): NetworkFault[] {
  const n = vlan && entryOf(interfaces, vlan.link);
  const below = n === undefined ? undefined : interfaces[n]!.mtu;
  if (mtu === undefined || below === undefined || mtu <= below) return [];
  return [fault(['mtu'], `a VLAN cannot have an MTU of ${mtu} on ${vlan!.link}, which has ${below}`)];
}

/** Packets that a bond or bridge takes and its part cannot send are lost. */
function partMtuFaults(one: NodeInterface, interfaces: readonly NodeInterface[]): NetworkFault[] {
  const { mtu, bond, bridge } = one;
  if (mtu === undefined || (bond ?? bridge) === undefined) return [];
  const small = lowerOf(one)
    .map((text) => interfaces[entryOf(interfaces, text) ?? -1])
    .find((part) => part?.mtu !== undefined && part.mtu < mtu);
  return small === undefined
    ? []
    : [
        fault(
          ['mtu'],
          `${one.name} has an MTU of ${mtu}, and its part ${interfaceKey(small)} one of ${small.mtu}`,
        ),
      ];
}

/** With STP the kernel takes a delay of 2 to 30 seconds alone. */
function bridgeFaults({ bridge }: NodeInterface): NetworkFault[] {
  const delay = parseDuration(bridge?.forwardDelay ?? '15s') ?? 0;
  return bridge?.stp === true && (delay < 2000 || delay > 30_000)
    ? [fault(['bridge', 'forwardDelay'], 'with STP the kernel takes 2s to 30s')]
    : [];
}

/** Names that a card never has: something has to make the interface. */
const MADE = /^((bond|br|team|vlan)[0-9]+|.+\.[0-9]+)$/;

/** A VLAN on a bond or bridge that the configuration does not make would never appear. */
function carrierFaults({ vlan }: NodeInterface, interfaces: readonly NodeInterface[]): NetworkFault[] {
  return vlan !== undefined && MADE.test(vlan.link) && entryOf(interfaces, vlan.link) === undefined
    ? [fault(['vlan', 'link'], `no entry of interfaces makes ${vlan.link}`)]
    : [];
}

/** Multicast and broadcast addresses, and the address of all zeros, which no card has. */
function macFaults({ mac }: NodeInterface): NetworkFault[] {
  const isGroup = mac !== undefined && (Number.parseInt(mac.slice(0, 2), 16) & 1) === 1;
  return isGroup || mac === '00:00:00:00:00:00'
    ? [fault(['mac'], `no network card has the address ${mac}`)]
    : [];
}
