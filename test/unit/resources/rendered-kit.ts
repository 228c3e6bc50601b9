/**
 * Everything that machines get from a set of documents, as text: what a boot host without sockets
 * answers to their packets and requests, their configurations, and the plans of their agents.
 */
import { createHash } from 'node:crypto';
import { previewAgents } from '../../../src/agent/serve/agents.ts';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { ipv4 } from '../../../src/base/ipv4.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { Mac } from '../../../src/base/mac.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { NO_REPORTS } from '../../../src/cli/documents/local.ts';
import { renderAddon } from '../../../src/cluster/objects/addons/addon.ts';
import { previewLogins } from '../../../src/cluster/plan/logins.ts';
import { previewText } from '../../../src/cluster/plan/preview.ts';
import { followClusters } from '../../../src/cluster/resolve/resolved-clusters.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { render } from '../../../src/ignition/render.ts';
import { readInventory } from '../../../src/machines/inventory.ts';
import type { Identity } from '../../../src/machines/machine.ts';
import { followMemberships } from '../../../src/machines/membership.ts';
import { openRoster } from '../../../src/machines/roster.ts';
import { createBootService } from '../../../src/pxe/decide/boot-service.ts';
import { openLeaseBook } from '../../../src/pxe/dhcp/leases.ts';
import { PacketPipeline } from '../../../src/pxe/dhcp/packet-pipeline.ts';
import { loaderNames } from '../../../src/pxe/firmware/loaders.ts';
import { joinNetworks } from '../../../src/pxe/networks.ts';
import type { Document } from '../../../src/resources/kinds.ts';
import { webhookSecrets } from '../../../src/resources/webhook-secrets.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { catalogOf } from '../cluster/planner-kit.ts';
import { BIOS, dump, IPXE, message, UEFI } from '../pxe/dhcp/kit.ts';

/** The manifests that the add-ons of the documents may name, by their hashes. */
const MANIFESTS = new Map(
  ['manifest', 'changed'].map((name) => {
    const text = `{apiVersion: v1, kind: ConfigMap, metadata: {name: ${name}, namespace: site}, data: {a: b}}\n`;
    return [createHash('sha256').update(text).digest('hex'), Buffer.from(text)] as const;
  }),
);
export const [MANIFEST, OTHER_MANIFEST] = [...MANIFESTS.keys()] as [string, string];

/** Addresses of the boot host; documents select among them. */
const OWN = [
  { interface: 'eth1', address: ipv4('10.77.0.1') },
  { interface: 'eth1', address: ipv4('10.77.0.5') },
];
/** An unknown machine that has a lease. */
const LEASED = { mac: '52:54:00:bb:00:03' as Mac, address: '10.77.0.150' };
const STRANGERS = ['52:54:00:bb:00:01', '52:54:00:bb:00:02'] as Mac[];
/** What the agent of n3 reported. */
const INVENTORY = readInventory(`cpu threads 64
memory 263794236
disk NAME="nvme0n1" SIZE="960197124096" ROTA="0" TRAN="nvme" SERIAL="A" MODEL="SAMSUNG MZQL2960"
disk NAME="nvme1n1" SIZE="960197124096" ROTA="0" TRAN="nvme" SERIAL="B" MODEL="SAMSUNG MZQL2960"
nic eno1 52:54:00:aa:00:03 1 25000 bnxt_en
nic eno2 52:54:00:aa:00:04 1 25000 bnxt_en
lldp {"Neighbors":[${['eno1', 'eno2'].map((name, n) => `{"InterfaceName":"${name}","Neighbors":[{"PortID":"Ethernet${n}","SystemName":"leaf-3"}]}`).join()}]}
`)!;
const KNOWN = { machine: 'n3', at: millis(1_750_000_000_000), inventory: INVENTORY };
const inventoryOf = (machine: string) => (machine === 'n3' ? KNOWN : undefined);
const FILE = { path: '/', size: 0, modified: new Date(0) };

