/** Asks the servers of a segment, as a machine does. */
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../base/error-text.ts';
import { ANY, formatIpv4, ipv4 } from '../../base/ipv4.ts';
import { DOCTOR_CLASS } from '../../pxe/client.ts';
import { MESSAGE, OPTION } from '../../pxe/dhcp/options.ts';
import {
  addressOption,
  BROADCAST_FLAG,
  type DhcpPacket,
  decode,
  encode,
  messageType,
} from '../../pxe/dhcp/packet.ts';
import { neighbour } from '../../pxe/neighbours.files.ts';
import { decodeTftp, encodeError, encodeRead, TFTP_ERROR } from '../../pxe/tftp/codec.ts';
import { ASKED_FOR_S, type Offer } from './judge.ts';

/** How long TFTP and HTTP may take. */
const PATIENCE_MS = 3000;

/** Seconds after which a client without an answer asks again, and `secs` of its packet. */
const ASKED_AT_S = [0, 2, 4];

/**
 * Who asks: an ordinary system, and firmware of each kind by its option 93 (x86 BIOS, x86-64 UEFI,
 * ARM64 UEFI). A proxy answers firmware only, and only the kinds that it has a file for.
 */
const CLIENTS = [undefined, 0, 7, 11] as const;

const ORDINARY = { op: 1, htype: 1, hlen: 6, hops: 0, sname: '', file: '' } as const;
const PORTS = { dhcp: 67, pxe: 4011 } as const;

/**
 * Asks all segments at once for DHCP servers, for {@link ASKED_FOR_S}: on port 67 as an ordinary
 * client and as firmware, and on port 4011. Collects all answers by the own address of a segment.
 * One MAC that nobody has asks everything, so that a server probes one address. No address is
 * requested, so no lease comes of it. A text says why nothing could be asked.
 */
export async function askForOffers(
  segments: readonly { readonly address: string; readonly broadcast: string }[],
): Promise<ReadonlyMap<string, readonly Offer[]> | string> {
  const sockets: Socket[] = [];
  const open = async (port: number, address: string): Promise<Socket> => {
    const socket = createSocket({ type: 'udp4', reuseAddr: true });
    sockets.push(socket);
    socket.bind(port, address);
    await once(socket, 'listening');
    socket.setBroadcast(true);
    // What cannot be sent, for instance while a link is down, is not answered.
    socket.on('error', () => {});
    return socket;
  };
  try {
    const dhcp = await open(68, '0.0.0.0');
    const found = new Map<string, readonly Offer[]>();
    const asking = segments.map(async ({ address, broadcast }) => {
      found.set(address, await offersOn({ dhcp, pxe: await open(0, address) }, address, broadcast));
    });
    await Promise.all(asking);
    return found;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EACCES') return 'root only may ask: run it with sudo';
    if (code === 'EADDRINUSE') return 'another program of this host has UDP port 68 for itself';
    return messageOf(error);
  } finally {
    for (const socket of sockets) socket.close();
  }
}

async function offersOn(
  sockets: Readonly<Record<keyof typeof PORTS, Socket>>,
  own: string,
  broadcast: string,
): Promise<readonly Offer[]> {
  const chaddr = Buffer.alloc(16);
  randomBytes(6).copy(chaddr);
  // Locally administered, and not a group's.
  chaddr[0] = (chaddr[0]! & 0xfc) | 2;
  // A server says the same to each repetition.
  const offers = new Map<string, Offer>();
  const clients = CLIENTS.map((arch) => ({ arch, xid: randomBytes(4).readUInt32BE() }));
  const hear = (bytes: Uint8Array): void => {
    const read = decode(bytes);
    if (!read.ok || read.packet.op !== 2 || !read.packet.chaddr.equals(chaddr)) return;
    const offer = offerIn(read.packet);
    if (offer !== undefined) offers.set(JSON.stringify(offer), offer);
  };
  for (const socket of Object.values(sockets)) socket.on('message', hear);
  const send = (kind: keyof typeof PORTS, packet: Partial<DhcpPacket>, xid: number, to: string): void => {
    const addresses = { ciaddr: ANY, yiaddr: ANY, siaddr: ANY, giaddr: ANY };
    const options = new Map<number, Buffer>();
    const { bytes } = encode({
      ...ORDINARY,
      ...addresses,
      secs: 0,
      flags: 0,
      options,
      ...packet,
      xid,
      chaddr,
    });
    sockets[kind].send(bytes, PORTS[kind], to, () => {});
  };
  const ask = (secs: number): void => {
    for (const { arch, xid } of clients) {
      const discover = optionsOf(MESSAGE.DISCOVER, arch);
      send('dhcp', { secs, flags: BROADCAST_FLAG, options: discover }, xid, broadcast);
      if (arch === undefined) continue;
      // Firmware asks those that offered, or everybody.
      const heard = [...offers.values()].map(({ server }) => server).filter((server) => server !== own);
      const request = { secs, ciaddr: ipv4(own), options: optionsOf(MESSAGE.REQUEST, arch) };
      for (const to of new Set([broadcast, ...heard])) send('pxe', request, xid, to);
    }
  };
  const started = performance.now();
  const until = (second: number) => sleep(Math.max(1, started + second * 1000 - performance.now()));
  for (const secs of ASKED_AT_S) {
    await until(secs);
    ask(secs);
  }
  await until(ASKED_FOR_S);
  // The kernel has asked for the hardware of whoever got a packet.
  return [...offers.values()].map((offer) => {
    const behind = neighbour(offer.server);
    return typeof behind === 'string' || behind.length === 0 ? offer : { ...offer, mac: behind.join(' ') };
  });
}

