/**
 * Hostile datagrams and parameters for the system calls: a wrong address would end this process.
 * The seed is fixed and printed, so that a failure can be repeated.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import type { Received } from '../../../src/base/datagrams.ts';
import { BATCH, MAX_DATAGRAM } from '../../../src/base/datagrams.ts';
import { type Ipv4, ipv4 } from '../../../src/base/ipv4.ts';
import { Kernel, SystemCallError } from '../../../src/base/kernel/kernel.socket.ts';
import { nativeDatagrams } from '../../../src/base/native-datagrams.socket.ts';
import { INPUTS } from '../fuzzing.ts';
import { xorshift } from '../pxe/tftp/mutate.ts';

const SEED = 20261126;
const LOOPBACK = ipv4('127.0.0.1');

it(`datagrams of any length are received and answered as they were sent`, async () => {
  console.log(`datagrams: seed ${SEED}, ${INPUTS} inputs`);
  const random = xorshift(SEED);
  const kernel = new Kernel({ loop: true });
  let taken = 0;
  let answered = 0;
  const edge = await nativeDatagrams(kernel).openEdge(
    { address: '127.0.0.1', port: 0 },
    {
      take(batch: readonly Received[]) {
        for (const { bytes, address, port, interfaceIndex } of batch) {
          if (address !== LOOPBACK || interfaceIndex === 0) throw new Error('wrong source');
          // Every octet of a datagram is the low octet of its length.
          for (const octet of [bytes[0], bytes.at(-1)])
            if (octet !== undefined && bytes.length < MAX_DATAGRAM && octet !== (bytes.length & 255))
              throw new Error('octets of another datagram');
          taken++;
          edge.send(bytes, address, port);
        }
      },
      failed: (error) => {
        throw error;
      },
    },
  );
  const peer = createSocket('udp4');
  peer.on('message', () => answered++);
  peer.bind(0, '127.0.0.1');
  await once(peer, 'listening');
  const pattern = Array.from({ length: 256 }, (_, n) => Buffer.alloc(4096, n));
  for (let n = 0; n < INPUTS; ) {
    for (const end = n + BATCH; n < end; n++) {
      const length = random() % 8 === 0 ? random() % 4096 : random() % 600;
      peer.send(pattern[length & 255]!.subarray(0, length), edge.local.port, '127.0.0.1');
    }
    // Both sides run in this process and take turns, so that no buffer overflows.
    while (answered < n) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(taken).toBe(answered);
  edge.close();
  peer.close();
});

it(`calls with numbers of any kind are refused or do what they say`, () => {
  const random = xorshift(SEED + 1);
  const kernel = new Kernel({ loop: false });
  const socket = kernel.udp();
  kernel.bind(socket, LOOPBACK, 0);
  const { port } = kernel.local(socket);
  kernel.connect(socket, LOOPBACK, port);
  const region = kernel.region(3000);
  const odd = [
    0,
    1,
    -1,
    0.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    2 ** 31,
    2 ** 32,
    -(2 ** 53),
    2999,
    3000,
    3001,
  ];
  const any = () => (random() % 2 === 0 ? odd[random() % odd.length]! : random() % 3000);
  const before = Buffer.alloc(3000, 1);
  let done = 0;
  const trials: (() => unknown)[] = [
    () => {
      const run = { region, offset: any(), octets: any(), packetSize: any() };
      return kernel.sendRun(socket, run, { segments: random() % 2 === 0 });
    },
    () =>
      kernel.readBlocks(random() % 2 === 0 ? -1 : 1_000_000, region, {
        offset: any(),
        header: any(),
        blockSize: any(),
        count: any(),
        position: any(),
      }),
    () => kernel.bind(socket, any() as Ipv4, any()),
    () =>
      kernel.sendBatch(
        socket,
        Array.from({ length: random() % 40 }, () => ({
          bytes: before.subarray(0, random() % 3000),
          address: LOOPBACK,
          port,
        })),
      ),
    () => kernel.set(socket, (['broadcast', 'segment', 'receiveBuffer'] as const)[random() % 3]!, any()),
    () => kernel.bindToDevice(socket, 'x'.repeat(random() % 64)),
    () => kernel.receive(socket, region),
    () => kernel.receiveBatch(socket),
    () => region.at(any(), any()),
  ];
  for (let n = 0; n < INPUTS; n++)
    try {
      trials[n % trials.length]!();
      done++;
    } catch (error) {
      if (!(error instanceof RangeError) && !(error instanceof SystemCallError)) throw error;
    }
  expect(done).toBeGreaterThan(INPUTS / 10);
  kernel.close(socket);
});
