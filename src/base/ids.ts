/** Random identifiers. */
import { randomFillSync } from 'node:crypto';

const OCTETS = 16;
/**
 * Drawn by the kilobyte: a system call for each of a storm of boot sessions costs more than the
 * rest of making one.
 */
const drawn = Buffer.alloc(256 * OCTETS);
let used = drawn.length;

/**
 * 128 bits as 22 URL-safe characters: unguessable, short enough for DHCP's boot file field (128
 * octets).
 */
export function randomId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  const id = drawn.toString('base64url', used, used + OCTETS);
  drawn.fill(0, used, used + OCTETS);
  used += OCTETS;
  return id;
}
