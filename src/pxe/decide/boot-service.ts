/** The boot service: what the protocol servers ask, wired to roster, documents and store. */
import { duration } from '../../base/duration.ts';
import type { Rendered } from '../../ignition/rendered.ts';
import type { TicketFacts } from '../../machines/tickets.ts';
import type { BootService } from '../boot.ts';
import { answer } from './answer.ts';
import { type BootDeps, createDesk } from './desk.ts';
import { type ExplainQuestion, type Explanation, explain, renderPreview } from './explain.ts';
import { inline } from './inline.ts';
import { config, failSilent, report, ticketed } from './reporting.ts';
import { script } from './scripting.ts';

export type { BootDeps } from './desk.ts';

/**
 * How often it is looked what came to its end: sessions wait in a queue for that, so it costs
 * nothing when nothing did.
 */
const TICK = duration('1s');

export interface RunningBootService extends BootService {
  /**
   * Ends what is overdue: machines that fell silent, sessions that are too old. Called by a timer.
   */
  tick(): void;
  /**
   * What a machine would get now, and why. Throws E_NOT_FOUND for a machine or network that nobody
   * has.
   */
  explain(question: ExplainQuestion): Explanation;
  /** What a ticket of this boot session is good for; undefined when there is no such session. */
  ticketed(session: string): TicketFacts | undefined;
  /** The configuration that a machine would get. Throws E_NOT_FOUND, E_REFERENCE, E_CONFIG. */
  render(machine: string): Rendered;
  /** Stops the timer and following the documents. */
  close(): void;
}

export function createBootService(deps: BootDeps): RunningBootService {
  const desk = createDesk(deps);
  let stop: () => void = () => {};
  const tick = (): void => {
    failSilent(desk);
    desk.roster.sweep();
  };
  const schedule = (): void => {
    stop = deps.clock.after(TICK, () => {
      tick();
      schedule();
    });
  };
  schedule();
  return {
    answer: (client, network, step) => answer(desk, client, network, step),
    reservedFor: (address) => desk.roster.byAddress(address)?.name,
    script: (request) => script(desk, request),
    config: (session, file, baseUrl) => config(desk, session, file, baseUrl),
    inline: (session, file, asked) => inline(desk, session, file, asked),
    report: (session, given, peer) => report(desk, session, given, peer),
    ticketed: (session) => ticketed(desk, session),
    explain: (question) => explain(desk, question),
    needs: (sha256) => desk.needed().has(sha256),
    render: (machine) => renderPreview(desk, machine),
    tick,
    close() {
      stop();
      desk.close();
    },
  };
}
