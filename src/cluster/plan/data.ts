/** The data filesystem of a machine, and the directories that are kept on it. */
import type { AgentFacts } from '../../agent/facts.ts';
import type { PlanLine } from '../../agent/plan.ts';
import { AUDIT_DIRECTORY } from '../spec/derive.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { runsKubelet } from './checks.ts';
import { directory, hold } from './lines.ts';
import { RUNTIMES } from './runtime.ts';

type DataPart =
  /** Nothing can be done until an operator acts. */
  | { readonly state: 'held'; readonly lines: readonly PlanLine[] }
  /** The machine carries out these lines and polls again. */
  | { readonly state: 'coming'; readonly lines: readonly PlanLine[] }
  /** The filesystem is mounted, or the machine needs none. */
  | { readonly state: 'there'; readonly lines: readonly PlanLine[] };

/**
 * The part of the plan that makes and mounts the data filesystem.
 *
 * @param newFilesystem Returns the UUID for a filesystem that is to be made. Every call returns a
 *   new UUID, because grants are bound to the filesystem.
 */
export function dataPart(
  { runtime }: Pick<ResolvedCluster, 'runtime'>,
  machine: ClusterMachine,
  facts: AgentFacts,
  newFilesystem: () => string,
): DataPart {
  const { disk } = facts;
  switch (disk.state) {
    case 'unused':
      return machine.roles.includes('etcd')
        ? held('no-data-disk', 'A member of etcd needs a data disk; name it with dataDisk.')
        : { state: 'there', lines: [] };
    case 'none':
    case 'several':
      return held(
        'no-data-disk',
        `${disk.state === 'none' ? 'No disk fits' : 'Several disks fit'} the selector dataDisk: ${disk.detail}`,
      );
    case 'foreign':
      return held('foreign-disk', `${disk.device} carries data that Muster did not make: ${disk.detail}`);
    case 'blank':
      return {
        state: 'coming',
        lines: [
          {
            do: 'create-data',
            device: disk.device,
            filesystem: newFilesystem(),
            ...(disk.encrypt && { encrypt: disk.encrypt }),
          },
        ],
      };
    case 'ours': {
      // A filesystem that has an owner keeps what is on it; a new one must be what documents say.
      if (disk.encrypt !== undefined && disk.encrypted === undefined && disk.mounted && !facts.marker)
        return held(
          'data-not-encrypted',
          `${disk.device} has a data filesystem of Muster that is not encrypted and belongs to no machine, and dataDisk asks for encrypt: ${disk.encrypt}. Write zeros over the first and last MiB of the disk, and boot the machine again.`,
        );
      const mount: PlanLine = { do: 'mount-data', filesystem: disk.filesystem };
      return disk.mounted
        ? { state: 'there', lines: [mount, ...binds(machine, runtime)] }
        : { state: 'coming', lines: [mount] };
    }
  }
}

const held = (code: string, text: string): DataPart => ({ state: 'held', lines: [hold(code, text)] });

function binds(machine: ClusterMachine, runtime: ResolvedCluster['runtime']): readonly PlanLine[] {
  const kept = [
    ...(machine.roles.includes('etcd') ? ['etcd'] : []),
    ...(runsKubelet(machine) ? [...RUNTIMES[runtime].data, 'kubelet'] : []),
  ];
  return [
    ...kept.map((name): PlanLine => ({ do: 'bind', directory: name, path: `/var/lib/${name}` })),
    ...(machine.roles.includes('control-plane')
      ? [{ do: 'bind', directory: 'audit', path: AUDIT_DIRECTORY } as const]
      : []),
    // etcd refuses a data directory that others may read.
    ...(kept.includes('etcd') ? [directory('/var/lib/etcd', 0o700)] : []),
  ];
}
