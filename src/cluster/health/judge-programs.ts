/** Judges the programs of control planes by what their agents report. Pure. */
import type { ProgramEvidence, WatchedProgram } from '../../agent/wire/evidence.ts';
import type { RunningVersions } from '../../agent/wire/facts.ts';
import { type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import { bad, type Finding, good } from './finding.ts';
import { type Circumstances, type Ended, lastWords, unlessRestarted, versionsOf } from './under-way.ts';

/** What the agent of a machine reported last of the programs there. */
export interface ProgramsSeen {
  /** Absent: none of them runs. */
  readonly programs?: ReadonlyMap<WatchedProgram, ProgramEvidence> | undefined;
  readonly runs?: RunningVersions | undefined;
}

const MANAGERS = ['kube-controller-manager', 'kube-scheduler'] as const;

/**
 * A finding for each controller manager and scheduler. `seen`: undefined for a machine that this
 * server has not heard, which has a line of its own.
 */
export function judgePrograms(
  resolved: ResolvedCluster,
  seen: (machine: string) => ProgramsSeen | undefined,
  circumstances: Circumstances,
): readonly Finding[] {
  return withRole(resolved, 'control-plane').flatMap(({ name }) => {
    const reported = seen(name);
    if (reported === undefined) return [];
    return MANAGERS.map((program) =>
      unlessRestarted(
        circumstances,
        program,
        judgeProgram(
          name,
          program,
          reported,
          circumstances.ended?.(name),
          versionsOf(resolved, circumstances, name, program),
        ),
      ),
    );
  });
}

function judgeProgram(
  machine: string,
  program: (typeof MANAGERS)[number],
  { programs, runs }: ProgramsSeen,
  ended: Ended | undefined,
  expected: readonly string[],
): Finding {
  const health = programs?.get(program)?.health;
  const version = runs?.[program] === undefined ? undefined : `v${runs[program]}`;
  if (health !== 'ready') {
    const says = `${program} ${health === undefined ? 'does not run' : 'is not ready'}${lastWords(ended, program)}`;
    return bad('program', machine, says, `${FIX}; on ${machine}: crictl ps -a --name ${program}`);
  }
  if (version !== undefined && !expected.includes(version))
    return bad(
      'program',
      machine,
      `${program} is ready, but ${version} instead of ${expected[0]}`,
      `muster cluster plan ${machine}`,
    );
  return good('program', machine, `${program} is ready${version === undefined ? '' : `, ${version}`}`);
}

const FIX = 'correct what it names, for example a flag in the Cluster';

/** Words with which etcd refuses its own data. */
const DAMAGED =
  /invalid database|failed to open database|checksum|crc mismatch|corrupt|page .* already freed|failed to (?:find|read|recover).*(?:wal|snap)|walpb|unexpected EOF/i;

/**
 * What to do about a member of etcd that has ended, by its last words; undefined without any.
 * `alone`: it is the only member.
 */
export function remedyOf(
  cluster: string,
  machine: string,
  ended: Ended | undefined,
  alone: boolean,
): string | undefined {
  const words = ended?.etcd;
  if (words === undefined) return undefined;
  if (!DAMAGED.test(words)) return `${FIX}; muster events ${machine} has more`;
  return alone
    ? `its data are damaged: muster cluster backups ${cluster} lists snapshots, and muster cluster restore continues from one`
    : `its data are damaged: blank its data disk and boot it, so that the others replace its member; or muster cluster remove-node ${cluster} ${machine} --replace-with another machine`;
}
