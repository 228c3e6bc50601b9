/**
 * Finds disks, directories and units of machines' configurations that the agent uses itself, or
 * hides behind its data filesystem. Pure.
 */
import type { CasesOf } from '../../ignition/cases.ts';
import { extraUses } from '../../ignition/extra-uses.ts';
import { unitPath } from '../../ignition/ignition.ts';
import { isAt, narrowestDisk } from '../../resources/boot-disk.ts';
import { type CandidateSet, type DocumentId, idOf } from '../../resources/candidate.ts';
import { diskOf } from '../../resources/disk-spec.ts';
import type { BootDiskSpec, DataDiskSpec } from '../../resources/kinds.ts';
import type { NodeConfig } from '../../resources/nodeconfig.ts';
import { insteadOf } from './check-configs.ts';

/** Where the agent puts directories of the data filesystem, whatever is mounted there. */
const FROM_DATA_DISK = ['etcd', 'kubelet', 'containerd', 'containers', 'crio', 'muster'].map(
  (directory) => `/var/lib/${directory}`,
);

/** A disk of a configuration that a machine of a cluster would not use, and why. */
interface DiskFault {
  readonly machine: string;
  readonly message: string;
  /** The document that wrote it. */
  readonly layer: DocumentId;
}

/**
 * Disks of configurations that the agent uses itself, or hides behind its data filesystem. Without
 * a data disk the agent mounts nothing.
 */
export function diskFaults(
  names: ReadonlySet<string>,
  candidates: CandidateSet,
  casesOf: CasesOf,
): readonly DiskFault[] {
  return [...names].flatMap((machine) => {
    const document = candidates.Machine.get(machine)?.document;
    if (document === undefined) return [];
    const messages = casesOf(document).flatMap(({ machine: itself, profile, cluster }) => {
      const writers = [itself, profile, cluster].flatMap((one) => (one === undefined ? [] : [one]));
      const layers = writers.map(({ spec }) => spec);
      const data = narrowestDisk('dataDisk', layers);
      const etcd = narrowestDisk('etcdDisk', layers);
      const boot = narrowestDisk('bootDisk', layers);
      return writers.flatMap((writer) =>
        [
          ...usedDevices(writer.spec.config).flatMap(({ place, device, mounts }) => [
            ...Object.entries({ dataDisk: data, etcdDisk: etcd, bootDisk: boot })
              .filter(([, disk]) => disk !== undefined && isOn(disk, device))
              .map(([field]) => `${device} is the ${field}; remove it from config.${place}`),
            ...mounts
              .filter((mount) => data !== undefined && FROM_DATA_DISK.some((one) => isWithin(mount, one)))
              .map(
                (mount) =>
                  `config.${place} mounts ${device} at ${mount}, which the agent keeps on dataDisk; mount it elsewhere, or make it the ${isWithin(mount, '/var/lib/etcd') ? 'etcdDisk' : 'dataDisk'}`,
              ),
          ]),
          ...(data === undefined ? [] : hiddenTexts(writer.spec.config)),
        ].map((message) => [`${idOf(writer)} ${message}`, { message, layer: idOf(writer) }] as const),
      );
    });
    return [...new Map(messages).values()].map((one) => ({ machine, ...one }));
  });
}

interface UsedDevice {
  readonly place: string;
  readonly device: string;
  readonly mounts: readonly (string | undefined)[];
}

/** The disks that a configuration writes to or mounts, by its fields or by its extra documents. */
const usedDevices = (config: NodeConfig = {}): readonly UsedDevice[] => [
  ...(config.disks ?? []).map(({ device, partitions = [] }) => ({
    place: 'disks',
    device,
    mounts: partitions.map(({ mount }) => mount),
  })),
  ...(config.filesystems ?? []).map(({ device, mount }) => ({
    place: 'filesystems',
    device,
    mounts: [mount],
  })),
  ...extraUses(config).flatMap(({ place, device, mount }) =>
    device ? [{ place, device, mounts: [mount] }] : [],
  ),
];

/** Whether a device is the disk, or a partition of it. */
const isOn = (disk: DataDiskSpec | BootDiskSpec, device: string): boolean =>
  isAt(disk, device) || isAt(disk, diskOf(device));

/** Mount units over directories of the data disk, and files that it hides. */
function hiddenTexts(config: NodeConfig = {}): readonly string[] {
  const extra = extraUses(config);
  const units = [
    ...(config.units ?? []).map(({ name }) => ({ place: 'units', unit: name })),
    ...extra.map(({ place, unit }) => ({ place, unit: unit?.name ?? '' })),
  ];
  const files = [
    ...(config.files ?? []).map(({ path }) => ({ place: 'files', path })),
    ...extra.map(({ place, path = '' }) => ({ place, path })),
  ].filter(({ path }) => insteadOf(path) === undefined);
  return [
    ...units
      .filter(({ unit }) => UNITS_OVER_DATA.some((stem) => unit.startsWith(stem)))
      .map(
        ({ place, unit }) =>
          `config.${place} has ${unit}, over a directory that the agent keeps on dataDisk; remove it, or name the disk as dataDisk or etcdDisk`,
      ),
    ...files
      .filter(({ path }) => FROM_DATA_DISK.some((one) => isWithin(path, one)))
      .map(
        ({ place, path }) =>
          `config.${place} writes ${path}, which the dataDisk hides as soon as it is mounted; write it elsewhere`,
      ),
  ];
}

/** How the names of mount units for these directories begin. */
const UNITS_OVER_DATA = FROM_DATA_DISK.map(unitPath).flatMap((stem) =>
  ['.mount', '.automount', '-'].map((end) => `${stem}${end}`),
);

const isWithin = (path: string | undefined, directory: string): boolean =>
  path !== undefined && (path === directory || path.startsWith(`${directory}/`));
