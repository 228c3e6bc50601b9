/**
 * Makes a small FAT12 volume with files in its root directory, which cloud-init reads as the volume
 * of its NoCloud source (Microsoft "FAT: General Overview of On-Disk Format" 1.03). Pure.
 */

/** FAT12 has fewer clusters than this. */
const MAX_CLUSTERS = 4084;
const ROOT_ENTRIES = 512;
const ENTRY = 32;
/** Characters of a long name in one entry, and where they are in it. */
const LONG_NAME_AT = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
const END_OF_CHAIN = 0xfff;

interface Geometry {
  readonly sector: number;
  readonly perCluster: number;
  readonly fatSectors: number;
  readonly rootSectors: number;
  readonly clusters: number;
}

/**
 * A volume of `octets` octets with `files`. The same files give the same octets.
 *
 * @param label At most 11 characters, upper case.
 * @returns undefined when the files do not fit
 */
export function fatVolume(
  octets: number,
  sector: number,
  label: string,
  files: Readonly<Record<string, string>>,
): Buffer | undefined {
  const geometry = geometryOf(octets, sector);
  const volume = Buffer.alloc(octets);
  writeBootSector(volume, geometry, label);
  const fat = Buffer.alloc(geometry.fatSectors * sector);
  setLink(fat, 0, 0xff8);
  setLink(fat, 1, END_OF_CHAIN);
  const root: Buffer[] = [directoryEntry(label.padEnd(11), 0x08, 0, 0)];
  const dataAt = (1 + 2 * geometry.fatSectors + geometry.rootSectors) * sector;
  const cluster = geometry.perCluster * sector;
  let next = 2;
  for (const [n, [name, text]] of Object.entries(files).entries()) {
    const content = Buffer.from(text);
    const used = Math.ceil(content.length / cluster);
    if (next + used - 2 > geometry.clusters) return undefined;
    content.copy(volume, dataAt + (next - 2) * cluster);
    for (let k = 0; k < used; k++) setLink(fat, next + k, k === used - 1 ? END_OF_CHAIN : next + k + 1);
    const short = `FILE${n}`.padEnd(11);
    root.push(...longName(name, short), directoryEntry(short, 0x20, used === 0 ? 0 : next, content.length));
    next += used;
  }
  if (root.length > ROOT_ENTRIES) return undefined;
  fat.copy(volume, sector);
  fat.copy(volume, (1 + geometry.fatSectors) * sector);
  Buffer.concat(root).copy(volume, (1 + 2 * geometry.fatSectors) * sector);
  return volume;
}

function geometryOf(octets: number, sector: number): Geometry {
  const total = octets / sector;
  const rootSectors = (ROOT_ENTRIES * ENTRY) / sector;
  for (let perCluster = 1; ; perCluster *= 2) {
    const fatSectors = Math.ceil((((total / perCluster + 2) * 3) / 2 + 1) / sector);
    const clusters = Math.floor((total - 1 - 2 * fatSectors - rootSectors) / perCluster);
    if (clusters <= MAX_CLUSTERS) return { sector, perCluster, fatSectors, rootSectors, clusters };
  }
}

function writeBootSector(volume: Buffer, { sector, perCluster, fatSectors }: Geometry, label: string): void {
  const total = volume.length / sector;
  Buffer.from([0xeb, 0x3c, 0x90]).copy(volume);
  volume.write('MUSTER  ', 3, 'latin1');
  volume.writeUInt16LE(sector, 11);
  volume[13] = perCluster;
  volume.writeUInt16LE(1, 14);
  volume[16] = 2;
  volume.writeUInt16LE(ROOT_ENTRIES, 17);
  volume.writeUInt16LE(total < 65_536 ? total : 0, 19);
  volume[21] = 0xf8;
  volume.writeUInt16LE(fatSectors, 22);
  volume.writeUInt16LE(32, 24);
  volume.writeUInt16LE(2, 26);
  volume.writeUInt32LE(total < 65_536 ? 0 : total, 32);
  volume[36] = 0x80;
  volume[38] = 0x29;
  volume.write('MUST', 39, 'latin1');
  volume.write(label.padEnd(11), 43, 'latin1');
  volume.write('FAT12   ', 54, 'latin1');
  volume.writeUInt16LE(0xaa55, 510);
}

/** Sets the entry of a cluster in the table: two entries share three octets. */
function setLink(fat: Buffer, cluster: number, value: number): void {
  const at = cluster + Math.floor(cluster / 2);
  const pair = fat.readUInt16LE(at);
  fat.writeUInt16LE(cluster % 2 === 0 ? (pair & 0xf000) | value : (pair & 0x000f) | (value << 4), at);
}

function directoryEntry(name: string, attributes: number, cluster: number, size: number): Buffer {
  const entry = Buffer.alloc(ENTRY);
  entry.write(name, 0, 'latin1');
  entry[11] = attributes;
  // 1 January 1980, the first day that FAT can write.
  entry.writeUInt16LE(0x0021, 24);
  entry.writeUInt16LE(cluster, 26);
  entry.writeUInt32LE(size, 28);
  return entry;
}

/** The entries of a long name, which come before that of its short name, the last part first. */
function longName(name: string, short: string): readonly Buffer[] {
  const units = Array.from({ length: name.length }, (_, n) => name.charCodeAt(n));
  const parts = Math.ceil(units.length / LONG_NAME_AT.length);
  let sum = 0;
  for (const octet of Buffer.from(short, 'latin1')) sum = (((sum & 1) << 7) + (sum >> 1) + octet) & 0xff;
  return Array.from({ length: parts }, (_, n) => {
    const part = parts - n;
    const entry = Buffer.alloc(ENTRY);
    entry[0] = part | (n === 0 ? 0x40 : 0);
    entry[11] = 0x0f;
    entry[13] = sum;
    for (const [k, at] of LONG_NAME_AT.entries()) {
      const index = (part - 1) * LONG_NAME_AT.length + k;
      entry.writeUInt16LE(units[index] ?? (index === units.length ? 0 : 0xffff), at);
    }
    return entry;
  });
}
