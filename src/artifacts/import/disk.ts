/** The parts of a disk image, and which of them make up the root file system. */
import { MusterError } from '../../base/errors.ts';

/** A partition, or a whole file that is one file system. */
export interface Part {
  /** Its number in the partition table; 0 for a whole file. */
  readonly number: number;
  /** First octet, and number of octets. */
  readonly start: number;
  readonly size: number;
  /** The id of its entry in the partition table. */
  readonly entryId?: string;
  readonly entryName?: string;
  /** What blkid found in it. */
  readonly type?: string;
  readonly uuid?: string;
  readonly label?: string;
}

/** A file system of the image, and where it is mounted. */
export interface Mount {
  readonly part: Part;
  /** `/`, `/boot`, … */
  readonly path: string;
  /** Subvolume of btrfs, if it is not the one that btrfs mounts by itself. */
  readonly subvolume?: string;
}

/** A part and the names of `PROBED` that were found in it. */
export interface Looked {
  readonly part: Part;
  readonly names: readonly string[];
}

/** File systems that are mounted. */
const MOUNTED: ReadonlySet<string> = new Set(['ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'squashfs', 'erofs']);

/** What is said of file systems that are not. */
const REFUSED: Readonly<Record<string, string>> = {
  crypto_LUKS: 'is encrypted (LUKS)',
  BitLocker: 'is encrypted (BitLocker)',
  LVM2_member: 'belongs to LVM, which is not read',
  linux_raid_member: 'belongs to a RAID, which is not read',
};

export const isMounted = (part: Part): boolean => part.type !== undefined && MOUNTED.has(part.type);

/**
 * The parts that the JSON of `sfdisk` names.
 *
 * @throws {MusterError} E_IMPORT_TRUNCATED when one of them ends behind the file.
 */
export function partsOf(json: string, octets: number): readonly Part[] {
  const { partitiontable: table } = JSON.parse(json) as {
    readonly partitiontable: {
      readonly sectorsize?: number;
      readonly partitions?: readonly {
        readonly node: string;
        readonly start: number;
        readonly size: number;
        readonly type?: string;
        readonly uuid?: string;
        readonly name?: string;
      }[];
    };
  };
  // sfdisk shows only the protecting entry when the GPT is of a larger disk.
  if (table.partitions?.some(({ type }) => type === 'ee'))
    throw new MusterError('E_IMPORT_TRUNCATED', 'its partition table (GPT) is of a larger disk');
  const sector = table.sectorsize ?? 512;
  const parts = (table.partitions ?? []).map(({ node, start, size, uuid, name }) => ({
    number: Number(/[0-9]+$/.exec(node)?.[0] ?? 0),
    start: start * sector,
    size: size * sector,
    ...(uuid !== undefined && { entryId: uuid }),
    ...(name !== undefined && { entryName: name }),
  }));
  const beyond = parts.find(({ start, size }) => start + size > octets);
  if (beyond)
    throw new MusterError(
      'E_IMPORT_TRUNCATED',
      `partition ${beyond.number} ends at octet ${beyond.start + beyond.size}, but the disk has only ${octets}`,
    );
  return parts;
}

/** The fields of `blkid -o export`. */
export function blkidFields(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    text.split('\n').flatMap((line) => {
      const at = line.indexOf('=');
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1)]] : [];
    }),
  );
}

/** The part with what blkid found in it. */
export function identified(part: Part, { TYPE, UUID, LABEL }: Readonly<Record<string, string>>): Part {
  return {
    ...part,
    ...(TYPE !== undefined && { type: TYPE }),
    ...(UUID !== undefined && { uuid: UUID }),
    ...(LABEL !== undefined && { label: LABEL }),
  };
}

const OS_RELEASE = /^(?:(.*)\/)?(?:usr\/lib|etc)\/os-release$/;
const KERNEL = /^vmlinuz[^/]*$/;

/** Files by which a root or boot file system is recognised, as patterns of `find -path`. */
export const PROBED: readonly string[] = [
  './etc/os-release',
  './usr/lib/os-release',
  './*/etc/os-release',
  './*/usr/lib/os-release',
  './vmlinuz*',
];

/**
 * Which part has the root file system, and the subvolume of it.
 *
 * @param wanted Number of the partition that the operator names.
 * @throws {MusterError} E_IMPORT_ENCRYPTED, E_IMPORT_NO_ROOT, E_IMPORT_ROOTS.
 */
