/**
 * Checks files, units, users and disks of a configuration against what Linux and systemd take,
 * whatever format it is rendered to: what would stop a boot, or never start, is refused when the
 * document is applied. Pure.
 */
import { isPartition } from '../resources/disk-spec.ts';
import type { NodeConfig, NodeUnit } from '../resources/nodeconfig.ts';
import type { Path } from '../resources/yaml.ts';
import { unitPath } from './ignition.ts';
import { neededUnitFault } from './muster-layer.ts';
import { restartOf } from './restarts.ts';
import { readUnit, type UnitText } from './unit-text.ts';

export interface NodeFault {
  readonly path: Path;
  readonly message: string;
}

/** Faults of a configuration whose templates are expanded. */
export const nodeFaults = (config: NodeConfig): readonly NodeFault[] => [
  ...fileFaults(config),
  ...unitFaults(config),
  ...userFaults(config),
  ...diskFaults(config),
];

const fault = (path: Path, message: string): NodeFault => ({ path, message });

/** Directories that every system has: a file cannot take their place. */
const DIRECTORIES =
  /^\/(bin|boot|etc|home|lib|lib64|media|mnt|opt|root|run|sbin|srv|tmp|usr|var|etc\/systemd(\/(system|network))?|etc\/ssh|etc\/ssl(\/certs)?|usr\/(bin|lib|local|sbin|share)|usr\/local\/(bin|lib|sbin|share)|var\/(lib|log|tmp|cache))$/;

/** Octets that a name may have; a UTF-16 unit has at most three in UTF-8. */
const NAME_MAX = 255;

function fileFaults({ files = [] }: NodeConfig): NodeFault[] {
  const paths = new Set(files.map(({ path }) => path));
  return files.flatMap(({ path }, n) => {
    const at: Path = ['files', n, 'path'];
    if (DIRECTORIES.test(path)) return [fault(at, `${path} is a directory; name the file in it`)];
    if (path.length > NAME_MAX / 3 && path.split('/').some((name) => Buffer.byteLength(name) > NAME_MAX))
      return [fault(at, `a name in this path has more than ${NAME_MAX} octets`)];
    let above = path;
    do above = above.slice(0, above.lastIndexOf('/'));
    while (above !== '' && !(paths.has(above) && !DIRECTORIES.test(above)));
    return above === '' ? [] : [fault(at, `it lies below ${above}, which is a file here too`)];
  });
}

function unitFaults({ units = [] }: NodeConfig): NodeFault[] {
  return units.flatMap((unit, n) => {
    const { contents = '', mask = false } = unit;
    const needed = neededUnitFault(unit);
    if (needed !== undefined) return [fault(['units', n], needed)];
    if (contents.trim() === '' || mask) return [];
    const text = readUnit(contents);
    const message = text.fault ?? whereFault(unit, text) ?? serviceFault(unit, text) ?? restartOf(unit, text);
    return message === undefined ? [] : [fault(['units', n, 'contents'], message)];
  });
}

/** systemd refuses a mount unit that is not named after its mount point. */
function whereFault({ name }: NodeUnit, text: UnitText): string | undefined {
  const [, stem, kind] = /^(.+)\.(mount|automount)$/.exec(name) ?? [];
  if (stem === undefined) return undefined;
  const where = text.of(kind === 'mount' ? 'Mount' : 'Automount', 'Where').at(-1);
  if (where === undefined || where.includes('%')) return undefined;
  return unitPath(where) === stem
    ? undefined
    : `systemd wants the unit of ${where} to be named ${unitPath(where)}.${kind}`;
}

/** systemd does not start a service without a command, nor one with two of a type that runs one. */
function serviceFault({ name, dropins = [] }: NodeUnit, text: UnitText): string | undefined {
  if (!name.endsWith('.service')) return undefined;
  const of = (key: string): readonly string[] => text.of('Service', key);
  const starts = of('ExecStart').length;
  const type = of('Type').at(-1) ?? 'simple';
  if (starts > 1 && type !== 'oneshot' && dropins.length === 0)
    return `a service of Type=${type} has one ExecStart, and this has ${starts}`;
  const isRunnable = starts > 0 || of('ExecStop').length > 0 || text.of('Unit', 'SuccessAction').length > 0;
  // A drop-in may bring what the unit lacks.
  return isRunnable || dropins.length > 0 ? undefined : 'a service needs ExecStart';
}

function userFaults({ users = [] }: NodeConfig): NodeFault[] {
  return users.flatMap(({ name, uid }, n) => {
    if (uid === undefined) return [];
    const at: Path = ['users', n, 'uid'];
    if (uid === 0 && name !== 'root') return [fault(at, '0 is the number of root; leave uid out')];
    const other = users.find((one, m) => m < n && one.uid === uid);
    return other === undefined ? [] : [fault(at, `${uid} is the number of ${other.name} as well`)];
  });
}

/** Sizes below which a program makes no file system, in MiB. */
const LEAST_MIB: Readonly<Partial<Record<string, number>>> = { btrfs: 114, xfs: 300 };

function diskFaults({ disks = [], filesystems = [] }: NodeConfig): NodeFault[] {
  const partitioned = new Set(
    disks.flatMap(({ device, partitions = [] }) => (partitions.length > 0 ? [device] : [])),
  );
  return [
    ...disks.flatMap(({ device, partitions = [] }, n) => [
      ...(isPartition(device)
        ? [
            fault(
              ['disks', n, 'device'],
              `${device} is a partition; name the disk, or write it into filesystems`,
            ),
          ]
        : []),
      ...partitions.flatMap(({ filesystem = '', sizeMiB = 0 }, k) => {
        const least = LEAST_MIB[filesystem] ?? 0;
        return sizeMiB > 0 && sizeMiB < least
          ? [fault(['disks', n, 'partitions', k, 'sizeMiB'], `${filesystem} needs ${least} MiB or more`)]
          : [];
      }),
    ]),
    ...filesystems.flatMap(({ device }, n) =>
      partitioned.has(device)
        ? [
            fault(
              ['filesystems', n, 'device'],
              `${device} has partitions in disks; name one of them, like /dev/disk/by-partlabel/LABEL`,
            ),
          ]
        : [],
    ),
  ];
}
