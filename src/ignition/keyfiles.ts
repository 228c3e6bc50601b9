/**
 * Interfaces as NetworkManager's keyfiles, for Fedora CoreOS and its relatives.
 *
 * @see nm-settings-keyfile(5)
 */
import { parseDuration } from '../base/duration.ts';
import { parseMac } from '../base/mac.ts';
import { isMade, type NodeInterface } from '../resources/node-network.ts';
import { asksDhcp4, entryOf, isBare, type Link, linksOf, madeMac } from './links.ts';
import type { NetworkFault } from './network-faults.ts';
import { networkdFiles, sections } from './networkd.ts';
import type { PlainFile } from './secrets.ts';

/** Operating systems that use NetworkManager. */
const NETWORK_MANAGER = new Set([
  'fedora-coreos',
  'fcos',
  'rhcos',
  'scos',
  'fedora',
  'centos',
  'rhel',
  'rocky',
  'almalinux',
]);

export const usesNetworkManager = (os: string): boolean => NETWORK_MANAGER.has(os);

/** Files that configure `interfaces` on an operating system of family `os`. */
export function networkFiles(
  interfaces: readonly NodeInterface[],
  os: string,
  bootMac: string | undefined,
): readonly PlainFile[] {
  if (!usesNetworkManager(os)) return networkdFiles(interfaces, { prefix: '20', bootMac });
  return linksOf(interfaces).map((link) => keyfile(link, interfaces, bootMac));
}

function keyfile(link: Link, interfaces: readonly NodeInterface[], bootMac: string | undefined): PlainFile {
  const lines = [
    ...connection(link),
    ...device(link, interfaces, bootMac),
    ...ipv4Section(link),
    ...ipv6Section(link),
  ];
  // NetworkManager ignores keyfiles that other users may read.
  return {
    path: `/etc/NetworkManager/system-connections/${link.name}.nmconnection`,
    mode: '0600',
    content: sections(lines),
  };
}

function connection({ name, config: one, master }: Link): readonly string[] {
  const type = one.bond ? 'bond' : one.vlan ? 'vlan' : one.bridge ? 'bridge' : 'ethernet';
  return [
    '[connection]',
    `id=${name}`,
    `type=${type}`,
    // A hardware address, if the document has one, matches whatever name the kernel gave.
    ...(one.mac && !isMade(one) ? [] : [`interface-name=${one.name}`]),
    'autoconnect-priority=10',
    ...(master ? [`master=${master.name}`, `slave-type=${master.kind}`] : []),
  ];
}

/**
 * The fields that NetworkManager takes only by name (`[vlan] parent`, `[bond] primary`) and that
 * the documents give by the MAC address of an interface without a name.
 */
export function keyfileFaults(interfaces: readonly NodeInterface[]): readonly NetworkFault[] {
  return interfaces.flatMap(({ vlan, bond }, n) =>
    (
      [
        [['vlan', 'link'], vlan?.link],
        [['bond', 'primary'], bond?.primary],
      ] as const
    ).flatMap(([path, reference]) =>
      reference === undefined || nameOf(interfaces, reference) !== undefined
        ? []
        : [
            {
              path: [n, ...path],
              message: `NetworkManager finds this interface only by name: give the interface ${reference} a name`,
            },
          ],
    ),
  );
}

/** The name of the interface that a reference means, where documents say it. */
function nameOf(interfaces: readonly NodeInterface[], reference: string): string | undefined {
  const n = entryOf(interfaces, reference);
  if (n !== undefined) return interfaces[n]!.name;
  return parseMac(reference) === undefined ? reference : undefined;
}

const milliseconds = (text: string): number => Math.round(parseDuration(text)!);

function device(
  { config: one }: Link,
  interfaces: readonly NodeInterface[],
  bootMac: string | undefined,
): readonly string[] {
  const mac = isMade(one) ? madeMac(interfaces, one, bootMac) : undefined;
  const ethernet = [
    '',
    '[ethernet]',
    ...(one.mac && !isMade(one) ? [`mac-address=${one.mac.toUpperCase()}`] : []),
    ...(mac && !one.vlan ? [`cloned-mac-address=${mac.toUpperCase()}`] : []),
    ...(one.mtu === undefined ? [] : [`mtu=${one.mtu}`]),
  ];
  const { bond, vlan, bridge } = one;
  if (bond)
    return [
      ...ethernet,
      '',
      '[bond]',
      `mode=${bond.mode}`,
      `miimon=${milliseconds(bond.monitor ?? '100ms')}`,
      ...(bond.hashPolicy ? [`xmit_hash_policy=${bond.hashPolicy}`] : []),
      ...(bond.lacpRate ? [`lacp_rate=${bond.lacpRate}`] : []),
      ...(bond.minLinks === undefined ? [] : [`min_links=${bond.minLinks}`]),
      ...(bond.upDelay ? [`updelay=${milliseconds(bond.upDelay)}`] : []),
      ...(bond.downDelay ? [`downdelay=${milliseconds(bond.downDelay)}`] : []),
      ...(bond.primary ? [`primary=${nameOf(interfaces, bond.primary)}`] : []),
    ];
  if (vlan) return [...ethernet, '', '[vlan]', `id=${vlan.id}`, `parent=${nameOf(interfaces, vlan.link)}`];
  if (bridge)
    return [
      ...ethernet,
      '',
      '[bridge]',
      `stp=${bridge.stp ?? false}`,
      ...(bridge.forwardDelay ? [`forward-delay=${milliseconds(bridge.forwardDelay) / 1000}`] : []),
    ];
  return ethernet;
}

