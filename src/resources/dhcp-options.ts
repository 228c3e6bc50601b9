/**
 * DHCP options of the operator's own: which there are, what their values look like, and the octets
 * of each. Options that Muster sets itself are refused with the field that sets them.
 */
import { z } from 'zod';
import { parseIpv4 } from '../base/ipv4.ts';
import { didYouMean } from '../base/suggest.ts';
import { domainName, interfaceAddress, ipv4Text } from './fields.ts';

const TYPES = [
  'ip',
  'ips',
  'text',
  'flag',
  'uint8',
  'uint16',
  'uint32',
  'int32',
  'domains',
  'routes',
  'suboptions',
  'hex',
] as const;
type Type = (typeof TYPES)[number];

/**
 * Options with their names, after IANA's registry of BOOTP parameters. Those with a type can be
 * given by an operator; the others are in {@link SET_BY_MUSTER} or of the protocol.
 */
const KNOWN: readonly (readonly [code: number, name: string, type?: Type])[] = [
  [1, 'subnet-mask'],
  [2, 'time-offset', 'int32'],
  [3, 'routers', 'ips'],
  [4, 'time-servers', 'ips'],
  [6, 'domain-name-servers', 'ips'],
  [7, 'log-servers', 'ips'],
  [9, 'lpr-servers', 'ips'],
  [12, 'host-name'],
  [13, 'boot-file-size'],
  [15, 'domain-name', 'text'],
  [17, 'root-path', 'text'],
  [19, 'ip-forwarding', 'flag'],
  [23, 'default-ip-ttl', 'uint8'],
  [26, 'interface-mtu', 'uint16'],
  [28, 'broadcast-address'],
  [40, 'nis-domain', 'text'],
  [41, 'nis-servers', 'ips'],
  [42, 'ntp-servers', 'ips'],
  [43, 'vendor-specific', 'suboptions'],
  [44, 'netbios-name-servers', 'ips'],
  [46, 'netbios-node-type', 'uint8'],
  [50, 'requested-address'],
  [51, 'lease-time'],
  [52, 'overload'],
  [53, 'message-type'],
  [54, 'server-identifier'],
  [55, 'parameter-request-list'],
  [56, 'message'],
  [57, 'maximum-message-size'],
  [58, 'renewal-time'],
  [59, 'rebinding-time'],
  [60, 'vendor-class'],
  [61, 'client-identifier'],
  [66, 'tftp-server-name', 'text'],
  [67, 'bootfile-name', 'text'],
  [69, 'smtp-servers', 'ips'],
  [72, 'www-servers', 'ips'],
  [77, 'user-class'],
  [81, 'client-fqdn'],
  [82, 'relay-agent-information'],
  [93, 'client-architecture'],
  [94, 'client-network-interface'],
  [97, 'client-machine-identifier'],
  [100, 'posix-timezone', 'text'],
  [101, 'tz-timezone', 'text'],
  [108, 'ipv6-only-preferred', 'uint32'],
  [114, 'captive-portal', 'text'],
  [119, 'domain-search', 'domains'],
  [120, 'sip-servers', 'hex'],
  [121, 'classless-static-routes', 'routes'],
  [125, 'vendor-identifying', 'hex'],
  [138, 'capwap-controllers', 'ips'],
  [150, 'tftp-server-addresses', 'ips'],
  [175, 'ipxe-encapsulated'],
  [209, 'pxelinux-config-file', 'text'],
  [210, 'pxelinux-path-prefix', 'text'],
  [249, 'ms-classless-static-routes', 'routes'],
  [252, 'wpad-url', 'text'],
];

/** Options that cannot be given, and what to do instead. */
const SET_BY_MUSTER: Readonly<Record<number, string>> = {
  1: 'it follows from `subnet`',
  12: 'it is the name of the Machine',
  28: 'it follows from `subnet`',
  51: 'write dhcp.leaseTime',
  58: 'write dhcp.leaseTime',
  59: 'write dhcp.leaseTime',
  175: 'Muster speaks with iPXE in it',
};
/**
 * Options with which Muster itself answers clients that boot. Others, such as phones and switches,
 * take the server and the file of their own set-up from them.
 */
const OF_BOOTING: Readonly<Record<number, string>> = {
  66: 'Muster names itself; pxe.loader selects the file',
  67: 'write pxe.loader',
};

