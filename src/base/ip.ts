/**
 * IP addresses and networks of both families, as numbers. Use this where IPv4 and IPv6 mix;
 * `ipv4.ts` is faster. Formatted addresses are canonical (RFC 5952).
 */

export interface Ip {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** A network; `base` has its host bits clear. */
export interface IpNetwork {
  readonly base: Ip;
  readonly prefix: number;
}

/** `::ffff:10.77.0.10`, as a dual-stack socket shows IPv4 peers, as `10.77.0.10`. */
export const plainAddress = (peer: string | undefined): string =>
  peer?.startsWith('::ffff:') ? peer.slice(7) : (peer ?? '');

const BITS = { 4: 32, 6: 128 } as const;

/**
 * Parses `10.0.0.1`, `fd00::1`, `::ffff:10.0.0.1`. Returns undefined for a malformed address, for
 * one with a zone, and for leading zeros in decimal octets.
 */
export function parseIp(text: string): Ip | undefined {
  if (text.length > 45) return undefined;
  return text.includes(':') ? parseIpv6(text) : parseDotted(text);
}

function parseDotted(text: string): Ip | undefined {
  const parts = text.split('.');
  if (parts.length !== 4) return undefined;
  let value = 0n;
  for (const part of parts) {
    if (!/^(0|[1-9][0-9]{0,2})$/.test(part) || Number(part) > 255) return undefined;
    value = value * 256n + BigInt(part);
  }
  return { family: 4, value };
}

function parseIpv6(text: string): Ip | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const left = groupsOf(halves[0]!, halves.length === 1);
  const right = halves.length === 2 ? groupsOf(halves[1]!, true) : [];
  if (left === undefined || right === undefined) return undefined;
  const missing = 8 - left.length - right.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  let value = 0n;
  for (const group of [...left, ...Array<number>(missing).fill(0), ...right])
    value = value * 65536n + BigInt(group);
  return { family: 6, value };
}

/** The 16-bit groups of a part; the last one may be dotted decimal. Undefined when malformed. */
function groupsOf(text: string, last: boolean): number[] | undefined {
  if (text === '') return [];
  const groups: number[] = [];
  const parts = text.split(':');
  for (const [n, part] of parts.entries()) {
    if (last && n === parts.length - 1 && part.includes('.')) {
      const dotted = parseDotted(part);
      if (dotted === undefined) return undefined;
      groups.push(Number(dotted.value >> 16n), Number(dotted.value & 0xffffn));
    } else if (/^[0-9a-fA-F]{1,4}$/.test(part)) groups.push(Number.parseInt(part, 16));
    else return undefined;
  }
  return groups;
}

/**
 * Like {@link parseIp}, for a text that was checked before.
 *
 * @throws {RangeError} for a malformed address
 */
export function ip(text: string): Ip {
  const address = parseIp(text);
  if (address === undefined) throw new RangeError(`not an IP address: ${text}`);
  return address;
}

/** Formats an address in its canonical form (RFC 5952). */
export function formatIp({ family, value }: Ip): string {
  if (family === 4)
    return [24n, 16n, 8n, 0n].map((shift) => String(Number((value >> shift) & 255n))).join('.');
  const groups = Array.from({ length: 8 }, (_, n) => Number((value >> BigInt(112 - 16 * n)) & 0xffffn));
  const [from, length] = longestZeros(groups);
  const hex = (part: readonly number[]): string => part.map((group) => group.toString(16)).join(':');
  return length < 2 ? hex(groups) : `${hex(groups.slice(0, from))}::${hex(groups.slice(from + length))}`;
}

/**
 * Start and length of the longest run of zero groups; of several, the first one (RFC 5952, section
 * 4.2.3).
 */
function longestZeros(groups: readonly number[]): readonly [number, number] {
  let best: readonly [number, number] = [0, 0];
  let from = 0;
  for (const [n, group] of groups.entries()) {
    if (group !== 0) from = n + 1;
    else if (n + 1 - from > best[1]) best = [from, n + 1 - from];
  }
  return best;
}

const hostBits = (family: 4 | 6, prefix: number): bigint => (1n << BigInt(BITS[family] - prefix)) - 1n;

/**
 * Parses `10.96.0.0/16` or `fd00:10:96::/112`. Returns undefined for a malformed network, and when
 * host bits are set.
 */
export function parseIpNetwork(text: string): IpNetwork | undefined {
  const [address, length, more] = text.split('/');
  const base = parseIp(address ?? '');
  if (base === undefined || more !== undefined || !/^(0|[1-9][0-9]{0,2})$/.test(length ?? ''))
    return undefined;
  const prefix = Number(length);
  if (prefix > BITS[base.family] || (base.value & hostBits(base.family, prefix)) !== 0n) return undefined;
  return { base, prefix };
}

/**
 * Like {@link parseIpNetwork}, for a text that was checked before.
 *
 * @throws {RangeError} for a malformed network
 */
export function ipNetwork(text: string): IpNetwork {
  const network = parseIpNetwork(text);
  if (network === undefined) throw new RangeError(`not an IP network: ${text}`);
  return network;
}

export const formatIpNetwork = ({ base, prefix }: IpNetwork): string => `${formatIp(base)}/${prefix}`;

/** Whether the network contains the address. */
export function networkHolds(network: IpNetwork, address: Ip): boolean {
  const { family, value } = network.base;
  return (
    address.family === family &&
    (address.value | hostBits(family, network.prefix)) === (value | hostBits(family, network.prefix))
  );
}

/** Whether the two networks have an address in common. */
export function overlap(a: IpNetwork, b: IpNetwork): boolean {
  return a.prefix <= b.prefix ? networkHolds(a, b.base) : networkHolds(b, a.base);
}

/** The number of addresses of a network, including its first and last. */
export const sizeOf = ({ base, prefix }: IpNetwork): bigint => hostBits(base.family, prefix) + 1n;

/**
 * The address `n` places after the network's first.
 *
 * @throws {RangeError} when it is outside the network
 */
export function nthAddress(network: IpNetwork, n: number): Ip {
  const { family, value } = network.base;
  if (BigInt(n) >= sizeOf(network)) throw new RangeError(`${formatIpNetwork(network)} has no address ${n}`);
  return { family, value: value + BigInt(n) };
}

/** The address of a list at which a host is reached first: IPv4 where there is one. */
export const ipv4First = (texts: readonly string[]): string | undefined =>
  texts.find((text) => !text.includes(':')) ?? texts[0];

/** Formats a host for a URL: an IPv6 address gets brackets. */
export const urlHost = (text: string): string => (text.includes(':') ? `[${text}]` : text);