type BootHost = Awaited<ReturnType<typeof bootHost>>;

/** A boot host for one state of the documents, which are not checked. */
async function bootHost(documents: readonly Document[]) {
  const clock = new ManualClock(millis(1_750_000_000_000));
  const store = openMemoryStore();
  const log = silentLog;
  const metrics = createMetrics();
  const events = createEventLog({ metrics: createMetrics(), clock, log, perSubject: 100, subjects: 100 });
  const { catalog } = catalogOf(documents);
  const roster = await openRoster({ metrics: createMetrics(), store, catalog, events, clock, log });
  const leases = await openLeaseBook({ store, clock, events, metrics });
  const { networks } = joinNetworks({ documents: catalog.list('Network'), addresses: OWN, httpPort: 8080 });
  const loaders = loaderNames();
  const memberships = followMemberships(catalog);
  const boot = createBootService({
    agents: previewAgents({ memberships, clock }),
    catalog,
    memberships,
    roster,
    assets: {
      find: () => FILE,
      loader: (name) => (loaders.includes(name) ? FILE : undefined),
    },
    networks: () => networks,
    render,
    events,
    metrics,
    clock,
    ...NO_REPORTS,
    leasedAddresses: (mac) => (mac === LEASED.mac ? [LEASED.address] : []),
    inventories: { ...NO_REPORTS.inventories, get: inventoryOf, counting: inventoryOf },
  });
  const parts = { networks: () => networks, saw: () => {}, boot, leases, store, events, metrics, log, clock };
  return { networks, boot, pipeline: new PacketPipeline(parts) };
}

/** Sessions have random names. */
const settled = (text: string): string =>
  text.replace(/\/boot\/[\w-]{22}/g, '/boot/SESSION').replace(/"session":"[^"]*"/g, '');

/** What the agents of a cluster get once they are settled, without keys and certificates. */
function plans(documents: readonly Document[], cluster: string): string {
  const { catalog } = catalogOf(documents);
  const { resolved } = followClusters(catalog, followMemberships(catalog)).get(cluster) ?? {};
  if (resolved === undefined) return 'none';
  const given = {
    logins: previewLogins(resolved).logins,
    webhooks: webhookSecrets(resolved.apiServer),
    images: resolved.addons.map(({ images }) => images),
  };
  try {
    const addons = resolved.addons.map((addon) =>
      renderAddon(addon, (sha256) => MANIFESTS.get(sha256) ?? Buffer.from('')),
    );
    const texts = resolved.machines.map((machine) => previewText(resolved, machine, addons));
    return [JSON.stringify(given), ...texts].join('\n');
  } catch (error) {
    // A patch that does not fit: the boot host says so, and the plan ends with a hold.
    return (error as Error).message;
  }
}

/** The machines whose configurations are compared: one of each kind. */
const MACHINES = ['n1', 'n2', 'cp1', 'w1', 'e1', 'g1', 'e2'] as const;

const configurations = ({ boot }: BootHost, machines: readonly string[]): string =>
  machines
    .map((machine) => {
      try {
        return JSON.stringify(boot.render(machine).files);
      } catch (error) {
        return (error as Error).message;
      }
    })
    .join('\n');

/** A client, and what it sends. */
type Client = readonly [Mac, NonNullable<Parameters<typeof message>[1]>];
const CLIENTS = (
  ['52:54:00:aa:00:01', '52:54:00:aa:00:02', '52:54:00:aa:00:03', ...STRANGERS] as Mac[]
).flatMap((mac): Client[] => [
  [mac, { options: BIOS! }],
  [mac, { options: UEFI! }],
  [mac, { options: IPXE! }],
  [mac, { options: [[60, 'Linux']] }],
  [
    mac,
    {
      options: [
        [60, 'Linux'],
        [55, [1, 3, 6, 15, 26, 42]],
      ],
    },
  ],
  [
    mac,
    {
      options: [
        [60, 'Other'],
        [55, [1, 3, 6, 15, 26, 42, 224, 225, 226, 227, 228, 229]],
      ],
    },
  ],
]);

