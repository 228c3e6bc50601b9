/**
 * DHCP for many machines on one socket: the exchanges of firmware, iPXE and initrd, as broadcasts.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { type Ipv4, ipv4 } from '../../base/ipv4.ts';
import { type Mac, macToBytes } from '../../base/mac.ts';
import { MESSAGE, OPTION } from '../../pxe/dhcp/options.ts';
import { addressOption, type DhcpPacket, decode, encode, messageType } from '../../pxe/dhcp/packet.ts';

/** The software that asks. */
export type Asker = 'firmware' | 'ipxe' | 'initrd';

/** What a DHCP client says of itself, and when it asks again. */
export interface DhcpClient {
  readonly says: readonly (readonly [number, Buffer])[];
  /** How long it waits for an answer before each retransmission, and at last before it gives up. */
  readonly againMs: readonly number[];
}

export interface Lease {
  readonly address: Ipv4;
  /** What to load next: header field or option 67; empty for an initrd. */
  readonly file: string;
}

const text = (value: string): Buffer => Buffer.from(value, 'latin1');

/** The options by which UEFI x64 firmware, an iPXE with HTTP and dhcpcd identify themselves. */
const SAYS: Readonly<Record<Asker, readonly (readonly [number, Buffer])[]>> = {
  firmware: [
    [OPTION.vendorClass, text('PXEClient:Arch:00007:UNDI:003016')],
    [OPTION.architecture, Buffer.from([0, 7])],
    [OPTION.networkInterface, Buffer.from([1, 3, 16])],
  ],
  ipxe: [
    [OPTION.vendorClass, text('PXEClient:Arch:00007:UNDI:003010')],
    [OPTION.architecture, Buffer.from([0, 7])],
    [OPTION.userClass, text('iPXE')],
    // Its features include HTTP; its version is 1.21.1.
    [OPTION.ipxe, Buffer.from([0x13, 1, 1, 0xeb, 3, 1, 21, 1])],
  ],
  initrd: [[OPTION.vendorClass, text('dhcpcd-10')]],
};

/** iPXE and initrds ask again after a second; each further time takes twice as long. */
const AGAIN_MS = [1000, 2000, 4000, 8000, 16_000];

export class DhcpTalk {
  readonly #socket: Socket;
  /** By xid: what an exchange waits for. */
  readonly #waiting = new Map<
    number,
    { readonly types: readonly number[]; readonly take: (packet: DhcpPacket) => void }
  >();
  #next = 1;
  /** Number of packets that were sent again because no answer came in time. */
  retransmitted = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('message', (bytes) => {
      const read = decode(bytes);
      if (!read.ok || read.packet.op !== 2) return;
      const waiting = this.#waiting.get(read.packet.xid);
      // A second OFFER may come after the REQUEST, because the DISCOVER was sent again.
      if (waiting?.types.includes(messageType(read.packet) ?? 0)) waiting.take(read.packet);
    });
  }

  /** On port 68 of this network namespace; needs a route for 255.255.255.255. */
  static async open(): Promise<DhcpTalk> {
    const socket = createSocket({ type: 'udp4', reuseAddr: true, recvBufferSize: 4 * 1024 * 1024 });
    socket.bind(68, '0.0.0.0');
    await once(socket, 'listening');
    socket.setBroadcast(true);
    return new DhcpTalk(socket);
  }

  /**
   * DISCOVER, OFFER, REQUEST, ACK. Rejects for a NAK, and when the client gives up.
   */
  async exchange(mac: Mac, uuid: string, asker: Asker | DhcpClient): Promise<Lease> {
    const client = typeof asker === 'string' ? { says: SAYS[asker], againMs: AGAIN_MS } : asker;
    const xid = this.#next++;
    const says: readonly (readonly [number, Buffer])[] = [...client.says, ...common(uuid)];
    const offer = await this.#ask({ xid, mac, ...client, types: [MESSAGE.OFFER] }, [
      [OPTION.messageType, Buffer.from([MESSAGE.DISCOVER])],
      ...says,
    ]);
    const server = offer.options.get(OPTION.serverId);
    if (server === undefined) throw new Error(`${mac}: an OFFER without server`);
    const ack = await this.#ask({ xid, mac, ...client, types: [MESSAGE.ACK, MESSAGE.NAK] }, [
      [OPTION.messageType, Buffer.from([MESSAGE.REQUEST])],
      [OPTION.serverId, server],
      [OPTION.requestedAddress, addressOctets(offer.yiaddr)],
      ...says,
    ]);
    if (messageType(ack) !== MESSAGE.ACK) throw new Error(`${mac}: its REQUEST was refused`);
    if (addressOption(ack, OPTION.serverId) === undefined) throw new Error(`${mac}: an ACK without server`);
    return { address: ack.yiaddr, file: fileOf(ack) };
  }

  async #ask(
    asked: {
      readonly xid: number;
      readonly mac: Mac;
      readonly types: readonly number[];
      readonly againMs: readonly number[];
    },
    options: readonly (readonly [number, Buffer])[],
  ): Promise<DhcpPacket> {
    const { xid, mac, types, againMs } = asked;
    const bytes = requestPacket(xid, mac, NONE, options);
    const { promise, resolve, reject } = Promise.withResolvers<DhcpPacket>();
    this.#waiting.set(xid, { types, take: resolve });
    let sent = 0;
    let timer: NodeJS.Timeout | undefined;
    const send = (): void => {
      if (sent === againMs.length) {
        reject(new Error(`${mac}: no answer to ${sent} packets`));
        return;
      }
      if (sent > 0) this.retransmitted++;
      this.#socket.send(bytes, 67, '255.255.255.255');
      timer = setTimeout(send, againMs[sent++]);
    };
    send();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(xid);
    }
  }

  close(): void {
    this.#socket.close();
  }
}

