/**
 * A boot service with real roster, catalogue, store and event log, and a clock that tests advance.
 */

import type { AgentBoot, AgentsDeps } from '../../../../src/agent/serve/agents.ts';
import type { ManualClock } from '../../../../src/base/clock.ts';
import { ipv4 } from '../../../../src/base/ipv4.ts';
import type { Mac } from '../../../../src/base/mac.ts';
import type { Metrics } from '../../../../src/base/metrics.ts';
import { NO_REPORTS } from '../../../../src/cli/documents/local.ts';
import { createEventLog, type MemoryEventLog } from '../../../../src/events/log.ts';
import { render } from '../../../../src/ignition/render.ts';
import { forgetDeleted, type Inventories, openInventories } from '../../../../src/machines/inventories.ts';
import type { Identity } from '../../../../src/machines/machine.ts';
import type { Roster } from '../../../../src/machines/roster.ts';
import { openSecrets } from '../../../../src/pki/secrets.ts';
import type { Vault } from '../../../../src/pki/vault.ts';
import type { Assets } from '../../../../src/pxe/assets/assets.files.ts';
import type { AssetStore } from '../../../../src/pxe/assets/assets.ts';
import type { BootAnswer, BootStep, ScriptAnswer } from '../../../../src/pxe/boot.ts';
import type { BootClient } from '../../../../src/pxe/client.ts';
import { createBootService, type RunningBootService } from '../../../../src/pxe/decide/boot-service.ts';
import type { ServedNetwork } from '../../../../src/pxe/network.ts';
import { joinNetworks } from '../../../../src/pxe/networks.ts';
import type { LiveCatalog } from '../../../../src/resources/catalog.ts';
import type { Kind } from '../../../../src/resources/kinds.ts';
import type { Store } from '../../../../src/store/store.ts';
import { openRecords } from '../../../../src/wiring/state.ts';
import { ALONE, NO_AGENTS } from '../../agent/nobody.ts';
import { wired } from '../../wired.ts';

export const HASH = (digit: string): string => digit.repeat(64);

export const document = <S extends object>(
  kind: Kind,
  name: string,
  spec: S,
  labels?: Record<string, string>,
) => ({
  apiVersion: 'muster/v1',
  kind,
  metadata: { name, ...(labels ? { labels } : {}) },
  // A Cluster has to name a tier of trust.
  spec: kind === 'Cluster' && 'kubernetes' in spec ? { trust: 'segment', ...spec } : spec,
});

export const NETWORK = document('Network', 'rack', {
  subnet: '10.77.0.0/24',
  dhcp: { mode: 'server', pools: [{ start: '10.77.0.100', end: '10.77.0.200' }] },
  gateway: '10.77.0.1',
});
export const IMAGE = document('Image', 'debian', {
  os: 'debian',
  arch: 'x86_64',
  kernel: { sha256: HASH('a'), name: 'vmlinuz' },
  initrds: [{ sha256: HASH('b'), name: 'initrd' }],
  root: { sha256: HASH('c'), name: 'root.squashfs' },
  configFormat: 'cloud-init',
  cloudInitVersion: '22.4',
});
export const WORKER = document('Profile', 'worker', {
  image: 'debian',
  kernelArguments: ['console=ttyS0'],
  config: { files: [{ path: '/etc/motd', content: 'I am ${machine.name}\n' }] },
});
export const machine = (name: string, macs: readonly string[], more: object = {}) =>
  document('Machine', name, { macs, ...more });

export const MAC1 = '52:54:00:aa:00:01' as Mac;
export const MAC2 = '52:54:00:aa:00:02' as Mac;
export const MAC3 = '52:54:00:aa:00:03' as Mac;

/** The address that this MAC leases; the last digit makes the difference. */
export const leaseFor = (mac: Mac): string => `10.77.0.${100 + Number.parseInt(mac.slice(-1), 16)}`;

export interface World {
  readonly clock: ManualClock;
  readonly store: Store;
  readonly catalog: LiveCatalog;
  readonly roster: Roster;
  readonly inventories: Inventories;
  readonly events: MemoryEventLog;
  readonly metrics: Metrics;
  readonly boot: RunningBootService;
  readonly network: ServedNetwork;
  /** Hashes and loader names that are present; tests change them. */
  readonly assets: Set<string>;
  /**
   * The address that a MAC holds a lease on. A DISCOVER and REQUEST lease {@link leaseFor} where
   * Muster gives all addresses; tests change it.
   */
  readonly leases: Map<Mac, string>;
  apply(...documents: object[]): Promise<void>;
  /** The answer to one DHCP packet. */
  ask(client: Partial<BootClient> & { readonly mac: Mac }, step?: BootStep): BootAnswer;
  /** DISCOVER and REQUEST. */
  exchange(client: Partial<BootClient> & { readonly mac: Mac }): BootAnswer;
  /**
   * The script request that iPXE sends after DHCP gave it a session, from the address that it
   * leases. `session`: an id, which stands for the session's name, or a name.
   */
  fetch(bootMac: Mac, session: string | undefined, more?: FetchMore): Promise<ScriptAnswer>;
  /** ROM, loader, iPXE, script: a whole boot up to its script. */
  powerOn(mac: Mac, more?: FetchMore): Promise<ScriptAnswer>;
  kinds(subject: string): string[];
  /** The same store and documents under a new process. */
  restart(): Promise<World>;
}

