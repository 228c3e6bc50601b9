/**
 * Computed columns of lists: why a machine would be held at its next boot, its leased address, and
 * the state of images and clusters.
 */
import type { KnownTpm } from '../agent/identity/redeem-tpm.ts';
import type { Millis } from '../base/duration.ts';
import { formatIpv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { PowerState } from '../bmc/bmc.ts';
import type { PowerOrders } from '../bmc/orders.ts';
import type { ClusterAgents } from '../cluster/change/agents/builds.ts';
import type { ImageOf } from '../cluster/change/roll/images.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import { type ClusterCondition, clusterConditionOf } from '../cluster/health/condition.ts';
import type { HealthWatch } from '../cluster/health/health-watch.ts';
import type { Reason } from '../events/event.ts';
import { type Condition, conditionOf } from '../machines/condition.ts';
import type { Member, Roster } from '../machines/roster.ts';
import type { Trust } from '../machines/trust.ts';
import type { RunningBootService } from '../pxe/decide/boot-service.ts';
import type { LeaseBook } from '../pxe/dhcp/leases.ts';
import type { LiveCatalog } from '../resources/catalog.ts';
import type { ImageSpec } from '../resources/kinds.ts';
import type { ServedAgents } from './served-agents.ts';
import { type WithTimestamps, withTimestamps } from './times.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  readonly roster: Roster;
  readonly leases: LeaseBook;
  readonly preview: RunningBootService;
  readonly founding: FoundingOrders;
  /** The last look at the health of each cluster. */
  readonly checked: Pick<HealthWatch, 'recent'>;
  readonly imageOf: ImageOf;
  /** Which agents the machines of clusters run. */
  readonly builds: Pick<ClusterAgents, 'of'>;
  readonly agents: ServedAgents;
  /** What BMCs said last. */
  readonly power: Pick<PowerOrders, 'read'>;
}

/** The condition of a machine as the API shows it. */
export type ShownCondition = WithTimestamps<Condition, 'silentSince'>;

export interface Outlook {
  /** For a machine: what is so of it now. */
  readonly condition?: ShownCondition;
  /** For a cluster: what is so of it now. */
  readonly health?: ClusterCondition;
  /** For a machine: why it would be held if it booted now. */
  readonly outlook?: Reason;
  /**
   * For a machine that gets a certificate: what it has to show before, and which document says so.
   */
  readonly trust?: Trust;
  /** For a machine: why its agent waits for an operator. */
  readonly waits?: Reason;
  /** For a machine: the TPM without which nobody gets its certificates. */
  readonly tpm?: KnownTpm;
  /** For a machine with an agent: which one it runs, which it shall run, and what is due. */
  readonly build?: ReturnType<Deps['builds']['of']>;
  /** For a machine of a cluster: the image that it runs, and the one that it would boot. */
  readonly image?: ReturnType<ImageOf>;
  /** For a machine with a BMC: its power, and when that was read. */
  readonly power?: WithTimestamps<{ readonly state: PowerState; readonly at: Millis }, 'at'>;
  /** For a machine: the address of its lease. */
  readonly lease?: string;
  /** For an image: whether the asset store has all of its files. */
  readonly state?: 'complete' | 'incomplete';
}

/** The outlook of a machine. */
export function machineOutlook(
  name: string,
  {
    preview,
    roster,
    agents,
    builds,
    imageOf,
    leases,
    power,
  }: Pick<Deps, 'preview' | 'roster' | 'agents' | 'builds' | 'imageOf' | 'leases' | 'power'>,
): Outlook {
  const outlook = preview.outlook(name);
  const trust = preview.trust(name);
  const waits = agents.waits(name);
  const tpm = agents.tpm(name);
  const build = builds.of(name);
  const image = build && imageOf(name);
  const member = roster.get(name);
  const lease = leasedAddress(member, leases);
  const read = power.read(name);
  return {
    ...conditionIn(member, roster, waits),
    ...(read && { power: withTimestamps({ state: read.state, at: read.at as Millis }, 'at') }),
    ...(outlook && { outlook }),
    ...(trust && { trust }),
    ...(waits && { waits }),
    ...(tpm && { tpm }),
    ...(build && { build }),
    ...(image && (image.runs ?? image.wants) !== undefined && { image }),
    ...(lease !== undefined && { lease }),
  };
}

/** What of the outlook needs attention, and the address: less than {@link machineOutlook} costs. */
export function briefOutlook(
  name: string,
  { preview, roster, agents, leases }: Pick<Deps, 'preview' | 'roster' | 'agents' | 'leases'>,
): Pick<Outlook, 'condition' | 'outlook' | 'waits' | 'lease'> {
  const outlook = preview.outlook(name);
  const waits = agents.waits(name);
  const member = roster.get(name);
  const lease = leasedAddress(member, leases);
  return {
    ...conditionIn(member, roster, waits),
    ...(outlook && { outlook }),
    ...(waits && { waits }),
    ...(lease !== undefined && { lease }),
  };
}

/** The condition of a machine; nothing for one that is not known. */
export function conditionIn(
  member: Member | undefined,
  { heartbeats }: Pick<Roster, 'heartbeats'>,
  waits: Reason | undefined,
): Pick<Outlook, 'condition'> {
  if (member === undefined) return {};
  const condition = conditionOf(member.status, { heard: heartbeats.heard(member.name), waits });
  return { condition: withTimestamps(condition, 'silentSince') };
}

/** The address of the first lease of a machine's hardware addresses. */
export function leasedAddress(member: Member | undefined, leases: Deps['leases']): string | undefined {
  const macs = [...(member?.entry?.document.spec.macs ?? []), ...(member?.status.seen.macs ?? [])];
  for (const mac of macs) {
    const address = leases.addressOf(mac as Mac);
    if (address !== undefined) return formatIpv4(address);
  }
  return undefined;
}

/** The outlook of an image. */
export const imageOutlook = (spec: ImageSpec, { preview }: Pick<Deps, 'preview'>): Outlook => ({
  state: preview.missingFiles(spec).length === 0 ? 'complete' : 'incomplete',
});

/** The outlook of a cluster; empty for one without Kubernetes, which has no stages. */
export function clusterOutlook(
  name: string,
  { catalog, founding, checked }: Pick<Deps, 'catalog' | 'founding' | 'checked'>,
): Pick<Outlook, 'health'> {
  if (catalog.get('Cluster', name)?.document.spec.kubernetes === undefined) return {};
  const [isComplete, record] = [founding.isComplete(name), founding.record(name)];
  return { health: clusterConditionOf(isComplete, record, checked.recent(name)) };
}

/** Images that a Profile names and whose files are incomplete; `muster status` warns of them. */
export function incompleteImages(deps: Pick<Deps, 'catalog' | 'preview'>): readonly string[] {
  const named = new Set(deps.catalog.list('Profile').map(({ document }) => document.spec.image));
  return deps.catalog
    .list('Image')
    .map(({ document }) => document)
    .filter(({ metadata, spec }) => named.has(metadata.name) && deps.preview.missingFiles(spec).length > 0)
    .map(({ metadata }) => metadata.name);
}
