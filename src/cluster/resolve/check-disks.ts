/**
 * Compares the data disks that documents select with those on which machines of a founded cluster
 * have their data. A machine that looks for its data on another disk starts without them: a member
 * of etcd is then one that has lost its data. Pure.
 */
import { dataSelectorText } from '../../agent/serve/machine-layer.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { CasesOf } from '../../ignition/cases.ts';
import { narrowestDisk } from '../../resources/boot-disk.ts';
import type { CandidateSet } from '../../resources/candidate.ts';
import { isByInventory } from '../../resources/disk-spec.ts';
import type { RunningCluster } from './release.ts';

export interface DataDiskChange {
  readonly machine: string;
  /** Its Profile, if that may be what selects the disk. */
  readonly profile?: string | undefined;
  readonly code: ErrorCode;
  readonly message: string;
  /** Whether a person may accept it. */
  readonly survivable: boolean;
}

/**
 * Machines that would not find their data.
 *
 * @param members The machines that are members of etcd.
 */
export function dataDiskChanges(
  cluster: string,
  members: ReadonlySet<string>,
  { machines }: RunningCluster,
  candidates: CandidateSet,
  casesOf: CasesOf,
): readonly DataDiskChange[] {
  return [...machines].flatMap(([machine, { dataDisk: has }]): DataDiskChange[] => {
    const document = candidates.Machine.get(machine)?.document;
    if (has === undefined || document === undefined) return [];
    const cases = casesOf(document);
    const wanted = cases.map(({ profile, cluster: of }) => {
      const disk = narrowestDisk('dataDisk', [document.spec, profile?.spec, of?.spec]);
      // A machine stays on the disk that has its data where the inventory would choose one.
      return disk && (isByInventory(disk) ? has : dataSelectorText(disk));
    });
    // As long as it is not certain which profile it boots with, nothing is refused.
    if (wanted.includes(has)) return [];
    const common = { machine, profile: cases[0]?.profile?.metadata.name };
    const remedy = `\`muster cluster remove-node ${cluster} ${machine} --clear\` takes it out, and \`add-node\` adds it with the new disk`;
    if (wanted[0] === undefined)
      return members.has(machine)
        ? [
            {
              ...{ ...common, code: 'E_FOUNDED', survivable: false },
              message: `${machine} is a member of etcd with its data on the disk ${has}, and does not start without dataDisk; ${remedy}`,
            },
          ]
        : [
            {
              ...{ ...common, code: 'E_CONFIRM', survivable: true },
              message: `${machine} has its data on the disk ${has}; without dataDisk it fetches all images again at each boot, and no longer finds what local volumes hold`,
            },
          ];
    const lost = members.has(machine)
      ? `it starts without its data of etcd; ${remedy}`
      : 'it starts without its images and without what local volumes hold';
    return [
      {
        ...{ ...common, code: 'E_CONFIRM', survivable: true },
        message: `${machine} has its data on the disk ${has}, and would look for them on ${wanted[0]}. If that is another disk, ${lost}`,
      },
    ];
  });
}
