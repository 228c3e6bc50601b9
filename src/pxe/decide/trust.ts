/** Finds the tier of trust of a machine from its documents and the network from which it boots. */
import type { Member } from '../../machines/roster.ts';
import { type Trust, trustOf } from '../../machines/trust.ts';
import { holdsClusterKeys } from '../../resources/trust.ts';
import { type BootContext, isInline, reservedAddress, selectionOf } from './boot-context.ts';
import { givesAddress } from './own-addresses.ts';

/** One boot of a machine. */
interface BootOf {
  /** Name of the Network from which it boots. */
  readonly network: string;
  readonly profile?: string | undefined;
}

/**
 * The tier of trust of a machine in a boot; without one, what is known of it now. Undefined for a
 * machine that gets no certificate: without a document, of no cluster, or with `delivery: inline`.
 */
export function machineTrust(context: BootContext, member: Member, boot?: BootOf): Trust | undefined {
  const { catalog, agents } = context;
  const { entry, name, status } = member;
  const cluster = agents?.agentCluster(name);
  if (entry === undefined || cluster === undefined || isInline(context, name)) return undefined;
  const { document } = entry;
  const served = context.servedNetworks();
  const networks = served.filter((one) => reservedAddress(member, one) !== undefined);
  const booted = boot?.network ?? status.seen.network ?? (networks[0] ?? served[0])?.name;
  const network = served.find((one) => one.name === booted);
  const named = <K extends 'Network' | 'Cluster' | 'Profile'>(kind: K, of: string | undefined) =>
    of === undefined ? undefined : catalog.get(kind, of)?.document;
  const clusters = [named('Cluster', cluster), named('Cluster', document.spec.cluster)];
  return trustOf({
    documents: [
      document,
      named('Profile', boot?.profile ?? profileOf(context, member, booted)),
      ...clusters,
      ...[...new Set([booted, ...networks.map((one) => one.name)])].map((one) => named('Network', one)),
    ],
    holdsClusterKeys: clusters.some((one) => one && holdsClusterKeys(one.spec, name)),
    addressGiven: network !== undefined && givesAddress(network, member),
  });
}

/** What `muster explain` says of the machine's tier. */
export function trustSteps(context: BootContext, member: Member | undefined, network: string | undefined) {
  const trust = member && machineTrust(context, member, network === undefined ? undefined : { network });
  if (trust === undefined) return [];
  const byDefault =
    trust.tier === 'approved'
      ? "the default, because it gets its cluster's keys and another server gives the addresses"
      : 'the default';
  return [{ step: 'trust', result: `${trust.tier} (${trust.from === 'default' ? byDefault : trust.from})` }];
}

function profileOf(context: BootContext, member: Member, network: string | undefined): string | undefined {
  const selection = selectionOf(member, network, context.profiles());
  return selection.kind === 'selected' ? selection.profile.name : undefined;
}
