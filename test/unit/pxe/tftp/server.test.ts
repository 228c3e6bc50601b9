import { execFileSync } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ManualClock, systemClock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { Kernel } from '../../../../src/base/kernel/kernel.socket.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { nativeDatagrams } from '../../../../src/base/native-datagrams.socket.ts';
import { nodeDatagrams } from '../../../../src/base/node-datagrams.socket.ts';
import type { OpenedDatagrams } from '../../../../src/base/open-datagrams.socket.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import { openAssets } from '../../../../src/pxe/assets/assets.files.ts';
import { encodeAck, encodeError, encodeOack, encodeRead } from '../../../../src/pxe/tftp/codec.ts';
import { startTftp, type TftpOptions, type TftpServer } from '../../../../src/pxe/tftp/tftp.socket.ts';
import { mutant, xorshift } from './mutate.ts';

let root: string;
const files: Record<string, Buffer> = {
  empty: Buffer.alloc(0),
  'one.bin': Buffer.from([1]),
  'exact.bin': Buffer.alloc(1024, 'x'),
  'ipxe.efi': Buffer.from(Array.from({ length: 300_001 }, (_, n) => (n * 31 + (n >> 8)) & 255)),
  'text.txt': Buffer.from('a\nb\r\n'),
  'medium.bin': Buffer.alloc(20_000, 'medium '),
};
beforeAll(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-tftp-'));
  fs.mkdirSync(path.join(root, 'loaders'));
  for (const [name, octets] of Object.entries(files))
    fs.writeFileSync(path.join(root, 'loaders', name), octets);
});
afterAll(() => fs.rmSync(root, { recursive: true, force: true }));

const kernel = new Kernel({ loop: true });
/** The suite runs once for each way in which datagrams are sent. */
const WAYS: readonly { readonly name: string; readonly datagrams: OpenedDatagrams }[] = [
  { name: 'system calls', datagrams: { datagrams: nativeDatagrams(kernel), kernel } },
  { name: 'node:dgram', datagrams: { datagrams: nodeDatagrams, kernel: undefined } },
];
let datagrams: OpenedDatagrams;

interface Running {
  readonly server: TftpServer;
  readonly port: number;
  readonly events: NewEvent[];
  count(outcome: string): Promise<number>;
  stop(): Promise<void>;
}

async function start(options: Partial<TftpOptions> = {}): Promise<Running> {
  const assets = await openAssets({
    directory: path.join(root, 'assets'),
    loaderDirectories: [path.join(root, 'loaders')],
    log: silentLog,
  });
  const events: NewEvent[] = [];
  const metrics = createMetrics();
  const stopping = new AbortController();
  const server = await startTftp({
    sockets: [{ address: '127.0.0.1', port: 0 }],
    datagrams,
    assets,
    networks: () => [],
    subjectOf: () => undefined,
    admits: () => true,
    events: { record: (event) => events.push(event) },
    metrics,
    log: silentLog,
    clock: systemClock,
    signal: stopping.signal,
    grace: 200 as Millis,
    ...options,
  });
  return {
    server,
    port: server.addresses[0]!.port,
    events,
    async count(outcome) {
      const found = new RegExp(`transfers_total\\{outcome="${outcome}"\\} ([0-9]+)`).exec(
        await metrics.text(),
      );
      return Number(found?.[1] ?? 0);
    },
    async stop() {
      stopping.abort();
      await server.stopped;
    },
  };
}

