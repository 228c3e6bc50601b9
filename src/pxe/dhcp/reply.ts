/**
 * Builds replies as values: which fields and options a client gets. Decisions are passed in;
 * nothing is looked up here.
 */
import type { Seconds } from '../../base/duration.ts';
import { ANY, broadcastOf, formatIpv4, type Ipv4, netmask } from '../../base/ipv4.ts';
import type { BootAnswer } from '../boot.ts';
import type { BootClient } from '../client.ts';
import type { ServedNetwork } from '../network.ts';
import { MESSAGE, type MessageName, OPTION } from './options.ts';
import { BROADCAST_FLAG, type DhcpPacket, subOptions } from './packet.ts';

/** Longest file name, in octets, that fits into the header with its NUL. */
const FILE_MAXIMUM = 127;

/** Sub-options of option 43 for PXE firmware (PXE 2.1, as EDK2, iPXE and dnsmasq implement it). */
const PXE = { discoveryControl: 6, bootMenu: 9, menuPrompt: 10, bootItem: 71, end: 255 } as const;
/** Discovery control bit 3: no discovery, boot the file that this offer names. */
const BOOT_THE_FILE = 0x08;

/** iPXE's "no proxyDHCP": do not wait for another offer (175.176). */
const NO_PROXY = Buffer.from([0xb0, 1, 1]);

/**
 * Each memo of this file is emptied when it holds this many values. The replies of a network
 * contain only a few different values.
 */
const MEMO_LIMIT = 1024;

/** Wraps `make` so that its results are kept. */
function memoized<K>(make: (of: K) => Buffer): (of: K) => Buffer {
  const made = new Map<K, Buffer>();
  return (of) => {
    let bytes = made.get(of);
    if (bytes === undefined) {
      if (made.size >= MEMO_LIMIT) made.clear();
      bytes = make(of);
      made.set(of, bytes);
    }
    return bytes;
  };
}

/** Four octets in network order. The buffer is shared: never write to it. */
const uint32 = memoized((value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value, 0);
  return bytes;
});

/** The text's octets. The buffer is shared: never write to it. */
const latin1 = memoized((text: string) => Buffer.from(text, 'latin1'));

function addresses(list: readonly Ipv4[]): Buffer {
  const bytes = Buffer.allocUnsafe(4 * list.length);
  list.forEach((address, n) => {
    bytes.writeUInt32BE(address, 4 * n);
  });
  return bytes;
}

const TYPE: Readonly<Record<MessageName, Buffer>> = Object.fromEntries(
  Object.entries(MESSAGE).map(([name, code]) => [name, Buffer.from([code])]),
) as Record<MessageName, Buffer>;

/** A reply under construction. */
type Draft = { -readonly [K in keyof DhcpPacket]: DhcpPacket[K] } & {
  readonly options: Map<number, Buffer>;
};

/** The fields that every reply copies from its request (RFC 2131 table 3). */
export function replyTo(request: DhcpPacket, type: 'OFFER' | 'ACK' | 'NAK', serverId: Ipv4): Draft {
  const options = new Map<number, Buffer>([
    [OPTION.messageType, TYPE[type]],
    [OPTION.serverId, uint32(serverId)],
  ]);
  // The client identifier is echoed unaltered (RFC 6842 §3), and so is the whole relay information,
  // in every reply (RFC 3046 §2.2). Snooping switches add it with giaddr 0, and drop a reply that
  // comes back without it.
  const clientId = request.options.get(OPTION.clientId);
  if (clientId) options.set(OPTION.clientId, clientId);
  const agent = request.options.get(OPTION.relayAgent);
  if (agent) options.set(OPTION.relayAgent, agent);
  return {
    op: 2,
    htype: request.htype,
    hlen: request.hlen,
    hops: 0,
    xid: request.xid,
    secs: 0,
    flags: request.flags,
    ciaddr: ANY,
    yiaddr: ANY,
    siaddr: ANY,
    giaddr: request.giaddr,
    chaddr: request.chaddr,
    sname: '',
    file: '',
    options,
  };
}

/**
 * A DHCPNAK with `why` in option 56. Through a relay it must reach a client that has no address, so
 * the broadcast bit is set (RFC 2131 §4.3.2).
 */
