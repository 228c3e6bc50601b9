/**
 * The change of a cluster that is under way, as its health is judged: what is right for the step of
 * the change is no fault, and gets no advice that would undo it. Pure.
 */
import { bad, type Finding, good } from './finding.ts';

/** Stands in {@link UnderWay.restarts} for a machine that reboots. */
export const SYSTEM = 'the system';

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
  readonly versions: (machine: string, program: 'kube-apiserver' | 'kubelet') => readonly string[];
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

/** Whether the change restarts a program of the machine, or all of it. */
export const isRestarted = (change: UnderWay | undefined, machine: string, program: string): boolean =>
  change?.restarts(machine).some((one) => one === program || one === SYSTEM) === true;

/** The finding, which is no fault while the change restarts the program on the machine. */
export const unlessRestarted = (change: UnderWay | undefined, program: string, found: Finding): Finding =>
  !found.ok && isRestarted(change, found.subject, program)
    ? good(found.check, found.subject, `${found.says}; the ${change!.kind} restarts it`)
    : found;
