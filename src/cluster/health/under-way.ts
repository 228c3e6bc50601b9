/**
 * The change of a cluster that is under way, as its health is judged: what is right for the step of
 * the change is no fault, and gets no advice that would undo it. Pure.
 */
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { bad, type Finding, good } from './finding.ts';

/** Stands in {@link UnderWay.restarts} for a machine that reboots. */
export const SYSTEM = 'the system';

/** Programs whose versions are judged. */
export type VersionedProgram = 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kubelet';

/** What a change does now; `src/cluster/change/under-way.ts` makes it from the change's record. */
export interface UnderWay {
  /** The change's id, with which it marks the nodes that it makes unschedulable. */
  readonly id: string;
  /** For example `upgrade`. */
  readonly kind: string;
  /** The step, and what it waits for. */
  readonly says: string;
  /** The command that shows the change. */
  readonly shows: string;
  /** What an operator has to do before it continues; absent: nothing. */
  readonly remedy?: string;
  /** The programs that the change restarts on a machine now. */
  readonly restarts: (machine: string) => readonly string[];
  /** Versions of a program that a machine may have besides that of its plan. */
  readonly versions: (machine: string, program: VersionedProgram) => readonly string[];
}

/** The line of the change itself. */
export const judgeChange = (cluster: string, change: UnderWay | undefined): readonly Finding[] => {
  if (change === undefined) return [];
  const { says, remedy, shows } = change;
  return [
    remedy === undefined
      ? good('change', cluster, `${says}; ${shows} shows it`)
      : bad('change', cluster, says, `${remedy.replace(/\.$/, '')}; ${shows} shows the change`),
  ];
};

/** What restarts a program of the machine, or all of it; undefined: nothing does. */
export function restartedBy(
  { change, turns }: Pick<Circumstances, 'change' | 'turns'>,
  machine: string,
  program: string,
): string | undefined {
  const ordered = change?.restarts(machine).some((one) => one === program || one === SYSTEM);
  if (!ordered && !turns?.(machine).includes(program)) return undefined;
  return change ? `the ${change.kind}` : 'the change of its plan';
}

/** The finding, which is no fault while the program restarts on the machine as it should. */
export function unlessRestarted(of: Circumstances, program: string, found: Finding): Finding {
  const by = found.ok ? undefined : restartedBy(of, found.subject, program);
  return by === undefined ? found : good(found.check, found.subject, `${found.says}; ${by} restarts it`);
}

/** Program that has ended → the last complaint that it wrote. */
export type Ended = Readonly<Record<string, string>>;

/** The last words of a program, as the end of a sentence; empty when it wrote none. */
export const lastWords = (ended: Ended | undefined, program: string): string =>
  ended?.[program] === undefined ? '' : `; it ended and wrote: ${ended[program]}`;

/** What is under way in a cluster while it is judged. */
export interface Circumstances {
  /** The change of the cluster that is under way. */
  readonly change?: UnderWay | undefined;
  /**
   * The programs of a machine that has its turn to restart some of them, for as long as that may
   * take: in a rotation, after an edit of documents, or with a new agent.
   */
  readonly turns?: ((machine: string) => readonly string[]) | undefined;
  /** Machines that are being taken out of it. */
  readonly leaving?: ReadonlySet<string> | undefined;
  /** The programs of a machine that have ended, with their last words. */
  readonly ended?: ((machine: string) => Ended | undefined) | undefined;
  /** The Cluster with the versions that a machine may have now; absent: those of the release. */
  readonly allowed?: ((machine: string) => Pick<ResolvedCluster, 'versions'> | undefined) | undefined;
}

/** The versions that a program may have on a machine now, that of its plan first. */
export function versionsOf(
  resolved: ResolvedCluster,
  { change, allowed }: Circumstances,
  machine: string,
  program: VersionedProgram,
): readonly string[] {
  const planned = allowed?.(machine) ?? resolved;
  return [planned.versions[program], ...(change?.versions(machine, program) ?? [])].map((one) => `v${one}`);
}
