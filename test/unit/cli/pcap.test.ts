import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import { datagramOf, type Frame, readCapture } from '../../../src/cli/explain/pcap.ts';
import { ethernet, pcap } from './capture.ts';

const PAYLOAD = Buffer.from('hello');

function block(type: number, body: Uint8Array): Buffer {
  const padded = Buffer.concat([body, Buffer.alloc((4 - (body.length % 4)) % 4)]);
  const out = Buffer.alloc(12 + padded.length);
  out.writeUInt32LE(type, 0);
  out.writeUInt32LE(out.length, 4);
  out.set(padded, 8);
  out.writeUInt32LE(out.length, out.length - 4);
  return out;
}

function pcapng(frame: Uint8Array): Buffer {
  const section = Buffer.alloc(16);
  section.writeUInt32LE(0x1a2b3c4d, 0);
  section.writeUInt16LE(1, 4);
  section.fill(0xff, 8);
  // if_tsresol 9: nanoseconds
  const description = Buffer.from([1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
  const packet = Buffer.alloc(20 + frame.length);
  const ticks = 1_700_000_000_250_000_000n;
  packet.writeUInt32LE(Number(ticks >> 32n), 4);
  packet.writeUInt32LE(Number(ticks & 0xffffffffn), 8);
  packet.writeUInt32LE(frame.length, 12);
  packet.writeUInt32LE(frame.length, 16);
  packet.set(frame, 20);
  return Buffer.concat([block(0x0a0d0d0a, section), block(1, description), block(6, packet)]);
}

const framesOf = (bytes: Uint8Array): readonly Frame[] => {
  const capture = readCapture(bytes);
  if (!capture.ok) throw new Error(capture.why);
  return capture.frames;
};

describe('captures', () => {
  it.for([
    ['pcap, little-endian', pcap(ethernet(PAYLOAD))],
    ['pcap, big-endian', pcap(ethernet(PAYLOAD), { little: false })],
    ['pcap, nanoseconds', pcap(ethernet(PAYLOAD), { nanos: true })],
    ['pcapng', pcapng(ethernet(PAYLOAD))],
  ] as const)('are read: %s', ([, bytes]) => {
    const [frame] = framesOf(bytes);
    expect(Math.round(frame!.at)).toBe(1_700_000_000_250);
    expect(datagramOf(frame!)).toMatchObject({
      sourceMac: '52:54:00:aa:00:01',
      sourcePort: 68,
      destinationPort: 67,
      destination: 0xffffffff,
    });
    expect(Buffer.from(datagramOf(frame!)!.payload).toString()).toBe('hello');
  });

  it('are read through VLAN tags and from Linux cooked sockets', () => {
    const tagged = framesOf(pcap(ethernet(PAYLOAD, [0x88a8, 0x8100])))[0]!;
    expect(datagramOf(tagged)?.destinationPort).toBe(67);
    const packet = ethernet(PAYLOAD).subarray(14);
    const cooked = Buffer.concat([Buffer.alloc(14), Buffer.from([8, 0]), packet]);
    expect(datagramOf(framesOf(pcap(cooked, { link: 113 }))[0]!)?.destinationPort).toBe(67);
    expect(datagramOf(framesOf(pcap(packet, { link: 101 }))[0]!)?.destinationPort).toBe(67);
  });

  it('that end inside a frame give what came before, and say so', () => {
    const whole = pcap(ethernet(PAYLOAD));
    const two = Buffer.concat([whole, whole.subarray(24, 24 + 30)]);
    expect(readCapture(two)).toMatchObject({ ok: true, cut: true, frames: [{ link: 1 }] });
  });

  it('are refused when they are none', () => {
    expect(readCapture(Buffer.from('not a capture at all, but long enough'))).toMatchObject({ ok: false });
    expect(readCapture(Buffer.alloc(0))).toMatchObject({ ok: false });
  });

  it('hold no datagram where a fragment, another protocol or damage is', () => {
    const frame = (change: (bytes: Buffer) => void): Frame => {
      const data = ethernet(PAYLOAD);
      change(data);
      return { at: millis(0), link: 1, data };
    };
    expect(datagramOf(frame((bytes) => bytes.writeUInt16BE(0x2000, 20)))).toBeUndefined();
    expect(datagramOf(frame((bytes) => bytes.writeUInt8(6, 23)))).toBeUndefined();
    expect(datagramOf(frame((bytes) => bytes.writeUInt16BE(4000, 38)))).toBeUndefined();
    expect(datagramOf(frame((bytes) => bytes.writeUInt8(0x41, 14)))).toBeUndefined();
    expect(datagramOf({ at: millis(0), link: 9999, data: ethernet(PAYLOAD) })).toBeUndefined();
  });
});

describe('hostile captures', () => {
  it('never throw, whatever the payload', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), (payload) => {
        const read = datagramOf(framesOf(pcapng(ethernet(payload)))[0]!);
        expect(Buffer.from(read!.payload).equals(Buffer.from(payload))).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('never throw and never give more than they hold: 200,000 damaged files', () => {
    const seed = 0x6d757374;
    console.log(`pcap fuzz seed ${seed}`);
    let state = seed;
    const random = (below: number): number => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return (state >>> 0) % below;
    };
    const originals = [
      pcap(ethernet(PAYLOAD)),
      pcap(ethernet(PAYLOAD, [0x8100]), { little: false }),
      pcapng(ethernet(PAYLOAD)),
    ];
    let read = 0;
    for (let n = 0; n < 200_000; n++) {
      const original = originals[n % originals.length]!;
      const bytes = Buffer.from(
        original.subarray(0, random(8) === 0 ? random(original.length + 1) : original.length),
      );
      for (let k = random(6); k >= 0 && bytes.length > 0; k--)
        bytes[random(bytes.length)] = random(4) === 0 ? 0xff : random(256);
      const capture = readCapture(bytes);
      if (!capture.ok) continue;
      if (capture.frames.length >= bytes.length) throw new Error(bytes.toString('hex'));
      for (const frame of capture.frames) {
        const datagram = datagramOf(frame);
        if (datagram && datagram.payload.length <= frame.data.length) read++;
      }
    }
    expect(read).toBeGreaterThan(1_000);
  });
});
