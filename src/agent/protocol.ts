/**
 * The routes of the agents' listener, which speaks HTTPS with a certificate of Muster's transport
 * CA, and the interface to the planner.
 */
import type { AgentFacts } from './facts.ts';
import type { Plan } from './plan.ts';

/** TCP port of the agents' listener, next to the HTTP port for machines. */
export const DEFAULT_AGENT_PORT = 8443;

export const AGENT_ROUTES = {
  /**
   * No client certificate yet. Form: session, ticket, csr, and with a TPM tpm and proof. 200 with
   * the agent's certificate, PEM; 202 when something is missing: Retry-After, Muster-Hold
   * (`approval` or `tpm`), with `approval` Muster-Nonce, with `tpm` a challenge as its body.
   */
  redeem: {
    method: 'POST',
    path: '/agent/redeem',
    about:
      'Exchanges the ticket and key of a machine for its certificate; the same pair gets the same answer.',
  },
  /**
   * Client certificate. Form: facts. 200 with a plan (tar), 204 when the agent has applied it
   * already. Retry-After says when to poll again.
   */
  poll: {
    method: 'POST',
    path: '/agent/poll',
    about: 'Takes the facts of a machine and answers with its plan.',
  },
  /**
   * Client certificate. Form: session, url (of a file of this boot host, as the machine reaches
   * it). Answers with the session's configuration, tar.
   */
  configuration: {
    method: 'POST',
    path: '/agent/configuration',
    about: "Answers with the first configuration of the machine's boot, for its boot disk.",
  },
  /** Client certificate. Form: bootid. 204. */
  leave: {
    method: 'POST',
    path: '/agent/leave',
    about: 'Notes that a machine shuts down, so that its next boot need not wait until it counts as silent.',
  },
} as const;

/** The machine that polls, as its certificate identifies it. */
export interface AgentIdentity {
  readonly machine: string;
  /** Serial number of the certificate. */
  readonly serial: string;
  /** Source address of the connection. */
  readonly address: string;
}

/**
 * Decides what a machine has to do; the listener gives it the facts and sends its plan. Rejects
 * with a MusterError while something is not ready, which the agent gets as 503.
 */
export type AgentPlanner = (identity: AgentIdentity, facts: AgentFacts) => Promise<Plan>;