const NONE = ipv4('0.0.0.0');

/** What every client says besides. */
const common = (uuid: string): readonly (readonly [number, Buffer])[] => [
  [OPTION.machineId, Buffer.concat([Buffer.from([0]), uuidOctets(uuid)])],
  [OPTION.maxMessageSize, Buffer.from([0x05, 0xc0])],
  [OPTION.parameterList, Buffer.from([1, 3, 6, 12, 15, 51, 54, 66, 67])],
];

function requestPacket(
  xid: number,
  mac: Mac,
  ciaddr: Ipv4,
  options: readonly (readonly [number, Buffer])[],
): Buffer {
  const none = { yiaddr: NONE, siaddr: NONE, giaddr: NONE, sname: '', file: '' };
  const chaddr = Buffer.concat([macToBytes(mac)], 16);
  const head = { op: 1, htype: 1, hlen: 6, hops: 0, xid, secs: 0, flags: 0 } as const;
  return encode({ ...head, ...none, ciaddr, chaddr, options: new Map(options) }).bytes;
}

/**
 * Asks the PXE boot service on port 4011 for the boot file (PXE 2.1 §2.2), from the machine's own
 * address. `again` is called for each packet that is sent again. Rejects when the client gives up.
 */
export async function askBootServer(
  who: { readonly mac: Mac; readonly uuid: string; readonly address: string; readonly server: string },
  { says, againMs }: DhcpClient,
  again: () => void,
): Promise<string> {
  const socket = createSocket('udp4');
  try {
    socket.bind(0, who.address);
    await once(socket, 'listening');
    const bytes = requestPacket(1, who.mac, ipv4(who.address), [
      [OPTION.messageType, Buffer.from([MESSAGE.REQUEST])],
      ...says,
      ...common(who.uuid),
    ]);
    for (const wait of againMs) {
      const answer = once(socket, 'message', { signal: AbortSignal.timeout(wait) });
      socket.send(bytes, 4011, who.server);
      const [message] = (await answer.catch(() => [])) as [Buffer?];
      const read = message && decode(message);
      if (read?.ok) return fileOf(read.packet);
      again();
    }
    throw new Error(`${who.mac}: no answer from port 4011`);
  } finally {
    socket.close();
  }
}

/** The boot file that a reply names; empty when it names none. */
const fileOf = (reply: DhcpPacket): string =>
  reply.options.get(OPTION.bootFile)?.toString('latin1').replace(/\0$/, '') ?? reply.file;

function addressOctets(address: Ipv4): Buffer {
  const octets = Buffer.alloc(4);
  octets.writeUInt32BE(address);
  return octets;
}

/** The UUID as SMBIOS stores it, with the first three fields little-endian. */
function uuidOctets(uuid: string): Buffer {
  const octets = Buffer.from(uuid.replaceAll('-', ''), 'hex');
  octets.subarray(0, 4).reverse();
  octets.subarray(4, 6).reverse();
  octets.subarray(6, 8).reverse();
  return octets;
}
