/**
 * The interfaces of a configuration with what is built on each: what a bond, bridge or VLAN says of
 * the interfaces below it is written where both formats look for it. Pure.
 */
import { parseMac } from '../base/mac.ts';
import { isMade, type NodeInterface } from '../resources/node-network.ts';

export interface Link {
  /** Its name on the machine, or that of its files where only the MAC address is known. */
  readonly name: string;
  readonly config: NodeInterface;
  /** The bond or bridge that it is a part of. */
  readonly master?: { readonly kind: 'bond' | 'bridge'; readonly name: string; readonly primary: boolean };
  /** The VLANs that it carries. */
  readonly vlans: readonly string[];
}

/** The interface's name on the machine. */
export const linkName = ({ name }: Pick<NodeInterface, 'name'>, n: number): string => name ?? `nic${n}`;

/** The entry that a reference (a name or a MAC address) means. */
export function entryOf(interfaces: readonly NodeInterface[], reference: string): number | undefined {
  const mac = parseMac(reference);
  const n = interfaces.findIndex((one) =>
    mac === undefined ? one.name === reference : !isMade(one) && one.mac === mac,
  );
  return n < 0 ? undefined : n;
}

/** What an interface is built on: the members of a bond or bridge, the carrier of a VLAN. */
export const lowerOf = ({ bond, bridge, vlan }: NodeInterface): readonly string[] =>
  bond?.interfaces ?? bridge?.interfaces ?? (vlan ? [vlan.link] : []);

/**
 * All links: those of `interfaces` in their order, then those that are only named as a part of
 * others.
 */
export function linksOf(interfaces: readonly NodeInterface[]): readonly Link[] {
  const implied = new Map<string, NodeInterface>();
  for (const reference of interfaces.flatMap(lowerOf))
    if (entryOf(interfaces, reference) === undefined) {
      const mac = parseMac(reference);
      implied.set(mac ?? reference, mac === undefined ? { name: reference } : { mac });
    }
  const all = [...interfaces, ...implied.values()];
  const names = all.map((one, n) =>
    n < interfaces.length || one.mac === undefined ? linkName(one, n) : `mac-${one.mac.replaceAll(':', '')}`,
  );
  const means = (reference: string, n: number) => entryOf(all, reference) === n;
  return all.map((config, n) => {
    const above = interfaces.filter(
      (one) => (one.bond ?? one.bridge) && lowerOf(one).some((r) => means(r, n)),
    );
    const [first] = above;
    return {
      name: names[n]!,
      config,
      vlans: interfaces.flatMap((one) => (one.vlan && means(one.vlan.link, n) ? [one.name!] : [])),
      ...(first && {
        master: {
          kind: first.bond ? ('bond' as const) : ('bridge' as const),
          name: first.name!,
          primary: first.bond?.primary !== undefined && means(first.bond.primary, n),
        },
      }),
    };
  });
}

/** Whether another link is built on this one. */
const carries = ({ master, vlans }: Link): boolean => master !== undefined || vlans.length > 0;

/** Whether the link asks DHCPv4. */
export const asksDhcp4 = (link: Link): boolean =>
  link.config.dhcp4 ?? ((link.config.addresses ?? []).length === 0 && !carries(link));

/** Whether the link has no addresses of its own: only what is built on it has. */
export const isBare = (link: Link): boolean =>
  carries(link) &&
  !asksDhcp4(link) &&
  !link.config.dhcp6 &&
  !link.config.acceptRa &&
  (link.config.addresses ?? []).length === 0;

/**
 * Whether the gateways are on the link without an address that says so: a host address (/32, /128)
 * has no network in which a gateway could be.
 */
export function gatewayOnLink({ gatewayOnLink, addresses = [] }: NodeInterface, gateway: string): boolean {
  if (gatewayOnLink !== undefined) return gatewayOnLink;
  const six = gateway.includes(':');
  const family = addresses.filter((one) => one.includes(':') === six);
  return family.length > 0 && family.every((one) => one.endsWith(six ? '/128' : '/32'));
}

/**
 * The MAC address of a bond or bridge: its own, or that of the member that boots, or of its first
 * member, so that the boot host knows the machine by it. Undefined where no member's is known.
 */
export function madeMac(
  interfaces: readonly NodeInterface[],
  one: NodeInterface,
  bootMac: string | undefined,
): string | undefined {
  if (one.mac !== undefined) return one.mac;
  const macs = lowerOf(one).flatMap((reference) => {
    const n = entryOf(interfaces, reference);
    return parseMac(reference) ?? (n === undefined ? [] : (interfaces[n]!.mac ?? []));
  });
  return macs.find((mac) => mac === bootMac) ?? macs[0];
}
