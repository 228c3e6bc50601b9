import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Ipv4 } from '../../../../src/base/ipv4.ts';
import { CONCATENATES, describeOption, OPTION, printable } from '../../../../src/pxe/dhcp/options.ts';
import {
  type DhcpPacket,
  decode,
  encode,
  LARGEST,
  maximumFor,
  messageType,
  subOptions,
} from '../../../../src/pxe/dhcp/packet.ts';
import { CAPTURES, capture, message } from './kit.ts';

function read(bytes: Uint8Array): DhcpPacket {
  const decoded = decode(bytes);
  if (!decoded.ok) throw new Error(decoded.fault);
  return decoded.packet;
}

/** A packet with these octets in the options field. */
function withOptions(...octets: number[]): Buffer {
  return Buffer.concat([capture('u-boot-discover').subarray(0, 240), Buffer.from(octets)]);
}

const octets = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((array) => Buffer.from(array.buffer, array.byteOffset, array.length));
const address = fc.integer({ min: 0, max: 0xffffffff }).map((n) => n as Ipv4);
const byte = fc.integer({ min: 0, max: 255 });
const headerText = (maximum: number) =>
  fc
    .array(fc.integer({ min: 1, max: 255 }), { maxLength: maximum })
    .map((codes) => Buffer.from(codes).toString('latin1'));

const anyPacket: fc.Arbitrary<DhcpPacket> = fc.record({
  op: fc.constantFrom(1 as const, 2 as const),
  htype: byte,
  hlen: fc.integer({ min: 0, max: 16 }),
  hops: byte,
  xid: fc.integer({ min: 0, max: 0xffffffff }),
  secs: fc.integer({ min: 0, max: 65535 }),
  flags: fc.integer({ min: 0, max: 65535 }),
  ciaddr: address,
  yiaddr: address,
  siaddr: address,
  giaddr: address,
  chaddr: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((a) => Buffer.from(a)),
  sname: headerText(64),
  file: headerText(128),
  options: fc
    .array(fc.tuple(fc.integer({ min: 1, max: 254 }), octets(700)), { maxLength: 12 })
    .map((list) => {
      const options = new Map<number, Buffer>();
      // Only values without a fixed size may be long, because the others cannot be split.
      for (const [code, value] of list)
        if (code !== OPTION.overload) options.set(code, CONCATENATES[code] ? value : value.subarray(0, 255));
      return options;
    }),
});

