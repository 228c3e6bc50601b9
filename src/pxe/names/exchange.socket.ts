/** Sends a message to a name server by TCP, which has no limit of 512 octets. */
import { once } from 'node:events';
import { connect } from 'node:net';
import type { NameServer } from './wanted.ts';

/** How long connecting and answering may take together. */
const PATIENCE_MS = 5000;

/**
 * Sends a message and resolves with the first answer. Each message has its length before it (RFC
 * 1035 §4.2.2).
 *
 * @throws {Error} when the server does not answer in time, or closes the connection
 */
export async function exchange({ address, port }: NameServer, message: Buffer): Promise<Buffer> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const socket = connect({ host: address, port, signal });
  try {
    await once(socket, 'connect', { signal });
    const length = Buffer.alloc(2);
    length.writeUInt16BE(message.length);
    socket.write(Buffer.concat([length, message]));
    let heard = Buffer.alloc(0);
    for await (const bytes of socket as AsyncIterable<Buffer>) {
      heard = Buffer.concat([heard, bytes]);
      if (heard.length >= 2 && heard.length >= 2 + heard.readUInt16BE(0))
        return heard.subarray(2, 2 + heard.readUInt16BE(0));
    }
    throw new Error(`${address} closed the connection without an answer`);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Error(`${address} did not answer within ${PATIENCE_MS / 1000} s`, { cause: error });
  } finally {
    socket.on('error', () => {}).destroy();
  }
}
