/**
 * Interfaces as files of systemd-networkd. cloud-init's own renderer for networkd knows no bonds,
 * VLANs and bridges, and no policy routing, so Muster writes these files for its images too.
 *
 * @see systemd.network(5), systemd.netdev(5), systemd.link(5)
 */
import { isMade, type NodeInterface } from '../resources/node-network.ts';
import { asksDhcp4, gatewayOnLink, isBare, type Link, linksOf, madeMac } from './links.ts';
import type { PlainFile } from './secrets.ts';

const DIRECTORY = '/etc/systemd/network';

interface NetworkdOptions {
  /** Begins the names of the files: networkd takes the first file that fits an interface. */
  readonly prefix: string;
  /** The MAC address of the interface that boots. */
  readonly bootMac?: string | undefined;
}

/** Files that configure `interfaces`: one .network for each, a .netdev for those that are made. */
export function networkdFiles(
  interfaces: readonly NodeInterface[],
  { prefix, bootMac }: NetworkdOptions,
): readonly PlainFile[] {
  // A bond, bridge or VLAN has the address of an interface below it, which only that one has had
  // from the beginning.
  const key = interfaces.some(isMade) ? 'PermanentMACAddress' : 'MACAddress';
  return linksOf(interfaces).flatMap((link) => {
    const { config, name } = link;
    const made = isMade(config);
    const renames = !made && config.mac !== undefined && config.name !== undefined;
    const mac = made ? madeMac(interfaces, config, bootMac) : undefined;
    const file = (path: string, lines: readonly string[]): PlainFile => ({
      path: `${DIRECTORY}/${path}`,
      content: sections(lines),
    });
    const match = config.mac && !made ? `${key}=${config.mac}` : `Name=${config.name}`;
    return [
      ...(made ? [file(`${prefix}-${name}.netdev`, netdev(config, mac))] : []),
      file(`${prefix}-${name}.network`, network(link, match)),
      ...(renames
        ? [
            file(`10-${name}.link`, [
              '[Match]',
              `PermanentMACAddress=${config.mac}`,
              '',
              '[Link]',
              `Name=${name}`,
            ]),
          ]
        : []),
      // Otherwise udev gives it an address of its own making, and no DHCP server knows that.
      ...(made && !config.vlan
        ? [
            file(`10-${name}.link`, [
              '[Match]',
              `OriginalName=${name}`,
              '',
              '[Link]',
              'NamePolicy=',
              'MACAddressPolicy=none',
            ]),
          ]
        : []),
    ];
  });
}

function netdev({ name, bond, vlan, bridge, mtu }: NodeInterface, mac: string | undefined): string[] {
  return [
    '[NetDev]',
    `Name=${name}`,
    `Kind=${bond ? 'bond' : vlan ? 'vlan' : 'bridge'}`,
    ...(mac && !vlan ? [`MACAddress=${mac}`] : []),
    ...set('MTUBytes', mtu),
    ...(bond
      ? [
          '',
          '[Bond]',
          `Mode=${bond.mode}`,
          ...set('TransmitHashPolicy', bond.hashPolicy),
          ...set('LACPTransmitRate', bond.lacpRate),
          ...set('MinLinks', bond.minLinks),
          `MIIMonitorSec=${bond.monitor ?? '100ms'}`,
          ...set('UpDelaySec', bond.upDelay),
          ...set('DownDelaySec', bond.downDelay),
        ]
      : []),
    ...(vlan ? ['', '[VLAN]', `Id=${vlan.id}`] : []),
    ...(bridge
      ? [
          '',
          '[Bridge]',
          `STP=${yes(bridge.stp ?? false)}`,
          // Without STP nothing can loop that waiting would find.
          ...set('ForwardDelaySec', bridge.forwardDelay ?? (bridge.stp ? undefined : '0s')),
        ]
      : []),
  ];
}

