/** Which names should exist, of machines on Networks with a zone and of clusters' APIs. Pure. */
import { parseIp } from '../../base/ip.ts';
import { cidr, contains, ipv4 } from '../../base/ipv4.ts';
import { parseEndpoint } from '../../cluster/resolve/endpoint.ts';
import type { ClusterSpec, MachineSpec, NetworkSpec } from '../../resources/kinds.ts';
import type { NamesSpec } from '../../resources/names-spec.ts';
import type { SecretReference } from '../../resources/secret-spec.ts';
import type { NameRecord } from './message.ts';

/** The server that takes updates of a zone, and the Secret with which they are signed. */
export interface NameServer {
  readonly address: string;
  readonly port: number;
  readonly key?: SecretReference['valueFrom'] | undefined;
}

export interface WantedName extends NameRecord {
  readonly zone: string;
  /** Undefined: nothing is sent, the zone is only printed. */
  readonly server: NameServer | undefined;
  /** The document for which the name exists, e.g. `Machine/node-1`. */
  readonly subject: string;
}

interface Named<S> {
  readonly name: string;
  readonly spec: S;
}

/** What names are made of. */
export interface NameFacts {
  readonly networks: readonly Named<NetworkSpec>[];
  readonly clusters: readonly Named<ClusterSpec>[];
  readonly machines: readonly Named<MachineSpec>[];
  /** The addresses of a Network that a machine has leased. */
  readonly leased: (network: string, machine: string) => readonly string[];
}

const DNS_PORT = 53;

const isIn = (name: string, zone: string): boolean => name === zone || name.endsWith(`.${zone}`);

/** The name under which the addresses of `host` are registered in a zone. */
export const nameIn = (host: string, zone: string): string => {
  const lower = host.toLowerCase();
  return isIn(lower, zone) ? lower : `${lower}.${zone}`;
};

/** `11.0.77.10.in-addr.arpa` for 10.77.0.11, `….ip6.arpa` for an IPv6 address. */
export function reverseName(address: string): string {
  const { family, value } = parseIp(address)!;
  if (family === 4) return `${address.split('.').reverse().join('.')}.in-addr.arpa`;
  return `${[...value.toString(16).padStart(32, '0')].reverse().join('.')}.ip6.arpa`;
}

/** The records of one name with its addresses, forward and reverse. */
function recordsOf(
  { zone, reverseZone, server: address, port = DNS_PORT, key }: NamesSpec,
  subject: string,
  host: string,
  addresses: readonly string[],
): readonly WantedName[] {
  const server = address === undefined ? undefined : { address, port, key: key?.valueFrom };
  const name = nameIn(host, zone);
  return addresses.flatMap((data): WantedName[] => {
    const type = parseIp(data)?.family === 6 ? 'AAAA' : 'A';
    const forward: WantedName = { ...{ zone, server, subject }, name, type, data };
    const back = reverseName(data);
    return reverseZone !== undefined && isIn(back, reverseZone)
      ? [forward, { ...{ zone: reverseZone, server, subject }, name: back, type: 'PTR', data: name }]
      : [forward];
  });
}

const hostOf = ({ name, spec: { config } }: Named<MachineSpec>): string =>
  config?.hostname !== undefined && !config.hostname.includes('${') ? config.hostname : name;

/**
 * All names, each once. A machine's address is the one that its document names on the Network, else
 * what it has leased there. The name of an API leads to its virtual addresses, else to all control
 * planes.
 */
export function wantedNames({ networks, clusters, machines, leased }: NameFacts): readonly WantedName[] {
  const found: WantedName[] = [];
  const addressesOn = (
    network: Named<NetworkSpec>,
    { name, spec }: Named<MachineSpec>,
  ): readonly string[] => {
    const subnet = cidr(network.spec.subnet);
    const written = (spec.addresses ?? []).filter((one) => contains(subnet, ipv4(one)));
    return written.length > 0 ? written : leased(network.name, name);
  };
  for (const network of networks) {
    const { names } = network.spec;
    if (names === undefined) continue;
    for (const machine of machines)
      found.push(
        ...recordsOf(names, `Machine/${machine.name}`, hostOf(machine), addressesOn(network, machine)),
      );
  }
  for (const { name, spec } of clusters) {
    const { names, kubernetes } = spec;
    const host = kubernetes && parseEndpoint(kubernetes.endpoint)?.host;
    if (names === undefined || kubernetes === undefined || host === undefined) continue;
    if (!isIn(host, names.zone)) continue;
    const planes = kubernetes.controlPlanes.flatMap((plane) => {
      const machine = machines.find((one) => one.name === plane);
      const first = networks.flatMap((network) => (machine ? addressesOn(network, machine) : []))[0];
      return first ?? machine?.spec.addresses?.[0] ?? [];
    });
    const { reverseZone: _, ...forward } = names;
    const addresses = kubernetes.virtualAddress?.addresses ?? planes;
    found.push(...recordsOf(forward, `Cluster/${name}`, host, addresses));
  }
  return [...new Map(found.map((one) => [keyOf(one), one])).values()];
}

/** What makes a record different from all others, at a server. */
export const keyOf = ({ server, zone, name, type, data }: Omit<WantedName, 'subject'>): string =>
  [server ? `${server.address} ${server.port}` : '', zone, name, type, data].join('/');
