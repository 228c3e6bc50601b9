/**
 * The upgrade of the agents of a cluster as a kind of change: one control plane, then all others.
 * Machines take the agent when they poll (builds.ts); the change shows it and takes orders.
 */
import { firstFew } from '../../../base/first-few.ts';
import { clusterOfScope } from '../../../store/keys.ts';
import type { ChangeKind } from '../kind.ts';
import { CLUSTER, done, held, type Step, waiting } from '../step.ts';
import type { AgentOfMachine, ClusterAgents } from './builds.ts';
import { AGENT_UPGRADE, type AgentsOrder, type AgentsRequest, agentsOrder, agentsRequest } from './order.ts';

/** What the machines of a cluster run, without those that were left out. */
interface Seen {
  readonly cluster: string;
  readonly machines: readonly AgentOfMachine[];
  /** A control plane or member of etcd runs the new agent. */
  readonly proven: boolean;
}
type AgentStep = Step<AgentsOrder, Seen>;

/** Ends the step when it is done; a machine that did not keep the agent holds the change. */
const ends =
  (isDone: (seen: Seen) => boolean): NonNullable<AgentStep['whole']> =>
  ({ cluster: seen }) => {
    const refused = seen.machines.find(({ state }) => state === 'refused');
    if (refused)
      return held(
        'agent-refused',
        `${refused.machine}: ${refused.text}`,
        `\`muster cluster upgrade-agents ${seen.cluster}\` begins another attempt; \`muster change ${CLUSTER} leave-out ${refused.machine}\` goes on without it.`,
      );
    const current = seen.machines.filter(({ state }) => state === 'current').length;
    if (isDone(seen)) return done(`${current} of ${seen.machines.length} machines run it`);
    const due = seen.machines.filter(isDue).map(({ machine, text }) => `${machine}: ${text}`);
    return waiting(firstFew(due));
  };
const isDue = ({ state }: AgentOfMachine): boolean => state !== 'current' && state !== 'at-boot';

const boot = { scope: { on: 'boot-host' }, takes: {} } as const;
const OTHERS: AgentStep = {
  ...boot,
  name: 'others',
  sentence: 'All other machines take the new agent when they poll.',
  whole: ends(({ machines }) => !machines.some(isDue)),
};
const BACK: AgentStep = {
  ...boot,
  name: 'stop',
  sentence: 'No other machine takes the new agent; those that have it keep it.',
};

/** Makes the kind. */
export const agentUpgrade = (
  builds: Pick<ClusterAgents, 'show' | 'next'>,
): ChangeKind<AgentsOrder, Seen, AgentsRequest> => ({
  name: AGENT_UPGRADE,
  changes: 'agents',
  replaces: true,
  request: agentsRequest,
  schema: agentsOrder,
  prepare: async (scope) => ({
    order: builds.next(clusterOfScope(scope)),
    faults: [],
    about: Object.fromEntries(
      builds
        .show(clusterOfScope(scope))
        .machines.map(({ machine, runs, text }) => [machine, `runs ${runs ?? 'an unknown agent'}. ${text}`]),
    ),
  }),
  forward: ({ first = 'One control plane' }) => [
    {
      ...boot,
      name: 'first',
      sentence: `${first} takes the new agent before all others.`,
      whole: ends(({ proven }) => proven),
    },
    OTHERS,
  ],
  back: () => [BACK],
  act: async ({ order }) => order,
  look: async ({ cluster: scope, without }) => {
    const cluster = clusterOfScope(scope);
    const machines = builds.show(cluster).machines.filter(({ machine }) => !without.includes(machine));
    return {
      ...{ cluster, machines },
      proven: machines.some(({ carries, state }) => carries && state === 'current'),
    };
  },
});
