/**
 * Which hardware is behind an address, by the kernel's tables of neighbours and routes. The kernel
 * has no word on machines behind a router: it sends their packets to the router's hardware. Pure.
 */
import { ANY, type Ipv4, netmask, parseIpv4 } from '../base/ipv4.ts';
import { type Mac, parseMac } from '../base/mac.ts';

/**
 * `host`: the address is this host's own. `router`: packets to it go through a router. Otherwise
 * the hardware that answers for it on the segment, of which there is none if nobody does.
 */
export type Neighbour = 'host' | 'router' | readonly Mac[];

/** An entry of /proc/net/arp that has an answer. */
interface ArpEntry {
  readonly address: Ipv4;
  readonly mac: Mac;
  readonly interface: string;
}

/** Reads a line of /proc/net/arp; undefined for any line that is not an answered entry. */
export function readArpLine(line: string): ArpEntry | undefined {
  const [address, type, flags, hardware, , device] = line.trim().split(/ +/);
  const ip = address === undefined ? undefined : parseIpv4(address);
  const mac = hardware === undefined ? undefined : parseMac(hardware);
  // ATF_COM: the entry has an answer.
  const complete = (Number.parseInt(flags ?? '0', 16) & 2) !== 0;
  if (ip === undefined || !mac || type !== '0x1' || !complete || device === undefined) return undefined;
  return mac === '00:00:00:00:00:00' ? undefined : { address: ip, mac, interface: device };
}

/** RTF_GATEWAY: the next hop is a router. RTF_REJECT: the kernel refuses the destination. */
const GATEWAY = 2;
const REJECT = 0x200;

/** A number of /proc/net/route, which has the octets of an address in the order of the host. */
const fromRoute = (text: string | undefined): Ipv4 =>
  Buffer.from(text ?? '', 'hex')
    .reverse()
    .reduce((so, octet) => so * 256 + octet, 0) as Ipv4;

/** Whether the longest prefix in /proc/net/route (`text`) that has the address names a router. */
function throughRouter(text: string, address: Ipv4): boolean {
  let [longest, found] = [-1, false];
  for (const line of text.split('\n').slice(1)) {
    const [, destination, , flags, , , , mask] = line.trim().split(/\s+/);
    if (mask === undefined) continue;
    const [base, bits, kind] = [fromRoute(destination), fromRoute(mask), Number.parseInt(flags ?? '0', 16)];
    if ((address & bits) >>> 0 !== base || bits <= longest) continue;
    longest = bits;
    found = (kind & GATEWAY) !== 0 && (kind & REJECT) === 0;
  }
  return found;
}

/**
 * Finds the neighbour behind an address. An entry of the neighbour table counts before anything
 * else; the kernel has none for its own addresses.
 *
 * @param tables the texts of /proc/net/arp and /proc/net/route, and this host's own addresses; only
 *   what decides is read
 */
export function neighbourIn(
  tables: { readonly arp: string; readonly routes: string; readonly own: readonly Ipv4[] },
  text: string,
): Neighbour {
  const address = parseIpv4(text);
  if (address === undefined || address === ANY) return [];
  if ((address & netmask(8)) >>> 0 === LOOPBACK) return 'host';
  const macs: Mac[] = [];
  const { arp } = tables;
  const line = `\n${text} `;
  for (let at = arp.indexOf(line); at >= 0; at = arp.indexOf(line, at + 1)) {
    const entry = readArpLine(arp.slice(at + 1, arp.indexOf('\n', at + 1)));
    if (entry) macs.push(entry.mac);
  }
  if (macs.length > 0) return macs;
  if (tables.own.includes(address)) return 'host';
  return throughRouter(tables.routes, address) ? 'router' : [];
}

const LOOPBACK = 0x7f00_0000;
