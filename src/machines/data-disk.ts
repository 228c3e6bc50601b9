/** Chooses the data disk of a machine from its inventory. Pure. */
import type { BootDiskSpec, DataDiskSpec } from '../resources/kinds.ts';
import type { Inventory, InventoryDisk } from './inventory.ts';
import { fitsDisk } from './inventory-selector.ts';

export type DiskChoice =
  | { readonly ok: true; readonly serial: string; readonly disk: InventoryDisk }
  /** `text`: why there is none, as a sentence. */
  | { readonly ok: false; readonly text: string };

/** As documents can name a disk. */
const SERIAL = /^[A-Za-z0-9._:@+-]{1,64}$/;

/**
 * The one disk that is wanted. It is known by its serial number from then on, so a disk without
 * one, or with that of another disk, is not chosen.
 *
 * @param others What the machine's other disks are selected by; these disks are left out.
 */
export function chooseDisk(
  { disks }: Pick<Inventory, 'disks'>,
  wanted: DataDiskSpec,
  others: readonly (DataDiskSpec | BootDiskSpec | undefined)[] = [],
): DiskChoice {
  const fitting = disks.filter(
    (disk) => fitsDisk(disk, wanted) && !others.some((other) => other && isNamed(disk, other)),
  );
  if (fitting.length === 0) return refuse('no disk of its inventory fits', disks);
  const found = wanted.choose === undefined ? fitting : [first(fitting, wanted.choose)];
  if (found.length > 1) return refuse(`${found.length} disks fit; add \`choose\`, or say more`, found);
  const [disk] = found as [InventoryDisk];
  const { serial } = disk;
  if (serial === undefined || !SERIAL.test(serial))
    return refuse('the disk has no serial number by which it can be found again; name it by path', [disk]);
  if (disks.filter((one) => one.serial === serial).length > 1)
    return refuse(`several disks have the serial number ${serial}; name one by path`, found);
  return { ok: true, serial, disk };
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
  return other.serial === serial || path.endsWith(`-${serial}`) || path.endsWith(`_${serial}`);
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
