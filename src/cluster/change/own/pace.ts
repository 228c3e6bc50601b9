/** How often machines ask while Muster's own keys are rotated. */
import type { AgentPlanner } from '../../../agent/wire/protocol.ts';
import { MUSTER_SCOPE } from '../../../store/keys.ts';
import type { RunningChangeOf } from '../../plan/running-change.ts';

/** At most this many machines poll in a second. */
const POLLS_PER_SECOND = 100;
const SOONEST_SECONDS = 2;

/** The planner, with shorter pauses between polls while a step waits for agents. */
export const withOwnPace =
  (
    planner: AgentPlanner,
    { running, machines }: { readonly running: RunningChangeOf; readonly machines: () => readonly string[] },
  ): AgentPlanner =>
  async (identity, facts) => {
    const plan = await planner(identity, facts);
    const change = running(MUSTER_SCOPE);
    if (!change || change.paused || change.held || change.step === 'end-tickets') return plan;
    const pace = Math.max(SOONEST_SECONDS, Math.ceil(machines().length / POLLS_PER_SECOND));
    return { ...plan, pollSeconds: Math.min(plan.pollSeconds, pace) };
  };
