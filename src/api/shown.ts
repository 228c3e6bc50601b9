/** Documents as the API shows them: the operator's text, and `status`, what the server knows. */

import type { PowerOrders } from '../bmc/orders.ts';
import type { ClusterAgents } from '../cluster/change/agents/builds.ts';
import type { ImageOf } from '../cluster/change/roll/images.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import type { HealthWatch } from '../cluster/health/health-watch.ts';
import type { Inventories } from '../machines/inventories.ts';
import type { KnownMachine } from '../machines/machine.ts';
import type { Member, Roster } from '../machines/roster.ts';
import type { RunningBootService } from '../pxe/decide/boot-service.ts';
import { selectionOf } from '../pxe/decide/selection.ts';
import type { LeaseBook } from '../pxe/dhcp/leases.ts';
import type { Entry, LiveCatalog, Origin } from '../resources/catalog.ts';
import {
  API_VERSION,
  type ClusterSpec,
  type Document,
  type ImageSpec,
  type Kind,
  type MachineSpec,
  type WebhookSpec,
} from '../resources/kinds.ts';
import { type Membership, membershipsIn } from '../resources/membership.ts';
import { covers, mayApprove, type Principal } from './access.ts';
import type { Parsed } from './contract/contract.ts';
import { placing as placingRoles } from './find-machine.ts';
import { briefOutlook, clusterOutlook, imageOutlook, machineOutlook, type Outlook } from './outlook.ts';
import type { ServedAgents } from './served-agents.ts';
import { briefStatus, type StatusView, statusView } from './times.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  readonly roster: Roster;
  readonly leases: LeaseBook;
  readonly inventories: Inventories;
  readonly preview: RunningBootService;
  readonly founding: FoundingOrders;
  readonly checked: Pick<HealthWatch, 'recent'>;
  readonly imageOf: ImageOf;
  /** Which agents the machines of clusters run. */
  readonly builds: Pick<ClusterAgents, 'of'>;
  readonly agents: ServedAgents;
  /** What BMCs said last. */
  readonly power: Pick<PowerOrders, 'read'>;
}

export type ShownDeps = Pick<
  Deps,
  | 'catalog'
  | 'roster'
  | 'inventories'
  | 'preview'
  | 'agents'
  | 'builds'
  | 'imageOf'
  | 'leases'
  | 'founding'
  | 'checked'
  | 'power'
>;

/** What documents say of a machine: its profile, named or selected, and the cluster it is in. */
interface Placed {
  readonly profile?: string;
  readonly member?: Membership;
}

/** A machine's status as the API shows it. */
type MachineShown = StatusView & Placed;

/**
 * A document as the API shows it: the operator's text, and under `status` what the server knows of
 * it.
 */
export interface ShownDocument {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: Kind;
  readonly metadata: Document['metadata'];
  /** Absent for a machine that was only seen. */
  readonly spec?: Document['spec'];
  readonly status: Partial<MachineShown> & Outlook & { readonly origin?: Origin };
}
/** The same as a client has it. */
export type Shown = Parsed<ShownDocument>;

const membershipsOf = ({ catalog }: ShownDeps): ReadonlyMap<string, Membership> =>
  membershipsIn(catalog.list('Cluster').map(({ document }) => document));

/**
 * Returns a function from a machine to the profile that its document names, or that selects it, and
 * its membership. Profiles and Clusters are listed only once.
 */
function placing(deps: ShownDeps): (member: Member) => Placed {
  const { catalog, inventories } = deps;
  const memberships = membershipsOf(deps);
  const profiles = catalog
    .list('Profile')
    .map(({ document }) => ({ name: document.metadata.name, spec: document.spec }));
  return (member) => {
    const found = selectionOf({ profiles: () => profiles, inventories }, member, member.status.seen.network);
    const membership = memberships.get(member.name);
    return {
      ...(found.kind === 'selected' && { profile: found.profile.name }),
      ...(membership && { member: membership }),
    };
  };
}

function statusOf(
  name: string,
  { roster }: ShownDeps,
  placed: (member: Member) => Placed,
): MachineShown | undefined {
  const member = roster.get(name);
  return member && { ...statusView(roster.view(member).status), ...placed(member) };
}

export function shown(entry: Entry, deps: ShownDeps, placed = placing(deps)): ShownDocument {
  const status =
    entry.document.kind === 'Machine' ? statusOf(entry.document.metadata.name, deps, placed) : {};
  const more = outlookOf(entry.document, deps);
  return { ...entry.document, status: { ...status, ...more, origin: entry.origin } };
}

