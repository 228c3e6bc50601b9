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
   * already. Retry-After says when to poll again; Muster-Agent (DIGEST.ATTEMPT) says which agent
   * to take.
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
  /**
   * Client certificate, and an order for this machine. Query: id, offset; expected with the first
   * part. The body is a part of the snapshot. 200.
   */
  snapshotPart: {
    method: 'PUT',
    path: '/agent/snapshot/part',
    about: 'Takes a part of the snapshot of etcd that the plan of this machine orders.',
  },
  /** Client certificate. Form: id, size, etcd (its version), status (JSON of etcd's tool). 204. */
  snapshotEnd: {
    method: 'POST',
    path: '/agent/snapshot/end',
    about: "Ends that snapshot: takes what etcd's own tool says about it.",
  },
  /** Client certificate, and an order to restore. Form: id. 200 with the snapshot. */
  snapshotGet: {
    method: 'POST',
    path: '/agent/snapshot/get',
    about: 'Answers with a snapshot of etcd, for the machine that an operator ordered to restore it.',
  },
  /**
   * Client certificate, from an address of the machine. Form: filesystem, make (yes or no). 200
   * with the key of that data filesystem (`encrypt: boot-host`), as text without a line break.
   */
  dataKey: {
    method: 'POST',
    path: '/agent/data-key',
    about: "Answers with the key of the machine's encrypted data filesystem.",
  },
  /** Client certificate. Form: digest. 200 with that bundle of the agent (tar). */
  bundle: {
    method: 'POST',
    path: '/agent/bundle',
    about: "Answers with the agent's own scripts, for an upgrade in place.",
  },
  /**
   * Client certificate. Form: boot (the kernel's boot id), lines. 204; 429 when the machine sends
   * too much.
   */
  console: {
    method: 'POST',
    path: '/agent/console',
    about: 'Keeps lines of the console of a machine.',
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

/** An answer of the agents' listener. */
export interface AgentApiAnswer {
  readonly status: number;
  readonly contentType?: string;
  readonly body?: string | Uint8Array | { readonly size: number; readonly octets: AsyncIterable<Uint8Array> };
  readonly headers: Readonly<Record<string, string>>;
}

/** Takes snapshots of etcd from machines that were ordered to make one, and gives them back. */
export interface AgentSnapshots {
  /**
   * Takes the part of a snapshot that begins at `offset`; 0 begins it again. `expected`: about how
   * many octets it will have.
   *
   * @throws {MusterError} E_SNAPSHOT when the machine was not ordered to make this snapshot, the
   *   part does not continue it, or the disk has no room
   */
  take(
    machine: string,
    part: { readonly id: string; readonly offset: number; readonly expected: number },
    body: AsyncIterable<Uint8Array>,
  ): Promise<void>;
  /**
   * Ends a snapshot. When this resolves, it is durable and listed.
   *
   * @throws {MusterError} E_SNAPSHOT when it is not whole, or etcd's tool did not open it
   */
  end(
    machine: string,
    snapshot: {
      readonly id: string;
      readonly size: number;
      /** The version of etcd. */
      readonly etcd: string;
      /** The output of `etcdutl snapshot status`, JSON. */
      readonly status: string;
    },
  ): Promise<void>;
  /**
   * The snapshot that the machine was ordered to restore.
   *
   * @throws {MusterError} E_SNAPSHOT when it was not, or the snapshot cannot be read
   */
  give(
    machine: string,
    id: string,
  ): Promise<{ readonly size: number; readonly octets: AsyncIterable<Uint8Array> }>;
}

/**
 * Decides what a machine has to do; the listener gives it the facts and sends its plan. Rejects
 * with a MusterError while something is not ready, which the agent gets as 503.
 */
export type AgentPlanner = (identity: AgentIdentity, facts: AgentFacts) => Promise<Plan>;

/** Decides which agent a machine runs. */
export interface AgentBuilds {
  /**
   * The agent that the machine may take now, as `DIGEST.ATTEMPT`; undefined: it keeps its own. It
   * is asked after the facts of the poll are recorded.
   */
  offer(machine: string): Promise<string | undefined>;
  /** The bundle with that digest, if it is one that machines are offered. */
  bundle(digest: string): Uint8Array | undefined;
}

/** Holds a cluster whose machines have later keys than this store. */
export interface LaterKeysGuard {
  /**
   * Looks at what a machine reports. `ahead`: it has proved that it saw a later state of this
   * store. Resolves to the plan with which it waits; undefined: it gets its own.
   */
  heard(machine: string, facts: AgentFacts, ahead: boolean): Promise<Plan | undefined>;
}