describe('a DHCP packet', () => {
  it.each(CAPTURES)('%s is read and written again with the same meaning', (name) => {
    const packet = read(capture(name));
    const again = read(encode(packet).bytes);
    expect({ ...again, options: [...again.options].sort((a, b) => a[0] - b[0]) }).toEqual({
      ...packet,
      options: [...packet.options].sort((a, b) => a[0] - b[0]),
    });
  });

  it('survives writing and reading, whatever it holds', () => {
    fc.assert(
      fc.property(anyPacket, (packet) => {
        const again = read(encode(packet, 65_000).bytes);
        for (const [code, value] of packet.options) expect(again.options.get(code)).toEqual(value);
        expect(again.options.size).toBe(packet.options.size);
        expect({ ...again, options: 0 }).toEqual({ ...packet, options: 0 });
      }),
      { seed: 20261120, numRuns: 500 },
    );
  });

  it('is written to the same octets whatever order its options were set in', () => {
    fc.assert(
      fc.property(anyPacket, (packet) => {
        const reversed = { ...packet, options: new Map([...packet.options].reverse()) };
        expect(encode(reversed).bytes).toEqual(encode(packet).bytes);
      }),
      { seed: 20261120, numRuns: 200 },
    );
  });

  it('reads what OVMF, iPXE and U-Boot sent', () => {
    const ovmf = read(capture('ovmf-pxe-discover'));
    expect(messageType(ovmf)).toBe(1);
    expect(ovmf.flags).toBe(0x8000);
    expect(printable(ovmf.options.get(60)!)).toBe('PXEClient:Arch:00007:UNDI:003000');
    expect(ovmf.options.get(97)).toHaveLength(17);
    expect(read(capture('u-boot-discover')).file).toBe('bzImage');
    const ipxe = read(capture('ipxe-bios-discover'));
    expect(ipxe.secs).toBe(4);
    expect(subOptions(ipxe.options.get(175)!, true)?.get(0x13)).toEqual(Buffer.from([1]));
  });

  it('writes the message type first, boot options together, relay information last', () => {
    const options = new Map(
      [82, 1, 67, 53, 200, 61, 43, 60, 54, 3, 97, 66, 175, 51].map((c) => [c, Buffer.of(c)]),
    );
    const codes = [...read(encode({ ...read(capture('ovmf-pxe-discover')), options }).bytes).options.keys()];
    expect(codes).toEqual([53, 54, 51, 1, 3, 200, 60, 97, 43, 66, 67, 175, 61, 82]);
  });

  it('writes no padding between options', () => {
    const { bytes } = encode(read(capture('ipxe-efi-discover')));
    let at = 240;
    while (bytes[at] !== 255) {
      expect(bytes[at]).not.toBe(0);
      at += 2 + bytes[at + 1]!;
    }
    expect(bytes.subarray(at + 1).every((octet) => octet === 0)).toBe(true);
  });

  it('a packet is never shorter than 300 octets', () => {
    const { bytes } = encode({ ...read(capture('ovmf-pxe-discover')), options: new Map() });
    expect(bytes).toHaveLength(300);
  });

  it('believes option 57 up to the size of an Ethernet frame', () => {
    expect(maximumFor(read(capture('ovmf-pxe-request')))).toBe(LARGEST);
    expect(maximumFor(read(capture('ovmf-pxe-discover')))).toBe(1472 - 28);
    expect(maximumFor(read(capture('u-boot-discover')))).toBe(548);
    expect(maximumFor({ options: new Map([[57, Buffer.of(0, 64)]]) })).toBe(548);
    expect(maximumFor({ options: new Map() })).toBe(548);
  });

  it('drops the least needed options when the client accepts no larger reply, and says which', () => {
    const text = (n: number) => Buffer.alloc(n, 0x61);
    const options = new Map<number, Buffer>([
      [53, Buffer.of(2)],
      [54, Buffer.alloc(4)],
      [15, text(100)],
      [12, text(60)],
      [60, Buffer.from('PXEClient')],
      [82, text(200)],
    ]);
    const { bytes, dropped } = encode({ ...read(capture('ovmf-pxe-discover')), options }, 548);
    expect(dropped).toEqual([15]);
    expect(bytes.length).toBeLessThanOrEqual(548);
    expect([...read(bytes).options.keys()]).toEqual([53, 54, 12, 60, 82]);
  });

  describe('with an option in pieces', () => {
    it('is joined in the order options, file, sname (RFC 3396 §5)', () => {
      const bytes = Buffer.concat([
        capture('u-boot-discover').subarray(0, 240),
        Buffer.from([52, 1, 3, 43, 2, 1, 2, 255]),
      ]);
      bytes.fill(0, 44, 236);
      bytes.set([43, 1, 5, 255], 44);
      bytes.set([43, 2, 3, 4, 255], 108);
      const packet = read(bytes);
      expect(packet.options.get(43)).toEqual(Buffer.of(1, 2, 3, 4, 5));
      expect(packet.options.has(52)).toBe(false);
      expect([packet.sname, packet.file]).toEqual(['', '']);
    });

    it('keeps the first of two values of fixed size', () => {
      expect(read(withOptions(53, 1, 1, 53, 1, 3, 255)).options.get(53)).toEqual(Buffer.of(1));
    });

    it('writes values above 255 octets in pieces', () => {
      const value = Buffer.alloc(600, 7);
      const { bytes } = encode({ ...read(capture('u-boot-discover')), options: new Map([[43, value]]) });
      expect([bytes[241], bytes[241 + 257], bytes[241 + 514]]).toEqual([255, 255, 90]);
      expect(read(bytes).options.get(43)).toEqual(value);
    });
  });

  describe('that is malformed gives a reason', () => {
    it.each([
      ['nothing at all', Buffer.alloc(0), 'short'],
      ['one octet', Buffer.of(1), 'short'],
      ['a header without cookie', capture('u-boot-discover').subarray(0, 239), 'short'],
      ['a wrong op', Buffer.concat([Buffer.of(9), capture('u-boot-discover').subarray(1)]), 'bad_op'],
      ['a wrong cookie', withOptions().fill(0, 236), 'bad_cookie'],
      [
        'a hardware address too long',
        Buffer.concat([Buffer.of(1, 1, 17), capture('u-boot-discover').subarray(3)]),
        'bad_hlen',
      ],
      ['an option without length', withOptions(53, 1, 1, 12), 'option_overrun'],
      ['an option past the end', withOptions(53, 1, 1, 12, 5, 0x61), 'option_overrun'],
      ['an overload of 4', withOptions(52, 1, 4, 255), 'bad_overload'],
      ['an overload of two octets', withOptions(52, 2, 1, 1, 255), 'bad_overload'],
      [
        'an overloaded field that overruns',
        withOptions(52, 1, 1, 255).fill(0xfe, 108, 236),
        'option_overrun',
      ],
      ['more than a datagram', Buffer.alloc(70_000, 1), 'oversize'],
    ])('%s', (_what, bytes, fault) => expect(decode(bytes)).toEqual({ ok: false, fault }));

    it('but a missing END and padding before the message type are accepted', () => {
      expect(messageType(read(withOptions(0, 0, 53, 1, 1)))).toBe(1);
    });
  });

  it('keeps options that no table knows, raw', () => {
    const packet = read(message('DISCOVER', { options: [[224, [1, 2, 3]]] }));
    expect(packet.options.get(224)).toEqual(Buffer.of(1, 2, 3));
    expect(describeOption(224, Buffer.of(1, 2, 3))).toEqual({ name: 'option-224', text: '010203' });
  });

  it('prints options by their type, and what does not fit its type as octets', () => {
    expect(describeOption(54, Buffer.of(10, 77, 0, 1)).text).toBe('10.77.0.1');
    expect(describeOption(54, Buffer.of(10, 77)).text).toBe('0a4d (malformed)');
    expect(describeOption(53, Buffer.of(1)).text).toBe('DISCOVER');
    expect(describeOption(60, Buffer.from('\u001b[31mred', 'latin1')).text).toBe('\\x1b[31mred');
  });
});
