/**
 * Reads the partition table of a whole-disk image and fits it to another disk: the last partition
 * grows, a partition for the configuration follows it, and the backup table moves to the disk's end
 * (UEFI specification, section 5.3). Pure.
 */
import { crc32 } from 'node:zlib';

/** Octets of the partition that holds the configuration, at the least. */
export const SEED_OCTETS = 1024 * 1024;
const ALIGNMENT = 1024 * 1024;
const SIGNATURE = 'EFI PART';
const SECTORS = [512, 4096] as const;
export type SectorSize = (typeof SECTORS)[number];
/** "Microsoft basic data", which every system reads as a file system of its own. */
const SEED_TYPE = Buffer.from('a2a0d0ebe5b9334487c068b6b72699c7', 'hex');
const SEED_NAME = 'muster-seed';

export interface Gpt {
  readonly sector: SectorSize;
  readonly header: Buffer;
  readonly entries: Buffer;
  readonly entrySize: number;
  /** The entry whose partition ends last, and where it ends (inclusive). */
  readonly last: { readonly index: number; readonly end: number };
}

/** A partition table that fits a disk. */
export interface FittedGpt {
  /** The beginning of the disk: protective MBR, header, entries. */
  readonly primary: Buffer;
  /** Where the configuration's partition begins, in octets. */
  readonly seedAt: number;
  readonly seedOctets: number;
  /** Entries and header for the end of the disk. */
  readonly backup: Buffer;
}

/**
 * Reads the table from the first octets of an image.
 *
 * @returns why there is none that can be used, as a sentence
 */
export function readGpt(first: Buffer): Gpt | string {
  const sector = SECTORS.find((size) => first.toString('latin1', size, size + 8) === SIGNATURE);
  if (sector === undefined) return 'it has no GPT partition table';
  const size = first.readUInt32LE(sector + 12);
  if (size < 92 || size > sector) return 'the header of its partition table has an impossible size';
  const header = Buffer.from(first.subarray(sector, sector + size));
  if (crc32(zeroed(header, 16)) !== header.readUInt32LE(16))
    return 'the header of its partition table is damaged';
  const [count, entrySize] = [header.readUInt32LE(80), header.readUInt32LE(84)];
  const at = Number(header.readBigUInt64LE(72)) * sector;
  if (entrySize < 128 || entrySize > 4096 || count < 1 || count * entrySize > 65_536)
    return 'its partition table has an impossible number of entries';
  if (at !== 2 * sector) return 'its partition table does not begin behind its header';
  const entries = Buffer.from(first.subarray(at, at + count * entrySize));
  if (entries.length !== count * entrySize || crc32(entries) !== header.readUInt32LE(88))
    return 'the entries of its partition table are damaged';
  let last: Gpt['last'] | undefined;
  for (let index = 0; index < count; index++) {
    const entry = entries.subarray(index * entrySize, (index + 1) * entrySize);
    if (isFree(entry)) continue;
    const end = Number(entry.readBigUInt64LE(40));
    if (last === undefined || end > last.end) last = { index, end };
  }
  return last === undefined ? 'its partition table is empty' : { sector, header, entries, entrySize, last };
}

/** The smallest disk for the table and a configuration of `seedOctets`, in sectors. */
export function sectorsNeeded(gpt: Gpt, seedOctets: number): number {
  const { sector, entries, last } = gpt;
  const unit = ALIGNMENT / sector;
  const seedAt = Math.ceil((last.end + 1) / unit) * unit;
  return seedAt + seedOctets / sector + Math.ceil(entries.length / sector) + 1;
}

/**
 * Fits the table to a disk of `sectors` sectors, which has to have {@link sectorsNeeded}.
 *
 * @param seedOctets A multiple of {@link SEED_OCTETS}.
 * @returns why it does not fit, as a sentence
 */
export function fitGpt(gpt: Gpt, sectors: number, seedOctets: number): FittedGpt | string {
  const { sector, entrySize } = gpt;
  const entriesSectors = Math.ceil(gpt.entries.length / sector);
  const lastUsable = sectors - entriesSectors - 2;
  const unit = ALIGNMENT / sector;
  const seedFirst = Math.floor((lastUsable + 1 - seedOctets / sector) / unit) * unit;
  const entries = Buffer.from(gpt.entries);
  const free = freeEntry(entries, entrySize);
  if (free === undefined) return 'its partition table has no free entry for the configuration';
  if (sectors < sectorsNeeded(gpt, seedOctets)) return 'the disk is too small for it';
  entries.writeBigUInt64LE(BigInt(seedFirst - 1), gpt.last.index * entrySize + 40);
  SEED_TYPE.copy(entries, free);
  // The same image on the same disk gets the same octets, so the id is made from the disk's own.
  const id = Buffer.from(gpt.header.subarray(56, 72));
  id[15] = id[15]! ^ 0x5e;
  id.copy(entries, free + 16);
  entries.writeBigUInt64LE(BigInt(seedFirst), free + 32);
  entries.writeBigUInt64LE(BigInt(seedFirst + seedOctets / sector - 1), free + 40);
  entries.fill(0, free + 48, free + 128);
  entries.write(SEED_NAME, free + 56, 'utf16le');
  const backupEntries = sectors - 1 - entriesSectors;
  const header = (own: number, other: number, entriesAt: number): Buffer => {
    const made = Buffer.from(gpt.header);
    made.writeBigUInt64LE(BigInt(own), 24);
    made.writeBigUInt64LE(BigInt(other), 32);
    made.writeBigUInt64LE(BigInt(lastUsable), 48);
    made.writeBigUInt64LE(BigInt(entriesAt), 72);
    made.writeUInt32LE(crc32(entries), 88);
    made.writeUInt32LE(crc32(zeroed(made, 16)), 16);
    return made;
  };
  const primary = Buffer.alloc(2 * sector + entriesSectors * sector);
  header(1, sectors - 1, 2).copy(primary, sector);
  entries.copy(primary, 2 * sector);
  const backup = Buffer.alloc((entriesSectors + 1) * sector);
  entries.copy(backup);
  header(sectors - 1, 1, backupEntries).copy(backup, entriesSectors * sector);
  return { primary, seedAt: seedFirst * sector, seedOctets, backup };
}

/**
 * Puts the table over the beginning of an image, and keeps the boot code in the image's first
 * sector. The protective entry of the MBR covers the whole disk.
 */
export function overlay(image: Buffer, { primary }: FittedGpt, { sector }: Gpt, sectors: number): void {
  const mbr = Buffer.from(image.subarray(0, sector));
  primary.copy(image);
  mbr.copy(image);
  for (let at = 446; at < 510; at += 16)
    if (image[at + 4] === 0xee) image.writeUInt32LE(Math.min(sectors - 1, 0xffffffff), at + 12);
}

/** The offset of the first free entry. */
function freeEntry(entries: Buffer, entrySize: number): number | undefined {
  for (let at = 0; at < entries.length; at += entrySize)
    if (isFree(entries.subarray(at, at + entrySize))) return at;
  return undefined;
}

const isFree = (entry: Buffer): boolean => entry.subarray(0, 16).every((octet) => octet === 0);

/** A copy of `octets` whose CRC field at `at` is zero, as it is computed. */
function zeroed(octets: Buffer, at: number): Buffer {
  const copy = Buffer.from(octets);
  copy.writeUInt32LE(0, at);
  return copy;
}
