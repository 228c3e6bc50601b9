/**
 * Serves a {@link VolatileDisk} to QEMU with the part of the NBD protocol that QEMU uses
 * (github.com/NetworkBlockDevice/nbd, doc/proto.md: fixed newstyle negotiation, simple replies). A
 * flush is answered when every write that was answered before it is durable, as the protocol
 * promises.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { VolatileDisk } from './disk.ts';

const OPTION_MAGIC = Buffer.from('IHAVEOPT');
const OPTION_REPLY_MAGIC = 0x0003e889045565a9n;
const REQUEST_MAGIC = 0x25609513;
const REPLY_MAGIC = 0x67446698;
/** Fixed newstyle, no zeroes after the negotiation. */
const HANDSHAKE_FLAGS = 0b11;
/** The server has flags and supports flushes, but no flag that makes a single write durable. */
const EXPORT_FLAGS = 0b101;
const OPTION = { abort: 2, info: 6, go: 7 } as const;
const REPLY = { ack: 1, info: 3, unsupported: 0x80000001 } as const;
const COMMAND = { read: 0, write: 1, disconnect: 2, flush: 3 } as const;
const INVALID = 22;
const REQUEST_LENGTH = 28;

export interface DiskServer {
  /** Stops immediately, even within a request: nothing more is done or answered. */
  freeze(): void;
  close(): Promise<void>;
}

/** Listens on a Unix socket. */
export async function serveDisk(disk: VolatileDisk, path: string): Promise<DiskServer> {
  const sockets = new Set<Socket>();
  let frozen = false;
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    const session = new Session(disk, socket, () => frozen);
    socket.on('data', (data: Buffer) => session.take(data));
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  return {
    freeze: () => {
      frozen = true;
    },
    close: () => {
      frozen = true;
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

class Session {
  readonly #disk: VolatileDisk;
  readonly #socket: Socket;
  readonly #frozen: () => boolean;
  #input: Buffer = Buffer.alloc(0);
  #state: 'flags' | 'options' | 'requests' | 'over' = 'flags';

  constructor(disk: VolatileDisk, socket: Socket, frozen: () => boolean) {
    this.#frozen = frozen;
    this.#disk = disk;
    this.#socket = socket;
    const hello = Buffer.alloc(18);
    hello.write('NBDMAGIC', 0, 'latin1');
    OPTION_MAGIC.copy(hello, 8);
    hello.writeUInt16BE(HANDSHAKE_FLAGS, 16);
    socket.write(hello);
  }

  take(data: Buffer): void {
    this.#input = this.#input.length === 0 ? data : Buffer.concat([this.#input, data]);
    while (!this.#frozen() && this.#step());
  }

  /** Takes `length` octets of the input; undefined while they are not all there. */
  #cut(length: number): Buffer | undefined {
    if (this.#input.length < length) return undefined;
    const piece = this.#input.subarray(0, length);
    this.#input = this.#input.subarray(length);
    return piece;
  }

  /** Handles one message; false when none is complete. */
  #step(): boolean {
    switch (this.#state) {
      case 'flags':
        if (!this.#cut(4)) return false;
        this.#state = 'options';
        return true;
      case 'options':
        return this.#option();
      case 'requests':
        return this.#request();
      case 'over':
        return false;
    }
  }

  #option(): boolean {
    if (this.#input.length < 16) return false;
    const length = this.#input.readUInt32BE(12);
    const message = this.#cut(16 + length);
    if (!message) return false;
    const option = message.readUInt32BE(8);
    if (!message.subarray(0, 8).equals(OPTION_MAGIC) || option === OPTION.abort) return this.#end();
    if (option !== OPTION.go && option !== OPTION.info) {
      this.#replyOption(option, REPLY.unsupported);
      return true;
    }
    const exportInfo = Buffer.alloc(12);
    exportInfo.writeBigUInt64BE(BigInt(this.#disk.size), 2);
    exportInfo.writeUInt16BE(EXPORT_FLAGS, 10);
    this.#replyOption(option, REPLY.info, exportInfo);
    this.#replyOption(option, REPLY.ack);
    if (option === OPTION.go) this.#state = 'requests';
    return true;
  }

  #replyOption(option: number, type: number, data: Buffer = Buffer.alloc(0)): void {
    const head = Buffer.alloc(20);
    head.writeBigUInt64BE(OPTION_REPLY_MAGIC, 0);
    head.writeUInt32BE(option, 8);
    head.writeUInt32BE(type, 12);
    head.writeUInt32BE(data.length, 16);
    this.#socket.write(Buffer.concat([head, data]));
  }

  #request(): boolean {
    if (this.#input.length < REQUEST_LENGTH) return false;
    const type = this.#input.readUInt16BE(6);
    const length = this.#input.readUInt32BE(24);
    const message = this.#cut(REQUEST_LENGTH + (type === COMMAND.write ? length : 0));
    if (!message) return false;
    if (message.readUInt32BE(0) !== REQUEST_MAGIC || type === COMMAND.disconnect) return this.#end();
    const handle = message.subarray(8, 16);
    const at = Number(message.readBigUInt64BE(16));
    if (at + length > this.#disk.size) return this.#reply(handle, INVALID);
    switch (type) {
      case COMMAND.read:
        return this.#reply(handle, 0, this.#disk.read(at, length));
      case COMMAND.write:
        // A copy, since the input's memory is reused.
        this.#disk.write(at, Buffer.from(message.subarray(REQUEST_LENGTH)));
        return this.#reply(handle, 0);
      case COMMAND.flush:
        this.#disk.flush();
        return this.#reply(handle, 0);
      default:
        return this.#reply(handle, INVALID);
    }
  }

  #reply(handle: Buffer, error: number, data?: Buffer): true {
    if (this.#frozen()) return true;
    const head = Buffer.alloc(16);
    head.writeUInt32BE(REPLY_MAGIC, 0);
    head.writeUInt32BE(error, 4);
    handle.copy(head, 8);
    this.#socket.write(head);
    // A copy, since the disk may change before the socket has sent the octets.
    if (data) this.#socket.write(Buffer.from(data));
    return true;
  }

  #end(): false {
    this.#state = 'over';
    this.#socket.end();
    return false;
  }
}