/** Whether an option is one of those that clients with this vendor class get from Muster alone. */
export const isOfBooting = (code: number, vendorClass: string | undefined): boolean =>
  Object.hasOwn(OF_BOOTING, code) && /^(PXEClient|HTTPClient|U-Boot)/.test(vendorClass ?? '');

/** Options of the protocol itself. */
const OF_THE_PROTOCOL = new Set([
  50, 52, 53, 54, 55, 56, 57, 60, 61, 77, 80, 81, 82, 90, 93, 94, 97, 118, 145, 151, 152, 153, 154, 155, 156,
  157,
]);
/** Whether clients can use the octets of an option, and what to write if they cannot. */
interface Use {
  readonly takes: (octets: Buffer) => boolean;
  readonly write: string;
}
/** ONIE reads option 114 as well, with other schemes. */
const URL_TEXT: Use = {
  takes: (octets) => /^[a-z][a-z0-9+.-]*:[^\s"<>]+$/i.test(octets.toString('latin1')),
  write: 'must be a URL without blanks, like "https://portal.example/api"',
};
const USES: Readonly<Record<number, Use>> = {
  // RFC 2132, sections 4.5, 5.1 and 8.7; RFC 8910.
  23: { takes: (octets) => octets[0]! > 0, write: 'must be at least 1: a packet with 0 is not sent on' },
  26: {
    takes: (octets) => octets.readUInt16BE() >= 68,
    write: 'must be at least 68, the smallest MTU of IPv4',
  },
  46: {
    takes: (octets) => [1, 2, 4, 8].includes(octets[0]!),
    write: 'must be 1 (B-node), 2 (P-node), 4 (M-node) or 8 (H-node)',
  },
  114: URL_TEXT,
  252: URL_TEXT,
};
/** Options of a whole Network that have a field of their own. */
export const NETWORK_FIELDS: Readonly<Record<number, string>> = {
  3: 'gateway',
  6: 'dns',
  15: 'domain',
  26: 'mtu',
  42: 'ntp',
};

const subOption = z.strictObject({
  code: z.int().min(1).max(254).meta({ description: 'Code of the sub-option.' }),
  type: z
    .enum(['ip', 'ips', 'text', 'flag', 'uint8', 'uint16', 'uint32', 'hex'])
    .optional()
    .meta({ description: 'Type of the value. Default text.' }),
  value: z
    .union([z.string(), z.number(), z.boolean(), z.array(z.string())])
    .meta({ description: 'The value.' }),
});
const route = z.strictObject({
  to: interfaceAddress.meta({ description: 'Destination with prefix length, e.g. "10.9.0.0/16".' }),
  via: ipv4Text.meta({ description: 'Address of the gateway.' }),
});

const dhcpOption = z
  .strictObject({
    option: z.union([z.int(), z.string()]).meta({
      description: 'Number (1 to 254) or name of the option, e.g. 119 or "domain-search".',
    }),
    type: z.enum(TYPES).optional().meta({
      description:
        'Type of the value. Needed only for options without a name; hex takes any octets, written as hexadecimal digits.',
    }),
    value: z
      .union([z.string(), z.number(), z.boolean(), z.array(z.union([z.string(), route, subOption]))])
      .meta({
        description:
          'The value: an address or a list of them, a text, a number, a list of domains, a list of {to, via} for routes, a list of {code, type, value} for option 43.',
      }),
    vendorClass: z.string().min(1).optional().meta({
      description: 'Only for clients whose vendor class (option 60) begins with this text.',
    }),
    always: z.boolean().optional().meta({
      description:
        'true: also for clients that do not ask for the option. Default: clients that list it in option 55, and clients without option 55.',
    }),
  })
  .superRefine((one, context) => {
    const made = octetsOf(one);
    if (made.fault)
      context.addIssue({ code: 'custom', message: made.fault.message, path: [made.fault.field] });
    else if (isOfBooting(made.code, one.vendorClass))
      context.addIssue({
        code: 'custom',
        message: `Muster sets option ${made.code} for clients that boot: ${OF_BOOTING[made.code]}`,
        path: ['option'],
      });
  });

export type DhcpOption = z.output<typeof dhcpOption>;

export const dhcpOptions = z
  .array(dhcpOption)
  .max(64)
  .superRefine((list, context) => {
    const seen = new Set<string>();
    for (const [n, one] of list.entries()) {
      const key = `${codeOf(one.option)} ${one.vendorClass ?? ''}`;
      if (seen.has(key))
        context.addIssue({
          code: 'custom',
          message: `option ${one.option} is listed twice; keep one`,
          path: [n],
        });
      seen.add(key);
    }
  });

/** The code of an option; undefined for a name that is not known. */
export function codeOf(option: number | string): number | undefined {
  if (typeof option === 'number') return option;
  return KNOWN.find(([, name]) => name === option)?.[0];
}

/** The name of an option; undefined for one that has none here. */
export const optionName = (code: number): string | undefined => KNOWN.find(([known]) => known === code)?.[1];

type Octets =
  | { readonly code: number; readonly octets: Buffer; readonly fault?: undefined }
  | { readonly fault: { readonly field: 'option' | 'type' | 'value'; readonly message: string } };

/** The octets of an option, or what is wrong with it. */
export function octetsOf({ option, type, value }: Pick<DhcpOption, 'option' | 'type' | 'value'>): Octets {
  const fault = (field: 'option' | 'type' | 'value', message: string): Octets => ({
    fault: { field, message },
  });
  const code = codeOf(option);
  if (code === undefined) {
    const names = KNOWN.flatMap(([, name, its]) => (its === undefined ? [] : [name]));
    return fault(
      'option',
      `there is no option "${option}"${didYouMean(String(option), names) || '; write its number'}`,
    );
  }
  if (!Number.isInteger(code) || code < 1 || code > 254)
    return fault('option', 'the number of an option is 1 to 254');
  const instead = SET_BY_MUSTER[code];
  if (instead !== undefined) return fault('option', `Muster sets option ${code}: ${instead}`);
  if (OF_THE_PROTOCOL.has(code))
    return fault('option', `option ${code} is a part of the protocol, which Muster speaks`);
  const own = KNOWN.find(([known]) => known === code)?.[2];
  if (own === undefined && type === undefined)
    return fault('type', `option ${code} has no name here; say its type: ${TYPES.join(', ')}`);
  if (own !== undefined && type !== undefined && type !== own && type !== 'hex')
    return fault(
      'type',
      `option ${code} is of type ${own}; leave type out, or write the octets with type hex`,
    );
  const octets = ENCODERS[type ?? own!](value);
  if (typeof octets === 'string') return fault('value', octets);
  if (type === 'hex' && own !== undefined && !SHAPES[own](octets))
    return fault(
      'value',
      `these ${octets.length} octets are no value of type ${own}, which option ${code} has`,
    );
  if (octets.length > 1024) return fault('value', 'the value is longer than 1024 octets');
  const use = USES[code];
  return use !== undefined && !use.takes(octets) ? fault('value', use.write) : { code, octets };
}

/** Makes the octets of a value, or says what it should be. */
type Encoder = (value: unknown) => Buffer | string;

const number =
  (octets: 1 | 2 | 4, signed = false): Encoder =>
  (value) => {
    const low = signed ? -(2 ** (8 * octets - 1)) : 0;
    const high = signed ? 2 ** (8 * octets - 1) - 1 : 2 ** (8 * octets) - 1;
    if (!Number.isInteger(value) || (value as number) < low || (value as number) > high)
      return `must be a whole number from ${low} to ${high}`;
    const buffer = Buffer.alloc(octets);
    if (signed) buffer.writeIntBE(value as number, 0, octets);
    else buffer.writeUIntBE(value as number, 0, octets);
    return buffer;
  };

const ips: Encoder = (value) => {
  const list = Array.isArray(value) ? value : [value];
  const addresses = list.map((text) => (typeof text === 'string' ? parseIpv4(text) : undefined));
  if (list.length === 0 || addresses.includes(undefined))
    return 'must be one or more IPv4 addresses; write them like ["10.77.0.2"]';
  const buffer = Buffer.alloc(4 * list.length);
  for (const [n, address] of addresses.entries()) buffer.writeUInt32BE(address!, 4 * n);
  return buffer;
};

const text: Encoder = (value) =>
  typeof value === 'string' && /^[ -~]+$/.test(value)
    ? Buffer.from(value, 'latin1')
    : 'must be a text of ASCII';

/** RFC 1035 names without compression, which RFC 3397 allows and does not demand. */
const domains: Encoder = (value) => {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0 || !list.every((one) => domainName.safeParse(one).success))
    return 'must be a list of domains; write it like ["lab.example"]';
  return Buffer.concat(
    (list as string[]).map((one) =>
      Buffer.concat([
        ...one
          .split('.')
          .map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, 'latin1')])),
        Buffer.from([0]),
      ]),
    ),
  );
};