function network(link: Link, match: string): string[] {
  const { config: one, master, vlans } = link;
  const bare = isBare(link);
  const gateways = [one.gateway, one.gateway6].flatMap((gateway) => gateway ?? []);
  const plain = gateways.every((gateway) => one.metric === undefined && !gatewayOnLink(one, gateway));
  return [
    '[Match]',
    match,
    '',
    '[Link]',
    ...set('MTUBytes', one.mtu),
    ...(one.optional || bare ? ['RequiredForOnline=no'] : []),
    '',
    '[Network]',
    `DHCP=${dhcp(asksDhcp4(link), one.dhcp6 ?? false)}`,
    ...(one.addresses ?? []).map((address) => `Address=${address}`),
    ...(one.acceptRa === undefined
      ? bare
        ? ['IPv6AcceptRA=no']
        : []
      : [`IPv6AcceptRA=${yes(one.acceptRa)}`]),
    ...(one.linkLocal === false || bare ? ['LinkLocalAddressing=no'] : []),
    ...(plain ? gateways.map((gateway) => `Gateway=${gateway}`) : []),
    ...(one.nameservers ?? []).map((address) => `DNS=${address}`),
    ...(one.search ? [`Domains=${one.search.join(' ')}`] : []),
    ...(master ? [`${master.kind === 'bond' ? 'Bond' : 'Bridge'}=${master.name}`] : []),
    ...(master?.primary ? ['PrimarySlave=yes'] : []),
    ...vlans.map((name) => `VLAN=${name}`),
    ...(plain ? [] : gateways.flatMap((gateway) => gatewayRoute(one, gateway))),
    ...(one.routes ?? []).flatMap(({ to, via, onLink, metric, table, source }) => [
      '',
      '[Route]',
      `Destination=${to}`,
      ...set('Gateway', via),
      ...(onLink ? ['GatewayOnLink=yes'] : []),
      ...(via === undefined && !to.includes(':') ? ['Scope=link'] : []),
      ...set('Metric', metric),
      ...set('Table', table),
      ...set('PreferredSource', source),
    ]),
    ...(one.rules ?? []).flatMap((rule) => [
      '',
      '[RoutingPolicyRule]',
      ...set('From', rule.from),
      ...set('To', rule.to),
      ...set('FirewallMark', rule.mark),
      ...set('Priority', rule.priority),
      `Table=${rule.table}`,
    ]),
    ...leased(one, asksDhcp4(link)),
    ...advertised(one),
  ];
}

const gatewayRoute = (one: NodeInterface, gateway: string): readonly string[] => [
  '',
  '[Route]',
  `Gateway=${gateway}`,
  ...(gatewayOnLink(one, gateway) ? ['GatewayOnLink=yes'] : []),
  ...set('Metric', one.metric),
];

/** What is taken from DHCP. */
function leased({ fromDhcp: from, metric, dhcp6 }: NodeInterface, dhcp4: boolean): readonly string[] {
  const both = [
    ...use('UseDNS', from?.dns),
    ...use('UseDomains', from?.domains),
    ...use('UseNTP', from?.ntp),
  ];
  return [
    ...(dhcp4
      ? [
          '',
          '[DHCPv4]',
          ...both,
          ...use('UseRoutes', from?.routes),
          ...use('UseMTU', from?.mtu),
          ...set('RouteMetric', metric),
        ]
      : []),
    ...(dhcp6 ? ['', '[DHCPv6]', ...both] : []),
  ];
}

/** What is taken from router advertisements. */
function advertised({ fromRa: from, metric, acceptRa }: NodeInterface): readonly string[] {
  if (acceptRa === false) return [];
  return [
    '',
    '[IPv6AcceptRA]',
    ...use('UseDNS', from?.dns),
    ...use('UseDomains', from?.domains),
    ...use('UseGateway', from?.gateway),
    ...use('UseAutonomousPrefix', from?.addresses),
    ...set('RouteMetric', metric),
  ];
}

const yes = (value: boolean): string => (value ? 'yes' : 'no');
const set = (field: string, value: string | number | undefined): readonly string[] =>
  value === undefined ? [] : [`${field}=${value}`];
const use = (field: string, value: boolean | undefined): readonly string[] =>
  value === undefined ? [] : [`${field}=${yes(value)}`];

function dhcp(four: boolean, six: boolean): string {
  if (four && six) return 'yes';
  return four ? 'ipv4' : six ? 'ipv6' : 'no';
}

/** The lines as a text, without empty sections; an empty line ends a section. */
export function sections(lines: readonly string[]): string {
  const all = lines.join('\n').split(/\n\n+/);
  return `${all.filter((one) => one !== '' && !/^\[[^\n]*$/.test(one)).join('\n\n')}\n`;
}
