/**
 * Schema of `spec.config.network`: interfaces, and the bonds, VLANs and bridges that are built on
 * them. src/ignition/network-faults.ts checks what must hold between them.
 */
import { z } from 'zod';
import { parseMac } from '../base/mac.ts';
import { distinct } from './distinct.ts';
import {
  domainName,
  duration,
  interfaceAddress,
  ipText,
  ipv4Text,
  ipv6Text,
  mac,
  templated,
} from './fields.ts';

/** Names that Linux or its tools use for something else. */
const TAKEN_NAMES = new Set(['.', '..', 'lo', 'all', 'default', 'bonding_masters']);

/** Why `text` cannot be the name of an interface (IFNAMSIZ is 16 with the NUL). */
function interfaceNameFault(text: string): string | undefined {
  if (text.length > 15) return `"${text}" has ${text.length} characters; an interface name has at most 15`;
  if (text.startsWith('-')) return 'not an interface name: programs would read it as an option';
  if (/[*?![\]]/.test(text))
    return 'not an interface name: there are no patterns; write the whole name, or select the interface by its mac';
  if (!/^[!-~]+$/.test(text) || /[/:%"'\\]/.test(text))
    return 'not an interface name: only ASCII, no blanks and none of "/", ":", "%", "\\" and quotes';
  if (/^[0-9]+$/.test(text)) return 'not an interface name: it must not be a number';
  return TAKEN_NAMES.has(text) ? `"${text}" is not free as an interface name` : undefined;
}

const interfaceName = z.string().superRefine((text, context) => {
  const message = interfaceNameFault(text);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/** Another interface, by its name or its MAC address. */
const interfaceReference = z
  .string()
  .superRefine((text, context) => {
    const message = parseMac(text) === undefined ? interfaceNameFault(text) : undefined;
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .overwrite((text) => parseMac(text) ?? text);

/** `default` is netplan's word; here the family has to be said. */
const destination = z.string().superRefine((text, context) => {
  if (text === 'default')
    context.addIssue({
      code: 'custom',
      message:
        'write "0.0.0.0/0" or "::/0" instead of "default", or give the address as `gateway` or `gateway6` of the interface',
    });
  else if (!interfaceAddress.safeParse(text).success)
    context.addIssue({
      code: 'custom',
      message: 'not an address with prefix length; write it like "10.80.0.0/16" or "fd00:80::/64"',
    });
});

const metric = z.int().min(0).max(4294967295);
const table = z.int().min(1).max(4294967295);

/** Whether two texts without templates are of the same address family. */
const sameFamily = (...texts: (string | undefined)[]): boolean => {
  const given = texts.filter((text) => text !== undefined);
  return (
    given.some((text) => text.includes('${')) || new Set(given.map((text) => text.includes(':'))).size <= 1
  );
};

const nodeRoute = z
  .strictObject({
    to: templated(destination).meta({
      description: 'Destination with prefix length, e.g. "10.80.0.0/16"; "0.0.0.0/0" or "::/0" for all.',
    }),
    via: templated(ipText)
      .optional()
      .meta({ description: 'Address of the gateway. Absent: the destination is on the link itself.' }),
    onLink: z.boolean().optional().meta({
      description: 'true: the gateway is on this link although no address of the interface says so.',
    }),
    metric: metric.optional().meta({ description: 'Metric of the route; the lowest wins.' }),
    table: table.optional().meta({ description: 'Routing table. Default 254, the main table.' }),
    source: templated(ipText)
      .optional()
      .meta({ description: 'Preferred source address of packets that take this route.' }),
  })
  .refine(({ to, via, source }) => sameFamily(to, via, source), {
    message: '`to` and `via` (and `source`) must be of the same address family',
  })
  .refine(({ via, onLink }) => !onLink || via !== undefined, { message: 'onLink needs `via`' });

const nodeRule = z
  .strictObject({
    from: templated(interfaceAddress).optional().meta({ description: 'Source network of the packets.' }),
    to: templated(interfaceAddress).optional().meta({ description: 'Destination network of the packets.' }),
    mark: z.int().min(1).max(4294967295).optional().meta({ description: 'Firewall mark of the packets.' }),
    priority: z
      .int()
      .min(1)
      .max(32765)
      .optional()
      .meta({ description: 'Priority of the rule; the lowest is asked first.' }),
    table: table.meta({ description: 'The routing table that these packets use.' }),
  })
  .refine(({ from, to, mark }) => [from, to, mark].some((one) => one !== undefined), {
    message: 'say which packets: from, to or mark',
  })
  .refine(({ from, to }) => sameFamily(from, to), {
    message: '`from` and `to` must be of the same address family',
  });

const BOND_MODES = [
  'active-backup',
  '802.3ad',
  'balance-rr',
  'balance-xor',
  'balance-tlb',
  'balance-alb',
  'broadcast',
] as const;

/** How other tools call the modes. */
const OTHER_MODES: Readonly<Record<string, string>> = {
  lacp: '802.3ad',
  '0': 'balance-rr',
  '1': 'active-backup',
  '2': 'balance-xor',
  '3': 'broadcast',
  '4': '802.3ad',
  '5': 'balance-tlb',
  '6': 'balance-alb',
};

const bondMode = z.enum(BOND_MODES, {
  error: ({ input }) => {
    const meant = OTHER_MODES[String(input).toLowerCase()];
    return meant === undefined ? undefined : `write "${meant}"`;
  },
});

const members = (what: string) =>
  z
    .array(interfaceReference)
    .check(distinct('the interface', (one) => one))
    .meta({
      description: `${what}, by name or MAC address. One that has no entry of its own needs none.`,
    });

const bond = z
  .strictObject({
    mode: bondMode.meta({ description: 'How the bond uses its members; 802.3ad is LACP.' }),
    interfaces: members('The members').min(1),
    lacpRate: z
      .enum(['slow', 'fast'])
      .optional()
      .meta({ description: 'How often the partner sends LACP packets (802.3ad). Default slow.' }),
    hashPolicy: z
      .enum(['layer2', 'layer2+3', 'layer3+4', 'encap2+3', 'encap3+4', 'vlan+srcmac'])
      .optional()
      .meta({
        description: 'Which member a packet takes (802.3ad, balance-xor, balance-tlb). Default layer2.',
      }),
    primary: interfaceReference.optional().meta({
      description: 'The member that is used while it works (active-backup, balance-tlb, balance-alb).',
    }),
    minLinks: z
      .int()
      .min(0)
      .max(255)
      .optional()
      .meta({ description: 'The bond is up while this many members are (802.3ad). Default 0.' }),
    monitor: duration
      .optional()
      .meta({ description: 'How often the links of the members are looked at. Default 100ms.' }),
    upDelay: duration
      .optional()
      .meta({ description: 'How long a link must be up before it is used; a multiple of `monitor`.' }),
    downDelay: duration
      .optional()
      .meta({ description: 'How long a link must be down before it is given up; a multiple of `monitor`.' }),
  })
  .meta({ description: 'Makes this interface a bond.' });

const vlan = z
  .strictObject({
    id: z.int().min(1).max(4094).meta({ description: 'VLAN ID (IEEE 802.1Q).' }),
    link: interfaceReference.meta({
      description: 'The interface that carries the VLAN, by name or MAC address: a NIC, a bond or a bridge.',
    }),
  })
  .meta({ description: 'Makes this interface a VLAN on another one.' });

const bridge = z
  .strictObject({
    interfaces: members('The ports').optional(),
    stp: z.boolean().optional().meta({ description: 'Whether the bridge speaks STP. Default false.' }),
    forwardDelay: duration.optional().meta({
      description:
        'How long a port listens and learns before it forwards. Default 0s without STP, 15s with it.',
    }),
  })
  .meta({ description: 'Makes this interface a bridge.' });

const flag = (description: string) =>
  z
    .boolean()
    .optional()
    .meta({ description: `${description} Default true.` });

const nodeInterface = z
  .strictObject({
    mac: mac.optional().meta({
      description:
        'Selects the interface by MAC address. Prefer this to the name, because names can change. A bond or bridge gets this MAC address; default: that of the member that booted, or else of its first member.',
    }),
    name: interfaceName.optional().meta({
      description:
        'Selects the interface by name; at most 15 characters. With mac: the new name of the interface. A bond, VLAN or bridge gets this name.',
    }),
    bond: bond.optional(),
    vlan: vlan.optional(),
    bridge: bridge.optional(),
    dhcp4: z.boolean().optional().meta({
      description:
        'Whether the interface uses DHCPv4. Default: true if no addresses are given and no other interface is built on this one.',
    }),
    dhcp6: z.boolean().optional().meta({
      description:
        'Whether the interface uses DHCPv6. Default: only when router advertisements ask for it, as the operating system does by itself.',
    }),
    fromDhcp: z
      .strictObject({
        routes: flag('Take routes and the gateway.'),
        dns: flag('Take DNS servers.'),
        domains: z.boolean().optional().meta({ description: 'Take search domains. Default false.' }),
        ntp: flag('Take time servers.'),
        mtu: z.boolean().optional().meta({ description: 'Take the MTU. Default false.' }),
      })
      .optional()
      .meta({ description: 'What the interface takes from DHCP besides its address.' }),
    addresses: z
      .array(templated(interfaceAddress))
      .optional()
      .meta({ description: 'Addresses with prefix length, e.g. "10.77.0.10/24", "fd00:77::10/64".' }),
    gateway: templated(ipv4Text).optional().meta({
      description: 'Address of the default gateway (IPv4). It must be in a network of `addresses`.',
    }),
    gateway6: templated(ipv6Text).optional().meta({ description: 'Address of the default gateway (IPv6).' }),
    gatewayOnLink: z.boolean().optional().meta({
      description:
        'true: the gateways are on this link although no address of the interface says so. Default: true for addresses with /32 or /128 only, otherwise false.',
    }),
    metric: metric.optional().meta({
      description: 'Metric of the routes to the gateways and of those from DHCP and advertisements.',
    }),
    acceptRa: z.boolean().optional().meta({
      description:
        'Whether the interface takes addresses and routes from IPv6 router advertisements. Default: that of the operating system.',
    }),
    fromRa: z
      .strictObject({
        gateway: flag('Take the gateway.'),
        addresses: flag('Make addresses from the prefixes.'),
        dns: flag('Take DNS servers.'),
        domains: z.boolean().optional().meta({ description: 'Take search domains. Default false.' }),
      })
      .optional()
      .meta({ description: 'What the interface takes from router advertisements.' }),
    linkLocal: z
      .boolean()
      .optional()
      .meta({ description: 'false: the interface gets no link-local IPv6 address. Default true.' }),
    nameservers: z.array(templated(ipText)).optional().meta({ description: 'Addresses of the DNS servers.' }),
    search: z.array(templated(domainName)).optional().meta({ description: 'DNS search domains.' }),
    mtu: z.int().min(576).max(9216).optional().meta({ description: 'MTU of the interface in octets.' }),
    routes: z.array(nodeRoute).optional().meta({ description: 'Static routes.' }),
    rules: z.array(nodeRule).optional().meta({
      description: 'Policy routing: packets that use another routing table than the main one.',
    }),
    optional: z
      .boolean()
      .optional()
      .meta({ description: 'true: the boot does not wait for this interface.' }),
  })
  .refine((i) => i.mac !== undefined || i.name !== undefined, {
    message: 'name the interface: give mac or name',
  })
  .refine((i) => [i.bond, i.vlan, i.bridge].filter((one) => one !== undefined).length <= 1, {
    message: 'an interface is a bond, a VLAN or a bridge: give one of bond, vlan and bridge',
  })
  .refine((i) => (i.bond ?? i.vlan ?? i.bridge) === undefined || i.name !== undefined, {
    message: 'a bond, VLAN or bridge needs a name',
  })
  .refine((i) => i.linkLocal !== false || !(i.dhcp6 || i.acceptRa), {
    message: 'DHCPv6 and router advertisements need the link-local address; leave linkLocal: false out',
  })
  .refine((i) => i.mtu === undefined || !i.fromDhcp?.mtu, {
    message: 'give either mtu or fromDhcp.mtu',
  })
  .refine((i) => i.vlan === undefined || i.mac === undefined, {
    message: 'a VLAN has the MAC address of the interface that carries it; leave `mac` out',
  });

export type NodeInterface = z.output<typeof nodeInterface>;

/** Whether the interface is made, instead of found on the machine. */
export const isMade = ({ bond, vlan, bridge }: Pick<NodeInterface, 'bond' | 'vlan' | 'bridge'>): boolean =>
  (bond ?? vlan ?? bridge) !== undefined;

/**
 * What tells interfaces apart, also when layers merge: a bond's MAC address is also a member's.
 */
export const interfaceKey = (one: NodeInterface): string | undefined =>
  isMade(one) ? one.name : (one.mac ?? one.name);

export const nodeNetwork = z.strictObject({
  interfaces: z
    .array(nodeInterface)
    .min(1)
    .max(64)
    .check(distinct('the interface', interfaceKey))
    .meta({ description: 'Network interfaces of the machine.' }),
});
