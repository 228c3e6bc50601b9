/**
 * How many workers may be down at the same time: of the cluster, and of each group of machines for
 * which its document (`nodes[].maxUnavailable`) says so. An order keeps the groups that there were
 * when it was given, so that an edit does not move the turns of a change that is under way. Pure.
 */
import { z } from 'zod';
import type { ClusterMachine } from '../model/resolved-cluster.ts';

export const workerGroup = z.strictObject({
  name: z.string(),
  /** Absent: the workers that no other group names, also those that join during the change. */
  machines: z.array(z.string()).optional(),
  /** How many of them may be down at the same time. */
  atOnce: z.int().min(1),
});
export type WorkerGroup = z.output<typeof workerGroup>;

/** The part of an order that limits how many workers are down at the same time. */
export interface WorkerLimits {
  readonly maxUnavailable: number;
  readonly groups?: readonly WorkerGroup[] | undefined;
}

const OTHERS = 'the other workers';

/**
 * The limits of an order.
 *
 * @param asked How many workers of the cluster may be down. Absent: as many as the groups allow
 *   together, and one of the workers in no group.
 */
export function limitsOf(
  machines: readonly ClusterMachine[],
  asked?: number,
): WorkerLimits & { groups?: WorkerGroup[] } {
  const groups = groupsIn(machines);
  if (groups.length === 0) return { maxUnavailable: asked ?? 1 };
  if (asked !== undefined) return { maxUnavailable: asked, groups };
  const others = machines.some(
    ({ name, roles }) => roles.includes('worker') && groupsOf(name, groups).length === 0,
  );
  const all = others ? [...groups, { name: OTHERS, atOnce: 1 }] : groups;
  const sum = all.reduce((total, one) => total + Math.min(one.atOnce, one.machines?.length ?? 1), 0);
  return { maxUnavailable: sum, groups: all };
}

/** The groups of workers; a control plane goes alone, whichever group it is in. */
function groupsIn(machines: readonly ClusterMachine[]): WorkerGroup[] {
  const found = new Map<string, WorkerGroup & { readonly machines: string[] }>();
  for (const { name, roles, groups = [] } of machines)
    for (const { name: group, maxUnavailable } of roles.includes('worker') ? groups : []) {
      const known = found.get(group) ?? { name: group, machines: [], atOnce: maxUnavailable };
      known.machines.push(name);
      found.set(group, known);
    }
  return [...found.values()];
}

function groupsOf(machine: string, groups: readonly WorkerGroup[]): readonly WorkerGroup[] {
  const named = groups.filter(({ machines }) => machines?.includes(machine));
  return named.length > 0 ? named : groups.filter(({ machines }) => machines === undefined);
}

/**
 * Why a worker may not go down besides those that are down; undefined when no group of it is full.
 *
 * @param down The workers that are down or going down.
 */
export function whyGroupIsFull(
  machine: string,
  groups: readonly WorkerGroup[] | undefined,
  down: Iterable<string>,
): string | undefined {
  if (groups === undefined) return undefined;
  const others = [...new Set(down)].filter((name) => name !== machine);
  for (const group of groupsOf(machine, groups)) {
    const same = others.filter((name) => groupsOf(name, groups).includes(group));
    if (same.length >= group.atOnce)
      return `at most ${group.atOnce} of ${group.name} may be down, and ${same.join(', ')} ${same.length === 1 ? 'is' : 'are'}`;
  }
  return undefined;
}

/** The machines that get their turn next, in their order; machines of full groups are skipped. */
export function nextTurns(
  kept: readonly string[],
  lacking: readonly string[],
  atOnce: number,
  whyNot: (machine: string, turns: readonly string[]) => string | undefined,
): readonly string[] {
  const turns = [...kept];
  for (const name of lacking) {
    if (turns.length >= atOnce) break;
    if (!turns.includes(name) && whyNot(name, turns) === undefined) turns.push(name);
  }
  return turns;
}

/** How many rounds of turns the machines take, if all turns are equally long. */
export function roundsOf(
  machines: readonly string[],
  atOnce: number,
  groups: readonly WorkerGroup[] | undefined,
): number {
  let left = machines;
  let rounds = 0;
  for (; left.length > 0; rounds++) {
    const turns = nextTurns([], left, atOnce, (name, others) => whyGroupIsFull(name, groups, others));
    left = left.filter((name) => !turns.includes(name));
  }
  return rounds;
}

/** The limits in a sentence, e.g. `6 at a time, at most 1 of nodes[1] (disk=ssd)`. */
export const limitsText = ({ maxUnavailable, groups = [] }: WorkerLimits): string =>
  [`${maxUnavailable} at a time`, ...groups.map(({ name, atOnce }) => `at most ${atOnce} of ${name}`)].join(
    ', ',
  );
