/**
 * DHCP options as a table: type and source of each that Muster reads or writes; their names are in
 * src/resources/dhcp-options.ts. Options that are not in the table pass decoding and encoding as
 * raw octets; the table is for printing and fixed sizes.
 */
import { hex } from '../../base/bytes.ts';
import { formatIpv4, type Ipv4 } from '../../base/ipv4.ts';
import { optionName } from '../../resources/dhcp-options.ts';

type OptionType =
  | 'flag'
  | 'uint8'
  | 'uint16'
  | 'uint32'
  | 'ip'
  | 'ips'
  | 'text'
  | 'codes'
  | 'uint16s'
  | 'type-and-uuid'
  | 'nii'
  | 'message-type'
  | 'bytes';

interface OptionKind {
  readonly code: number;
  readonly type: OptionType;
  /** The document that defines the option. */
  readonly source: string;
}

const kind = <C extends number>(code: C, type: OptionType, source: string) =>
  ({ code, type, source }) as const;

/** All options that Muster reads, writes or prints by name. */
const OPTIONS = {
  subnetMask: kind(1, 'ip', 'RFC 2132 §3.3'),
  routers: kind(3, 'ips', 'RFC 2132 §3.5'),
  dns: kind(6, 'ips', 'RFC 2132 §3.8'),
  hostname: kind(12, 'text', 'RFC 2132 §3.14'),
  bootFileSize: kind(13, 'uint16', 'RFC 2132 §3.15'),
  domain: kind(15, 'text', 'RFC 2132 §3.17'),
  rootPath: kind(17, 'text', 'RFC 2132 §3.19'),
  mtu: kind(26, 'uint16', 'RFC 2132 §5.1'),
  broadcast: kind(28, 'ip', 'RFC 2132 §5.3'),
  ntp: kind(42, 'ips', 'RFC 2132 §8.3'),
  vendorSpecific: kind(43, 'bytes', 'RFC 2132 §8.4'),
  requestedAddress: kind(50, 'ip', 'RFC 2132 §9.1'),
  leaseTime: kind(51, 'uint32', 'RFC 2132 §9.2'),
  overload: kind(52, 'uint8', 'RFC 2132 §9.3'),
  messageType: kind(53, 'message-type', 'RFC 2132 §9.6'),
  serverId: kind(54, 'ip', 'RFC 2132 §9.7'),
  parameterList: kind(55, 'codes', 'RFC 2132 §9.8'),
  message: kind(56, 'text', 'RFC 2132 §9.9'),
  maxMessageSize: kind(57, 'uint16', 'RFC 2132 §9.10'),
  renewalTime: kind(58, 'uint32', 'RFC 2132 §9.11'),
  rebindingTime: kind(59, 'uint32', 'RFC 2132 §9.12'),
  vendorClass: kind(60, 'text', 'RFC 2132 §9.13'),
  clientId: kind(61, 'bytes', 'RFC 2132 §9.14, RFC 6842'),
  tftpServerName: kind(66, 'text', 'RFC 2132 §9.4'),
  bootFile: kind(67, 'text', 'RFC 2132 §9.5'),
  userClass: kind(77, 'bytes', 'RFC 3004 (iPXE sends plain text)'),
  clientFqdn: kind(81, 'bytes', 'RFC 4702'),
  relayAgent: kind(82, 'bytes', 'RFC 3046'),
  architecture: kind(93, 'uint16s', 'RFC 4578 §2.1'),
  networkInterface: kind(94, 'nii', 'RFC 4578 §2.2'),
  machineId: kind(97, 'type-and-uuid', 'RFC 4578 §2.3'),
  domainSearch: kind(119, 'bytes', 'RFC 3397'),
  classlessRoutes: kind(121, 'bytes', 'RFC 3442'),
  ipxe: kind(175, 'bytes', 'iPXE: src/include/ipxe/dhcp.h'),
} as const satisfies Record<string, OptionKind>;

type Codes = { readonly [K in keyof typeof OPTIONS]: (typeof OPTIONS)[K]['code'] };

/** Option codes by name: `OPTION.serverId` is 54. */
export const OPTION = Object.fromEntries(
  Object.entries(OPTIONS).map(([name, option]) => [name, option.code]),
) as unknown as Codes;