export function rootOf(looked: readonly Looked[], parts: readonly Part[], wanted?: number): Mount {
  const found = looked.flatMap(({ part, names }): readonly Mount[] => {
    const subvolumes = new Set(
      names.flatMap((name) => OS_RELEASE.exec(name)?.slice(1) ?? []).map((s) => s ?? ''),
    );
    if (subvolumes.has('')) return [{ part, path: '/' }];
    return part.type === 'btrfs' ? [...subvolumes].map((subvolume) => ({ part, path: '/', subvolume })) : [];
  });
  const roots = found.filter(({ part }) => wanted === undefined || part.number === wanted);
  if (roots.length === 1) return roots[0]!;
  if (roots.length > 1)
    throw new MusterError(
      'E_IMPORT_ROOTS',
      `there are ${roots.length} root file systems: ${roots.map(({ part, subvolume }) => named(part, subvolume)).join(', ')}`,
    );
  const encrypted = parts.find(({ type }) => /encrypted/.test(REFUSED[type ?? ''] ?? ''));
  if (encrypted)
    throw new MusterError('E_IMPORT_ENCRYPTED', `${named(encrypted)} ${REFUSED[encrypted.type!]}`);
  const others = parts.map(
    (part) => `${named(part)} ${REFUSED[part.type ?? ''] ?? `has ${part.type ?? 'nothing known'}`}`,
  );
  throw new MusterError(
    'E_IMPORT_NO_ROOT',
    `no file system of it has etc/os-release or usr/lib/os-release${others.length > 0 ? `: ${others.join(', ')}` : ''}`,
  );
}

const named = ({ number }: Part, subvolume?: string): string =>
  `${number === 0 ? 'the file' : `partition ${number}`}${subvolume ? `, subvolume ${subvolume}` : ''}`;

/** Mount points that are not part of the system: loaders of firmware, and what is made at boot. */
const NOT_MOUNTED = /^(\/|\/boot\/efi|\/efi|none|swap|\/(proc|sys|dev|run|tmp)(\/.*)?)$/;

/**
 * The file systems of the image that its fstab mounts besides the root, the outer ones first. A
 * part with a kernel that no line names is /boot.
 */
export function otherMounts(fstab: string, root: Mount, looked: readonly Looked[]): readonly Mount[] {
  const parts = looked.map(({ part }) => part);
  const mounts = fstab.split('\n').flatMap((line): readonly Mount[] => {
    const [source, path, type, options = ''] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (
      !source ||
      !path ||
      !type ||
      !/^(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$/.test(path) ||
      NOT_MOUNTED.test(path)
    )
      return [];
    const part = parts.find((one) => isSource(one, source));
    const subvolume = /(?:^|,)subvol=\/?([A-Za-z0-9@._/-]+)/.exec(options)?.[1];
    return part ? [{ part, path, ...(subvolume !== undefined && { subvolume }) }] : [];
  });
  const boot = looked.find(
    ({ part, names }) => part !== root.part && names.some((name) => KERNEL.test(name)),
  );
  if (boot && !mounts.some(({ path }) => path === '/boot')) mounts.push({ part: boot.part, path: '/boot' });
  return mounts.sort((a, b) => a.path.split('/').length - b.path.split('/').length);
}

function isSource({ uuid, label, entryId, entryName }: Part, source: string): boolean {
  const [, by, value] =
    /^(UUID|LABEL|PARTUUID|PARTLABEL)="?([^"]+)"?$/.exec(source) ??
    /^\/dev\/disk\/by-(uuid|label|partuuid|partlabel)\/(.+)$/.exec(source) ??
    [];
  if (by === undefined || value === undefined) return false;
  const own = { uuid, label, partuuid: entryId, partlabel: entryName }[by.toLowerCase()];
  return own !== undefined && own.toLowerCase() === value.toLowerCase();
}

/** The words for images/import/mounted.sh that mount `mounts`. */
export function mountWords(mounts: readonly Mount[]): readonly string[] {
  return mounts.flatMap(({ part, path, subvolume }) => [
    String(part.start),
    String(part.size),
    part.type!,
    `${part.type === 'xfs' ? ',nouuid' : ''}${subvolume === undefined ? '' : `,subvol=${subvolume}`}`,
    path,
  ]);
}