/** A client socket that keeps what arrives. */
class Client {
  readonly socket: Socket = createSocket('udp4');
  readonly got: { packet: Buffer; port: number }[] = [];
  #wake: () => void = () => {};
  static async open(): Promise<Client> {
    const client = new Client();
    client.socket.on('message', (packet, { port }) => {
      client.got.push({ packet, port });
      client.#wake();
    });
    client.socket.bind(0, '127.0.0.1');
    await once(client.socket, 'listening');
    return client;
  }
  /** Resolves when the packet was sent; closing earlier would lose it. */
  send(packet: Buffer, port: number): Promise<void> {
    return new Promise((resolve) => this.socket.send(packet, port, '127.0.0.1', () => resolve()));
  }
  /** The next packet that arrived; fails after five seconds. */
  async next(): Promise<{ packet: Buffer; port: number }> {
    for (let waited = 0; this.got.length === 0; waited++) {
      if (waited > 500) throw new Error('nothing came');
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = setTimeout(resolve, 10);
      await promise;
      clearTimeout(timer);
    }
    return this.got.shift()!;
  }
  /** Fetches a file block by block. */
  async fetch(
    port: number,
    request: Buffer,
    blockSize = 512,
  ): Promise<{ octets: Buffer; oack: string | undefined }> {
    await this.send(request, port);
    let oack: string | undefined;
    const parts: Buffer[] = [];
    for (;;) {
      const { packet, port: tid } = await this.next();
      if (packet[1] === 6) {
        oack = packet.toString('latin1', 2);
        await this.send(encodeAck(0), tid);
      } else if (packet[1] === 3) {
        const expected = (parts.length + 1) & 0xffff;
        if (packet.readUInt16BE(2) !== expected) continue;
        parts.push(packet.subarray(4));
        await this.send(encodeAck(expected), tid);
        if (packet.length - 4 < blockSize) return { octets: Buffer.concat(parts), oack };
      } else throw new Error(`error ${packet[3]}: ${packet.toString('latin1', 4)}`);
    }
  }
  close() {
    this.socket.close();
  }
}