interface FetchMore extends Partial<Identity> {
  readonly peer?: string;
  readonly arch?: 'x86_64' | 'aarch64';
}

export async function world(
  documents: readonly object[] = [],
  kept: {
    store?: Store;
    vault?: Vault | undefined;
    clock?: ManualClock | undefined;
    assets?: Set<string>;
    leases?: Map<Mac, string>;
    /** Files of a real store, instead of names that are present. */
    files?: Assets;
    dataDiskOf?: (machine: string) => string | undefined;
    /** Opens the agents with these parts. */
    agents?: (parts: AgentsDeps & Awaited<ReturnType<typeof openRecords>>) => Promise<AgentBoot>;
  } = {},
): Promise<World> {
  const { common, store, vault, closing, clock } = wired(kept);
  const { log, metrics } = common;
  const events = createEventLog({ metrics, clock, log, perSubject: 100, subjects: 50_000 });
  const secrets = openSecrets({ store, vault });
  const of = { store, vault, secrets, events, directory: undefined, checkLate: undefined };
  const records = await openRecords(common, of, closing);
  const { catalog, memberships, secretUsers, roster } = records;
  if (documents.length > 0) await catalog.apply(documents);
  const assets =
    kept.assets ??
    new Set([HASH('a'), HASH('b'), HASH('c'), 'undionly.kpxe', 'ipxe.pxe', 'ipxe.efi', 'snponly.efi']);
  const leases = kept.leases ?? new Map<Mac, string>();
  const file = (name: string) =>
    assets.has(name) ? { path: `/srv/${name}`, size: 1, modified: new Date(0) } : undefined;
  const store_: AssetStore = { find: file, loader: file, loaders: () => [...assets] };
  const networks = () => joined.networks;
  const joined = joinNetworks({
    documents: catalog.list('Network'),
    addresses: [{ interface: 'eth1', address: ipv4('10.77.0.1') }],
    httpPort: 8080,
  });
  const network = joined.networks[0]!;
  const inventories = await openInventories({ store, clock, log, roster });
  const unfollow = forgetDeleted(inventories, { catalog, roster, log });
  const agents = await kept.agents?.({
    ...ALONE,
    ...records,
    ...{ store, secrets, secretUsers, events, clock, log, metrics, witnesses: clock },
  });
  const boot = createBootService({
    ...NO_REPORTS,
    agents: agents ?? NO_AGENTS,
    catalog,
    memberships,
    roster,
    assets: store_,
    networks,
    render,
    events,
    metrics,
    clock,
    inventories,
    ...(kept.files && {
      assets: kept.files,
      readAsset: (sha256: string, at: number, octets: number) => kept.files!.octets(sha256, at, octets),
    }),
    ...(kept.dataDiskOf && { dataDiskOf: kept.dataDiskOf }),
    leasedAddresses: (mac) => [leases.get(mac) ?? []].flat(),
    leaseHolder: (address) => [...leases].find(([, leased]) => leased === address)?.[0],
  });
  const ask = (client: Partial<BootClient> & { readonly mac: Mac }, step: BootStep = 'offer') =>
    boot.answer({ stage: 'pxe', archCode: 0, arch: 'x86_64', firmware: 'bios', ...client }, network, step);
  const exchange = (client: Partial<BootClient> & { readonly mac: Mac }) => {
    ask(client, 'offer');
    if (network.mode === 'server') leases.set(client.mac, leases.get(client.mac) ?? leaseFor(client.mac));
    return ask(client, 'ack');
  };
  const fetch = (bootMac: Mac, session: string | undefined, more: FetchMore = {}) => {
    const { peer = leases.get(bootMac) ?? leaseFor(bootMac), arch = 'x86_64', ...identity } = more;
    return boot.script({
      boot: session && (roster.sessions.get(session)?.name ?? session),
      bootMac,
      identity: { macs: [bootMac], ...identity },
      arch,
      firmware: 'bios',
      peer,
      baseUrl: 'http://10.77.0.1:8080',
      network,
    });
  };
  return {
    clock,
    store,
    catalog,
    roster,
    inventories,
    events,
    metrics,
    boot,
    network,
    assets,
    leases,
    async apply(...more) {
      await catalog.apply(more);
    },
    ask,
    exchange,
    fetch,
    powerOn(mac, more) {
      exchange({ mac });
      const { session } = exchange({ mac, stage: 'ipxe' });
      return fetch(mac, session, more);
    },
    kinds: (subject) => events.list({ subject }).map((event) => event.kind),
    async restart() {
      boot.close();
      unfollow();
      await closing.disposeAsync();
      return world([], { store, vault, clock, assets, leases, ...(kept.files && { files: kept.files }) });
    },
  };
}
