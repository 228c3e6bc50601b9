/** What the API shows and orders of the agents of machines. */
import type { WaitingView } from '../agent/identity/approve.ts';
import type { KnownTpm } from '../agent/identity/redeem-tpm.ts';
import type { TicketKeys } from '../agent/identity/ticket-keys.ts';
import type { Reason } from '../events/event.ts';
import type { KnownMachine } from '../machines/machine.ts';

export interface ServedAgents {
  /** Whether an agent's certificate is accepted now, apart from its dates. */
  certificateState(machine: string, serial: string): 'valid' | 'superseded' | 'revoked';
  /** The cluster that a machine's agent works for; see AgentBoot. */
  agentCluster(machine: string): string | undefined;
  /** The keys that wait for an approval; with `codes`, what their machines' consoles show. */
  waiting(asked: { readonly codes: boolean }): readonly WaitingView[];
  /** Why a machine's agent waits for an approval; undefined when it does not. */
  waits(machine: string): Reason | undefined;
  /** The secrets from which tickets are derived, by their names. */
  ticketKeys(): Promise<Pick<TicketKeys, 'id' | 'before'>>;
  /** The TPM that is known for a machine; undefined when none is. */
  tpm(machine: string): KnownTpm | undefined;
  /** @throws {MusterError} E_APPROVAL when the code is not that of a key that waits */
  approve(machine: string, code: string): Promise<Omit<WaitingView, 'code'>>;
  /** @throws {MusterError} E_NOT_FOUND for an unknown machine */
  rearm(machine: string, options: { readonly keep: boolean }): Promise<KnownMachine>;
}
