/**
 * Opens a directory of documents without a server: the same catalogue, roster, lease book and boot
 * service, on a store in memory and with a stopped clock. `render -f` and `explain --packet` use
 * it.
 */

import { previewAgents } from '../../agent/serve/agents.ts';
import { ManualClock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { broadcastOf, cidr, contains, type Ipv4, ipv4 } from '../../base/ipv4.ts';
import { silentLog } from '../../base/log.ts';
import { createMetrics, type Metrics } from '../../base/metrics.ts';
import { checkAll } from '../../cluster/resolve/check-documents.ts';
import type { EventLog } from '../../events/event.ts';
import { createEventLog } from '../../events/log.ts';
import { render } from '../../ignition/render.ts';
import { followMemberships } from '../../machines/membership.ts';
import { openRoster, type Roster } from '../../machines/roster.ts';
import type { AssetStore, ServedFile } from '../../pxe/assets/assets.ts';
import type { BootDeps } from '../../pxe/decide/boot-context.ts';
import { createBootService, type RunningBootService } from '../../pxe/decide/boot-service.ts';
import { type LeaseBook, openLeaseBook } from '../../pxe/dhcp/leases.ts';
import { loaderNames } from '../../pxe/firmware/loaders.ts';
import type { ServedNetwork } from '../../pxe/network.ts';
import { joinNetworks } from '../../pxe/networks.ts';
import { openCatalog } from '../../resources/catalog.files.ts';
import type { Catalog, Entry } from '../../resources/catalog.ts';
import { API_VERSION, type ImageSpec, type Kind } from '../../resources/kinds.ts';
import { openMemoryStore } from '../../store/memory.ts';
import type { Store } from '../../store/store.ts';

export interface LocalWorld {
  readonly catalog: Catalog;
  readonly roster: Roster;
  readonly leases: LeaseBook;
  readonly boot: RunningBootService;
  readonly networks: readonly ServedNetwork[];
  readonly events: EventLog;
  readonly metrics: Metrics;
  readonly store: Store;
  readonly clock: ManualClock;
  /** The assumptions that were made because this host is not the boot host. */
  readonly suppositions: readonly string[];
  close(): Promise<void>;
}

/**
 * Every file of an image and every loader counts as present, because nothing is served from this
 * host.
 */
const ALL_THERE: ServedFile = { path: '/', size: 0, modified: new Date(0) };
/** No machine has reported anything here, and none has booted. */
export const NO_REPORTS = {
  consoles: { take: async () => true },
  leasedAddresses: () => [],
  leaseHolder: () => undefined,
  neighbour: () => 'host',
  inventories: {
    get: () => undefined,
    counting: () => undefined,
    settle: async () => {},
    claim: async () => false,
  },
  dataDiskOf: () => undefined,
  readAsset: async () => undefined,
} satisfies Partial<BootDeps>;

const NO_HASH = '0'.repeat(64);

/**
 * Opens the documents of `directory`. The server's address in a network is `serverAddress` if it is
 * in that network, else the document's `address`, else the first host address but the gateway.
 *
 * @throws {MusterError} with the faults of the documents
 */
export async function openLocal(options: {
  readonly directory: string;
  readonly now: Millis;
  readonly serverAddress?: Ipv4;
}): Promise<LocalWorld> {
  const clock = new ManualClock(options.now);
  const metrics = createMetrics();
  const store = openMemoryStore();
  const log = silentLog;
  const events = createEventLog({ clock, log, metrics, perSubject: 1000, subjects: 1000 });
  const stop = new AbortController();
  const documents = await openCatalog({
    directory: options.directory,
    store,
    events,
    log,
    clock,
    metrics,
    signal: stop.signal,
    checkConfig: checkAll,
  });
  stop.abort();
  refuse(documents.faults());
  const suppositions: string[] = [];
  const catalog = withImages(documents, suppositions);
  const addresses = documents.list('Network').map(({ document }) => ({
    interface: document.spec.interface ?? `net-${document.metadata.name}`,
    address: addressIn(document.spec, options.serverAddress),
  }));
  const networks = joinNetworks({ documents: documents.list('Network'), addresses, httpPort: 8080 }).networks;
  const roster = await openRoster({ store, catalog, events, clock, log, metrics });
  const leases = await openLeaseBook({ store, clock, events, metrics });
  const loaders = new Map(loaderNames().map((name) => [name, ALL_THERE]));
  const assets: AssetStore = {
    find: () => ALL_THERE,
    loader: (name) => loaders.get(name),
    loaders: () => [...loaders.keys()],
  };
  const memberships = followMemberships(catalog);
  const boot = createBootService({
    agents: previewAgents({ memberships, clock }),
    catalog,
    memberships,
    roster,
    assets,
    networks,
    render,
    events,
    metrics,
    clock,
    ...NO_REPORTS,
  });
  return {
    catalog,
    roster,
    leases,
    boot,
    networks,
    events,
    metrics,
    store,
    clock,
    suppositions,
    async close() {
      boot.close();
      memberships.close();
      leases.close();
      await roster.close();
      await documents.close();
      await store.close();
    },
  };
}

function refuse(faults: readonly Fault[]): void {
  if (faults.length > 0) throw new MusterError(faults[0]!.code, faults[0]!.message, { faults });
}

function addressIn(
  spec: {
    readonly subnet: string;
    readonly address?: string | undefined;
    readonly gateway?: string | undefined;
  },
  wanted: Ipv4 | undefined,
): Ipv4 {
  const subnet = cidr(spec.subnet);
  if (wanted !== undefined && contains(subnet, wanted)) return wanted;
  if (spec.address !== undefined) return ipv4(spec.address);
  const first = subnet.base + 1;
  const gateway = spec.gateway === undefined ? undefined : ipv4(spec.gateway);
  return (first === gateway && first + 1 < broadcastOf(subnet) ? first + 1 : first) as Ipv4;
}

/**
 * Adds Images that are named but missing. An Image that was built on the boot host and applied
 * there is in no file; a plain Image with cloud-init takes its place.
 */
function withImages(catalog: Catalog, suppositions: string[]): Catalog {
  const made = new Map<string, Entry<'Image'>>();
  for (const { document } of catalog.list('Profile')) {
    const { image } = document.spec;
    if (image === undefined || made.has(image) || catalog.get('Image', image)) continue;
    suppositions.push(`there is no Image "${image}" here; assuming one with cloud-init`);
    made.set(image, {
      document: { apiVersion: API_VERSION, kind: 'Image', metadata: { name: image }, spec: SUPPOSED_IMAGE },
      origin: { from: 'api', revision: 0 },
    });
  }
  return {
    get: <K extends Kind>(kind: K, name: string) =>
      catalog.get(kind, name) ?? (kind === 'Image' ? (made.get(name) as Entry<K> | undefined) : undefined),
    list: <K extends Kind>(kind: K) =>
      kind === 'Image'
        ? [...catalog.list(kind), ...([...made.values()] as unknown as Entry<K>[])]
        : catalog.list(kind),
    subscribe: (listener) => catalog.subscribe(listener),
  };
}

const SUPPOSED_IMAGE: ImageSpec = {
  os: 'debian',
  arch: 'x86_64',
  kernel: { sha256: NO_HASH },
  configFormat: 'cloud-init',
};
