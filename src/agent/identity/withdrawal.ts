/**
 * Withdraws certificates. A machine whose document is gone, or that no cluster names any more, is
 * refused immediately. A minute later the certificate of its agent is revoked, so that the same
 * machine under the same name is not believed again without an operator's decision. `muster machine
 * rearm --keep` undoes a removal by mistake.
 */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import type { EventSink } from '../../events/event.ts';
import type { Roster } from '../../machines/roster.ts';
import type { Catalog, LiveCatalog } from '../../resources/catalog.ts';
import type { AgentRecord, Identities } from './identities.ts';

/**
 * How long a document must be gone before its machine's certificate is revoked: an editor that
 * replaces a file, or a checkout of a repository, removes it for a moment.
 */
export const GONE_FOR = duration('1m');

/**
 * When this many machines, and more than half of all, are gone at once, probably a directory is not
 * mounted or a wrong branch is checked out. The machines are refused while they are gone, but their
 * certificates are not revoked.
 */
const MANY = 3;

/** Why a certificate is revoked. */
const WITHDRAWN = {
  machine_gone: 'Its Machine document was deleted.',
  no_cluster: 'No Cluster names it any more, and its documents refer to no Secret.',
} as const;
type Withdrawn = keyof typeof WITHDRAWN;

/** The code of the hold of a machine that is back, until an operator decides. */
export const REVOKED = 'revoked';

interface WithdrawalDeps {
  /**
   * With `faults`: while a file is invalid, it may contain the missing document, and nothing is
   * revoked.
   */
  readonly catalog: Catalog & Partial<Pick<LiveCatalog, 'faults'>>;
  readonly identities: Identities;
  /** Whether an agent may work on a machine; see AgentBoot. */
  readonly hasAgent: (machine: string) => boolean;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
}

interface Withdrawals {
  /** Revokes certificates that are due; called every few seconds. Durable when it resolves. */
  look(): Promise<void>;
}

/** Creates the withdrawals. `look` must be called at intervals. */
export function createWithdrawals(deps: WithdrawalDeps): Withdrawals {
  const { catalog, identities, hasAgent, clock } = deps;
  /** By machine: since when it is missing; monotonic. */
  const missed = new Map<string, Millis>();
  const why = ({ machine }: AgentRecord): Withdrawn | undefined => {
    if (catalog.get('Machine', machine) === undefined) return 'machine_gone';
    return hasAgent(machine) ? undefined : 'no_cluster';
  };
  let manyReported = false;
  return {
    async look() {
      const now = clock.monotonic();
      const valid = identities.list().filter(({ revoked }) => revoked === undefined);
      const gone = valid.flatMap((record) => {
        const code = why(record);
        return code === undefined ? [] : [{ record, code }];
      });
      const many = gone.length >= MANY && gone.length * 2 > valid.length;
      if (many && !manyReported) reportMany(deps, gone.length, valid.length);
      manyReported = many;
      // While a file is invalid, it may contain the missing document.
      const due = many || (gone.length > 0 && (catalog.faults?.() ?? []).length > 0) ? [] : gone;
      const missing = new Set(due.map(({ record }) => record.machine));
      for (const machine of missed.keys()) if (!missing.has(machine)) missed.delete(machine);
      for (const { record, code } of due) {
        const since = missed.get(record.machine) ?? now;
        missed.set(record.machine, since);
        if (now - since < GONE_FOR) continue;
        missed.delete(record.machine);
        await withdraw(deps, record, code);
      }
    },
  };
}

function reportMany({ events }: WithdrawalDeps, gone: number, all: number): void {
  events.record({
    kind: 'agent.many-gone',
    subject: 'agents',
    reason: {
      code: 'many_gone',
      text: `${gone} of ${all} machines with certificates are gone from the documents at once. They are refused, and none is revoked. If the documents were lost, restore them. If you mean to delete so many machines, delete them in smaller groups.`,
    },
    fields: { gone, all },
  });
}

async function withdraw(
  { identities, roster, events, clock }: WithdrawalDeps,
  { machine, serial }: AgentRecord,
  code: Withdrawn,
): Promise<void> {
  const at = clock.now();
  await identities.withdraw(machine, { at, code });
  roster.heartbeats.forget(machine);
  events.record({
    kind: 'agent.revoked',
    subject: machine,
    reason: { code, text: WITHDRAWN[code] },
    fields: { serial },
  });
  const member = roster.get(machine);
  if (member === undefined) return;
  const text = `${WITHDRAWN[code]} Its agent's certificate was revoked; \`muster machine rearm ${machine}\` lets it have a new one, with --keep the same one counts again.`;
  const { version = '', bootId = '' } = member.status.agent ?? {};
  roster.change(member, { agent: { since: at, version, bootId, hold: { code: REVOKED, text } } });
}
