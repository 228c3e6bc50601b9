/** Reads the IPv4 addresses and indexes of this host's interfaces. */
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { parseIpv4 } from '../base/ipv4.ts';
import type { HostAddress } from './networks.ts';

/** All IPv4 addresses in the kernel's order. `loopback`: includes those of lo, for tests. */
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
 * The kernel's index of an interface; undefined if the interface is missing. An interface that is
 * deleted and created again gets a new index.
 */
export function interfaceIndex(name: string): number | undefined {
  try {
    return Number(readFileSync(`/sys/class/net/${name}/ifindex`, 'utf8'));
  } catch {
    return undefined;
  }
}
