/** Chooses the data disk of a machine from its inventory. Pure. */
import { serialWord } from '../resources/disk-spec.ts';
import type { BootDiskSpec, DataDiskSpec, InstallDiskSpec } from '../resources/kinds.ts';
import type { Inventory, InventoryDisk } from './inventory.ts';
import { fitsDisk } from './inventory-selector.ts';

/** As a selector can name a disk; {@link serialWord} keeps its length. */
const SERIAL = /^.{1,64}$/;

export type DiskChoice =
  | { readonly ok: true; readonly serial: string; readonly disk: InventoryDisk }
  /** `text`: why there is none, as a sentence. */
  | { readonly ok: false; readonly text: string };

/**
 * The one disk that is wanted. It is known by its serial number from then on, so a disk without
 * one, or with that of another disk, is not chosen.
 *
 * @param others What the machine's other disks are selected by; these disks are left out.
 */
export function chooseDisk(
  { disks, missing = [] }: Pick<Inventory, 'disks' | 'missing'>,
  wanted: DataDiskSpec,
  others: readonly (DataDiskSpec | BootDiskSpec | undefined)[] = [],
): DiskChoice {
  const fitting = disks.filter(
    (disk) => fitsDisk(disk, wanted) && !others.some((other) => other && isNamed(disk, other)),
  );
  if (fitting.length === 0) {
    const lack = missing.find(({ part }) => part === 'disks');
    return refuse(`no disk of its inventory fits${lack ? `; ${lack.text}` : ''}`, disks);
  }
  const found = wanted.choose === undefined ? fitting : [first(fitting, wanted.choose)];
  if (found.length > 1) return refuse(`${found.length} disks fit; add \`choose\`, or say more`, found);
  const [disk] = found as [InventoryDisk];
  const { serial } = disk;
  const word = serialWord(serial ?? '');
  if (serial === undefined || !SERIAL.test(word))
    return refuse('the disk has no serial number by which it can be found again; name it by path', [disk]);
  const same = disks.filter((one) => serialWord(one.serial ?? '') === word);
  if (same.length > 1)
    return refuse(`several disks have the serial number ${serial}; name one by its path`, same);
  return { ok: true, serial, disk };
}

/** The disk on which a system is installed, of those that the installing system sees now. */
export function pickInstallDisk(disks: readonly InventoryDisk[], wanted: InstallDiskSpec): DiskChoice {
  const { serial, wwn, ...by } = wanted;
  const named = disks.filter(
    (disk) =>
      (serial === undefined || serialWord(disk.serial ?? '') === serialWord(serial)) &&
      (wwn === undefined || disk.wwn === wwn),
  );
  if (named.length === 0) return refuse('no disk fits installDisk', disks);
  // A disk that has the serial number of another one is never taken, whichever of both is wanted.
  const choice = chooseDisk({ disks: named }, by);
  const word = choice.ok ? serialWord(choice.serial) : undefined;
  const same = disks.filter((disk) => serialWord(disk.serial ?? '') === word);
  return same.length > 1
    ? refuse(`several disks have the serial number ${word}; unplug one, or name another disk`, same)
    : choice;
}

function first(disks: readonly InventoryDisk[], choose: 'largest' | 'smallest'): InventoryDisk {
  const sign = choose === 'largest' ? -1 : 1;
  const key = ({ serial = '', name }: InventoryDisk) => `${serial} ${name}`;
  return disks.toSorted((a, b) => sign * (a.bytes - b.bytes) || (key(a) < key(b) ? -1 : 1))[0]!;
}

/** Whether another selector names this disk: by its serial, or by a path that has it. */
function isNamed({ name, serial }: InventoryDisk, other: DataDiskSpec | BootDiskSpec): boolean {
  const { path = '' } = other;
  if (path === `/dev/${name}`) return true;
  if (serial === undefined) return false;
  const word = serialWord(serial);
  const named = other.serial === undefined ? undefined : serialWord(other.serial);
  return named === word || path.endsWith(`-${word}`) || path.endsWith(`_${word}`);
}

const refuse = (why: string, disks: readonly InventoryDisk[]): DiskChoice => ({
  ok: false,
  text: `${why} (${disks.map(diskText).join('; ') || 'it has none'})`,
});

const diskText = ({ name, bytes, transport, rotational, model, serial }: InventoryDisk): string =>
  [
    name,
    `${Math.round(bytes / 1e9)} GB`,
    transport,
    rotational ? 'rotational' : 'flash',
    model,
    serial && `serial ${serial}`,
  ]
    .filter(Boolean)
    .join(', ');
