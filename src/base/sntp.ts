/** Requests and answers of SNTP version 4 (RFC 4330, section 4). Pure. */

/** Octets of a packet without extensions. */
const SNTP_OCTETS = 48;
/** Seconds between 1900, where NTP begins to count, and 1970. */
const EPOCH_S = 2_208_988_800;
const ERA_S = 2 ** 32;
/** Version 4, mode client. */
const CLIENT = 0x23;
const ORIGINATE = 24;
const TRANSMIT = 40;

/** A request. `nonce`: 8 random octets in place of our time, which the answer repeats. */
export function encodeSntpRequest(nonce: Uint8Array): Buffer {
  const packet = Buffer.alloc(SNTP_OCTETS);
  packet[0] = CLIENT;
  packet.set(nonce, TRANSMIT);
  return packet;
}

/**
 * The server's time in an answer, ms since 1970. Undefined when it is no answer to the request, or
 * the server says that it is not synchronized.
 */
export function decodeSntpAnswer(packet: Uint8Array, nonce: Uint8Array): number | undefined {
  if (packet.length < SNTP_OCTETS) return undefined;
  const view = Buffer.from(packet);
  const mode = view[0]! & 0x07;
  const leap = view[0]! >> 6;
  const stratum = view[1]!;
  if (mode !== 4 || leap === 3 || stratum < 1 || stratum > 15) return undefined;
  if (!view.subarray(ORIGINATE, ORIGINATE + 8).equals(nonce)) return undefined;
  const seconds = view.readUInt32BE(TRANSMIT);
  // The first bit is 0 after the counter started again in 2036.
  const era = seconds < 0x8000_0000 ? ERA_S : 0;
  const fraction = view.readUInt32BE(TRANSMIT + 4) / ERA_S;
  return Math.round((seconds + era - EPOCH_S + fraction) * 1000);
}
