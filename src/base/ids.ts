/** Random identifiers. */
import { randomBytes } from 'node:crypto';

/** 128 bits as 22 URL-safe characters: unguessable, short enough for DHCP's boot file field (128 octets). */
export function randomId(): string {
  return randomBytes(16).toString('base64url');
}
