/**
 * The network of a cluster's machine, which has to keep running while the boot host does not: a
 * static address instead of a lease. Pure.
 */
import { ip, networkHolds, parseIpNetwork } from '../base/ip.ts';
import { cidr, contains, ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { NetworkSpec } from '../resources/kinds.ts';
import type { ConfigLayer } from './rendered.ts';

/**
 * The number 95 sorts this file after the one that names a cluster's own time servers, because that
 * one clears the servers of all files before it.
 */
const TIME = '/etc/systemd/timesyncd.conf.d/95-muster-network.conf';

/**
 * Returns a lowest layer that writes down what DHCP would tell the interface that booted, so that
 * nothing ends with a lease. `addresses` are those of the machine's document; `machineNetworks` are
 * the cluster's `networks.machines`, which give its IPv6 addresses their prefix length (IPv6 routes
 * come from router advertisements).
 *
 * Undefined where the document names no address on `network`, or where another DHCP server serves
 * it: that server knows the gateway, and does not depend on Muster.
 */
export function staticNetworkLayer(
  addresses: readonly string[],
  network: NetworkSpec | undefined,
  mac: Mac,
  machineNetworks: readonly string[],
): ConfigLayer | undefined {
  if (network === undefined) return undefined;
  const { gateway, dns = [], ntp = [], domain, mtu, dhcp } = network;
  if (dhcp.mode !== 'server' && dhcp.mode !== 'reservations') return undefined;
  const subnet = cidr(network.subnet);
  const own = addresses.find((text) => !text.includes(':') && contains(subnet, ipv4(text)));
  if (own === undefined) return undefined;
  const networks = machineNetworks.flatMap((text) => parseIpNetwork(text) ?? []);
  const ipv6 = addresses.flatMap((text) => {
    const on = text.includes(':') ? networks.find((one) => networkHolds(one, ip(text))) : undefined;
    return on === undefined ? [] : [`${text}/${on.prefix}`];
  });
  return {
    layer: 'muster',
    document: 'muster',
    config: {
      network: {
        interfaces: [
          {
            mac,
            addresses: [`${own}/${subnet.prefix}`, ...ipv6],
            ...(gateway !== undefined && { gateway }),
            ...(dns.length > 0 && { nameservers: dns }),
            ...(domain !== undefined && { search: [domain] }),
            ...(mtu !== undefined && { mtu }),
          },
        ],
      },
      ...(ntp.length > 0 && {
        files: [{ path: TIME, mode: '0644', content: `[Time]\nNTP=${ntp.join(' ')}\n` }],
      }),
    },
  };
}
