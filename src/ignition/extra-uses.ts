/**
 * What operators' own documents do with disks and directories. cloud-config and Ignition say it in
 * many places, and the rules for disks in `config` hold for all of them. Pure.
 */
import { fieldsOf, listOf, textOf } from '../base/foreign-json.ts';
import type { NodeConfig, NodeUnit } from '../resources/nodeconfig.ts';
import { fromButane, isButane } from './butane.ts';
import { extraDocument } from './extra.ts';
import { commandText } from './extra-traps.ts';

type UsedUnit = Pick<NodeUnit, 'name' | 'mask' | 'enabled' | 'contents'>;

interface Use {
  /** Where the document says it, e.g. `extra.cloudInit: fs_setup[0]`. */
  readonly place: string;
  /** A block device that is written to or mounted. */
  readonly device?: string | undefined;
  /** A directory that something is mounted at. */
  readonly mount?: string | undefined;
  /** A file or link that is written. */
  readonly path?: string | undefined;
  /** Whether the device or file is used as swap. */
  readonly swap?: boolean;
  /** A unit of systemd, as the document says it. */
  readonly unit?: UsedUnit;
}

/** The uses of the extra documents of a configuration; of none that cannot be read. */
export function extraUses({ extra }: NodeConfig = {}): readonly Use[] {
  const of = (kind: 'cloudInit' | 'ignition', uses: (document: object) => readonly Use[]) => {
    const text = extra?.[kind];
    const document = text === undefined ? undefined : extraDocument(text);
    return document === undefined
      ? []
      : uses(document).map((use) => ({ ...use, place: `extra.${kind}: ${use.place}` }));
  };
  return [...of('cloudInit', cloudConfigUses), ...of('ignition', ignitionUses)];
}

function cloudConfigUses(document: object): readonly Use[] {
  const { disk_setup, fs_setup, mounts, swap, write_files, bootcmd, runcmd, device_aliases } =
    fieldsOf(document);
  const aliases = fieldsOf(device_aliases);
  /** cloud-init takes `sdb` for `/dev/sdb`, and names of its own for others. */
  const deviceOf = (value: unknown): string | undefined => {
    const name = textOf(value);
    const known = textOf(Object.hasOwn(aliases, name) ? aliases[name] : name);
    return known === '' || known.includes('=') || known.startsWith('/') ? known : `/dev/${known}`;
  };
  return [
    ...Object.keys(fieldsOf(disk_setup)).map((name) => ({
      place: `disk_setup.${name}`,
      device: deviceOf(name),
    })),
    ...listOf(fs_setup).map((item, n) => {
      const { device, filesystem } = fieldsOf(item);
      return { place: `fs_setup[${n}]`, device: deviceOf(device), swap: filesystem === 'swap' };
    }),
    ...listOf(mounts).map((item, n) => {
      const [device, mount, type] = listOf(item);
      return {
        place: `mounts[${n}]`,
        device: deviceOf(device),
        mount: textOf(mount),
        swap: type === 'swap',
      };
    }),
    {
      place: 'swap',
      path: textOf(fieldsOf(swap).filename),
      swap: ![undefined, 0, '0'].includes(fieldsOf(swap).size as string | number | undefined),
    },
    ...listOf(write_files).map((item, n) => ({
      place: `write_files[${n}]`,
      path: textOf(fieldsOf(item).path),
    })),
    ...Object.entries({ bootcmd, runcmd }).flatMap(([key, list]) =>
      listOf(list).flatMap((item, n) =>
        devicesWritten(commandText(item)).map((device) => ({ place: `${key}[${n}]`, device })),
      ),
    ),
  ];
}

/** Programs that write to the disk that they are given, or mount it. */
const WRITERS =
  /(^|[\s;&|/])(wipefs|mkfs(\.\w+)?|mke2fs|mkswap|s?fdisk|sgdisk|gdisk|parted|dd|blkdiscard|shred|pvcreate|vgcreate|mdadm|cryptsetup|zpool|mount)\s/;

/** The devices that a command names, if it is one that writes to disks. */
const devicesWritten = (command: string): readonly string[] =>
  WRITERS.test(command) ? [...command.matchAll(/\/dev\/[\w/.:+-]+/g)].map(([device]) => device) : [];

function ignitionUses(document: object): readonly Use[] {
  const translated = isButane(document) ? fromButane(document as Record<string, unknown>) : undefined;
  const { storage, systemd } = fieldsOf(translated?.ok ? translated.config : document);
  const { disks, raid, luks, filesystems, ...rest } = fieldsOf(storage);
  const uses = (list: unknown, name: string, use: (item: unknown) => Omit<Use, 'place'>): readonly Use[] =>
    listOf(list).map((item, n) => ({ place: `${name}[${n}]`, ...use(item) }));
  return [
    ...uses(disks, 'storage.disks', (item) => ({ device: textOf(fieldsOf(item).device) })),
    ...uses(luks, 'storage.luks', (item) => ({ device: textOf(fieldsOf(item).device) })),
    ...uses(filesystems, 'storage.filesystems', (item) => {
      const { device, path, format } = fieldsOf(item);
      return { device: textOf(device), mount: textOf(path), swap: format === 'swap' };
    }),
    ...listOf(raid).flatMap((item, n) =>
      listOf(fieldsOf(item).devices).map((device) => ({
        place: `storage.raid[${n}]`,
        device: textOf(device),
      })),
    ),
    ...['files', 'links'].flatMap((kind) =>
      uses(rest[kind], `storage.${kind}`, (item) => ({ path: textOf(fieldsOf(item).path) })),
    ),
    ...uses(fieldsOf(systemd).units, 'systemd.units', (item) => {
      const { name, mask, enabled, contents } = fieldsOf(item);
      return {
        unit: {
          name: textOf(name),
          mask: mask === true,
          ...(typeof enabled === 'boolean' && { enabled }),
          ...(typeof contents === 'string' && { contents }),
        },
      };
    }),
  ];
}
