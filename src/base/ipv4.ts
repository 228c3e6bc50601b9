/** IPv4 addresses and networks as numbers, which are cheap to compare, add and index. */

/** An IPv4 address as an unsigned 32-bit integer in host order. */
export type Ipv4 = number & { readonly __ipv4: true };

/** An IPv4 network. `base` has its host bits clear. */
export interface Cidr {
  readonly base: Ipv4;
  readonly prefix: number;
}

export const ANY = 0 as Ipv4;
export const BROADCAST = 0xffffffff as Ipv4;

/**
 * Parses dotted decimal. Returns undefined for a malformed address, and for leading zeros, which
 * some programs read as octal.
 */
export function parseIpv4(text: string): Ipv4 | undefined {
  if (text.length < 7 || text.length > 15) return undefined;
  let value = 0;
  let octet = -1;
  let dots = 0;
  for (let n = 0; n < text.length; n++) {
    const code = text.charCodeAt(n);
    if (code === 46) {
      if (octet < 0 || ++dots > 3) return undefined;
      value = value * 256 + octet;
      octet = -1;
    } else if (code < 48 || code > 57 || octet === 0) return undefined;
    else {
      octet = octet < 0 ? code - 48 : octet * 10 + code - 48;
      if (octet > 255) return undefined;
    }
  }
  return dots === 3 && octet >= 0 ? ((value * 256 + octet) as Ipv4) : undefined;
}

/**
 * Like {@link parseIpv4}, for a text that a schema has already accepted.
 *
 * @throws {RangeError} for a malformed address
 */
export function ipv4(text: string): Ipv4 {
  const address = parseIpv4(text);
  if (address === undefined) throw new RangeError(`not an IPv4 address: ${text}`);
  return address;
}

/** Formats an address in dotted decimal. */
export function formatIpv4(address: Ipv4): string {
  return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`;
}

/** Parses `10.77.0.0/24`. Returns undefined for a malformed network or set host bits. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/');
  const base = slash < 0 ? undefined : parseIpv4(text.slice(0, slash));
  const length = text.slice(slash + 1);
  if (base === undefined || !/^([0-9]|[12][0-9]|3[0-2])$/.test(length)) return undefined;
  const prefix = Number(length);
  return (base & ~netmask(prefix)) === 0 ? { base, prefix } : undefined;
}

/**
 * Like {@link parseCidr}, for a text that a schema has already accepted.
 *
 * @throws {RangeError} for a malformed network
 */
export function cidr(text: string): Cidr {
  const network = parseCidr(text);
  if (network === undefined) throw new RangeError(`not an IPv4 network: ${text}`);
  return network;
}

/** The netmask of a prefix length (0–32) as an address. */
export function netmask(prefix: number): Ipv4 {
  return (prefix === 0 ? 0 : (0xffffffff << (32 - prefix)) >>> 0) as Ipv4;
}

/** Whether the network contains the address. */
export function contains(network: Cidr, address: Ipv4): boolean {
  return (address & netmask(network.prefix)) >>> 0 === network.base;
}

/** The directed broadcast address, e.g. 10.77.0.255. */
export function broadcastOf(network: Cidr): Ipv4 {
  return ((network.base | ~netmask(network.prefix)) >>> 0) as Ipv4;
}
