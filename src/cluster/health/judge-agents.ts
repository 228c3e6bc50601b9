/** What the status of a cluster says about the versions of its machines' agents. Pure. */
import { bad, type Finding, good } from './finding.ts';

/** Which agents run, and which shall run. */
export interface AgentsSeen {
  readonly wanted: string;
  readonly machines: readonly {
    readonly machine: string;
    readonly runs?: string;
    readonly state: string;
    readonly text: string;
  }[];
}

/**
 * A finding for each machine that did not keep the agent of this server, and one for the cluster.
 * Machines whose turn is still to come are no fault.
 */
export function judgeAgents(cluster: string, { wanted, machines }: AgentsSeen): readonly Finding[] {
  const see = `muster change ${cluster}.agents shows what is due, and muster cluster upgrade-agents ${cluster} tries again`;
  const refused = machines.filter(({ state }) => state === 'refused');
  const current = machines.filter(({ state }) => state === 'current');
  const says = `${current.length} of ${machines.length} machines run the agent ${wanted}`;
  const later = current.length < machines.length ? `; muster change ${cluster}.agents shows the others` : '';
  return [
    ...refused.map(({ machine, runs = 'an older one', text }) =>
      bad('agent', machine, `it runs the agent ${runs} instead of ${wanted}: ${text}`, see),
    ),
    good('agent', cluster, `${says}${later}`),
  ];
}
