/**
 * Compares the plans that a machine has before and after a change of documents: which files get
 * another content, and what restarts. Pure; certificates and keys are left out, because a change of
 * documents issues them again only where names change.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { MANIFEST_DIRECTORY } from './manifests.ts';
import { previewLines } from './preview.ts';
import { ROLLED } from './restarts.ts';

/** What changes on machines that change alike. */
export interface PlanDifference {
  readonly machines: readonly string[];
  /** Files that are written, or removed. */
  readonly files: readonly string[];
  /** Static pods and units that restart. */
  readonly restarts: readonly string[];
}

/** What a line is about, and its content; undefined for lines that change nothing by themselves. */
function aspectOf(line: PlanLine): readonly [string, string] | undefined {
  switch (line.do) {
    case 'put':
      return [line.path, 'text' in line.content ? line.content.text : ''];
    case 'fetch':
      return [line.path, line.sha256];
    case 'run':
    case 'reload':
      return [`unit ${line.unit}`, line.digest];
    default:
      return undefined;
  }
}

const aspectsOf = (lines: readonly PlanLine[]): ReadonlyMap<string, string> =>
  new Map(lines.flatMap((line) => [aspectOf(line)].filter((one) => one !== undefined)));

const podOf = (path: string): string | undefined =>
  path.startsWith(`${MANIFEST_DIRECTORY}/`)
    ? path.slice(MANIFEST_DIRECTORY.length + 1, -'.yaml'.length)
    : undefined;

function differenceOf(
  before: readonly PlanLine[],
  after: readonly PlanLine[],
): Omit<PlanDifference, 'machines'> {
  const [old, now] = [aspectsOf(before), aspectsOf(after)];
  const changed = [...new Set([...old.keys(), ...now.keys()])].filter((key) => old.get(key) !== now.get(key));
  const files = changed.filter((key) => !key.startsWith('unit '));
  const units = changed.flatMap((key) => (key.startsWith('unit ') ? [key.slice('unit '.length)] : []));
  return { files, restarts: [...files.flatMap((path) => podOf(path) ?? []), ...units] };
}

/** The differences, with machines that change alike together; machines that stay are left out. */
export function comparePlans(before: ResolvedCluster, after: ResolvedCluster): readonly PlanDifference[] {
  const found = new Map<string, PlanDifference>();
  for (const machine of after.machines) {
    const old = before.machines.find(({ name }) => name === machine.name);
    if (old === undefined) continue;
    const difference = differenceOf(previewLines(before, old), previewLines(after, machine));
    if (difference.files.length === 0 && difference.restarts.length === 0) continue;
    const key = JSON.stringify(difference);
    const known = found.get(key)?.machines ?? [];
    found.set(key, { ...difference, machines: [...known, machine.name] });
  }
  return [...found.values()];
}

/** The programs that restart on one machine after the other. */
export const inTurn = ({ restarts }: PlanDifference): readonly string[] =>
  restarts.filter((program) => ROLLED.some((one) => one === program));
