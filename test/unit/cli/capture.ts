/** Captures made for tests. */

/** An Ethernet frame with an IPv4 UDP datagram 0.0.0.0:68 → 255.255.255.255:67. */
export function ethernet(payload: Uint8Array, tags: readonly number[] = [], port = 67): Buffer {
  const udp = Buffer.alloc(8 + payload.length);
  udp.writeUInt16BE(68, 0);
  udp.writeUInt16BE(port, 2);
  udp.writeUInt16BE(udp.length, 4);
  udp.set(payload, 8);
  const ip = Buffer.alloc(20);
  ip[0] = 0x45;
  ip.writeUInt16BE(20 + udp.length, 2);
  ip[9] = 17;
  ip.fill(0xff, 16, 20);
  const mac = Buffer.from('ffffffffffff525400aa0001', 'hex');
  const tagged = tags.map((tag) => Buffer.from([tag >> 8, tag & 255, 0, 7]));
  return Buffer.concat([mac, ...tagged, Buffer.from([8, 0]), ip, udp]);
}

export function pcap(frame: Uint8Array, { little = true, nanos = false, link = 1 } = {}): Buffer {
  const put = (buffer: Buffer, value: number, at: number): void => {
    if (little) buffer.writeUInt32LE(value, at);
    else buffer.writeUInt32BE(value, at);
  };
  const head = Buffer.alloc(24);
  put(head, nanos ? 0xa1b23c4d : 0xa1b2c3d4, 0);
  put(head, link, 20);
  const record = Buffer.alloc(16);
  put(record, 1_700_000_000, 0);
  put(record, nanos ? 250_000_000 : 250_000, 4);
  put(record, frame.length, 8);
  put(record, frame.length, 12);
  return Buffer.concat([head, record, frame]);
}

/** A capture of several frames, a second apart. */
export function pcapOf(frames: readonly Uint8Array[]): Buffer {
  const pieces = frames.map((frame, n) => {
    const one = pcap(frame);
    one.writeUInt32LE(1_700_000_000 + n, 24);
    return n === 0 ? one : one.subarray(24);
  });
  return Buffer.concat(pieces);
}
