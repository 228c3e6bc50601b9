/** The list of the pieces of a disk's image, and whether it can be installed. */
import { createHash } from 'node:crypto';
import { PIECE_OCTETS } from '../../artifacts/disk-layout.ts';
import { readGpt } from '../../artifacts/gpt.ts';

/** What reading an image of a disk once finds out. */
export interface ReadImage {
  readonly size: number;
  /** SHA-256 of each piece. */
  readonly pieces: readonly string[];
  /** Why it cannot be installed, as a sentence. */
  readonly fault?: string;
}

/** Reads an image. */
export async function piecesOf(octets: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<ReadImage> {
  const pieces: string[] = [];
  let size = 0;
  let hash = createHash('sha256');
  let left = PIECE_OCTETS;
  const first: Uint8Array[] = [];
  for await (const part of octets) {
    if (size < PIECE_OCTETS) first.push(Buffer.from(part.subarray(0, PIECE_OCTETS - size)));
    size += part.length;
    for (let at = 0; at < part.length; ) {
      const taken = part.subarray(at, at + left);
      hash.update(taken);
      at += taken.length;
      left -= taken.length;
      if (left > 0) continue;
      pieces.push(hash.digest('hex'));
      hash = createHash('sha256');
      left = PIECE_OCTETS;
    }
  }
  if (left < PIECE_OCTETS) pieces.push(hash.digest('hex'));
  const gpt = readGpt(Buffer.concat(first));
  const fault =
    typeof gpt === 'string'
      ? gpt
      : size % gpt.sector !== 0 || size < (gpt.last.end + 1) * gpt.sector
        ? 'it ends before its last partition does'
        : undefined;
  return { size, pieces, ...(fault !== undefined && { fault }) };
}
