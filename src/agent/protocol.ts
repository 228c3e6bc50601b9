/**
 * What agents ask, as a table: HTTPS on a listener of its own, its certificate from Muster's
 * transport CA.
 */
import type { AgentFacts } from './facts.ts';
import type { Plan } from './plan.ts';

/** TCP port of the agents' listener, next to the HTTP port for machines. */
export const DEFAULT_AGENT_PORT = 8443;

export const AGENT_ROUTES = {
  /**
   * No client certificate yet. Form: session, ticket, csr. Answers with the agent's certificate,
   * PEM.
   */
  redeem: {
    method: 'POST',
    path: '/agent/redeem',
    about: 'Ticket and key of a machine for its certificate; the same pair gets the same answer.',
  },
  /**
   * Client certificate. Form: facts. 200 with a plan (tar), 204 when nothing changed. Retry-After
   * says when to ask again.
   */
  poll: {
    method: 'POST',
    path: '/agent/poll',
    about: 'What a machine says of itself, for what it has to do.',
  },
  /** Client certificate. Form: bootid. 204. */
  leave: {
    method: 'POST',
    path: '/agent/leave',
    about: 'A machine goes down in good order: its next boot need not wait until it was silent.',
  },
} as const;

/** Who asks, by its certificate and nothing else. */
export interface AgentIdentity {
  readonly machine: string;
  /** Serial number of the certificate. */
  readonly serial: string;
  /** Source address of the connection. */
  readonly address: string;
}

/** What the listener knows besides. */
export interface PollContext {
  /** Of our store, now. */
  readonly revision: number;
  /**
   * The machine was told a higher one: our store is older than what the machine has seen, so it was
   * restored or lost.
   */
  readonly rolledBack: boolean;
}

/**
 * The side that decides; the listener gives it facts and carries its plan. Throws MusterError for
 * what is not ready (503).
 */
export type AgentPlanner = (
  identity: AgentIdentity,
  facts: AgentFacts,
  context?: PollContext,
) => Promise<Plan>;