export function nak(request: DhcpPacket, serverId: Ipv4, why: string): DhcpPacket {
  const reply = replyTo(request, 'NAK', serverId);
  reply.options.set(OPTION.message, Buffer.from(why, 'latin1'));
  return { ...reply, flags: request.giaddr === ANY ? request.flags : request.flags | BROADCAST_FLAG };
}

interface NetworkOptions {
  readonly always: readonly (readonly [number, Buffer])[];
  /** Sent to clients whose option 55 lists them, and to clients without option 55. */
  readonly onRequest: readonly (readonly [number, Buffer])[];
}

/** Bounded by the number of networks: an entry is dropped with its network. */
const memoNetworkOptions = new WeakMap<ServedNetwork, NetworkOptions>();

/** The options that are the same for every client of a network. */
function optionsOf(network: ServedNetwork): NetworkOptions {
  let made = memoNetworkOptions.get(network);
  if (made === undefined) {
    const always: [number, Buffer][] = [[OPTION.subnetMask, uint32(netmask(network.subnet.prefix))]];
    if (network.gateway !== undefined) always.push([OPTION.routers, uint32(network.gateway)]);
    if (network.dns.length > 0) always.push([OPTION.dns, addresses(network.dns)]);
    const onRequest: [number, Buffer][] = [[OPTION.broadcast, uint32(broadcastOf(network.subnet))]];
    if (network.domain !== undefined) onRequest.push([OPTION.domain, Buffer.from(network.domain, 'latin1')]);
    if (network.ntp.length > 0) onRequest.push([OPTION.ntp, addresses(network.ntp)]);
    if (network.mtu !== undefined) {
      const mtu = Buffer.allocUnsafe(2);
      mtu.writeUInt16BE(network.mtu, 0);
      onRequest.push([OPTION.mtu, mtu]);
    }
    made = { always, onRequest };
    memoNetworkOptions.set(network, made);
  }
  return made;
}

/**
 * Adds mask, gateway and name servers; also domain, NTP, MTU and host name if the client asks for
 * them.
 */
export function addNetworkOptions(
  options: Map<number, Buffer>,
  request: DhcpPacket,
  network: ServedNetwork,
  hostname: string | undefined,
): void {
  const { always, onRequest } = optionsOf(network);
  for (const [code, value] of always) options.set(code, value);
  const wanted = request.options.get(OPTION.parameterList);
  for (const [code, value] of onRequest)
    if (wanted === undefined || wanted.includes(code)) options.set(code, value);
  if (hostname !== undefined && (wanted === undefined || wanted.includes(OPTION.hostname)))
    options.set(OPTION.hostname, Buffer.from(hostname, 'latin1'));
}

/**
 * Adds the lease time and both renewal times (RFC 2131 §4.4.5). OFFER and ACK both have them (quirk
 * jetdirect-t1).
 */
export function addLeaseTimes(options: Map<number, Buffer>, lease: Seconds): void {
  options.set(OPTION.leaseTime, uint32(lease));
  options.set(OPTION.renewalTime, uint32(Math.floor(lease / 2)));
  options.set(OPTION.rebindingTime, uint32(Math.floor((lease * 7) / 8)));
}

/** Header fields and options that tell a client what to boot. */
interface BootFields {
  readonly siaddr: Ipv4;
  readonly sname: string;
  readonly file: string;
  readonly options: readonly (readonly [number, Buffer])[];
}

/**
 * The packet that carries the boot fields: `offer` and `ack` on port 67, `proxy-offer` where
 * another DHCP server gives the addresses, `boot-server` on port 4011.
 */
type BootPacket = 'offer' | 'ack' | 'proxy-offer' | 'boot-server';

function raspberryPi(mac: string): Buffer {
  // The ROM of the first three generations expects trailing spaces (quirk raspberry-pi-43).
  const text = Buffer.from(
    mac.startsWith('b8:27:eb') ? 'Raspberry Pi Boot   ' : 'Raspberry Pi Boot',
    'latin1',
  );
  return Buffer.concat([
    Buffer.from([PXE.discoveryControl, 1, BOOT_THE_FILE, PXE.bootMenu, text.length + 3, 0, 0, text.length]),
    text,
    Buffer.from([PXE.menuPrompt, 4, 0, 0x50, 0x58, 0x45, PXE.end]),
  ]);
}