/** RFC 3442: prefix length, the significant octets of the destination, the gateway. */
const routes: Encoder = (value) => {
  const wanted = 'must be a list of routes; write it like [{to: 10.9.0.0/16, via: 10.77.0.254}]';
  if (!Array.isArray(value) || value.length === 0) return wanted;
  const parts: Buffer[] = [];
  for (const one of value) {
    const { to, via } = (one ?? {}) as { to?: unknown; via?: unknown };
    const [base, prefix] = String(to).split('/');
    const network = parseIpv4(base ?? '');
    const gateway = parseIpv4(String(via));
    if (network === undefined || gateway === undefined) return wanted;
    const length = Number(prefix);
    if (length < 32 && network % 2 ** (32 - length) !== 0)
      return `${String(to)} has host bits that are not zero`;
    const buffer = Buffer.alloc(8);
    buffer.writeUInt32BE(network, 0);
    buffer.writeUInt32BE(gateway, 4);
    parts.push(Buffer.from([length]), buffer.subarray(0, Math.ceil(length / 8)), buffer.subarray(4));
  }
  return Buffer.concat(parts);
};

const hex: Encoder = (value) => {
  const digits = typeof value === 'string' ? value.replace(/[: ]/g, '') : '';
  return /^([0-9a-fA-F]{2})+$/.test(digits)
    ? Buffer.from(digits, 'hex')
    : 'must be octets in hexadecimal digits, e.g. "0104c0a80001"';
};