const isOf = (text: string, family: 4 | 6): boolean => text.includes(':') === (family === 6);
const ofFamily = ({ addresses = [] }: NodeInterface, family: 4 | 6): readonly string[] =>
  addresses.filter((address) => isOf(address, family));

/** Addresses; NetworkManager adds a route to a gateway that is in none of their networks itself. */
function addressLines(one: NodeInterface, family: 4 | 6): readonly string[] {
  const gateway = family === 4 ? one.gateway : one.gateway6;
  return ofFamily(one, family).map(
    (address, i) => `address${i + 1}=${address}${i === 0 && gateway ? `,${gateway}` : ''}`,
  );
}

function ipv4Section(link: Link): readonly string[] {
  const { config: one, master } = link;
  if (master) return [];
  const method = asksDhcp4(link) ? 'auto' : ofFamily(one, 4).length > 0 ? 'manual' : 'disabled';
  return [
    '',
    '[ipv4]',
    `method=${method}`,
    ...addressLines(one, 4),
    ...routesAndNames(one, 4),
    ...(one.search ? [`dns-search=${one.search.map((domain) => `${domain};`).join('')}`] : []),
    ...fromServers(one, one.fromDhcp?.routes, one.fromDhcp?.dns),
    `may-fail=${one.optional ? 'true' : 'false'}`,
  ];
}

/** What is not taken from DHCP or router advertisements, and the metric of what is. */
const fromServers = (
  { metric }: NodeInterface,
  routes: boolean | undefined,
  dns: boolean | undefined,
): readonly string[] => [
  ...(routes === false ? ['ignore-auto-routes=true', 'never-default=true'] : []),
  ...(dns === false ? ['ignore-auto-dns=true'] : []),
  ...(metric === undefined ? [] : [`route-metric=${metric}`]),
];

/** Routes, rules and name servers of one family: NetworkManager has a section for each. */
function routesAndNames(
  { routes = [], rules = [], nameservers = [] }: NodeInterface,
  family: 4 | 6,
): readonly string[] {
  const names = nameservers.filter((address) => isOf(address, family));
  return [
    ...routes.filter(({ to }) => isOf(to, family)).flatMap((route, i) => routeLines(route, i + 1)),
    ...rules
      .filter(({ from, to }) => isOf(from ?? to ?? '', family))
      .map((rule, i) => `routing-rule${i + 1}=${ruleText(rule, i)}`),
    ...(names.length > 0 ? [`dns=${names.map((address) => `${address};`).join('')}`] : []),
  ];
}

type Route = NonNullable<NodeInterface['routes']>[number];
type Rule = NonNullable<NodeInterface['rules']>[number];

function routeLines({ to, via, onLink, metric, table, source }: Route, n: number): readonly string[] {
  const parts = [
    to,
    ...(via || metric !== undefined ? [via ?? ''] : []),
    ...(metric === undefined ? [] : [metric]),
  ];
  const options = [
    ...(onLink ? ['onlink=true'] : []),
    ...(table === undefined ? [] : [`table=${table}`]),
    ...(source === undefined ? [] : [`src=${source}`]),
  ];
  return [
    `route${n}=${parts.join(',')}`,
    ...(options.length > 0 ? [`route${n}_options=${options.join(',')}`] : []),
  ];
}

/** NetworkManager demands a priority; networkd and the kernel select one. */
const ruleText = ({ from, to, mark, priority, table }: Rule, i: number): string =>
  [
    `priority ${priority ?? 32000 + i}`,
    ...(from ? [`from ${from}`] : []),
    ...(to ? [`to ${to}`] : []),
    ...(mark === undefined ? [] : [`fwmark ${mark}`]),
    `table ${table}`,
  ].join(' ');

/** Without IPv6 settings nothing is written: NetworkManager then follows router advertisements. */
function ipv6Section(link: Link): readonly string[] {
  const { config: one, master } = link;
  if (master) return [];
  if (isBare(link)) return ['', '[ipv6]', 'method=disabled'];
  const addresses = ofFamily(one, 6);
  const more = routesAndNames(one, 6);
  const asked = one.acceptRa ?? one.dhcp6;
  const { fromRa, linkLocal } = one;
  const settings = addresses.length + more.length > 0 || asked !== undefined || fromRa !== undefined;
  if (!settings && linkLocal !== false && one.metric === undefined) return [];
  // `manual` ignores router advertisements; `auto` adds them to these settings.
  const auto = asked ?? (addresses.length === 0 && linkLocal !== false);
  const alone = linkLocal === false ? 'disabled' : 'link-local';
  return [
    '',
    '[ipv6]',
    `method=${auto ? 'auto' : addresses.length > 0 ? 'manual' : alone}`,
    ...addressLines(one, 6),
    ...more,
    ...(auto ? fromServers(one, fromRa?.gateway, fromRa?.dns) : []),
  ];
}
