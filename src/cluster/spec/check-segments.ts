/**
 * A Cluster beside Networks, Machines that are not its own, and other Clusters: whose its addresses
 * are already.
 */
import { formatIp, ipNetwork, networkHolds, overlap, parseIp } from '../../base/ip.ts';
import { contains, ipv4 } from '../../base/ipv4.ts';
import type { Candidate, CandidateSet, DocumentId } from '../../resources/candidate.ts';
import { isHost, networkView } from '../../resources/check-networks.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { machineNames } from '../../resources/membership.ts';
import { parseEndpoint } from './endpoint.ts';
import type { ResolvedCluster } from './resolved-cluster.ts';

export interface SegmentFault {
  readonly severity: 'error' | 'warning';
  /** Below `spec.kubernetes`. */
  readonly path: string;
  readonly message: string;
  /** The document that it is beside. */
  readonly other: DocumentId;
}

/**
 * What is looked at: the document's own addresses, and the full specification when there is one.
 */
export interface Placed {
  readonly name: string;
  readonly spec: KubernetesSpec;
  readonly resolved?: ResolvedCluster;
}

/** Addresses that one control plane at a time holds. Overrides cannot say others. */
export const virtualAddresses = ({ virtualAddress, endpoint }: KubernetesSpec): readonly string[] =>
  virtualAddress === undefined
    ? []
    : (virtualAddress.addresses ?? [parseEndpoint(endpoint)?.host ?? '']).flatMap(canonical);

const canonical = (text: string): readonly string[] => {
  const address = parseIp(text);
  return address === undefined ? [] : [formatIp(address)];
};

/**
 * Faults of `placed` beside all documents; of Clusters beside `others` only, so that two are told
 * once of what they share.
 */
export function segmentFaults(
  placed: Placed,
  others: readonly Placed[],
  candidates: CandidateSet,
): readonly SegmentFault[] {
  const networks = [...candidates.Network.values()];
  return [
    ...(placed.resolved === undefined ? [] : hiddenNetworks(placed.resolved, networks)),
    ...virtualAddresses(placed.spec).flatMap((address) => [
      ...networks.flatMap((network) => placeFaults(address, network)),
      ...ownerFaults(address, placed.spec, others, candidates),
    ]),
    ...(placed.resolved === undefined ? [] : routerFaults(placed.resolved, others, networks)),
  ];
}

/** A warning: that Network may be of another site, which nothing of this cluster ever asks. */
const hiddenNetworks = (
  resolved: ResolvedCluster,
  networks: readonly Candidate<'Network'>[],
): SegmentFault[] =>
  (['pods', 'services'] as const).flatMap((field) =>
    resolved.networks[field].flatMap((text) =>
      networks.flatMap(({ document: { metadata, spec } }) =>
        overlap(ipNetwork(text), ipNetwork(spec.subnet))
          ? [
              {
                severity: 'warning' as const,
                path: `networks.${field}`,
                message: `${text} overlaps ${spec.subnet} of Network/${metadata.name}; what has an address in both is not reached from the cluster`,
                other: `Network/${metadata.name}` as const,
              },
            ]
          : [],
      ),
    ),
  );

/** What a virtual address is in a Network besides. */
function placeFaults(address: string, candidate: Candidate<'Network'>): SegmentFault[] {
  if (address.includes(':')) return [];
  const network = networkView(candidate);
  const { spec } = network;
  const value = ipv4(address);
  const other = `Network/${candidate.document.metadata.name}` as const;
  const pool = spec.dhcp.pools?.find(({ start, end }) => ipv4(start) <= value && value <= ipv4(end));
  const what =
    contains(network.subnet, value) && !isHost(network, value)
      ? `the first or last address of ${spec.subnet}, ${other}; no host can have it`
      : address === spec.gateway
        ? `the gateway of ${other}`
        : address === spec.address
          ? `Muster's own address in ${other}`
          : pool && `inside the pool ${pool.start} to ${pool.end} of ${other}, which is given to anybody`;
  return what === undefined ? [] : [{ ...VIRTUAL, message: `${address} is ${what}`, other }];
}

/**
 * Machines of another cluster or none (its own: `checkResolved`), and Clusters that hold the same
 * address.
 */
function ownerFaults(
  address: string,
  spec: KubernetesSpec,
  others: readonly Placed[],
  candidates: CandidateSet,
): SegmentFault[] {
  const own = machineNames(spec);
  const machines = [...candidates.Machine.values()].map(({ document }) => document);
  const owners: DocumentId[] = [
    ...machines
      .filter((one) => one.spec.addresses?.includes(address) && !own.has(one.metadata.name))
      .map(({ metadata }) => `Machine/${metadata.name}` as const),
    ...others
      .filter((one) => virtualAddresses(one.spec).includes(address))
      .map(({ name }) => `Cluster/${name}` as const),
  ];
  return owners.map((other) => ({
    ...VIRTUAL,
    message: `${address} is the address of ${other}; it needs one that is nobody's`,
    other,
  }));
}

const VIRTUAL = { severity: 'error', path: 'virtualAddress.addresses' } as const;

/** VRRP's number of the group, beside that of a Cluster on the same segment. */
function routerFaults(
  resolved: ResolvedCluster,
  others: readonly Placed[],
  networks: readonly Candidate<'Network'>[],
): SegmentFault[] {
  const segments = ({ virtualAddress }: ResolvedCluster) =>
    networks.filter(({ document: { spec } }) =>
      virtualAddress?.addresses.some((one) => networkHolds(ipNetwork(spec.subnet), parseIp(one)!)),
    );
  const own = resolved.virtualAddress?.routerId;
  if (own === undefined) return [];
  return others.flatMap(({ name, resolved: theirs }) => {
    if (theirs?.virtualAddress?.routerId !== own) return [];
    const shared = segments(theirs).find((one) => segments(resolved).includes(one));
    if (shared === undefined) return [];
    const segment = `Network/${shared.document.metadata.name}`;
    return [
      {
        severity: 'warning',
        path: 'virtualAddress.routerId',
        message: `${own} is the number of Cluster/${name} on ${segment} as well; give one of them another`,
        other: `Cluster/${name}`,
      },
    ];
  });
}
