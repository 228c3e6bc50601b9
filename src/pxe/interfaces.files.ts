/**
 * The IPv4 addresses of this host's interfaces, and the kernel's numbers of them, as they are now.
 */
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { parseIpv4 } from '../base/ipv4.ts';
import type { HostAddress } from './networks.ts';

/** In the kernel's order; loopback is left out unless it is asked for (tests serve on it). */
export function hostAddresses(options: { readonly loopback?: boolean } = {}): readonly HostAddress[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? []).flatMap((one) => {
      const address = one.family === 'IPv4' ? parseIpv4(one.address) : undefined;
      return address === undefined || (one.internal && !options.loopback)
        ? []
        : [{ interface: name, address }];
    }),
  );
}

/**
 * The kernel's number of an interface, another one each time that it is made; undefined where there
 * is none of that name.
 */
export function interfaceIndex(name: string): number | undefined {
  try {
    return Number(readFileSync(`/sys/class/net/${name}/ifindex`, 'utf8'));
  } catch {
    return undefined;
  }
}
