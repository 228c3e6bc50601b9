/** A Network document, joined with the interface that it is served on. */

import type { Millis } from '../base/duration.ts';
import type { Cidr, Ipv4 } from '../base/ipv4.ts';
import type { DhcpOption } from '../resources/dhcp-options.ts';
import type { NetworkSpec, PxeOptions } from '../resources/kinds.ts';

export interface ServedNetwork {
  readonly name: string;
  readonly subnet: Cidr;
  readonly mode: NetworkSpec['dhcp']['mode'];
  /** The address at which this network's machines reach Muster: siaddr, option 54, host of URLs. */
  readonly serverAddress: Ipv4;
  /** Port of the HTTP listener for machines. */
  readonly httpPort: number;
  /** The interface; absent when the network is only reached through relays. */
  readonly interface?: string;
  readonly leaseTime: Millis;
  readonly bootLeaseTime: Millis;
  readonly pools: readonly {
    readonly start: Ipv4;
    readonly end: Ipv4;
    readonly options?: readonly DhcpOption[];
  }[];
  /** DHCP options of the operator's own. */
  readonly options?: readonly DhcpOption[];
  readonly gateway?: Ipv4;
  readonly dns: readonly Ipv4[];
  readonly ntp: readonly Ipv4[];
  readonly domain?: string;
  readonly mtu?: number;
  readonly probe: boolean;
  readonly authoritative: boolean;
  readonly relays: readonly Ipv4[];
  readonly pxe: PxeOptions;
  /** The Image that unknown machines boot; absent: they are held. */
  readonly discovery?: string;
  readonly vendorClasses: readonly { readonly prefix: string; readonly pxe: PxeOptions }[];
}