const BY_CODE: ReadonlyMap<number, OptionKind> = new Map(
  Object.values(OPTIONS).map((option) => [option.code, option]),
);

/** Size in octets of the types that have a fixed one. */
const FIXED: Partial<Record<OptionType, number>> = {
  flag: 1,
  uint8: 1,
  uint16: 2,
  uint32: 4,
  ip: 4,
  'message-type': 1,
  nii: 3,
  'type-and-uuid': 17,
};

/**
 * By code: whether several instances of the option are one value in pieces (RFC 3396 §5). A value
 * of fixed size cannot be in pieces: a second instance is a mistake and is ignored, as in EDK2.
 */
export const CONCATENATES: readonly boolean[] = Array.from({ length: 256 }, (_, code) => {
  const known = BY_CODE.get(code);
  return known === undefined || FIXED[known.type] === undefined;
});

/** Message types of option 53 (RFC 2132 §9.6). */
export const MESSAGE = {
  DISCOVER: 1,
  OFFER: 2,
  REQUEST: 3,
  DECLINE: 4,
  ACK: 5,
  NAK: 6,
  RELEASE: 7,
  INFORM: 8,
} as const;
export type MessageName = keyof typeof MESSAGE;

const MESSAGE_NAMES: readonly (MessageName | undefined)[] = Array.from({ length: 9 }, (_, n) =>
  (Object.keys(MESSAGE) as MessageName[]).find((name) => MESSAGE[name] === n),
);

/** Name of a message type; undefined for an unknown one. */
export function messageName(type: number): MessageName | undefined {
  return MESSAGE_NAMES[type];
}

const PLAIN = /^[ -[\]-~]*$/;

/**
 * Octets as text: printable ASCII unchanged (except the backslash), all other octets as \xNN, so
 * that logs stay readable.
 */
export function printable(bytes: Uint8Array): string {
  const plain = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  if (PLAIN.test(plain)) return plain;
  let text = '';
  for (const octet of bytes) {
    text +=
      octet >= 0x20 && octet < 0x7f && octet !== 0x5c
        ? String.fromCharCode(octet)
        : `\\x${octet.toString(16).padStart(2, '0')}`;
  }
  return text;
}

const PRINT: Record<OptionType, (value: Buffer) => string | undefined> = {
  flag: (v) => (v.length === 1 ? String(v[0] === 1) : undefined),
  uint8: (v) => (v.length === 1 ? String(v[0]) : undefined),
  uint16: (v) => (v.length === 2 ? String(v.readUInt16BE()) : undefined),
  uint32: (v) => (v.length === 4 ? String(v.readUInt32BE()) : undefined),
  ip: (v) => (v.length === 4 ? formatIpv4(v.readUInt32BE() as Ipv4) : undefined),
  ips: (v) =>
    v.length > 0 && v.length % 4 === 0
      ? Array.from({ length: v.length / 4 }, (_, n) => formatIpv4(v.readUInt32BE(n * 4) as Ipv4)).join(' ')
      : undefined,
  text: (v) => printable(v),
  codes: (v) => [...v].join(' '),
  uint16s: (v) =>
    v.length > 0 && v.length % 2 === 0
      ? Array.from({ length: v.length / 2 }, (_, n) => v.readUInt16BE(n * 2)).join(' ')
      : undefined,
  'type-and-uuid': (v) => (v.length === 17 ? hex(v) : undefined),
  nii: (v) => (v.length === 3 ? `${v[0]} ${v[1]}.${v[2]}` : undefined),
  'message-type': (v) => (v.length === 1 ? messageName(v[0]!) : undefined),
  bytes: (v) => hex(v),
};

/** An option's name and value for people. A value that does not fit its type is in hexadecimal. */
export function describeOption(
  code: number,
  value: Buffer,
): { readonly name: string; readonly text: string } {
  const known = BY_CODE.get(code);
  const text = known === undefined ? hex(value) : PRINT[known.type](value);
  return { name: optionName(code) ?? `option-${code}`, text: text ?? `${hex(value)} (malformed)` };
}
