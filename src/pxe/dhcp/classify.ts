/**
 * Reads what a packet says about its client. Every DHCP message of an Ethernet client gives a
 * {@link BootClient}.
 */
import { hex } from '../../base/bytes.ts';
import { type Mac, macFromBytes } from '../../base/mac.ts';
import type { BootClient, BootStage } from '../client.ts';
import { architecture } from '../firmware/architectures.ts';
import type { QuirkId } from '../firmware/quirks.ts';
import { OPTION, printable } from './options.ts';
import { type DhcpPacket, subOptions } from './packet.ts';

/**
 * Hardware address blocks of the Raspberry Pi: its ROM claims to be an x86 BIOS
 * (raspberry-pi-says-x86). Boards of later blocks are known by their option 97.
 */
const RASPBERRY_PI = [
  'b8:27:eb',
  'dc:a6:32',
  'e4:5f:01',
  '28:cd:c1',
  'd8:3a:dd',
  '2c:cf:67',
  '88:a2:9e',
] as const;
/** Option 93 code of the Raspberry Pi's ROM. */
const RPIBOOT = 41;

/** iPXE's sub-options of option 175 (src/include/ipxe/features.h): features are 0x10 to 0x4f. */
const FEATURES = { first: 0x10, last: 0x4f, http: 0x13, version: 0xeb } as const;

interface Ipxe {
  readonly version?: string;
  /** It lists features, and HTTP is not among them. */
  readonly withoutHttp: boolean;
}

/** Whether the packet is from an Ethernet client, the only kind that {@link classify} accepts. */
export function hasMac(packet: Pick<DhcpPacket, 'htype' | 'hlen'>): boolean {
  return packet.htype === 1 && packet.hlen === 6;
}

/**
 * Option 77 as text. RFC 3004 clients send length-prefixed texts; iPXE sends plain text, which
 * gives `raw`.
 */
function userClass(value: Buffer): { text: string; raw: boolean } {
  const texts: string[] = [];
  let at = 0;
  while (at < value.length) {
    const end = at + 1 + value[at]!;
    if (value[at] === 0 || end > value.length) return { text: printable(value), raw: true };
    texts.push(printable(value.subarray(at + 1, end)));
    at = end;
  }
  return { text: texts.join(' '), raw: false };
}

function readIpxe(packet: DhcpPacket, user: string | undefined): Ipxe | undefined {
  const encapsulated = packet.options.get(OPTION.ipxe);
  const named =
    user !== undefined && (user === 'iPXE' || user === 'gPXE' || user.split(' ').includes('iPXE'));
  if (encapsulated === undefined) return named ? { withoutHttp: false } : undefined;
  const found = subOptions(encapsulated, true);
  if (found === undefined) return { withoutHttp: false };
  const version = found.get(FEATURES.version);
  const listed = [...found.keys()].some((code) => code >= FEATURES.first && code <= FEATURES.last);
  return {
    withoutHttp: listed && !found.has(FEATURES.http),
    ...(version && version.length > 0 ? { version: [...version].join('.') } : {}),
  };
}

/**
 * The UUID in option 97: a type octet (0) and sixteen octets as SMBIOS stores them, the first three
 * fields little-endian (iPXE and EDK2 do the same). Undefined when the firmware sends nothing,
 * zeros or ones (quirk no-machine-id).
 */
function uuid(packet: DhcpPacket): string | undefined {
  const value = packet.options.get(OPTION.machineId);
  if (value?.length !== 17 || value[0] !== 0) return undefined;
  const raw = value.subarray(1);
  if (raw.every((octet) => octet === 0) || raw.every((octet) => octet === 255)) return undefined;
  const h = hex(raw);
  const swap = (from: number, octets: number) =>
    Array.from({ length: octets }, (_, n) =>
      h.slice(from + 2 * (octets - 1 - n), from + 2 * (octets - n)),
    ).join('');
  return `${swap(0, 4)}-${swap(8, 2)}-${swap(12, 2)}-${h.slice(16, 20)}-${h.slice(20)}`;
}

/**
 * Whether a boot client is a Raspberry Pi: by its hardware address, or by its option 97. Since its
 * fourth generation that begins with "RPi" and the generation; before, it was the serial number of
 * the board four times.
 *
 * @see https://www.raspberrypi.com/documentation/computers/raspberry-pi.html, DHCP_OPTION97
 */
function isRaspberryPi(mac: Mac, packet: DhcpPacket): boolean {
  if (RASPBERRY_PI.some((block) => mac.startsWith(block))) return true;
  const id = packet.options.get(OPTION.machineId);
  if (id?.length !== 17 || id[0] !== 0) return false;
  const words = [1, 5, 9, 13].map((at) => id.readUInt32LE(at));
  const [first] = words;
  if (/^(RPi[0-9]|[0-9]iPR)$/.test(id.toString('latin1', 1, 5))) return true;
  // Boards without a UUID of their own may have the same octet everywhere.
  return new Set(id.subarray(1, 5)).size > 1 && words.every((word) => word === first);
}

/**
 * The first known code of option 93, a list in order of preference (RFC 5970 §3.3); else the code
 * that is written in the vendor class.
 */
function archCode(packet: DhcpPacket, vendor: string | undefined): number | undefined {
  const list = packet.options.get(OPTION.architecture);
  if (list !== undefined) {
    for (let at = 0; at + 2 <= list.length; at += 2) {
      const code = list.readUInt16BE(at);
      if (architecture(code) !== undefined) return code;
    }
  }
  const written = vendor === undefined ? undefined : /^(?:PXE|HTTP)Client:Arch:([0-9]{5})/.exec(vendor)?.[1];
  return written !== undefined && architecture(Number(written)) !== undefined ? Number(written) : undefined;
}

