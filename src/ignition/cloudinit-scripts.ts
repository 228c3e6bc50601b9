/**
 * Shell for what cloud-init has no module for, at least not in every version: exact partitions, and
 * files that are checked by their hash.
 */
import type { NodeDisk, NodeFilesystem } from '../resources/nodeconfig.ts';
import type { PlainFile } from './secrets.ts';

/** A word of a shell command. */
export const shellWord = (text: string): string =>
  /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

const GPT_TYPES: Readonly<Record<string, string>> = { swap: 'S', vfat: 'U' };

/**
 * Makes partitions and file systems in `bootcmd`, before fstab is written and mounted
 * (cc_disk_setup can only give percentages of a disk). A table that already has these labels, and a
 * file system that exists, stay as they are, so the same configuration may run at every boot. A
 * disk with another table is replaced only when the document says so.
 *
 * The script mounts them too, because write_files runs before cc_mounts: a file on one of these
 * disks would otherwise be written below its mount point and hidden. cc_mounts then finds them
 * mounted and adds them to fstab.
 */
export function diskScript(disks: readonly NodeDisk[], filesystems: readonly NodeFilesystem[] = []): string {
  const lines = [
    'set -eu',
    'fail() { echo "muster: $*" >&2; echo "disks: $*" >/run/muster-failed; exit 1; }',
    'labels() { lsblk --noheadings --raw --output PARTLABEL "$1" | sed "/^$/d" | tr "\\n" " "; }',
    'mounted() { mountpoint -q "$2" || { mkdir -p "$2" && mount ${3:+-o "$3"} "$1" "$2"; } || fail "$1 cannot be mounted on $2"; }',
    'filesystem() { udevadm settle; device=/dev/disk/by-partlabel/$1; [ -n "$(blkid -p -o value -s TYPE "$device")" ] || "$2" ${3:+"$3"} "$device"; }',
  ];
  for (const disk of disks) {
    const device = shellWord(disk.device);
    const partitions = disk.partitions ?? [];
    const layout = partitions.map(partitionLine).join('\\n');
    const wanted = partitions.map((one) => `${one.label} `).join('');
    lines.push(
      `[ -b ${device} ] || fail ${shellWord(`${disk.device} is no block device`)}`,
      `if [ "$(labels ${device})" != ${shellWord(wanted)} ]; then`,
      disk.wipeTable
        ? `  wipefs --all --quiet ${device}`
        : `  [ -z "$(blkid -p ${device})" ] || fail ${shellWord(`${disk.device} holds something else; wipeTable: true replaces it`)}`,
      // Wipes old file systems that begin where a new partition does.
      `  printf ${shellWord(`label: gpt\\n${layout}\\n`)} | sfdisk --quiet --wipe always --wipe-partitions always ${device}`,
      'fi',
    );
    for (const one of partitions) {
      const maker = one.filesystem && MAKERS[one.filesystem];
      if (maker) lines.push(`filesystem ${shellWord(one.label)} ${maker[0]} ${shellWord(maker[1])}`);
    }
  }
  if (filesystems.length > 0) lines.push(...WHOLE_DEVICES);
  for (const { device, format } of filesystems) {
    const maker = format && MAKERS[format];
    lines.push(
      maker
        ? `whole ${[device, format, maker[0], maker[1]].map(shellWord).join(' ')}`
        : `existing ${shellWord(device)}`,
    );
  }
  const mounts = [
    ...disks
      .flatMap((disk) => disk.partitions ?? [])
      .flatMap(({ label, filesystem, mount }) =>
        mount && filesystem && filesystem !== 'swap'
          ? [{ device: `/dev/disk/by-partlabel/${label}`, mount, options: [] }]
          : [],
      ),
    ...filesystems.flatMap(({ device, mount, options = [] }) => (mount ? [{ device, mount, options }] : [])),
  ]
    // A mount point inside another one is mounted after it.
    .sort((a, b) => a.mount.length - b.mount.length);
  for (const { device, mount, options } of mounts)
    lines.push(
      ['mounted', device, mount, ...(options.length > 0 ? [options.join(',')] : [])].map(shellWord).join(' '),
    );
  return `${lines.join('\n')}\n`;
}

/** Shell functions for file systems on devices that exist. */
const WHOLE_DEVICES: readonly string[] = [
  'found() { udevadm settle; [ -b "$1" ] || fail "$1 is no block device"; type=$(blkid -p -o value -s TYPE "$1") || :; table=$(blkid -p -o value -s PTTYPE "$1") || :; }',
  'whole() { found "$1"; [ -z "$table" ] || fail "$1 has a partition table"; [ -n "$type" ] || { "$3" ${4:+"$4"} "$1"; type=$2; }; [ "$type" = "$2" ] || fail "$1 holds $type, not $2; it is kept"; }',
  'existing() { found "$1"; [ -n "$type" ] || fail "$1 has no file system; name a format to make one"; }',
];

const MAKERS: Readonly<Record<string, readonly [string, string]>> = {
  ext4: ['mkfs.ext4', '-qF'],
  xfs: ['mkfs.xfs', '-qf'],
  btrfs: ['mkfs.btrfs', '-qf'],
  vfat: ['mkfs.vfat', '-F32'],
  swap: ['mkswap', ''],
};

function partitionLine(one: NonNullable<NodeDisk['partitions']>[number]): string {
  const size = one.sizeMiB ? `size=${one.sizeMiB}MiB, ` : '';
  return `${size}type=${GPT_TYPES[one.filesystem ?? ''] ?? 'L'}, name="${one.label}"`;
}

/**
 * Fetches files with a URL in `runcmd`: retries, checks the hash, and puts each in place with its
 * mode and owner. A wrong hash fails the boot.
 */
export function fetchScript(files: readonly PlainFile[]): string {
  const lines = [
    'fetch() {',
    '  mkdir -p "$(dirname "$4")"',
    '  for try in 1 2 3 4 5 6 7 8 9 10; do',
    '    if command -v curl >/dev/null; then curl -fsSL --max-time 600 -o "$4.part" "$5" && break; else wget -q -T 60 -O "$4.part" "$5" && break; fi',
    '    [ "$try" -lt 10 ] || { echo "cannot fetch $5" | tee /run/muster-failed >&2; exit 1; }',
    '    sleep 5',
    '  done',
    '  echo "$1  $4.part" | sha256sum -c --quiet - || { rm -f "$4.part"; echo "$5 has another SHA-256" | tee /run/muster-failed >&2; exit 1; }',
    '  chmod "$2" "$4.part"; chown "$3" "$4.part"; mv -f "$4.part" "$4"',
    '}',
  ];
  for (const file of files) {
    const owner = `${file.owner ?? 'root'}:${file.group ?? 'root'}`;
    const words = [
      file.source!.sha256,
      (file.mode ?? '0644').padStart(4, '0').slice(-4),
      owner,
      file.path,
      file.source!.url,
    ];
    lines.push(`fetch ${words.map(shellWord).join(' ')}`);
  }
  return lines.join('\n');
}
