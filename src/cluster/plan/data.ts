/** The filesystems of a machine for its data, and the directories that are kept on them. */
import {
  type AgentFacts,
  type DataDisk,
  etcdHome,
  type Marker,
  ON_ETCD_DISK,
} from '../../agent/wire/facts.ts';
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { AUDIT_DIRECTORY } from '../resolve/derive.ts';
import { runsKubelet } from './checks.ts';
import { directory, hold } from './lines.ts';
import { RUNTIMES } from './runtime.ts';

export type DataPart =
  /** Nothing can be done until an operator acts. */
  | { readonly state: 'held'; readonly lines: readonly PlanLine[] }
  /** The machine carries out these lines and polls again. */
  | { readonly state: 'coming'; readonly lines: readonly PlanLine[] }
  /** The filesystem is mounted, or the machine needs none. */
  | { readonly state: 'there'; readonly lines: readonly PlanLine[] };

/** What is said and done about one disk of a machine. */
interface Kind {
  readonly selector: 'dataDisk' | 'etcdDisk';
  /** Code of the hold while the selector matches no disk, or several. */
  readonly missing: 'no-data-disk' | 'no-etcd-disk';
  readonly create: 'create-data' | 'create-etcd';
  readonly mount: 'mount-data' | 'mount-etcd';
}

const DATA: Kind = {
  selector: 'dataDisk',
  missing: 'no-data-disk',
  create: 'create-data',
  mount: 'mount-data',
};
const ETCD: Kind = {
  selector: 'etcdDisk',
  missing: 'no-etcd-disk',
  create: 'create-etcd',
  mount: 'mount-etcd',
};

/**
 * The part of the plan that makes and mounts the data filesystem, and for a member of etcd the
 * filesystem of its etcd disk, if it has one.
 *
 * @param newFilesystem Returns the UUID for a filesystem that is to be made. Every call returns a
 *   new UUID, because grants are bound to the filesystem.
 */
export function dataPart(
  { name, runtime }: Pick<ResolvedCluster, 'name' | 'runtime'>,
  machine: ClusterMachine,
  facts: AgentFacts,
  newFilesystem: () => string,
): DataPart {
  const isMember = machine.roles.includes('etcd');
  if (facts.disk.state === 'unused')
    return isMember
      ? held('no-data-disk', 'A member of etcd needs a data disk; name it with dataDisk.')
      : { state: 'there', lines: [] };
  const data = diskPart(DATA, facts.disk, facts.marker, newFilesystem);
  if (data.state !== 'there') return data;
  const etcd = isMember ? etcdDiskPart(name, machine, facts, newFilesystem) : undefined;
  if (etcd === undefined)
    return { state: 'there', lines: [...data.lines, ...binds(machine, runtime, 'bind')] };
  if (etcd.state === 'held') return etcd;
  const lines = [...data.lines, ...etcd.lines];
  return etcd.state === 'coming'
    ? { state: 'coming', lines }
    : { state: 'there', lines: [...lines, ...binds(machine, runtime, 'bind-etcd')] };
}

/**
 * The same for the etcd disk; undefined where etcd's data are on the data filesystem. The marker of
 * the data filesystem says from the beginning that they are elsewhere.
 */
function etcdDiskPart(
  cluster: string,
  machine: ClusterMachine,
  facts: AgentFacts,
  newFilesystem: () => string,
): DataPart | undefined {
  const { etcdDisk, marker } = facts;
  if (etcdDisk === undefined)
    return marker?.member === ON_ETCD_DISK
      ? held(
          'no-etcd-disk',
          'The data of etcd are on a disk of their own, and etcdDisk no longer names it; name it again.',
        )
      : undefined;
  if (etcdHome(facts) !== etcdDisk) return undefined;
  const part = diskPart(ETCD, etcdDisk.disk, etcdDisk.marker, newFilesystem);
  if (part.state === 'held') return part;
  const elsewhere = { cluster, founding: 'none', member: ON_ETCD_DISK, machine: machine.name };
  return { ...part, lines: [{ do: 'marker', ...elsewhere }, ...part.lines] };
}

/** The lines about one disk that the machine has a selector for. */
function diskPart(
  kind: Kind,
  disk: DataDisk,
  marker: Marker | undefined,
  newFilesystem: () => string,
): DataPart {
  switch (disk.state) {
    case 'unused':
      return { state: 'there', lines: [] };
    case 'none':
    case 'several':
      return held(
        kind.missing,
        `${disk.state === 'none' ? 'No disk fits' : 'Several disks fit'} the selector ${kind.selector}: ${disk.detail}`,
      );
    case 'foreign':
      return held('foreign-disk', `${disk.device} carries data that Muster did not make: ${disk.detail}`);
    case 'blank':
      return {
        state: 'coming',
        lines: [
          {
            do: kind.create,
            device: disk.device,
            filesystem: newFilesystem(),
            ...(disk.encrypt && { encrypt: disk.encrypt }),
          },
        ],
      };
    case 'ours':
      // A filesystem that has an owner keeps what is on it; a new one must be what documents say.
      if (disk.encrypt !== undefined && disk.encrypted === undefined && disk.mounted && !marker)
        return held(
          'data-not-encrypted',
          `${disk.device} has a filesystem of Muster that is not encrypted and belongs to no machine, and ${kind.selector} asks for encrypt: ${disk.encrypt}. Write zeros over the first and last MiB of the disk, and boot the machine again.`,
        );
      return {
        state: disk.mounted ? 'there' : 'coming',
        lines: [{ do: kind.mount, filesystem: disk.filesystem }],
      };
  }
}

const held = (code: string, text: string): DataPart => ({ state: 'held', lines: [hold(code, text)] });

/** The directories that the machine keeps. `etcd`: how that of etcd is mounted, if it has one. */
function binds(
  machine: ClusterMachine,
  runtime: ResolvedCluster['runtime'],
  etcd: 'bind' | 'bind-etcd',
): readonly PlanLine[] {
  const isMember = machine.roles.includes('etcd');
  const kept = runsKubelet(machine) ? [...RUNTIMES[runtime].data, 'kubelet'] : [];
  return [
    ...(isMember ? [{ do: etcd, directory: 'etcd', path: '/var/lib/etcd' } as const] : []),
    ...kept.map((name): PlanLine => ({ do: 'bind', directory: name, path: `/var/lib/${name}` })),
    ...(machine.roles.includes('control-plane')
      ? [{ do: 'bind', directory: 'audit', path: AUDIT_DIRECTORY } as const]
      : []),
    // etcd refuses a data directory that others may read.
    ...(isMember ? [directory('/var/lib/etcd', 0o700)] : []),
  ];
}
