/** Asks the servers of a segment, as a machine does. */
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../base/error-text.ts';
import { ANY, formatIpv4 } from '../../base/ipv4.ts';
import { MESSAGE, OPTION } from '../../pxe/dhcp/options.ts';
import { addressOption, BROADCAST_FLAG, decode, encode, messageType } from '../../pxe/dhcp/packet.ts';
import { decodeTftp, encodeError, encodeRead, TFTP_ERROR } from '../../pxe/tftp/codec.ts';
import type { Offer } from './judge.ts';

/** How long answers are waited for. Servers probe an address before they offer it. */
const PATIENCE_MS = 3000;

/**
 * Sends a DISCOVER as an ordinary client with an address that nobody has, and collects the offers.
 * Nothing is requested, so no lease comes of it. A text says why nothing could be asked.
 */
export async function askForOffers(broadcast: string): Promise<readonly Offer[] | string> {
  const socket = createSocket({ type: 'udp4', reuseAddr: true });
  try {
    socket.bind(68);
    await once(socket, 'listening');
    socket.setBroadcast(true);
    return await offersOn(socket, broadcast);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EACCES') return 'root only may ask: run it with sudo';
    if (code === 'EADDRINUSE') return 'another program of this host has UDP port 68 for itself';
    return messageOf(error);
  } finally {
    socket.close();
  }
}

async function offersOn(socket: Socket, broadcast: string): Promise<readonly Offer[]> {
  const xid = randomBytes(4).readUInt32BE();
  const chaddr = Buffer.alloc(16);
  randomBytes(6).copy(chaddr);
  // Locally administered, and not a group's.
  chaddr[0] = (chaddr[0]! & 0xfc) | 2;
  const offers: Offer[] = [];
  socket.on('message', (bytes) => {
    const read = decode(bytes);
    if (!read.ok || read.packet.op !== 2 || read.packet.xid !== xid) return;
    if (messageType(read.packet) !== MESSAGE.OFFER) return;
    const server = addressOption(read.packet, OPTION.serverId) ?? read.packet.siaddr;
    const file = read.packet.file || (read.packet.options.get(OPTION.bootFile)?.toString('latin1') ?? '');
    offers.push({ server: formatIpv4(server), address: formatIpv4(read.packet.yiaddr), file });
  });
  const options = new Map([[OPTION.messageType, Buffer.from([MESSAGE.DISCOVER])]]);
  const header = { op: 1, htype: 1, hlen: 6, hops: 0, xid, secs: 0, flags: BROADCAST_FLAG } as const;
  const addresses = { ciaddr: ANY, yiaddr: ANY, siaddr: ANY, giaddr: ANY };
  const { bytes } = encode({ ...header, ...addresses, chaddr, sname: '', file: '', options });
  for (let round = 0; round < 2; round++) {
    socket.send(bytes, 67, broadcast);
    await sleep(PATIENCE_MS / 2);
  }
  return offers;
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
