/** What an upgrade of the agents of a cluster orders. Pure. */
import { z } from 'zod';
import { requestFor } from '../request.ts';

/** The kind of change. */
export const AGENT_UPGRADE = 'agent-upgrade';

export const agentsRequest = requestFor(AGENT_UPGRADE, {});
export type AgentsRequest = z.output<typeof agentsRequest>;

export const agentsOrder = z.strictObject({
  v: z.literal(1),
  /** SHA-256 of the bundle that the machines take. */
  digest: z.string(),
  attempt: z.int().min(1),
  /** The machine that takes it before all others; absent: none was chosen yet. */
  first: z.string().optional(),
});
export type AgentsOrder = z.output<typeof agentsOrder>;