async function packets({ pipeline }: BootHost): Promise<string> {
  const said: string[] = [];
  const send = async (bytes: Buffer, over: { port?: 67 | 4011; relay?: string } = {}) => {
    const { port = 67, relay } = over;
    const source =
      relay === undefined ? { address: ipv4('0.0.0.0'), port: 68 } : { address: ipv4(relay), port: 67 };
    const step = await pipeline.receive({ bytes, interface: 'eth1', port, source });
    said.push(step.reply ? dump(step) : step.outcome);
    return step.reply?.packet;
  };
  for (const [mac, fields] of CLIENTS) {
    const offer = await send(message('DISCOVER', { ...fields, mac }));
    const server = offer?.options.get(54);
    if (offer === undefined || server === undefined) continue;
    const address = [24, 16, 8, 0].map((bits) => (offer.yiaddr >>> bits) & 255).join('.');
    await send(message('REQUEST', { ...fields, mac, address, server: [...server].join('.') }));
  }
  const own = { mac: '52:54:00:aa:00:01' as Mac };
  await send(message('REQUEST', { ...own, options: UEFI!, ciaddr: '10.77.0.11' }), { port: 4011 });
  await send(message('REQUEST', { mac: '52:54:00:cc:00:03' as Mac, address: '192.0.2.7' }));
  await send(message('DISCOVER', { ...own, giaddr: '10.99.0.1' }), { relay: '10.99.0.1' });
  return said.join('\n').replaceAll(/^[0-9a-f]{1,64}$/gm, '');
}

async function scripts({ boot, networks }: BootHost): Promise<string> {
  const ask = async (bootMac: Mac, peer: string, identity: Partial<Identity> = {}) => {
    const { script, decision } = await boot.script({
      boot: undefined,
      bootMac,
      identity: { macs: [bootMac], ...identity },
      arch: 'x86_64',
      firmware: 'uefi',
      peer,
      baseUrl: 'http://10.77.0.1:8080',
      network: networks[0],
    });
    return `${JSON.stringify(decision)}\n${script}`;
  };
  const mac = (end: string): Mac => `52:54:00:${end}` as Mac;
  const asked = [
    await ask(mac('aa:00:01'), '10.77.0.11'),
    await ask(mac('aa:00:02'), '10.77.0.12'),
    await ask(mac('aa:00:03'), '10.77.0.13', {
      manufacturer: 'ACME',
      product: 'Rocket',
      serial: 'SN-4711-C',
    }),
    await ask(mac('aa:00:11'), '10.77.0.21'),
    await ask(mac('aa:00:12'), '10.77.0.22'),
    await ask(LEASED.mac, LEASED.address),
    // n1 with a network interface that no document names
    await ask(mac('cc:00:02'), '10.77.0.90', {
      serial: 'SN-4711-A',
      uuid: '4c4c4544-0042-3510-8051-b7c04f4d3531',
    }),
  ];
  return asked.join('\n');
}

const explained = ({ boot }: BootHost, machines: readonly string[]): string =>
  JSON.stringify(machines.map((machine) => boot.explain({ machine })));

const ofHost =
  (part: (host: BootHost, machines: readonly string[]) => string | Promise<string>) =>
  async (documents: readonly Document[], name: string): Promise<string> => {
    const isMachine = documents.some(({ kind, metadata }) => kind === 'Machine' && metadata.name === name);
    return settled(await part(await bootHost(documents), isMachine ? [name] : MACHINES));
  };

/**
 * All that is observed, by the name of the part. The name is that of the document that changes: of
 * the Cluster whose plans are shown, or of the only Machine whose configuration is.
 */
export const PARTS = {
  plans,
  configurations: ofHost(configurations),
  packets: ofHost(packets),
  scripts: ofHost(scripts),
  explained: ofHost(explained),
} as const;
export type Part = keyof typeof PARTS;
