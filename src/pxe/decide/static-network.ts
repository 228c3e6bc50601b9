/**
 * The network of a machine that has to go on when the boot host does not: its own address, without
 * a lease. Pure.
 */
import { ip, networkHolds, parseIpNetwork } from '../../base/ip.ts';
import { contains, formatIpv4, ipv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { ConfigLayer } from '../../ignition/rendered.ts';
import type { ServedNetwork } from '../network.ts';

/**
 * After the one of a cluster's own time servers, which takes away what stands in files before it.
 */
const TIME = '/etc/systemd/timesyncd.conf.d/95-muster-network.conf';

/**
 * What DHCP would tell the interface that booted, written down, so that nothing ends with a lease:
 * a lowest layer for machines of clusters. Its IPv6 addresses come along, with the prefix of that
 * one of the cluster's `machines` networks that they are in; of routes their routers tell.
 * Undefined where no interface of this machine has an address of its own on `network`, or another
 * server gives addresses there: that one knows the gateway, and runs without us.
 */
export function staticNetworkLayer(
  addresses: readonly string[],
  network: ServedNetwork | undefined,
  mac: Mac,
  machines: readonly string[],
): ConfigLayer | undefined {
  if (network === undefined || (network.mode !== 'server' && network.mode !== 'reservations'))
    return undefined;
  const { subnet, gateway, dns, ntp, domain, mtu } = network;
  const own = addresses.find((text) => !text.includes(':') && contains(subnet, ipv4(text)));
  if (own === undefined) return undefined;
  const networks = machines.flatMap((text) => parseIpNetwork(text) ?? []);
  const six = addresses.flatMap((text) => {
    const on = text.includes(':') ? networks.find((one) => networkHolds(one, ip(text))) : undefined;
    return on === undefined ? [] : [`${text}/${on.prefix}`];
  });
  const time = `[Time]\nNTP=${ntp.map(formatIpv4).join(' ')}\n`;
  return {
    layer: 'muster',
    document: 'muster',
    config: {
      network: {
        interfaces: [
          {
            mac,
            addresses: [`${own}/${subnet.prefix}`, ...six],
            ...(gateway !== undefined && { gateway: formatIpv4(gateway) }),
            ...(dns.length > 0 && { nameservers: dns.map(formatIpv4) }),
            ...(domain !== undefined && { search: [domain] }),
            ...(mtu !== undefined && { mtu }),
          },
        ],
      },
      ...(ntp.length > 0 && { files: [{ path: TIME, mode: '0644', content: time }] }),
    },
  };
}
