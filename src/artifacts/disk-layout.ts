/**
 * What an installation writes to a disk, as a list of extents in the order in which they are
 * written: the image in pieces, the configuration with the backup partition table, and last the
 * first MiB, without which no firmware starts the disk. Pure.
 */
import { createHash } from 'node:crypto';
import { fatVolume } from './fat.ts';
import { fitGpt, overlay, readGpt, SEED_OCTETS, sectorsNeeded } from './gpt.ts';

/** Octets of a piece of an image; the last piece may be shorter. */
export const PIECE_OCTETS = 4 * 1024 * 1024;
/** What is written last, apart from {@link HEAD_OCTETS}. */
const FIRST_OCTETS = 1024 * 1024;
/** The sectors with the boot code and, on disks with sectors of 512, the header of the table. */
const HEAD_OCTETS = 4096;
/** The volume label by which cloud-init finds its configuration (NoCloud). */
const SEED_LABEL = 'CIDATA';

/** Octets of the disk that are written, checked and fetched as one. */
export interface Extent {
  readonly at: number;
  readonly octets: number;
  readonly sha256: string;
  /**
   * `image`: of the image alone. `own`: made for this disk, with the configuration. `first`: the
   * first MiB.
   */
  readonly part: 'image' | 'own' | 'first';
}

export interface DiskLayout {
  readonly extents: readonly Extent[];
  /** The octets of extents that are not as they are in the image, by their offset. */
  readonly made: ReadonlyMap<number, Buffer>;
}

/** Why an image cannot be installed on a disk. */
export const LAYOUT_FAULTS = [
  'image_changed',
  'image_unfit',
  'disk_sectors',
  'disk_small',
  'seed_large',
] as const;
export interface LayoutFault {
  readonly code: (typeof LAYOUT_FAULTS)[number];
  readonly text: string;
}

/**
 * Reads the list of an image's pieces: one SHA-256 a line.
 *
 * @returns undefined for another text
 */
export function readPieces(text: string): readonly string[] | undefined {
  const lines = text.split('\n');
  return lines.pop() === '' && lines.length > 0 && lines.every((line) => /^[0-9a-f]{64}$/.test(line))
    ? lines
    : undefined;
}

/** The list that {@link readPieces} reads. */
export const piecesText = (pieces: readonly string[]): string => pieces.map((one) => `${one}\n`).join('');

const sha256Of = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex');

export interface LayoutInput {
  /** Octets of the image. */
  readonly size: number;
  readonly pieces: readonly string[];
  /** Reads octets of the image. */
  readonly read: (at: number, octets: number) => Promise<Buffer>;
  readonly disk: { readonly bytes: number; readonly sector: number };
  /** The files of the volume with the configuration. */
  readonly seed: Readonly<Record<string, string>>;
}

/** Lays an image out on a disk. */
export async function layOut(input: LayoutInput): Promise<DiskLayout | LayoutFault> {
  const { size, pieces, read, disk, seed } = input;
  const fault = (code: LayoutFault['code'], text: string): LayoutFault => ({ code, text });
  if (pieces.length !== Math.ceil(size / PIECE_OCTETS))
    return fault('image_changed', `the image has ${size} octets, its list ${pieces.length} pieces`);
  const firstPiece = await read(0, Math.min(size, PIECE_OCTETS));
  if (sha256Of(firstPiece) !== pieces[0])
    return fault(
      'image_changed',
      'the first piece of the image on the boot host does not have the hash of its list',
    );
  const gpt = readGpt(firstPiece);
  if (typeof gpt === 'string') return fault('image_unfit', `the image cannot be installed: ${gpt}`);
  if (gpt.sector !== disk.sector)
    return fault(
      'disk_sectors',
      `the image is made for sectors of ${gpt.sector} octets, and the disk has sectors of ${disk.sector}`,
    );
  const seedOctets = seedOctetsOf(seed);
  const sectors = Math.floor(disk.bytes / disk.sector);
  const needed = sectorsNeeded(gpt, seedOctets);
  if (sectors < needed)
    return fault('disk_small', `the disk has ${sectors} sectors, and the image needs ${needed}`);
  const volume = fatVolume(seedOctets, disk.sector, SEED_LABEL, seed);
  if (volume === undefined) return fault('seed_large', 'the configuration is too large for its partition');
  const fitted = fitGpt(gpt, sectors, seedOctets);
  if (typeof fitted === 'string') return fault('image_unfit', `the image cannot be installed: ${fitted}`);
  const tail = Buffer.alloc(sectors * disk.sector - fitted.seedAt);
  volume.copy(tail);
  fitted.backup.copy(tail, tail.length - fitted.backup.length);
  const made = new Map<number, Buffer>([[fitted.seedAt, tail]]);
  const extents: Extent[] = [];
  const add = (part: Extent['part'], at: number, octets: Buffer): void => {
    made.set(at, octets);
    extents.push({ at, octets: octets.length, sha256: sha256Of(octets), part });
  };
  const until = Math.min(size, fitted.seedAt);
  for (let n = 1; n * PIECE_OCTETS < until; n++) {
    const at = n * PIECE_OCTETS;
    const octets = Math.min(PIECE_OCTETS, until - at);
    // The part of the image behind its last partition is its own backup table, which moves.
    if (octets === Math.min(PIECE_OCTETS, size - at))
      extents.push({ at, octets, sha256: pieces[n]!, part: 'image' });
    else add('image', at, await read(at, octets));
  }
  overlay(firstPiece, fitted, gpt, sectors);
  add('image', FIRST_OCTETS, Buffer.from(firstPiece.subarray(FIRST_OCTETS, Math.min(until, PIECE_OCTETS))));
  add('own', fitted.seedAt, tail);
  add('first', HEAD_OCTETS, Buffer.from(firstPiece.subarray(HEAD_OCTETS, FIRST_OCTETS)));
  add('first', 0, Buffer.from(firstPiece.subarray(0, HEAD_OCTETS)));
  return { extents, made };
}

/** Whole MiB with room for the files, the tables and the ends of clusters. */
const seedOctetsOf = (seed: Readonly<Record<string, string>>): number => {
  const content = Object.values(seed).reduce((sum, text) => sum + Buffer.byteLength(text) + 32 * 1024, 0);
  return Math.ceil((content + 256 * 1024) / SEED_OCTETS) * SEED_OCTETS;
};
