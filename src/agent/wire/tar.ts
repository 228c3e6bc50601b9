/**
 * Writes a tar (ustar, POSIX.1-2017 pax, "ustar Interchange Format") of plain files; the same input
 * gives the same octets.
 */

export interface TarEntry {
  /** At most 100 octets of ASCII. */
  readonly name: string;
  readonly content: Uint8Array;
}

const BLOCK = 512;
/** The limit of sizes, which have eleven octal digits. */
const LARGEST = 8 ** 11;

/** Mode 0600, owner root, date zero, so that a plan's octets depend on its contents alone. */
function header({ name, content }: TarEntry): Buffer {
  if (!/^[\x21-\x7e]{1,100}$/.test(name)) throw new RangeError(`not a name for tar: ${name}`);
  if (content.length >= LARGEST) throw new RangeError(`too large for tar: ${name}`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, width: number): void => {
    block.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
  };
  block.write(name, 0, 'latin1');
  octal(0o600, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(content.length, 124, 12);
  octal(0, 136, 12);
  block.fill(' ', 148, 156);
  block.write('0', 156, 'latin1');
  block.write('ustar\u000000', 257, 'latin1');
  let sum = 0;
  for (const octet of block) sum += octet;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

/**
 * Writes a tar archive, with the two zero blocks that end it.
 *
 * @throws {RangeError} for a name that is empty, too long or not printable ASCII, and for content
 *   of 8 GiB or more.
 */
export function tar(entries: Iterable<TarEntry>): Buffer {
  const parts: Uint8Array[] = [];
  for (const entry of entries) {
    const rest = entry.content.length % BLOCK;
    parts.push(header(entry), entry.content);
    if (rest > 0) parts.push(Buffer.alloc(BLOCK - rest));
  }
  parts.push(Buffer.alloc(2 * BLOCK));
  return Buffer.concat(parts);
}
