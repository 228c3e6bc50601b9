/** Finds the tier of trust of a machine from its documents and the network from which it boots. */
import type { KnownTpm } from '../../agent/identity/redeem-tpm.ts';
import type { Member } from '../../machines/roster.ts';
import { type Trust, trustOf } from '../../machines/trust.ts';
import type { Document } from '../../resources/kinds.ts';
import { type BootContext, isInline, reservedAddress } from './boot-context.ts';
import { selectionOf } from './selection.ts';

/** One boot of a machine. */
interface BootOf {
  /** Name of the Network from which it boots. */
  readonly network: string;
  readonly profile?: string | undefined;
}

/** The documents that may ask for something of a machine, and what is known of its network. */
interface Asking {
  readonly documents: Parameters<typeof trustOf>[0];
  readonly clusters: readonly (Document<'Cluster'> | undefined)[];
  readonly networks: readonly (Document<'Network'> | undefined)[];
}

/**
 * Undefined for a machine that gets no certificate: without a document, without an agent, or with
 * `delivery: inline`.
 */
function askingOf(context: BootContext, member: Member, boot?: BootOf): Asking | undefined {
  const { catalog, agents } = context;
  const { entry, name, status } = member;
  const cluster = agents.agentCluster(name);
  if (entry === undefined || agents.hasAgent(name) !== true || isInline(context, name)) return undefined;
  const { document } = entry;
  const served = context.servedNetworks();
  const reserved = served.filter((one) => reservedAddress(member, one) !== undefined);
  const booted = boot?.network ?? status.seen.network ?? (reserved[0] ?? served[0])?.name;
  const named = <K extends 'Network' | 'Cluster' | 'Profile'>(kind: K, of: string | undefined) =>
    of === undefined ? undefined : catalog.get(kind, of)?.document;
  const clusters = [named('Cluster', cluster), named('Cluster', document.spec.cluster)];
  const networks = [...new Set([booted, ...reserved.map((one) => one.name)])].map((one) =>
    named('Network', one),
  );
  const profile = named('Profile', boot?.profile ?? profileOf(context, member, booted));
  return {
    documents: [document, profile, ...clusters, ...networks],
    clusters,
    networks,
  };
}

/**
 * The tier of trust of a machine in a boot; without one, what is known of it now. Undefined for a
 * machine that gets no certificate: without a document, of no cluster, or with `delivery: inline`.
 */
export function machineTrust(context: BootContext, member: Member, boot?: BootOf): Trust | undefined {
  const asking = askingOf(context, member, boot);
  if (asking === undefined) return undefined;
  return trustOf(asking.documents);
}

/** The CAs of TPMs, PEM, that the machine's Clusters and Networks give in a boot. */
export function vendorCasOf(context: BootContext, member: Member, boot: BootOf): readonly string[] {
  const { clusters = [], networks = [] } = askingOf(context, member, boot) ?? {};
  return [...clusters, ...networks].flatMap((one) => one?.spec.tpm?.vendorCAs ?? []);
}

/** What `muster explain` says of the machine's tier, and of a key that waits because of it. */
export function trustSteps(context: BootContext, member: Member | undefined, network: string | undefined) {
  const trust = member && machineTrust(context, member, network === undefined ? undefined : { network });
  if (trust === undefined) return [];
  const byDefault =
    trust.tier === 'approved'
      ? 'the default, because its Cluster does not name one; write trust there'
      : 'the default';
  const tpm = context.agents.tpm(member!.name);
  const waits = context.agents.waits(member!.name);
  return [
    { step: 'trust', result: `${trust.tier} (${trust.from === 'default' ? byDefault : trust.from})` },
    ...(tpm === undefined ? [] : [{ step: 'tpm', result: tpmText(tpm) }]),
    ...(waits ? [{ step: 'approval', result: 'waits for an operator', reason: waits }] : []),
  ];
}

function tpmText({ ek, from, since }: KnownTpm): string {
  const where = from === 'document' ? "named by the machine's document" : 'shown at an earlier boot';
  const when = since === undefined ? '' : `, recorded ${new Date(since).toISOString()}`;
  return `sha256:${ek}, ${where}${when}; only this TPM gets the machine's certificates`;
}

function profileOf(context: BootContext, member: Member, network: string | undefined): string | undefined {
  const selection = selectionOf(context, member, network);
  return selection.kind === 'selected' ? selection.profile.name : undefined;
}
