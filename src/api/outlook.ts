/**
 * What lists show of documents besides what is written and recorded: why a machine would be held,
 * its leased address, and the state of images and clusters.
 */
import { formatIpv4 } from '../base/ipv4.ts';
import type { FoundingRecord } from '../cluster/etcd/founding.ts';
import type { Reason } from '../events/event.ts';
import type { ImageSpec } from '../resources/kinds.ts';
import type { ApiDeps } from './deps.ts';

export const CLUSTER_STATES = [
  'incomplete',
  'not-founded',
  'founding',
  'founded',
  'changing',
  'restoring',
  'reset',
] as const;
export type ClusterState = (typeof CLUSTER_STATES)[number];

export interface Outlook {
  /** Machine: why it would be held if it booted now. */
  readonly outlook?: Reason;
  /** Machine: the address that it has a lease on. */
  readonly lease?: string;
  /** Image: whether all of its files are here. Cluster: how far it is. */
  readonly state?: 'complete' | 'incomplete' | ClusterState;
}

/** The address that each hardware address has a lease on now. */
export function leasedAddresses({ leases }: Pick<ApiDeps, 'leases'>): ReadonlyMap<string, string> {
  return new Map(
    leases
      .list()
      .flatMap(({ mac, state, address }) => (state === 'bound' ? [[mac, formatIpv4(address)]] : [])),
  );
}

/** `leased` comes from {@link leasedAddresses}, made once for a list. */
export function machineOutlook(
  name: string,
  { preview, roster }: Pick<ApiDeps, 'preview' | 'roster'>,
  leased: ReadonlyMap<string, string>,
): Outlook {
  const outlook = preview.outlook(name);
  const member = roster.get(name);
  const macs = [...(member?.entry?.document.spec.macs ?? []), ...(member?.status.seen.macs ?? [])];
  const lease = macs.map((mac) => leased.get(mac)).find((address) => address !== undefined);
  return { ...(outlook && { outlook }), ...(lease !== undefined && { lease }) };
}

export const imageOutlook = (spec: ImageSpec, { preview }: Pick<ApiDeps, 'preview'>): Outlook => ({
  state: preview.missingFiles(spec).length === 0 ? 'complete' : 'incomplete',
});

/** Empty for a Cluster without Kubernetes: there is nothing to found. */
export function clusterOutlook(
  name: string,
  { catalog, founding }: Pick<ApiDeps, 'catalog' | 'founding'>,
): Outlook {
  if (catalog.get('Cluster', name)?.document.spec.kubernetes === undefined) return {};
  return { state: founding.isComplete(name) ? stateOf(founding.record(name)) : 'incomplete' };
}

function stateOf(record: FoundingRecord | undefined): ClusterState {
  if (record === undefined) return 'not-founded';
  if (record.reset) return 'reset';
  if (record.restoring) return 'restoring';
  if (!record.founded) return 'founding';
  const changing = record.replacing !== undefined || Object.keys(record.leaving ?? {}).length > 0;
  return changing ? 'changing' : 'founded';
}

/** Images that a Profile names and whose files are not all here: what `muster status` warns of. */
export function incompleteImages(deps: Pick<ApiDeps, 'catalog' | 'preview'>): readonly string[] {
  const named = new Set(deps.catalog.list('Profile').map(({ document }) => document.spec.image));
  return deps.catalog
    .list('Image')
    .map(({ document }) => document)
    .filter(({ metadata, spec }) => named.has(metadata.name) && deps.preview.missingFiles(spec).length > 0)
    .map(({ metadata }) => metadata.name);
}
