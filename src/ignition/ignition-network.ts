/**
 * Interfaces as files: for systemd-networkd on Flatcar and others, as NetworkManager keyfiles on
 * Fedora CoreOS and its relatives.
 */
import type { NodeInterface } from '../resources/nodeconfig.ts';
import type { PlainFile } from './secrets.ts';
import { interfaceName } from './whole.ts';

/** Operating systems that use NetworkManager. */
const NETWORK_MANAGER = new Set(['fedora-coreos', 'fcos', 'rhcos', 'scos', 'fedora', 'centos', 'rhel']);

/** Files that configure `interfaces` on an operating system of family `os`. */
export function networkFiles(interfaces: readonly NodeInterface[], os: string): readonly PlainFile[] {
  return interfaces.flatMap((one, n) => (NETWORK_MANAGER.has(os) ? [keyfile(one, n)] : networkd(one, n)));
}

const dhcp = (one: NodeInterface): boolean => one.dhcp4 ?? (one.addresses ?? []).length === 0;

function networkd(one: NodeInterface, n: number): PlainFile[] {
  const name = `20-${interfaceName(one, n)}`;
  const match = one.mac ? `MACAddress=${one.mac}` : `Name=${one.name}`;
  const lines = [
    '[Match]',
    match,
    '',
    '[Link]',
    ...(one.mtu === undefined ? [] : [`MTUBytes=${one.mtu}`]),
    ...(one.optional ? ['RequiredForOnline=no'] : []),
    '',
    '[Network]',
    `DHCP=${dhcp(one) ? 'ipv4' : 'no'}`,
    ...(one.addresses ?? []).map((address) => `Address=${address}`),
    ...(one.acceptRa === undefined ? [] : [`IPv6AcceptRA=${one.acceptRa ? 'yes' : 'no'}`]),
    ...[one.gateway, one.gateway6].flatMap((gateway) => (gateway ? [`Gateway=${gateway}`] : [])),
    ...(one.nameservers ?? []).map((address) => `DNS=${address}`),
    ...(one.search ? [`Domains=${one.search.join(' ')}`] : []),
    ...(one.routes ?? []).flatMap(({ to, via }) => ['', '[Route]', `Destination=${to}`, `Gateway=${via}`]),
  ];
  const files: PlainFile[] = [{ path: `/etc/systemd/network/${name}.network`, content: text(lines) }];
  if (one.mac && one.name !== undefined)
    files.push({
      path: `/etc/systemd/network/10-${one.name}.link`,
      content: text(['[Match]', `PermanentMACAddress=${one.mac}`, '', '[Link]', `Name=${one.name}`]),
    });
  return files;
}

function keyfile(one: NodeInterface, n: number): PlainFile {
  const name = interfaceName(one, n);
  const addresses = ofFamily(one, 4);
  const lines = [
    '[connection]',
    `id=${name}`,
    'type=ethernet',
    // A hardware address, if the document has one, matches whatever name the kernel gave.
    ...(one.mac ? [] : [`interface-name=${one.name}`]),
    'autoconnect-priority=10',
    '',
    '[ethernet]',
    ...(one.mac ? [`mac-address=${one.mac.toUpperCase()}`] : []),
    ...(one.mtu === undefined ? [] : [`mtu=${one.mtu}`]),
    '',
    '[ipv4]',
    `method=${dhcp(one) ? 'auto' : addresses.length > 0 ? 'manual' : 'disabled'}`,
    ...addresses.map(
      (address, i) => `address${i + 1}=${address}${i === 0 && one.gateway ? `,${one.gateway}` : ''}`,
    ),
    ...routesAndNames(one, 4),
    ...(one.search ? [`dns-search=${one.search.map((domain) => `${domain};`).join('')}`] : []),
    `may-fail=${one.optional ? 'true' : 'false'}`,
    ...ipv6Section(one),
  ];
  // NetworkManager ignores keyfiles that other users may read.
  return {
    path: `/etc/NetworkManager/system-connections/${name}.nmconnection`,
    mode: '0600',
    content: text(lines),
  };
}

const isOf = (text: string, family: 4 | 6): boolean => text.includes(':') === (family === 6);
const ofFamily = ({ addresses = [] }: NodeInterface, family: 4 | 6): readonly string[] =>
  addresses.filter((address) => isOf(address, family));

/** Routes and name servers of one family: NetworkManager has a section for each. */
function routesAndNames({ routes = [], nameservers = [] }: NodeInterface, family: 4 | 6): readonly string[] {
  const names = nameservers.filter((address) => isOf(address, family));
  return [
    ...routes.filter(({ to }) => isOf(to, family)).map(({ to, via }, i) => `route${i + 1}=${to},${via}`),
    ...(names.length > 0 ? [`dns=${names.map((address) => `${address};`).join('')}`] : []),
  ];
}

/** Without IPv6 settings nothing is written: NetworkManager then follows router advertisements. */
function ipv6Section(one: NodeInterface): readonly string[] {
  const addresses = ofFamily(one, 6);
  const more = routesAndNames(one, 6);
  if (addresses.length + more.length === 0 && one.acceptRa === undefined) return [];
  // `manual` ignores router advertisements; `auto` adds them to these settings.
  const auto = one.acceptRa ?? addresses.length === 0;
  return [
    '',
    '[ipv6]',
    `method=${auto ? 'auto' : addresses.length > 0 ? 'manual' : 'link-local'}`,
    ...addresses.map(
      (address, i) => `address${i + 1}=${address}${i === 0 && one.gateway6 ? `,${one.gateway6}` : ''}`,
    ),
    ...more,
  ];
}

/** The lines as a text, without empty sections. */
function text(lines: readonly string[]): string {
  return `${lines
    .join('\n')
    .replace(/\[[A-Za-z]+\]\n(?=\n)/g, '')
    .replace(/\n{3,}/g, '\n\n')}\n`;
}
