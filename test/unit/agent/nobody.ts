/** Peers of agents in tests that are about others of them. */
import type { AgentBoot, AgentPeers, AgentsDeps } from '../../../src/agent/serve/agents.ts';

/** A store that was never restored. */
const FIRST_LIFE = {
  number: 0,
  state: 'usual',
  detail: undefined,
  seen: async () => 'usual',
  isAhead: () => false,
} satisfies AgentsDeps['life'];

/** No other hosts, nobody who keeps consoles, and no security log. */
export const ALONE = {
  life: FIRST_LIFE,
  standby: [],
  consoles: { take: async () => true },
  witness: { hear: () => ({}) },
} satisfies Partial<AgentsDeps>;

/** Every address is this host's, and nobody asks for anything but plans. */
export const NOBODY = {
  admits: () => true,
  standing: () => 'host',
  heard: () => {},
  others: async () => undefined,
  snapshots: {
    take: () => Promise.reject(new Error('no snapshots are taken here')),
    end: () => Promise.reject(new Error('no snapshots are taken here')),
    give: () => Promise.reject(new Error('no snapshots are taken here')),
  },
  laterKeys: { heard: async () => undefined },
  leaving: () => undefined,
} satisfies Partial<AgentPeers>;

const noAgent = (): never => {
  throw new Error('no machine has an agent here');
};

/** No machine has an agent. */
export const NO_AGENTS: AgentBoot = {
  version: 0,
  agentCluster: () => undefined,
  tpm: () => undefined,
  waits: () => undefined,
  hasAgent: () => false,
  inline: noAgent,
  alarm: noAgent,
  layer: noAgent,
};
