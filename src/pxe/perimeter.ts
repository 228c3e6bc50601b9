/**
 * Who may speak to which port of the boot host: the one answer for DHCP, the PXE boot service,
 * TFTP, the machines' HTTP and the agents' listener. It keeps other subnets out and says nothing
 * about who an asker is: an address is never evidence of that.
 * docs/decisions/0048-who-may-speak-to-the-boot-host.md has the reasons.
 */
import { ANY, contains, formatIpv4, type Ipv4, netmask } from '../base/ipv4.ts';
import type { ServedNetwork } from './network.ts';

/**
 * The ports: UDP 67, 4011 and 69, the machines' HTTP, and three parts of the agents' listener:
 * `redeem` (a first certificate), `registry` (container images) and `agent` (all other routes;
 * their API asks for a certificate).
 */
export type Port = 'dhcp' | 'pxe' | 'tftp' | 'http' | 'redeem' | 'agent' | 'registry';

/**
 * Ports that answer every address: the system of a machine may live on a VLAN or in a routed
 * network. An agent proves itself by its certificate, and images are addressed by hash.
 */
const ANYWHERE: ReadonlySet<Port> = new Set(['agent', 'registry']);

/**
 * What is known of addresses outside of the served subnets (known-addresses.ts). It counts for TCP
 * only: a handshake shows that the asker receives what is sent to its address.
 */
export interface Outsiders {
  /** The address is this host's, or a Machine document gives it to a machine. */
  isDocumented(address: Ipv4): boolean;
  /** An agent polled from the address with its certificate. */
  isAgent(address: Ipv4): boolean;
}

const NOBODY: Outsiders = { isDocumented: () => false, isAgent: () => false };

/** Who asks. */
export interface Asker {
  readonly port: Port;
  readonly source: Ipv4;
  /** The interface that received the datagram. Unknown for TCP and for a replayed capture. */
  readonly interface?: string | undefined;
  /** Set for a DHCP packet that a relay agent forwarded. */
  readonly relay?: {
    readonly giaddr: Ipv4;
    /** The network that it claims to forward for; undefined: none that is served. */
    readonly network: ServedNetwork | undefined;
  };
}

/** Why an asker gets no answer. */
export type Refusal =
  /** The address is in no served subnet. */
  | 'unserved_source'
  /** Nothing is served on the interface. */
  | 'unserved_interface'
  /** The relay agent forwards for no served network. */
  | 'relay_unknown'
  /** The relay agent is on the segment itself, and no document names it. */
  | 'relay_unnamed'
  /** The relay agent's packet comes from an address that is not the relay agent's. */
  | 'relay_source';

/** The served networks, with what is looked up for each packet. */
export interface Perimeter {
  /** The subnets by prefix length. Most sites have one or two lengths. */
  readonly subnets: readonly { readonly mask: Ipv4; readonly bases: ReadonlySet<number> }[];
  readonly interfaces: ReadonlySet<string>;
  /** A network is only reached through relays, by any interface. */
  readonly remote: boolean;
}

/** Prepares the networks for {@link refusal}. To be called when they change. */
export function perimeterOf(networks: readonly ServedNetwork[]): Perimeter {
  const byPrefix = new Map<number, Set<number>>();
  const interfaces = new Set<string>();
  for (const { subnet, interface: via } of networks) {
    const bases = byPrefix.get(subnet.prefix);
    if (bases) bases.add(subnet.base);
    else byPrefix.set(subnet.prefix, new Set([subnet.base]));
    if (via !== undefined) interfaces.add(via);
  }
  return {
    subnets: [...byPrefix].map(([prefix, bases]) => ({ mask: netmask(prefix), bases })),
    interfaces,
    remote: networks.some((network) => network.interface === undefined),
  };
}

/** Whether a served subnet contains the address. */
export function isServed({ subnets }: Perimeter, address: Ipv4): boolean {
  for (const { mask, bases } of subnets) if (bases.has((address & mask) >>> 0)) return true;
  return false;
}

/**
 * Decides whether an asker gets an answer: returns undefined, or why it gets none.
 *
 * @example
 * refusal(perimeter, { port: 'tftp', source, interface: 'eth1' }); // 'unserved_source'
 */
export function refusal(
  perimeter: Perimeter,
  asker: Asker,
  outsiders: Outsiders = NOBODY,
): Refusal | undefined {
  const { port, source, relay } = asker;
  if (ANYWHERE.has(port)) return undefined;
  if (relay !== undefined) return relayRefusal(source, relay, asker.interface);
  const via = asker.interface;
  if (via !== undefined && !perimeter.remote && !perimeter.interfaces.has(via)) return 'unserved_interface';
  // A machine has no address yet; a router forwards no such packet.
  if (source === ANY && port === 'dhcp') return undefined;
  if (isServed(perimeter, source)) return undefined;
  if ((port === 'http' || port === 'redeem') && outsiders.isDocumented(source)) return undefined;
  // An agent fetches files, and reports that its system is ready, from where it polls.
  if (port === 'http' && outsiders.isAgent(source)) return undefined;
  return 'unserved_source';
}

/**
 * A relay agent counts if its network's document names it, or if it has an address in the subnet
 * and its packet came by another way than that subnet: on the segment itself, any machine could
 * claim to be one. It sends from its own address, or from one that the document names.
 */
function relayRefusal(
  source: Ipv4,
  { giaddr, network }: NonNullable<Asker['relay']>,
  via: string | undefined,
): Refusal | undefined {
  if (network === undefined) return 'relay_unknown';
  const { relays, subnet } = network;
  const elsewhere = via === undefined || network.interface === undefined || via !== network.interface;
  if (!relays.includes(giaddr) && !(contains(subnet, giaddr) && elsewhere)) return 'relay_unnamed';
  return source === giaddr || relays.includes(source) ? undefined : 'relay_source';
}

/** Says who was refused, and what to add to which document if it should have been answered. */
export function refusalText(why: Refusal, { source, relay, interface: via }: Asker): string {
  const address = formatIpv4(source);
  const giaddr = relay && formatIpv4(relay.giaddr);
  const name = `Network/${relay?.network?.name}`;
  const relays = relay?.network?.relays ?? [];
  switch (why) {
    case 'unserved_source':
      return `${address} is in no subnet that is served; if machines boot there, add a Network document whose spec.subnet contains it`;
    case 'unserved_interface':
      return `${address} sent to interface ${via}, on which no Network is served; if machines boot there, add a Network document with spec.interface: ${via}`;
    case 'relay_unknown':
      return `relay agent ${giaddr} (sending from ${address}) forwards for no served network; add to the document of the Network that it is for: ${relaysLine([], relay!.giaddr, source)}`;
    case 'relay_unnamed':
      return `${giaddr} (sending from ${address}) claims to be a relay agent, but is on the segment of ${name} itself; if it is one, add to that document: ${relaysLine(relays, relay!.giaddr, source)}`;
    case 'relay_source':
      return `relay agent ${giaddr} of ${name} sends from ${address}; if that is an address of the relay agent, add to that document: ${relaysLine(relays, source)}`;
  }
}

const relaysLine = (...addresses: readonly (Ipv4 | readonly Ipv4[])[]): string =>
  `dhcp: {relays: [${[...new Set(addresses.flat())].map(formatIpv4).join(', ')}]}`;
