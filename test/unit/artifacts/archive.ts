/** Archives with damaged members, for tests. */
import { TAR_END, tarHeader, tarPadding } from '../../../src/artifacts/tar.ts';

/** Makes an archive with these members; changed headers get a correct checksum. */
export const archive = (
  ...members: readonly (readonly [flag: string, path: string, content: string])[]
): Buffer =>
  Buffer.concat([
    ...members.flatMap(([flag, path, content]) => {
      const header = tarHeader({ path, type: 'file', mode: 0o644, size: content.length });
      header[156] = flag.charCodeAt(0);
      return [header, Buffer.from(content), tarPadding(content.length)];
    }),
    TAR_END,
  ]);

/**
 * Gives every block a correct checksum, so that only the checks of the reader can find the damage.
 */
export function summed(octets: Buffer): Buffer {
  for (let at = 0; at + 512 <= octets.length; at += 512) {
    const block = octets.subarray(at, at + 512);
    if (block.toString('latin1', 257, 262) !== 'ustar') continue;
    const sum = block.reduce((total, octet, n) => total + (n >= 148 && n < 156 ? 32 : octet), 0);
    block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  }
  return octets;
}
