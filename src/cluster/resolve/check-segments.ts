/**
 * Compares the addresses of a Cluster with Networks, with other Clusters, and with Machines that do
 * not belong to it.
 */

import { firstFew } from '../../base/first-few.ts';
import { formatIp, ipNetwork, networkHolds, overlap, parseIp } from '../../base/ip.ts';
import { contains, ipv4 } from '../../base/ipv4.ts';
import { type Candidate, type CandidateSet, type DocumentId, idOf } from '../../resources/candidate.ts';
import { isHost, networkView } from '../../resources/check-networks.ts';
import type { Document, KubernetesSpec } from '../../resources/kinds.ts';
import { machineNames } from '../../resources/membership.ts';
import { staticAddresses } from '../../resources/static-addresses.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { parseEndpoint } from './endpoint.ts';

interface SegmentFault {
  readonly severity: 'error' | 'warning';
  /** The path below `spec.kubernetes`. */
  readonly path: string;
  readonly message: string;
  /** The other document. */
  readonly other: DocumentId;
}

/** A Cluster document, and its resolved specification when it has no errors. */
export interface Placed {
  readonly name: string;
  readonly spec: KubernetesSpec;
  readonly resolved?: ResolvedCluster;
}

/** Addresses that are held by one control plane at a time. Overrides cannot change them. */
export const virtualAddresses = ({ virtualAddress, endpoint }: KubernetesSpec): readonly string[] =>
  virtualAddress === undefined
    ? []
    : (virtualAddress.addresses ?? [parseEndpoint(endpoint)?.host ?? '']).flatMap(canonical);

const canonical = (text: string): readonly string[] => {
  const address = parseIp(text);
  return address === undefined ? [] : [formatIp(address)];
};

/**
 * Faults of a Cluster against all documents. The Cluster is compared only with the Clusters in
 * `others`, so that two Clusters get one fault for what they share, not two.
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
    ...(placed.resolved === undefined ? [] : reachFaults(placed.resolved, networks)),
    ...(placed.resolved === undefined ? [] : routerFaults(placed.resolved, others, networks)),
  ];
}

/** These are only warnings: the Network may be at another site that this cluster never reaches. */
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
                message: `${text} overlaps ${spec.subnet} of Network/${metadata.name}; the cluster cannot reach hosts with an address in both`,
                other: `Network/${metadata.name}` as const,
              },
            ]
          : [],
      ),
    ),
  );

/**
 * Virtual addresses that not every control plane can hold, because they are on other segments. A
 * control plane in no Network says nothing: its segment may be known elsewhere.
 */
function reachFaults(
  { virtualAddress, machines }: ResolvedCluster,
  networks: readonly Candidate<'Network'>[],
): readonly SegmentFault[] {
  const segmentOf = (address: string) =>
    networks.find(({ document: { spec } }) => networkHolds(ipNetwork(spec.subnet), parseIp(address)!));
  const controlPlanes = machines.filter(({ roles }) => roles.includes('control-plane'));
  return (virtualAddress?.addresses ?? []).flatMap((address): readonly SegmentFault[] => {
    const family = controlPlanes.flatMap(({ name, addresses }) =>
      addresses
        .filter((one) => one.includes(':') === address.includes(':'))
        .map((one) => [name, one] as const),
    );
    const segments = family.map(([name, one]) => [name, segmentOf(one)] as const);
    const own = segmentOf(address);
    const away = segments.filter(([, segment]) => segment !== undefined && segment !== own);
    const [first] = away;
    if (first === undefined) return [];
    const where = own === undefined ? 'in no Network' : `in Network/${own.document.metadata.name}`;
    const who = away.map(([name, segment]) => `${name} in Network/${segment!.document.metadata.name}`);
    return [
      {
        severity: 'warning',
        path: 'virtualAddress.addresses',
        message: `${address} is ${where}, and ${firstFew(who)}: a control plane can hold only an address of its own segment; use one there, or a load balancer`,
        other: `Network/${first[1]!.document.metadata.name}`,
      },
    ];
  });
}

/** Faults of a virtual address that has another meaning in a Network. */
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
          : pool &&
            `inside the pool ${pool.start} to ${pool.end} of ${other}, from which any machine may get it`;
  return what === undefined ? [] : [{ ...VIRTUAL, message: `${address} is ${what}`, other }];
}

/**
 * Machines and Clusters that have the same address. The Cluster's own machines are compared in
 * `checkResolved`.
 */
function ownerFaults(
  address: string,
  spec: KubernetesSpec,
  others: readonly Placed[],
  candidates: CandidateSet,
): SegmentFault[] {
  const own = machineNames(spec);
  const { Machine, Profile } = candidates;
  const machines = [...Machine.values()].map(({ document }) => document);
  const profiles = [...Profile.values()].map(({ document }) => document);
  const owners: DocumentId[] = [
    ...machines
      .filter(
        (one) =>
          (one.spec.addresses?.includes(address) && !own.has(one.metadata.name)) || configures(one, address),
      )
      .map(idOf),
    ...profiles.filter((one) => configures(one, address)).map(idOf),
    ...others
      .filter((one) => virtualAddresses(one.spec).includes(address))
      .map(({ name }) => `Cluster/${name}` as const),
  ];
  return owners.map((other) => ({
    ...VIRTUAL,
    message: `${address} is the address of ${other}; use one that nothing else has`,
    other,
  }));
}

/** Whether a configuration gives an address to an interface for good. */
export const configures = ({ spec: { config } }: Document<'Machine' | 'Profile'>, address: string): boolean =>
  staticAddresses(config).some(({ text }) => text === address);

const VIRTUAL = { severity: 'error', path: 'virtualAddress.addresses' } as const;

/** Clusters on the same segment with the same VRRP group number. */
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
        message: `${own} is the VRRP group of Cluster/${name} on ${segment} as well; change one of them`,
        other: `Cluster/${name}`,
      },
    ];
  });
}