const suboptions: Encoder = (value) => {
  if (typeof value === 'string') return hex(value);
  if (!Array.isArray(value) || value.length === 0)
    return 'must be octets in hexadecimal digits, or a list of {code, type, value}';
  const parts: Buffer[] = [];
  for (const one of value) {
    const parsed = subOption.safeParse(one);
    if (!parsed.success) return 'must be a list of {code, type, value}';
    const octets = ENCODERS[parsed.data.type ?? 'text'](parsed.data.value);
    if (typeof octets === 'string') return `sub-option ${parsed.data.code} ${octets}`;
    if (octets.length > 255) return `sub-option ${parsed.data.code} is longer than 255 octets`;
    parts.push(Buffer.from([parsed.data.code, octets.length]), octets);
  }
  return Buffer.concat(parts);
};

const ENCODERS: Readonly<Record<Type, Encoder>> = {
  ip: (value) => (Array.isArray(value) ? 'must be one IPv4 address' : ips(value)),
  ips,
  text,
  flag: (value) => (typeof value === 'boolean' ? Buffer.from([value ? 1 : 0]) : 'must be true or false'),
  uint8: number(1),
  uint16: number(2),
  uint32: number(4),
  int32: number(4, true),
  domains,
  routes,
  suboptions,
  hex,
};

/** Whether octets are a value of a type; clients drop other options, or the whole reply. */
const SHAPES: Readonly<Record<Type, (octets: Buffer) => boolean>> = {
  ip: ({ length }) => length === 4,
  ips: ({ length }) => length > 0 && length % 4 === 0,
  text: (octets) => octets.every((octet) => octet >= 0x20 && octet < 0x7f),
  flag: (octets) => octets.length === 1 && octets[0]! <= 1,
  uint8: ({ length }) => length === 1,
  uint16: ({ length }) => length === 2,
  uint32: ({ length }) => length === 4,
  int32: ({ length }) => length === 4,
  domains: areDomains,
  routes: areRoutes,
  suboptions: () => true,
  hex: () => true,
};

/** RFC 1035 names, of which a later one may point into those before it. */
function areDomains(octets: Buffer): boolean {
  let isOpen = true;
  for (let at = 0; at < octets.length; ) {
    const length = octets[at]!;
    if (length >= 0xc0) {
      if (at + 1 >= octets.length || ((length & 0x3f) << 8) + octets[at + 1]! >= at) return false;
      at += 2;
    } else if (length > 63) return false;
    else at += 1 + length;
    if (at > octets.length) return false;
    isOpen = length !== 0 && length < 0xc0;
  }
  return !isOpen;
}

/** RFC 3442: prefix length, the significant octets of the destination, the gateway. */
function areRoutes(octets: Buffer): boolean {
  let at = 0;
  while (at < octets.length) {
    if (octets[at]! > 32) return false;
    at += 1 + Math.ceil(octets[at]! / 8) + 4;
  }
  return octets.length > 0 && at === octets.length;
}