/** Waits until `holds` holds; fails after five seconds. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 5000;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error('waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

const code = (packet: Buffer) => [packet[1], packet[3]];

describe.each(WAYS)('by $name', (way) => {
  beforeAll(() => {
    datagrams = way.datagrams;
  });

  describe.each([
    ['in threads', undefined],
    ['in one thread', 0],
  ] as const)('the TFTP server, %s', (_, threads) => {
    let tftp: Running;
    let client: Client;
    beforeAll(async () => {
      tftp = await start(threads === undefined ? {} : { threads });
      client = await Client.open();
    });
    afterAll(async () => {
      client.close();
      await tftp.stop();
    });

    it.each(['empty', 'one.bin', 'exact.bin', 'ipxe.efi'])('sends %s, whole', async (name) => {
      const { octets } = await client.fetch(tftp.port, encodeRead(name));
      expect(octets.equals(files[name]!)).toBe(true);
    });

    it('finds names as firmware writes them', async () => {
      for (const name of ['\\IPXE.EFI', '//ipxe.efi', 'ipxe.efi\xff']) {
        const { octets } = await client.fetch(tftp.port, encodeRead(name, 'OCTET'));
        expect(octets.length).toBe(300_001);
      }
    });

    it('agrees to options and keeps to them', async () => {
      const asked = { tsize: '0', BLKSIZE: '1400', windowsize: '1', multicast: '1' };
      const { octets, oack } = await client.fetch(
        tftp.port,
        encodeRead('ipxe.efi', 'octet', Object.entries(asked)),
        1400,
      );
      expect(oack).toBe('tsize\x00300001\x00blksize\x001400\x00windowsize\x001\x00');
      expect(octets.equals(files['ipxe.efi']!)).toBe(true);
    });

    it('sends blocks of eight octets, thousands of them', async () => {
      const { octets } = await client.fetch(
        tftp.port,
        encodeRead('medium.bin', 'octet', [['blksize', '8']]),
        8,
      );
      expect(octets.equals(files['medium.bin']!)).toBe(true);
    });

    it('sends text as netascii, blocks cut after translation', async () => {
      const { octets } = await client.fetch(tftp.port, encodeRead('text.txt', 'netascii'));
      expect(octets.toString('latin1')).toBe('a\r\nb\r\0\r\n');
    });

    it('answers GRUB’s lists with an empty file and everything unknown with error 1', async () => {
      expect((await client.fetch(tftp.port, encodeRead('/boot/grub/x86_64-efi/fs.lst'))).octets.length).toBe(
        0,
      );
      for (const name of [
        'pxelinux.cfg/default',
        '../loaders/ipxe.efi',
        '/etc/passwd',
        'nope',
        '..',
        'loaders',
      ]) {
        await client.send(encodeRead(name), tftp.port);
        expect(code((await client.next()).packet)).toEqual([5, 1]);
      }
    });

    it('refuses to write with error 2, and other modes with error 4', async () => {
      const write = encodeRead('ipxe.efi');
      write[1] = 2;
      await client.send(write, tftp.port);
      expect(code((await client.next()).packet)).toEqual([5, 2]);
      await client.send(encodeRead('ipxe.efi', 'mail'), tftp.port);
      expect(code((await client.next()).packet)).toEqual([5, 4]);
      expect(await tftp.count('refused_write')).toBe(1);
    });

    it('sends error 5 to a stranger, and continues the transfer', async () => {
      const stranger = await Client.open();
      await client.send(encodeRead('exact.bin'), tftp.port);
      const { port: tid } = await client.next();
      for (const packet of [encodeAck(1), encodeError(0, 'die'), Buffer.from([0]), Buffer.alloc(0)])
        await stranger.send(packet, tid);
      expect(code((await stranger.next()).packet)).toEqual([5, 5]);
      await client.send(encodeAck(1), tid);
      expect((await client.next()).packet.readUInt16BE(2)).toBe(2);
      await client.send(encodeAck(2), tid);
      expect((await client.next()).packet.length).toBe(4);
      await client.send(encodeAck(3), tid);
      stranger.close();
    });

    it('ignores a stranger’s error or noise: two transfers would send each other errors for ever', async () => {
      const tftp = await start();
      const client = await Client.open();
      const stranger = await Client.open();
      await client.send(encodeRead('ipxe.efi'), tftp.port);
      const { port } = await client.next();
      for (const packet of [
        encodeError(5, 'this port belongs to another transfer'),
        Buffer.alloc(0),
        Buffer.from('\0\x09abcd'),
        encodeOack([]),
      ])
        await stranger.send(packet, port);
      await stranger.send(encodeAck(0), port);
      expect(code((await stranger.next()).packet)).toEqual([5, 5]);
      // When the transfer continues, every earlier answer has arrived.
      await client.send(encodeAck(1), port);
      expect((await client.next()).packet.readUInt16BE(2)).toBe(2);
      expect(stranger.got).toEqual([]);
      for (const one of [client, stranger]) one.close();
      await tftp.stop();
    });

    it('answers each request from a new port, and a repeated one from the same port', async () => {
      await client.send(encodeRead('exact.bin'), tftp.port);
      const first = await client.next();
      await client.send(encodeRead('exact.bin'), tftp.port);
      // The time-out without a measurement is a second.
      const again = await client.next();
      expect(again.port).toBe(first.port);
      expect(again.packet.equals(first.packet)).toBe(true);
      expect(first.port).not.toBe(tftp.port);
      // Another request from the same port: the client has given up the first one.
      await client.send(encodeRead('ipxe.efi'), tftp.port);
      const next = await client.next();
      expect(next.packet[1]).toBe(3);
      expect(next.port).not.toBe(first.port);
      await client.send(encodeError(0, 'enough'), next.port);
      for (let n = 0; n < 1000 && (await tftp.count('superseded')) === 0; n++)
        await new Promise((r) => setImmediate(r));
      expect(await tftp.count('superseded')).toBe(1);
    });

    it('counts a request for the size only as a probe', async () => {
      const probed = await tftp.count('probed');
      await client.send(encodeRead('ipxe.efi', 'octet', [['tsize', '0']]), tftp.port);
      const { packet, port } = await client.next();
      expect(packet.toString('latin1')).toBe('\0\x06tsize\x00300001\0');
      await client.send(encodeError(8, 'User aborted the transfer'), port);
      await until(async () => (await tftp.count('probed')) > probed);
      expect(tftp.events.filter(({ reason }) => reason?.code === 'probed')).toEqual([]);
    });

    it('survives noise on its port and on a transfer’s port', async () => {
      const seed = 0x7f7b0004;
      console.log(`fuzz seed ${seed}`);
      const random = xorshift(seed);
      const noise = [
        encodeRead('ipxe.efi'),
        encodeAck(1),
        encodeError(0, 'x'),
        Buffer.from([0]),
        Buffer.alloc(0),
      ];
      const noisy = await Client.open();
      await client.send(encodeRead('exact.bin', 'octet', [['blksize', '600']]), tftp.port);
      const { port: tid } = await client.next();
      for (let n = 0; n < 2000; n++) {
        await noisy.send(mutant(noise, random), n % 2 === 0 ? tftp.port : tid);
        // The server runs in this process and needs its turn, or its socket's buffer overflows.
        if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      expect(await tftp.count('malformed')).toBeGreaterThan(100);
      await client.send(encodeAck(0), tid);
      const { octets } = await (await Client.open()).fetch(tftp.port, encodeRead('ipxe.efi'));
      expect(octets.length).toBe(300_001);
      noisy.close();
      client.got.length = 0;
      await client.send(encodeError(0, 'enough'), tid);
    });

    it('records what it served and what it refused, with the reason', async () => {
      expect(tftp.events.find(({ fields }) => fields?.file === 'empty')).toMatchObject({
        subject: '127.0.0.1',
        // The next request from this port may overtake the last acknowledgement.
        reason: { code: expect.stringMatching(/^(served|unconfirmed)$/) },
        fields: { file: 'empty', octets: 0 },
      });
      expect(
        tftp.events.filter(({ reason }) => reason?.code === 'not_found').map(({ fields }) => fields?.file),
      ).toContain('/etc/passwd');
    });

    it('leaves no descriptor behind', async () => {
      const count = () => fs.readdirSync('/proc/self/fd').length;
      const before = count();
      for (let n = 0; n < 100; n++) {
        const one = await Client.open();
        await one.fetch(tftp.port, encodeRead('exact.bin'));
        one.close();
      }
      await until(() => count() <= before + 3);
    });
  });

  describe('a TFTP server with bounds', () => {
    it('drops requests of a client that asks for too much, so that it asks again later, and serves others', async () => {
      const tftp = await start({ limits: { transfers: 3, perClient: 2 } });
      const clients = await Promise.all(Array.from({ length: 3 }, () => Client.open()));
      const ports: number[] = [];
      for (const client of clients.slice(0, 2)) {
        await client.send(encodeRead('ipxe.efi'), tftp.port);
        ports.push((await client.next()).port);
        await client.send(encodeAck(1), ports.at(-1)!);
        await client.next();
      }
      await clients[2]!.send(encodeRead('ipxe.efi'), tftp.port);
      for (let n = 0; n < 2000 && (await tftp.count('busy')) === 0; n++)
        await new Promise((r) => setImmediate(r));
      expect(await tftp.count('busy')).toBe(1);
      expect(tftp.server.active()).toBe(2);
      // One transfer ends, and one more is accepted.
      await clients[0]!.send(encodeError(0, 'enough'), ports[0]!);
      await until(() => tftp.server.active() === 1);
      await clients[2]!.send(encodeRead('one.bin'), tftp.port);
      expect((await clients[2]!.next()).packet.length).toBe(5);
      for (const client of clients) client.close();
      await tftp.stop();
    });
  });

  describe('requests that nobody acknowledges', () => {
    it('give their places to later ones, the oldest first, so that a client that is there is served', async () => {
      const tftp = await start({ limits: { transfers: 8, perClient: 6, unconfirmed: 4 } });
      const real = await Client.open();
      await real.send(encodeRead('ipxe.efi'), tftp.port);
      const { port } = await real.next();
      await real.send(encodeAck(1), port);
      await real.next();
      const silent = await Promise.all(Array.from({ length: 20 }, () => Client.open()));
      for (const client of silent) {
        await client.send(encodeRead('ipxe.efi'), tftp.port);
        await client.next();
      }
      expect(tftp.server.active()).toBe(5);
      await until(async () => (await tftp.count('displaced')) === 16);
      // The one that acknowledged is still served, and so is the newest.
      await real.send(encodeAck(2), port);
      let block = 2;
      // On a busy host, block 2 has been sent again meanwhile.
      while (block === 2) block = (await real.next()).packet.readUInt16BE(2);
      expect(block).toBe(3);
      const late = await Client.open();
      expect((await late.fetch(tftp.port, encodeRead('one.bin'))).octets).toEqual(files['one.bin']);
      expect(await tftp.count('busy')).toBe(0);
      expect(tftp.events.filter(({ kind }) => kind === 'tftp.failed')).toEqual([]);
      for (const client of [real, late, ...silent]) client.close();
      await tftp.stop();
    });
  });

  describe('a silent client', () => {
    it('gets its packets again after the agreed time-out, each time', async () => {
      const clock = new ManualClock();
      const tftp = await start({ clock, threads: 0 });
      const client = await Client.open();
      await client.send(encodeRead('exact.bin', 'octet', [['timeout', '1']]), tftp.port);
      const { port } = await client.next();
      for (const block of [0, 1]) {
        await client.send(encodeAck(block), port);
        expect((await client.next()).packet.readUInt16BE(2)).toBe(block + 1);
        clock.advance(999 as Millis);
        expect(client.got).toEqual([]);
        clock.advance(1 as Millis);
        expect((await client.next()).packet.readUInt16BE(2)).toBe(block + 1);
        clock.advance(1999 as Millis);
        clock.advance(1 as Millis);
        expect((await client.next()).packet.readUInt16BE(2)).toBe(block + 1);
      }
      await client.send(encodeError(0, 'enough'), port);
      client.close();
      const stopped = tftp.stop();
      clock.advance(1000 as Millis);
      await stopped;
    });
  });

  describe('a TFTP server that is told to stop', () => {
    it('accepts no new request, lets a transfer end, and then stops', async () => {
      const tftp = await start();
      const client = await Client.open();
      await client.send(encodeRead('exact.bin'), tftp.port);
      const { port } = await client.next();
      const stopped = tftp.stop();
      await client.send(encodeAck(1), port);
      await client.next();
      await client.send(encodeAck(2), port);
      await client.next();
      await client.send(encodeAck(3), port);
      await stopped;
      expect(tftp.events.at(-1)?.reason?.code).toBe('served');
      client.close();
    });

    it('sends an error to a client whose transfer does not end in time', async () => {
      const tftp = await start({ grace: 50 as Millis });
      const client = await Client.open();
      await client.send(encodeRead('ipxe.efi'), tftp.port);
      await client.next();
      await tftp.stop();
      expect(code((await client.next()).packet)).toEqual([5, 0]);
      expect(await tftp.count('shutdown')).toBe(1);
      client.close();
    });
  });

  describe('a file that goes wrong', () => {
    it('is refused when it is gone; when it becomes shorter, its transfer ends with an error', async () => {
      const tftp = await start();
      const client = await Client.open();
      const file = path.join(root, 'loaders', 'vanishing.bin');
      fs.writeFileSync(file, Buffer.alloc(2_000_000));
      const other = await start();
      fs.rmSync(file);
      await client.send(encodeRead('vanishing.bin'), other.port);
      expect(code((await client.next()).packet)).toEqual([5, 0]);
      fs.writeFileSync(file, Buffer.alloc(2_000_000));
      const third = await start();
      await client.send(encodeRead('vanishing.bin', 'octet', [['blksize', '1468']]), third.port);
      const { port } = await client.next();
      fs.truncateSync(file, 10);
      await client.send(encodeAck(0), port);
      let last: Buffer = Buffer.alloc(0);
      for (let n = 1; n < 1500; n++) {
        last = (await client.next()).packet;
        if (last[1] === 5) break;
        await client.send(encodeAck(last.readUInt16BE(2)), port);
      }
      expect(code(last)).toEqual([5, 0]);
      client.close();
      for (const one of [tftp, other, third]) await one.stop();
    });

    it('is refused when it has become a pipe, without waiting for a writer', async () => {
      const file = path.join(root, 'loaders', 'pipe.bin');
      fs.writeFileSync(file, 'a loader');
      const tftp = await start();
      fs.rmSync(file);
      execFileSync('mkfifo', [file]);
      const client = await Client.open();
      await client.send(encodeRead('pipe.bin'), tftp.port);
      expect(code((await client.next()).packet)).toEqual([5, 0]);
      fs.rmSync(file);
      client.close();
      await tftp.stop();
    });
  });
});
