/**
 * What each version of the agent understands. The server's plans are for the newest; an older agent
 * gets them without what it does not know, so that it keeps working until it is replaced. Pure.
 */
import { MODES } from '../../pki/hierarchy.ts';
import { keyPathOf, type PlanLine } from './plan.ts';

/** The version of the scripts in this folder; `version` of muster-agent.sh. */
export const AGENT_VERSION = 7;

/** The first version that reports the programs besides etcd and API server. */
export const REPORTS_PROGRAMS = 3;

/** The first version that replaces a key when a `request` says so. */
export const REPLACES_KEYS = 4;

/** The first version that reboots its machine when a `reboot` says so. */
export const REBOOTS = 7;

/** What came with a version: `before` returns a line as agents before that version know it. */
interface Step {
  readonly version: number;
  readonly before: (line: PlanLine) => readonly PlanLine[];
}

const STEPS: readonly Step[] = [
  { version: 2, before: withoutSize },
  // Without evidence no step of a rotation is done on the machine, so the change waits for it.
  { version: 3, before: (line) => (PROBING.has(line.do) ? [] : [line]) },
  // A member that cannot take snapshots is not asked for one.
  { version: 4, before: (line) => (SNAPSHOTS.has(line.do) ? [] : [line]) },
  { version: 5, before: (line) => (line.do === 'check' && line.check === 'skew' ? [] : [line]) },
  { version: 6, before: oneFileAfterTheOther },
  // A roll refuses machines with an older agent.
  { version: 7, before: (line) => (line.do === 'reboot' ? [] : [line]) },
];

const SNAPSHOTS: ReadonlySet<PlanLine['do']> = new Set(['snapshot-etcd', 'restore-snapshot']);
const PROBING: ReadonlySet<PlanLine['do']> = new Set(['probe', 'read-encryption']);

function withoutSize(line: PlanLine): readonly PlanLine[] {
  if (line.do !== 'fetch' && line.do !== 'unpack') return [line];
  const { size: _, ...known } = line;
  return [known];
}

/** Certificate and key as two files; it replaces links that a newer agent made. */
function oneFileAfterTheOther(line: PlanLine): readonly PlanLine[] {
  if (line.do !== 'put-pair') return [line];
  const { mode, path, content } = line;
  const at = { mode: MODES.key, path: keyPathOf(path) };
  return [
    { do: 'put', mode, path, content },
    'leaf' in line.key
      ? { do: 'put-with-key', ...at, content: { text: '' }, leaf: line.key.leaf, append: 'pem' }
      : { do: 'put', ...at, content: line.key.content },
  ];
}

/**
 * The lines as an agent of that version understands them.
 *
 * @param version As the agent reports it. A text that is no number is a newer agent's, which knows
 *   all lines.
 */
export function linesFor(version: string, lines: readonly PlanLine[]): readonly PlanLine[] {
  const older = STEPS.filter((step) => Number(version) < step.version);
  return older.reduce<readonly PlanLine[]>((left, { before }) => left.flatMap(before), lines);
}
