/**
 * DHCP for many machines on one socket: the exchanges of firmware, iPXE and initrd, as broadcasts.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { type Ipv4, ipv4 } from '../../src/base/ipv4.ts';
import { type Mac, macToBytes } from '../../src/base/mac.ts';
import { MESSAGE, OPTION } from '../../src/pxe/dhcp/options.ts';
import { addressOption, type DhcpPacket, decode, encode, messageType } from '../../src/pxe/dhcp/packet.ts';

/** The software that asks. */
export type Asker = 'firmware' | 'ipxe' | 'initrd';

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

/** Time until the first retransmission; each further one takes twice as long. */
const AGAIN_MS = 1000;
const ATTEMPTS = 5;

export class DhcpTalk {
  readonly #socket: Socket;
  readonly #waiting = new Map<number, (packet: DhcpPacket) => void>();
  #next = 1;
  /** Number of packets that were sent again because no answer came in time. */
  retransmitted = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('message', (bytes) => {
      const read = decode(bytes);
      if (read.ok && read.packet.op === 2) this.#waiting.get(read.packet.xid)?.(read.packet);
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
   * DISCOVER, OFFER, REQUEST, ACK. Rejects for a NAK and after {@link ATTEMPTS} without an answer.
   */
  async exchange(mac: Mac, uuid: string, asker: Asker): Promise<Lease> {
    const xid = this.#next++;
    const common: readonly (readonly [number, Buffer])[] = [
      ...SAYS[asker],
      [OPTION.machineId, Buffer.concat([Buffer.from([0]), uuidOctets(uuid)])],
      [OPTION.maxMessageSize, Buffer.from([0x05, 0xc0])],
      [OPTION.parameterList, Buffer.from([1, 3, 6, 12, 15, 51, 54, 66, 67])],
    ];
    const offer = await this.#ask(xid, mac, [
      [OPTION.messageType, Buffer.from([MESSAGE.DISCOVER])],
      ...common,
    ]);
    if (messageType(offer) !== MESSAGE.OFFER) throw new Error(`${mac}: no OFFER for its DISCOVER`);
    const server = offer.options.get(OPTION.serverId);
    if (server === undefined) throw new Error(`${mac}: an OFFER without server`);
    const ack = await this.#ask(xid, mac, [
      [OPTION.messageType, Buffer.from([MESSAGE.REQUEST])],
      [OPTION.serverId, server],
      [OPTION.requestedAddress, addressOctets(offer.yiaddr)],
      ...common,
    ]);
    if (messageType(ack) !== MESSAGE.ACK) throw new Error(`${mac}: no ACK for its REQUEST`);
    if (addressOption(ack, OPTION.serverId) === undefined) throw new Error(`${mac}: an ACK without server`);
    const file = ack.options.get(OPTION.bootFile)?.toString('latin1').replace(/\0$/, '') ?? ack.file;
    return { address: ack.yiaddr, file };
  }

  async #ask(xid: number, mac: Mac, options: readonly (readonly [number, Buffer])[]): Promise<DhcpPacket> {
    const { bytes } = encode({
      op: 1,
      htype: 1,
      hlen: 6,
      hops: 0,
      xid,
      secs: 0,
      flags: 0,
      ciaddr: NONE,
      yiaddr: NONE,
      siaddr: NONE,
      giaddr: NONE,
      chaddr: Buffer.concat([macToBytes(mac)], 16),
      sname: '',
      file: '',
      options: new Map(options),
    });
    const { promise, resolve, reject } = Promise.withResolvers<DhcpPacket>();
    this.#waiting.set(xid, resolve);
    let sent = 0;
    let timer: NodeJS.Timeout | undefined;
    const send = (): void => {
      if (sent === ATTEMPTS) {
        reject(new Error(`${mac}: no answer to ${sent} packets`));
        return;
      }
      if (sent > 0) this.retransmitted++;
      this.#socket.send(bytes, 67, '255.255.255.255');
      timer = setTimeout(send, AGAIN_MS * 2 ** sent++);
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