const BYPASS = Buffer.from([PXE.discoveryControl, 1, BOOT_THE_FILE, PXE.end]);

/** Option 43 for a PXE client. The boot item of its request is echoed (quirk boot-item-echo). */
function vendorOptions(request: DhcpPacket, client: BootClient): Buffer {
  if (client.family === 'raspberry-pi') return raspberryPi(client.mac);
  const sent = request.options.get(OPTION.vendorSpecific);
  const item = sent && subOptions(sent, true)?.get(PXE.bootItem);
  if (item?.length !== 4) return BYPASS;
  return Buffer.concat([BYPASS.subarray(0, -1), Buffer.from([PXE.bootItem, 4]), item, BYPASS.subarray(-1)]);
}

/**
 * The boot fields of a reply to `client`; undefined when the client gets no boot file. The header
 * and the options carry the same names, because iPXE prefers the header and EDK2 the options (quirk
 * ipxe-header-wins).
 */
export function bootFields(
  request: DhcpPacket,
  client: BootClient,
  answer: BootAnswer,
  network: ServedNetwork,
  packet: BootPacket,
): BootFields | undefined {
  const file = answer.bootFile;
  if (file === undefined || client.stage === 'none') return undefined;
  const server = formatIpv4(network.serverAddress);
  const pxeClient = client.vendorClass?.startsWith('PXEClient') ?? client.family === 'raspberry-pi';
  const options: [number, Buffer][] = [];
  const inHeader = file.length <= FILE_MAXIMUM ? file : '';

  if (client.stage === 'http') {
    // EDK2 (HttpBootDxe) drops an offer without this exact class, and wants the URL in OFFER and
    // ACK. HTTP boot has no option 43.
    options.push([OPTION.vendorClass, latin1('HTTPClient')], [OPTION.bootFile, latin1(file)]);
    addMachineId(options, request);
    return { siaddr: network.serverAddress, sname: '', file: inHeader, options };
  }
  if (pxeClient) {
    options.push([OPTION.vendorClass, latin1('PXEClient')]);
    addMachineId(options, request);
    const binl = answer.pxe.style === 'binl' && client.stage === 'pxe' && packet !== 'boot-server';
    if (binl) return { siaddr: network.serverAddress, sname: '', file: '', options };
    const bypass = answer.pxe.style !== 'binl' || packet !== 'boot-server';
    if (bypass || request.options.has(OPTION.vendorSpecific))
      options.push([OPTION.vendorSpecific, vendorOptions(request, client)]);
  }
  options.push([OPTION.tftpServerName, latin1(server)]);
  // Firmware gets one of a few loader names, which are worth keeping. An iPXE gets a URL with its
  // session, which is not.
  const terminated = `${file}\0`;
  options.push([
    OPTION.bootFile,
    client.stage === 'pxe' ? latin1(terminated) : Buffer.from(terminated, 'latin1'),
  ]);
  const onlyServer = network.mode === 'server' || network.mode === 'reservations';
  if (onlyServer && (client.stage === 'ipxe' || client.stage === 'ipxe-tftp'))
    options.push([OPTION.ipxe, NO_PROXY]);
  return { siaddr: network.serverAddress, sname: server, file: inHeader, options };
}

/**
 * Echoes option 97, as RFC 4578 §2.3 demands. The RFC demands the same for options 93 and 94, but
 * no known server sends them and no known client reads them.
 */
function addMachineId(options: [number, Buffer][], request: DhcpPacket): void {
  const machine = request.options.get(OPTION.machineId);
  if (machine && machine.length > 0) options.push([OPTION.machineId, machine]);
}

/** Writes boot fields into `reply`, and returns it. */
export function withBoot(reply: Draft, boot: BootFields | undefined): DhcpPacket {
  if (boot === undefined) return reply;
  for (const [code, value] of boot.options) reply.options.set(code, value);
  reply.siaddr = boot.siaddr;
  reply.sname = boot.sname;
  reply.file = boot.file;
  return reply;
}
