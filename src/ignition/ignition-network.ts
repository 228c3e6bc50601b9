/** Interfaces as files: systemd-networkd's for Flatcar and others, NetworkManager's keyfiles for Fedora CoreOS and its kin. */
import type { NodeFile, NodeInterface } from '../resources/nodeconfig.ts';

/** Systems whose network is NetworkManager's. */
const NETWORK_MANAGER = new Set(['fedora-coreos', 'fcos', 'rhcos', 'scos', 'fedora', 'centos', 'rhel']);

/** Files that configure `interfaces` on an operating system of family `os`. */
export function networkFiles(interfaces: readonly NodeInterface[], os: string): readonly NodeFile[] {
  return interfaces.flatMap((one, n) => (NETWORK_MANAGER.has(os) ? [keyfile(one, n)] : networkd(one, n)));
}

const dhcp = (one: NodeInterface): boolean => one.dhcp4 ?? (one.addresses ?? []).length === 0;

function networkd(one: NodeInterface, n: number): NodeFile[] {
  const name = `20-${one.name ?? `nic${n}`}`;
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
    ...(one.gateway ? [`Gateway=${one.gateway}`] : []),
    ...(one.nameservers ?? []).map((address) => `DNS=${address}`),
    ...(one.search ? [`Domains=${one.search.join(' ')}`] : []),
    ...(one.routes ?? []).flatMap(({ to, via }) => ['', '[Route]', `Destination=${to}`, `Gateway=${via}`]),
  ];
  const files: NodeFile[] = [{ path: `/etc/systemd/network/${name}.network`, content: text(lines) }];
  if (one.mac && one.name !== undefined)
    files.push({
      path: `/etc/systemd/network/10-${one.name}.link`,
      content: text(['[Match]', `PermanentMACAddress=${one.mac}`, '', '[Link]', `Name=${one.name}`]),
    });
  return files;
}

function keyfile(one: NodeInterface, n: number): NodeFile {
  const name = one.name ?? `nic${n}`;
  const addresses = one.addresses ?? [];
  const lines = [
    '[connection]',
    `id=${name}`,
    'type=ethernet',
    // By hardware address where there is one: the connection then fits whatever name the kernel gave.
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
    ...(one.routes ?? []).map(({ to, via }, i) => `route${i + 1}=${to},${via}`),
    ...(one.nameservers ? [`dns=${one.nameservers.map((address) => `${address};`).join('')}`] : []),
    ...(one.search ? [`dns-search=${one.search.map((domain) => `${domain};`).join('')}`] : []),
    `may-fail=${one.optional ? 'true' : 'false'}`,
  ];
  // NetworkManager ignores keyfiles that others may read.
  return {
    path: `/etc/NetworkManager/system-connections/${name}.nmconnection`,
    mode: '0600',
    content: text(lines),
  };
}

/** Without sections that hold nothing. */
function text(lines: readonly string[]): string {
  return `${lines
    .join('\n')
    .replace(/\[[A-Za-z]+\]\n(?=\n)/g, '')
    .replace(/\n{3,}/g, '\n\n')}\n`;
}
