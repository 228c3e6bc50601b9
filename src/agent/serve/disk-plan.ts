/** The plan of a machine that booted before its data disk was chosen from its inventory. */

import type { Plan } from '../wire/plan.ts';
import type { AgentPlanner } from '../wire/protocol.ts';
import { selectorText } from './layer.ts';
import { NOT_CHOSEN } from './machine-layer.ts';

interface DiskPlanDeps {
  /** Why the machine's data disk cannot be chosen; undefined when it can, or is named. */
  readonly undecidedDisk: (machine: string) => string | undefined;
}

const UNDECIDED = selectorText(NOT_CHOSEN);
/** Seconds until the next poll of a machine that waits for its disk. */
const WAITS = 10;

/**
 * The planner, except for machines whose data disk was not chosen when they booted: they have
 * nothing to lose, so they reboot as soon as it can be chosen, and wait with the reason until then.
 */
export function withDiskChoice(planner: AgentPlanner, { undecidedDisk }: DiskPlanDeps): AgentPlanner {
  return async (identity, facts) => {
    const plan = await planner(identity, facts);
    if (facts.dataSelector !== UNDECIDED) return plan;
    const text = undecidedDisk(identity.machine);
    const line: Plan['lines'][number] =
      text === undefined
        ? { do: 'reboot', id: facts.bootId }
        : { do: 'hold', code: 'no-data-disk', text: `The data disk is not chosen: ${text}` };
    return { lines: [line], pollSeconds: WAITS };
  };
}
