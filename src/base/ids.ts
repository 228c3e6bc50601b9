/** Random identifiers. */
import { hash, randomFillSync } from 'node:crypto';

const OCTETS = 16;
/**
 * Random octets in stock, drawn four kilobytes at a time. When many machines boot at once, a system
 * call per boot session would cost more than everything else that a new session needs.
 */
const drawn = Buffer.alloc(256 * OCTETS);
let used = drawn.length;

/**
 * Makes an id of 128 random bits as 22 URL-safe characters. It cannot be guessed, and it is short
 * enough for a URL in DHCP's boot file field (128 octets).
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

/**
 * A name for an id that is secret: 22 URL-safe characters from which nobody can derive the id. The
 * same id always has the same name.
 */
export function publicName(id: string): string {
  if (memoLast?.id !== id)
    memoLast = { id, name: hash('sha256', `muster public name\0${id}`, 'base64url').slice(0, 22) };
  return memoLast.name;
}

/** A request has several events, each of which names its session. */
let memoLast: { readonly id: string; readonly name: string } | undefined;
