/** `muster machine approve`: an operator confirms the code that a machine's console shows. */

import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Trust } from '../../machines/trust.ts';
import { approvalCode, isCode, normalCode } from './approval-code.ts';
import { type Asked, issue, knownOf, type RedeemDeps } from './redeem.ts';
import { decideRedeem } from './redeem-decision.ts';
import type { WaitingKey } from './waiting.ts';

interface ApproveDeps extends RedeemDeps {
  /** PEM of every trusted generation of Muster's CA, as machines get it. */
  readonly authority: () => string;
}

/** A key that waits, as operators see it; the code only where they asked for it. */
export interface WaitingView {
  readonly machine: string;
  /** SHA-256 of its public key. */
  readonly key: string;
  readonly address: string;
  /** Whether the address is known to be the machine's. */
  readonly known: boolean;
  /** Whether it would replace another key. */
  readonly replaces: boolean;
  readonly since: Millis;
  readonly trust: Trust;
  readonly code?: string;
}

const codeOf = ({ machine, pin, nonce }: WaitingKey, authority: string): string =>
  approvalCode({ machine, pin, nonce, authority });

/** Lists the keys that wait; with `codes`, what the consoles of their machines show. */
export const waitingKeys = (
  { waiting, authority }: Pick<ApproveDeps, 'waiting' | 'authority'>,
  { codes }: { readonly codes: boolean },
): readonly WaitingView[] =>
  waiting.list().map((key) => ({
    machine: key.machine,
    key: key.pin,
    address: key.address,
    known: key.known,
    replaces: key.replaces,
    since: key.since,
    trust: key.facts.trust,
    ...(codes && { code: codeOf(key, authority()) }),
  }));

/**
 * Gives the waiting key whose code this is its certificate, which its machine fetches within two
 * seconds. Durable when it resolves.
 *
 * @throws {MusterError} E_APPROVAL when no key waits, the code is wrong or fits two keys, or the
 *   key may not have a certificate any more.
 */
export async function approveMachine(
  deps: ApproveDeps,
  machine: string,
  text: string,
): Promise<Omit<WaitingView, 'code'>> {
  const { waiting, events } = deps;
  const refuse = (why: string): never => {
    throw new MusterError('E_APPROVAL', why);
  };
  const code = normalCode(text);
  if (!isCode(code)) return refuse(`"${text.slice(0, 20)}" is not a code; write it like 7QK-3FD`);
  const keys = waiting.of(machine);
  if (keys.length === 0) return refuse(`no key of ${machine} waits for an approval`);
  const fitting = keys.filter((key) => codeOf(key, deps.authority()) === code);
  if (fitting.length > 1) {
    waiting.redraw(machine);
    return refuse(`two keys of ${machine} have this code; its console shows another one in a moment`);
  }
  const [key] = fitting;
  if (key === undefined) {
    const redrawn = waiting.wrong(machine);
    events.record({
      kind: 'machine.approval-refused',
      subject: machine,
      reason: { code: 'wrong_code', text: 'The code is none of those that its console shows.' },
      fields: { redrawn },
    });
    return refuse(
      `${code} is not the code of a key that waits for ${machine}${redrawn ? '; after several wrong ones its console shows another code now' : ''}`,
    );
  }
  const facts = deps.ticketed(key.facts.session.id);
  if (facts?.current !== true) return refuse(`${machine} booted again meanwhile; look at its console again`);
  const asked: Asked = { ...key, facts, asker: key.known ? 'known' : 'unknown', doubt: undefined };
  const decision = decideRedeem((await knownOf(deps, asked)).facts);
  if (decision.do !== 'hold' || decision.hold !== 'approval')
    return refuse(
      `its key does not wait any more${decision.do === 'refuse' ? `: ${decision.code}` : ''}; \`muster events ${machine}\` shows why`,
    );
  if ((await issue(deps, asked, { approved: true })) === undefined)
    return refuse(`another key of ${machine} got a certificate at the same moment`);
  waiting.forget(machine, key.pin);
  const { pin, address, known, replaces, since } = key;
  events.record({
    kind: 'machine.approved',
    subject: machine,
    session: facts.session.id,
    fields: { key: pin, address, known, replaces, trust: facts.trust.tier, from: facts.trust.from },
  });
  return { machine, key: pin, address, known, replaces, since, trust: facts.trust };
}