/** What of a document those see who may not change it. Others see all of it. */
export const visibleTo =
  (principal: Principal | undefined, deps: Pick<ShownDeps, 'agents' | 'roster'>) =>
  (document: ShownDocument): ShownDocument => {
    const mayChange = principal === undefined || principal.grants.some(({ role }) => covers(role, 'admin'));
    const said = withoutWaiting(document, principal, deps);
    return mayChange ? said : { ...said, ...withoutPaths(said) };
  };

/** A machine without its log, as its console, while its key waits for somebody else to approve. */
function withoutWaiting(
  document: ShownDocument,
  principal: Principal | undefined,
  deps: Pick<ShownDeps, 'agents' | 'roster'>,
): ShownDocument {
  const { logTail, ...status } = document.status;
  const { name } = document.metadata;
  if (logTail === undefined || deps.agents.waits(name) === undefined) return document;
  return mayApprove(principal, name, placingRoles(deps)) ? document : { ...document, status };
}

/** Addresses of Webhooks and hooks without path and query, which often are their only secret. */
function withoutPaths({ kind, spec }: ShownDocument): Pick<ShownDocument, 'spec'> {
  if (kind === 'Webhook') return { spec: withoutPath(spec as WebhookSpec) };
  const { hooks, ...rest } = (spec ?? {}) as ClusterSpec;
  return kind === 'Cluster' && hooks ? { spec: { ...rest, hooks: hooks.map(withoutPath) } } : {};
}

function withoutPath<T extends { readonly url: string }>(spec: T): T {
  const { origin, pathname, search } = new URL(spec.url);
  return pathname === '/' && search === '' ? spec : { ...spec, url: `${origin}/…` };
}

function outlookOf(document: Document, deps: ShownDeps): Outlook {
  switch (document.kind) {
    case 'Machine':
      return machineOutlook(document.metadata.name, deps);
    case 'Image':
      return imageOutlook(document.spec as ImageSpec, deps);
    case 'Cluster':
      return clusterOutlook(document.metadata.name, deps);
    default:
      return {};
  }
}

export function shownUnwritten(
  { name, status }: KnownMachine,
  deps: ShownDeps,
  member = membershipsOf(deps).get(name),
): ShownDocument {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name },
    status: { ...statusView(status), ...(member && { member }), ...machineOutlook(name, deps) },
  };
}

/** Sorted names of all documents of a kind, and of machines without a document. */
export function namesOf(kind: Kind, { catalog, roster }: ShownDeps): string[] {
  const written = catalog.list(kind).map(({ document }) => document.metadata.name);
  if (kind !== 'Machine') return written;
  const seen = roster.list().flatMap(({ name, spec }) => (spec === undefined ? [name] : []));
  return seen.length === 0 ? written : [...written, ...seen].sort();
}

/** Returns a function from a name to the document or the machine that was seen, as it is shown. */
export function showing(kind: Kind, deps: ShownDeps): (name: string) => ShownDocument | undefined {
  const placed = placing(deps);
  return (name) => {
    const entry = deps.catalog.get(kind, name);
    if (entry) return shown(entry, deps, placed);
    const member = kind === 'Machine' ? deps.roster.get(name) : undefined;
    return member && shownUnwritten(deps.roster.view(member), deps, placed(member).member);
  };
}

/**
 * Returns a function from a name to what a table of machines shows of one, which takes half of the
 * time and of the octets. A machine without a document is shown whole: a form that accepts it needs
 * the rest.
 */
export function showingBriefly(deps: ShownDeps): (name: string) => ShownDocument | undefined {
  const whole = showing('Machine', deps);
  const placed = placing(deps);
  return (name) => {
    const member = deps.roster.get(name);
    if (member?.entry === undefined) return whole(name);
    const { metadata, spec } = member.entry.document;
    return {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata,
      spec: briefSpec(spec),
      status: {
        ...briefStatus(member.status),
        ...placed(member),
        ...briefOutlook(name, deps),
      },
    };
  };
}

const briefSpec = ({ macs, profile, cluster, pool, addresses }: MachineSpec): MachineSpec => ({
  ...(macs && { macs }),
  ...(profile !== undefined && { profile }),
  ...(cluster !== undefined && { cluster }),
  ...(pool !== undefined && { pool }),
  ...(addresses && { addresses }),
});
