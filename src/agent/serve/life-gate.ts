/** What agents are answered by a boot host whose store was restored, or continues elsewhere. */
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { type Life, type LifeState, lifeRevision, partsOf } from '../../store/life.ts';
import type { AgentFacts } from '../wire/facts.ts';
import type { Plan } from '../wire/plan.ts';
import type { RevisionClaims } from '../wire/revision-claim.ts';

interface Gate {
  readonly claims: RevisionClaims;
  readonly log: Log;
  readonly life: Pick<Life, 'number' | 'state' | 'detail' | 'seen'>;
}

/**
 * Lets a request pass while this boot host serves.
 *
 * @throws {MusterError} E_AGENT_WAIT in every other state
 */
export function mustServe(state: LifeState): void {
  if (state === 'restored')
    throw new MusterError(
      'E_AGENT_WAIT',
      'this boot host was restored from a backup, and waits for an operator',
    );
  if (state === 'superseded')
    throw new MusterError('E_AGENT_WAIT', 'the store of this boot host continues elsewhere');
}

/** The plan of every machine until an operator accepts a restored store: it goes on as it is. */
export const RESTORED_PLAN: Plan = {
  lines: [
    {
      do: 'hold',
      code: 'store-restored',
      text: 'The boot host was restored from a backup; an operator has to accept it with `muster backup accept`.',
    },
  ],
  pollSeconds: 10,
};

/**
 * The facts with the revision of this life of the store that the machine has seen, if its proof is
 * ours. One that it invented is nothing that other members have to wait for, and is logged.
 *
 * @throws {MusterError} E_AGENT_WAIT when the machine has seen a later life of this store
 */
export async function factsOfThisLife(
  { claims, log, life }: Gate,
  liars: Set<string>,
  machine: string,
  facts: AgentFacts,
): Promise<AgentFacts> {
  const { claim } = facts;
  if (claim === undefined) return facts;
  if (!claims.believed(machine, claim)) {
    if (!liars.has(machine))
      log.warn({ machine, revision: claim.revision }, 'a machine claims a revision that it was never sent');
    liars.add(machine);
    return facts;
  }
  if ((await life.seen(machine, claim.revision)) === 'superseded') mustServe('superseded');
  const seen = partsOf(claim.revision);
  return seen.life === life.number ? { ...facts, seenRevision: seen.revision } : facts;
}

/**
 * The header that shows a machine the life and revision of the store. The number that it is sent
 * never decreases. A restored store shows none until it is accepted: machines that had seen it
 * would stop the boot host that it may have come from.
 */
export const revisionHeader = (
  { claims, life }: Gate,
  machine: string,
  revision: number,
): Readonly<Record<string, string>> =>
  life.state === 'restored'
    ? {}
    : { 'muster-revision': claims.of(machine, lifeRevision(life.number, revision)) };
