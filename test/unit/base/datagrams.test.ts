/** One suite for both ways in which datagrams are received and sent. */
import { execFileSync } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it, test } from 'vitest';
import { type DatagramEdge, MAX_DATAGRAM, type Received } from '../../../src/base/datagrams.ts';
import { type Ipv4, ipv4 } from '../../../src/base/ipv4.ts';
import { Kernel } from '../../../src/base/kernel/kernel.socket.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { nativeDatagrams } from '../../../src/base/native-datagrams.socket.ts';
import { nodeDatagrams } from '../../../src/base/node-datagrams.socket.ts';
import { openDatagrams, tryOut } from '../../../src/base/open-datagrams.socket.ts';

const kernel = new Kernel({ loop: true });
const LOOPBACK = ipv4('127.0.0.1');
const closing: { close(): void }[] = [];
afterEach(() => {
  for (const one of closing.splice(0)) one.close();
});

/** Waits until `holds` holds; fails after ten seconds. */
async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + 10_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error('waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** A peer by node:dgram, with what it got. */
async function openPeer(): Promise<{ socket: Socket; got: Buffer[]; port: number }> {
  const socket = createSocket('udp4');
  const got: Buffer[] = [];
  socket.on('message', (message) => got.push(message));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  closing.push(socket);
  return { socket, got, port: socket.address().port };
}

describe.each([nodeDatagrams, nativeDatagrams(kernel)])('datagrams, native: $native', (datagrams) => {
  async function open(take: (batch: readonly Received[], edge: DatagramEdge) => void = () => {}) {
    const failures: { error: Error; address: Ipv4; port: number }[] = [];
    const got: Received[] = [];
    const edge: DatagramEdge = await datagrams.openEdge(
      { address: '127.0.0.1', port: 0 },
      {
        take(batch) {
          got.push(...batch);
          take(batch, edge);
        },
        failed: (error, address, port) => failures.push({ error, address, port }),
      },
    );
    closing.push(edge);
    return { edge, got, failures };
  }

  it('arrive whole and in order, with their source', async () => {
    const { edge, got } = await open();
    const peer = await openPeer();
    const sent = Array.from({ length: 100 }, (_, n) => Buffer.alloc(n * 14, n));
    for (const bytes of sent) peer.socket.send(bytes, edge.local.port, '127.0.0.1');
    await until(() => got.length === sent.length);
    expect(got.map(({ bytes }) => bytes)).toEqual(sent);
    expect(new Set(got.map(({ address, port }) => `${address}:${port}`))).toEqual(
      new Set([`${LOOPBACK}:${peer.port}`]),
    );
  });

  it('name the interface and say whether they came for this host alone, or say that they do not know', async () => {
    const { edge, got } = await open();
    const peer = await openPeer();
    peer.socket.send('x', edge.local.port, '127.0.0.1');
    await until(() => got.length === 1);
    const { interfaceIndex, unicast } = got[0]!;
    const index = Number(fs.readFileSync('/sys/class/net/lo/ifindex', 'utf8'));
    expect({ interfaceIndex, unicast }).toEqual(
      edge.native ? { interfaceIndex: index, unicast: true } : { interfaceIndex: 0, unicast: undefined },
    );
  });

  it('may be kept: a later datagram does not change an earlier one', async () => {
    const { edge, got } = await open();
    const peer = await openPeer();
    for (const text of ['first', 'other']) {
      peer.socket.send(text, edge.local.port, '127.0.0.1');
      const wanted = text === 'first' ? 1 : 2;
      await until(() => got.length === wanted);
    }
    expect(got.map(({ bytes }) => String(bytes))).toEqual(['first', 'other']);
  });

  it('are answered from the batch that they came in, and later', async () => {
    const { edge } = await open((batch, edge) => {
      for (const { bytes, address, port } of batch) {
        edge.send(bytes, address, port);
        setTimeout(() => edge.send(Buffer.concat([bytes, bytes]), address, port), 5);
      }
    });
    const peer = await openPeer();
    for (let n = 0; n < 50; n++) peer.socket.send(`${n}|`, edge.local.port, '127.0.0.1');
    await until(() => peer.got.length === 100);
    const texts = new Set(peer.got.map(String));
    for (let n = 0; n < 50; n++) expect(texts.has(`${n}|`) && texts.has(`${n}|${n}|`)).toBe(true);
  });

  it('leave in one turn, many at once, none lost and none twice', async () => {
    const { edge, failures } = await open();
    const peer = await openPeer();
    for (let n = 0; n < 100; n++) edge.send(Buffer.from(`${n}`), LOOPBACK, peer.port);
    await until(() => peer.got.length === 100);
    expect(peer.got.map(String)).toEqual(Array.from({ length: 100 }, (_, n) => `${n}`));
    expect(failures).toEqual([]);
  });

  it('that cannot be sent are reported, each with its destination, and do not keep others back', async () => {
    const { edge, failures } = await open();
    const peer = await openPeer();
    edge.send(Buffer.from('a'), LOOPBACK, peer.port);
    // From 127.0.0.1 nothing is routed to another host.
    edge.send(Buffer.from('b'), ipv4('192.0.2.1'), 9);
    edge.send(Buffer.alloc(MAX_DATAGRAM + 1), LOOPBACK, peer.port);
    edge.send(Buffer.from('c'), LOOPBACK, peer.port);
    edge.send(Buffer.from('no port'), LOOPBACK, 0);
    edge.send(Buffer.from('d'), LOOPBACK, peer.port);
    await until(() => peer.got.length === 3 && failures.length === 3);
    expect(peer.got.map(String)).toEqual(['a', 'c', 'd']);
    expect(failures.map(({ address, port }) => `${address}:${port}`).sort()).toEqual(
      [`${ipv4('192.0.2.1')}:9`, `${LOOPBACK}:${peer.port}`, `${LOOPBACK}:0`].sort(),
    );
  });

  it(`are cut to ${MAX_DATAGRAM} octets`, async () => {
    const { edge, got } = await open();
    const peer = await openPeer();
    peer.socket.send(Buffer.alloc(60_000, 7), edge.local.port, '127.0.0.1');
    peer.socket.send(Buffer.alloc(MAX_DATAGRAM, 8), edge.local.port, '127.0.0.1');
    await until(() => got.length === 2);
    expect(got.map(({ bytes }) => [bytes.length, bytes.at(-1)])).toEqual([
      [MAX_DATAGRAM, 7],
      [MAX_DATAGRAM, 8],
    ]);
  });

  it('that were sent before the end still leave, and none is taken after it', async () => {
    const { edge, got } = await open();
    const peer = await openPeer();
    peer.socket.send('before', edge.local.port, '127.0.0.1');
    await until(() => got.length === 1);
    peer.socket.send('after', edge.local.port, '127.0.0.1');
    edge.send(Buffer.from('last'), LOOPBACK, peer.port);
    edge.close();
    edge.send(Buffer.from('too late'), LOOPBACK, peer.port);
    await until(() => peer.got.length === 1);
    const other = await open();
    other.edge.send(Buffer.from('another'), LOOPBACK, peer.port);
    await until(() => peer.got.length === 2);
    expect(got.length).toBe(1);
    expect(peer.got.map(String)).toEqual(['last', 'another']);
  });

  it('use a socket that was opened before', async () => {
    const inherited = kernel.udp();
    kernel.bind(inherited, LOOPBACK, 0);
    const { port } = kernel.local(inherited);
    const got: Received[] = [];
    const take = (batch: readonly Received[]) => void got.push(...batch);
    const edge = await datagrams.openEdge({ fd: inherited.fd }, { take, failed: () => {} });
    closing.push(edge);
    const peer = await openPeer();
    peer.socket.send('inherited', port, '127.0.0.1');
    await until(() => got.length === 1);
    expect(edge.local).toEqual({ address: '127.0.0.1', port });
  });

  it('refuse a descriptor that is no UDP socket, and an address of another host', async () => {
    const handlers = { take: () => {}, failed: () => {} };
    const fd = fs.openSync(path.join(os.tmpdir(), `muster-datagrams-${process.pid}`), 'w');
    await expect(datagrams.openEdge({ fd }, handlers)).rejects.toThrow();
    fs.closeSync(fd);
    await expect(datagrams.openEdge({ address: '192.0.2.1', port: 0 }, handlers)).rejects.toThrow(
      /EADDRNOTAVAIL/,
    );
  });

  it('survive a collection of garbage while sockets are open and after they are closed', async () => {
    for (let n = 0; n < 20; n++) {
      const { edge, got } = await open();
      const peer = await openPeer();
      peer.socket.send('x', edge.local.port, '127.0.0.1');
      await until(() => got.length === 1);
      Array.from({ length: 10 }, () => Buffer.alloc(1024 * 1024));
      if (n % 2 === 0) edge.close();
    }
  });
});

describe('the choice', () => {
  const opened = (env: { MUSTER_NATIVE?: string }) => {
    const lines: string[] = [];
    const log = {
      ...silentLog,
      warn: (fields: object, message: string) => lines.push(`${message}: ${JSON.stringify(fields)}`),
    };
    const metrics = createMetrics();
    return { ...openDatagrams({ env, log: log as never, metrics }), lines, metrics };
  };

  it('falls on system calls when they work, and the metric says so', async () => {
    const { datagrams, lines, metrics } = opened({});
    expect(datagrams.native).toBe(true);
    expect(lines).toEqual([]);
    expect(await metrics.text()).toContain('muster_datagrams_native 1');
  });

  it('falls on node:dgram with MUSTER_NATIVE=0, with one line in the log, and the metric says so', async () => {
    const { datagrams, lines, metrics } = opened({ MUSTER_NATIVE: '0' });
    expect(datagrams.native).toBe(false);
    expect(lines).toEqual([
      'datagrams go by node:dgram, which is slower than system calls: {"cause":"MUSTER_NATIVE=0"}',
    ]);
    expect(await metrics.text()).toContain('muster_datagrams_native 0');
  });

  it('falls on node:dgram in a Node without node:ffi', () => {
    const script = `
      const { openDatagrams } = await import('./src/base/open-datagrams.socket.ts');
      const log = { warn: (fields, message) => console.log(message) };
      const { datagrams } = openDatagrams({ env: {}, log, metrics: { set: (...words) => console.log(words[2]) } });
      console.log(datagrams.native);`;
    const printed = execFileSync(
      process.execPath,
      ['--no-experimental-ffi', '--input-type=module', '-e', script],
      { encoding: 'utf8', cwd: path.join(import.meta.dirname, '../../..') },
    );
    expect(printed).toBe('0\ndatagrams go by node:dgram, which is slower than system calls\nfalse\n');
  });
});

test('the trial fails when a call does not do what it should', () => {
  class Broken extends Kernel {
    override receiveBatch(socket: Parameters<Kernel['receiveBatch']>[0]) {
      return super.receiveBatch(socket).map((one) => ({ ...one, interfaceIndex: 0 }));
    }
  }
  expect(() => tryOut(new Broken({ loop: false }))).toThrow('do not arrive as they were sent');
});
