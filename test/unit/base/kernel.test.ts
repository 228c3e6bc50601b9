import { describe, expect, it, test } from 'vitest';
import { ipv4 } from '../../../src/base/ipv4.ts';
import { Kernel } from '../../../src/base/kernel/kernel.socket.ts';
import { structLayouts } from '../../../src/base/kernel/layout.ts';

const LOOPBACK = ipv4('127.0.0.1');

/** As a C compiler lays them out: sizeof and offsetof. */
const SAME_EVERYWHERE = {
  sockaddr_in: { size: 16, at: { family: 0, port: 2, address: 4, zero: 8 } },
  iovec: { size: 16, at: { base: 0, length: 8 } },
  mmsghdr: {
    size: 64,
    at: {
      name: 0,
      nameLength: 8,
      iov: 16,
      iovLength: 24,
      control: 32,
      controlLength: 40,
      flags: 48,
      gap: 52,
      octets: 56,
    },
  },
  cmsghdr: { size: 16, at: { length: 0, level: 8, type: 12 } },
  in_pktinfo: { size: 12, at: { interfaceIndex: 0, localAddress: 4, destination: 8 } },
};

test('structures are laid out as C does on x86-64, where epoll_event is packed', () => {
  expect(structLayouts('x64')).toEqual({
    ...SAME_EVERYWHERE,
    epoll_event: { size: 12, at: { events: 0, data: 4 } },
  });
});

test('structures are laid out as C does on arm64, where epoll_event is not packed', () => {
  expect(structLayouts('arm64')).toEqual({
    ...SAME_EVERYWHERE,
    epoll_event: { size: 16, at: { events: 0, data: 8 } },
  });
});

describe('calls', () => {
  const kernel = new Kernel({ loop: false });
  const sockets = () => {
    const [from, to] = [kernel.udp(), kernel.udp()];
    for (const socket of [from, to]) kernel.bind(socket, LOOPBACK, 0);
    const { address, port } = kernel.local(to);
    kernel.connect(from, address, port);
    const close = () => {
      for (const one of [from, to]) kernel.close(one);
    };
    return { from, to, close };
  };

  it('never take octets from outside of a region', () => {
    const { from, close } = sockets();
    const region = kernel.region(100);
    for (const [offset, octets] of [
      [0, 101],
      [100, 1],
      [-1, 1],
      [1, -1],
      [0.5, 1],
      [Number.NaN, 1],
      [0, Number.POSITIVE_INFINITY],
      [2 ** 53, 1],
    ] as const)
      for (const segments of [true, false])
        for (const packetSize of [10, 1000])
          expect(() => kernel.sendRun(from, { region, offset, octets, packetSize }, { segments })).toThrow(
            RangeError,
          );
    const blocks = { offset: 0, header: 4, blockSize: 97, count: 1, position: 0 };
    expect(() => kernel.readBlocks(0, region, blocks)).toThrow(RangeError);
    expect(() => kernel.region(2 ** 40)).toThrow(RangeError);
    close();
  });

  it.each([true, false])(
    'send a run of packets, each of its size, the last one shorter; segments: %s',
    (segments) => {
      const { from, to, close } = sockets();
      if (segments) kernel.set(from, 'segment', 600);
      const region = kernel.region(100 + 600 * 30 + 7);
      region.bytes.forEach((_, n) => {
        region.bytes[n] = n % 251;
      });
      const run = { region, offset: 100, octets: 600 * 30 + 7, packetSize: 600 };
      expect(kernel.sendRun(from, run, { segments })).toBe(run.octets);
      const got = kernel.receiveBatch(to).map(({ bytes }) => bytes);
      expect(got.map(({ length }) => length)).toEqual([...Array(30).fill(600), 7]);
      expect(Buffer.concat(got).equals(region.bytes.subarray(100))).toBe(true);
      close();
    },
  );

  it('send in parts what is more than the kernel takes at once', () => {
    const { from, to, close } = sockets();
    kernel.set(from, 'segment', 1400);
    const region = kernel.region(1400 * 100);
    const run = { region, offset: 0, octets: 1400 * 100, packetSize: 1400 };
    expect(kernel.sendRun(from, run, { segments: true })).toBe(46 * 1400);
    expect(kernel.receiveBatch(to).length).toBe(32);
    close();
  });

  it('name the error of the kernel', () => {
    const socket = kernel.udp();
    expect(() => kernel.bind(socket, ipv4('192.0.2.1'), 0)).toThrow('bind: EADDRNOTAVAIL');
    expect(() => kernel.set(socket, 'segment', -5)).toThrow('setsockopt: EINVAL');
    kernel.close(socket);
    expect(() => kernel.local(socket)).toThrow('getsockname: EBADF');
  });
});
