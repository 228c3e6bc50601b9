/** Adds the operator's own DHCP options to a reply: of the network, the pool and the machine. */
import type { Ipv4 } from '../../base/ipv4.ts';
import { type DhcpOption, isOfBooting, octetsOf } from '../../resources/dhcp-options.ts';
import type { ServedNetwork } from '../network.ts';
import { OPTION } from './options.ts';
import type { DhcpPacket } from './packet.ts';

interface Encoded {
  readonly code: number;
  readonly octets: Buffer;
}

/** Documents do not change, so an option of one is encoded once. */
const memoEncoded = new WeakMap<DhcpOption, Encoded | 'faulty'>();

function encoded(option: DhcpOption): Encoded | undefined {
  let known = memoEncoded.get(option);
  if (known === undefined) {
    const made = octetsOf(option);
    known = made.fault ? 'faulty' : made;
    memoEncoded.set(option, known);
  }
  return known === 'faulty' ? undefined : known;
}

interface OwnOptions {
  readonly request: DhcpPacket;
  readonly network: ServedNetwork;
  readonly vendorClass: string | undefined;
  /** Options of the Machine document. */
  readonly machine: readonly DhcpOption[] | undefined;
  /** The address that the client gets or has; undefined before it is known. */
  readonly address: Ipv4;
}

/**
 * Writes the options into `options`. A narrower place wins: machine over pool over network, and
 * options for a vendor class over those for all.
 */
export function addOwnOptions(options: Map<number, Buffer>, of: OwnOptions): void {
  const { request, network, vendorClass, machine = [], address } = of;
  const pool = network.pools.find(({ start, end }) => start <= address && address <= end)?.options ?? [];
  const all = [network.options ?? [], pool, machine].flatMap((list) => [
    ...list.filter((one) => one.vendorClass === undefined),
    ...list.filter((one) => one.vendorClass !== undefined && vendorClass?.startsWith(one.vendorClass)),
  ]);
  if (all.length === 0) return;
  const wanted = request.options.get(OPTION.parameterList);
  for (const one of all) {
    const made = encoded(one);
    if (
      made &&
      !isOfBooting(made.code, vendorClass) &&
      (one.always || wanted === undefined || wanted.includes(made.code))
    )
      options.set(made.code, withDefault(made, options));
  }
}

const DEFAULT_ROUTE = 0;

/**
 * A client that takes classless routes ignores the routers option (RFC 3442), so the default route
 * is added to them where the routes do not have one.
 */
function withDefault({ code, octets }: Encoded, options: ReadonlyMap<number, Buffer>): Buffer {
  const routers = options.get(OPTION.routers);
  if ((code !== OPTION.classlessRoutes && code !== MS_ROUTES) || routers === undefined) return octets;
  for (let at = 0; at < octets.length; at += 5 + Math.ceil(octets[at]! / 8))
    if (octets[at] === DEFAULT_ROUTE) return octets;
  return Buffer.concat([octets, Buffer.from([DEFAULT_ROUTE]), routers.subarray(0, 4)]);
}

/** Windows before Vista asks for classless routes by this number. */
const MS_ROUTES = 249;