function stageOf(
  vendor: string | undefined,
  ipxe: Ipxe | undefined,
  code: number | undefined,
  hasArch: boolean,
): BootStage {
  if (ipxe !== undefined) return ipxe.withoutHttp ? 'ipxe-tftp' : 'ipxe';
  if (vendor?.startsWith('HTTPClient')) return 'http';
  if (vendor?.startsWith('PXEClient')) return 'pxe';
  if (vendor?.startsWith('U-Boot')) return 'pxe';
  // The Raspberry Pi's REQUEST has an architecture and no vendor class
  // (request-without-vendor-class).
  if (vendor === undefined && hasArch) return code !== undefined && architecture(code)?.http ? 'http' : 'pxe';
  return 'none';
}

/** What all clients with the same software have in common. */
type Kind = Omit<BootClient, 'mac' | 'uuid' | 'relay'>;

/** So much of a class is read: an offer keeps it, and pieces of RFC 3396 have no end. */
const KEPT_OCTETS = 255;

/**
 * Reads everything about a client that the options of its software determine. `raspberryPi`: the
 * MAC belongs to a Raspberry Pi. `identified`: option 97 holds a UUID.
 */
function readKind(packet: DhcpPacket, raspberryPi: boolean, identified: boolean): Kind {
  const quirks: QuirkId[] = [];
  const vendorRaw = packet.options.get(OPTION.vendorClass)?.subarray(0, KEPT_OCTETS);
  // Some clients end the text with a NUL (quirk nul-in-vendor-class).
  const vendor = vendorRaw && printable(vendorRaw.at(-1) === 0 ? vendorRaw.subarray(0, -1) : vendorRaw);
  const userRaw = packet.options.get(OPTION.userClass)?.subarray(0, KEPT_OCTETS);
  const user = userRaw && userClass(userRaw);
  const ipxe = readIpxe(packet, user?.text);
  if (ipxe && user?.raw) quirks.push('ipxe-raw-user-class');
  const hasArch = packet.options.has(OPTION.architecture);

  let code = archCode(packet, vendor);
  const stage = stageOf(vendor, ipxe, code, hasArch);
  const pi = stage !== 'none' && raspberryPi;
  if (code === 9) {
    code = 7;
    quirks.push('arch-9-is-x64');
  }
  if (pi && code === 0) {
    code = RPIBOOT;
    quirks.push('raspberry-pi-says-x86');
  }
  if (stage === 'pxe' && vendor === undefined) quirks.push('request-without-vendor-class');
  const known = code === undefined ? undefined : architecture(code);
  if (stage !== 'none' && !identified) quirks.push('no-machine-id');
  const family = pi ? 'raspberry-pi' : vendor?.startsWith('U-Boot') ? 'u-boot' : undefined;
  if (family === 'u-boot') quirks.push('u-boot-vendor-class');
  return {
    stage,
    ...(code === undefined ? {} : { archCode: code }),
    ...(known?.arch ? { arch: known.arch } : {}),
    ...(known?.firmware ? { firmware: known.firmware } : {}),
    ...(vendor === undefined ? {} : { vendorClass: vendor }),
    ...(user === undefined ? {} : { userClass: user.text }),
    ...(family === undefined ? {} : { family }),
    ...(ipxe?.version === undefined ? {} : { ipxeVersion: ipxe.version }),
    ...(quirks.length === 0 ? {} : { quirks }),
  };
}

/** The options that {@link readKind} reads. */
const KIND_OPTIONS = [OPTION.vendorClass, OPTION.userClass, OPTION.architecture, OPTION.ipxe] as const;
/** The memo is emptied when it holds this many kinds. The machines of a rack are of few kinds. */
const MEMO_KINDS_LIMIT = 256;
/** Longer keys are not kept. No known firmware sends that much. */
const MEMO_KEY_LENGTH = 1024;
const memoKinds = new Map<string, Kind>();

function kindOf(packet: DhcpPacket, raspberryPi: boolean, identified: boolean): Kind {
  let key = `${raspberryPi} ${identified}`;
  for (const code of KIND_OPTIONS) {
    const value = packet.options.get(code);
    // The length separates one option's end from the next one's beginning.
    key += value === undefined ? ' -' : ` ${value.length}:${value.toString('latin1')}`;
  }
  let kind = memoKinds.get(key);
  if (kind === undefined) {
    kind = readKind(packet, raspberryPi, identified);
    if (memoKinds.size >= MEMO_KINDS_LIMIT) memoKinds.clear();
    if (key.length <= MEMO_KEY_LENGTH) memoKinds.set(key, kind);
  }
  return kind;
}

/** The client of a packet for which {@link hasMac} holds. Text from the wire is made printable. */
export function classify(packet: DhcpPacket): BootClient {
  const mac: Mac = macFromBytes(packet.chaddr);
  const machine = uuid(packet);
  const raspberryPi = isRaspberryPi(mac, packet);
  const client: { -readonly [K in keyof BootClient]: BootClient[K] } = {
    ...kindOf(packet, raspberryPi, machine !== undefined),
    mac,
  };
  if (machine !== undefined) client.uuid = machine;
  if (packet.giaddr !== 0) client.relay = packet.giaddr;
  return client;
}