/** The options of a client; `arch` only firmware has. */
function optionsOf(type: number, arch: number | undefined): Map<number, Buffer> {
  const options = new Map([
    [OPTION.messageType as number, Buffer.from([type])],
    [OPTION.parameterList, Buffer.from([1, 3, 6, 43, 54, 60, 66, 67])],
  ]);
  if (arch === undefined) return options;
  const kind = `PXEClient:Arch:${String(arch).padStart(5, '0')}:UNDI:003016`;
  return options
    .set(OPTION.vendorClass, Buffer.from(kind))
    .set(OPTION.userClass, Buffer.from(DOCTOR_CLASS))
    .set(OPTION.architecture, Buffer.from([0, arch]))
    .set(OPTION.networkInterface, Buffer.from([1, 3, 16]))
    .set(OPTION.machineId, Buffer.alloc(17));
}

function offerIn(packet: DhcpPacket): Offer | undefined {
  const type = messageType(packet);
  if (type !== MESSAGE.OFFER && type !== MESSAGE.ACK) return undefined;
  const text = (code: number): string =>
    packet.options.get(code)?.toString('latin1').replace(/\0.*/s, '') ?? '';
  // A server of this class without a file gives a menu, or the file on port 4011.
  const boots = text(OPTION.vendorClass).startsWith('PXEClient') ? 'a boot menu' : '';
  const server = addressOption(packet, OPTION.serverId) ?? packet.siaddr;
  const file = packet.file || text(OPTION.bootFile) || boots;
  return {
    ...{ server: formatIpv4(server), address: formatIpv4(packet.yiaddr), file },
    ...(packet.siaddr !== ANY && { from: formatIpv4(packet.siaddr) }),
  };
}

/** Fetches the first block of a file by TFTP, from another port than the server's own. */
export async function fetchByTftp(
  server: string,
  file: string,
  local = '0.0.0.0',
): Promise<{ readonly ok: boolean; readonly text: string }> {
  const socket = createSocket('udp4');
  try {
    socket.bind(0, local);
    await once(socket, 'listening');
    const { promise, resolve } = Promise.withResolvers<{ readonly ok: boolean; readonly text: string }>();
    socket.on('message', (bytes, from) => {
      const packet = decodeTftp(bytes);
      if (packet.kind === 'error') resolve({ ok: false, text: `${file}: ${packet.message}` });
      else {
        socket.send(encodeError(TFTP_ERROR.undefined, 'enough'), from.port, from.address);
        resolve({ ok: true, text: `${file} is sent` });
      }
    });
    socket.send(encodeRead(file), 69, server);
    const late = sleep(PATIENCE_MS, {
      ok: false,
      text: `nothing came for ${file} within ${PATIENCE_MS / 1000} s`,
    });
    return await Promise.race([promise, late]);
  } catch (error) {
    return { ok: false, text: messageOf(error) };
  } finally {
    socket.close();
  }
}

/**
 * Asks the server for machines for a script, as a loader does, and through no proxy. Any answer
 * will do.
 */
export async function askByHttp(url: string): Promise<{ readonly ok: boolean; readonly text: string }> {
  const asking = get(url, { timeout: PATIENCE_MS });
  asking.on('timeout', () => asking.destroy(new Error(`no answer within ${PATIENCE_MS / 1000} s`)));
  try {
    await once(asking, 'response');
    return { ok: true, text: `${url} answers` };
  } catch (error) {
    return { ok: false, text: `${url}: ${messageOf(error)}` };
  } finally {
    asking.on('error', () => {}).destroy();
  }
}
