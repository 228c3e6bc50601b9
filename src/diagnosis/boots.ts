/** Splits the events of one machine into its boots. */
import type { Millis } from '../base/duration.ts';
import type { MusterEvent } from '../events/event.ts';

/**
 * How a boot ended: `ready` · `failed` (it said so, or its time ran out) · `held` · `left` (another
 * boot began before it was ready) · `discovery` (an unknown machine got the discovery system, which
 * waits) · `underway`.
 */
export type BootOutcome = 'ready' | 'failed' | 'held' | 'left' | 'discovery' | 'underway';

export interface Boot {
  /** The id of its boot session; `kernel-ID` for a boot from the machine's own disk. */
  readonly id: string;
  readonly from: 'network' | 'own-disk';
  /** Oldest first. */
  readonly events: readonly MusterEvent[];
  readonly outcome: BootOutcome;
}

interface Growing {
  readonly id: string;
  readonly from: Boot['from'];
  readonly events: MusterEvent[];
  /** The kernel's boot id, once its agent was heard. */
  kernel?: string;
}

/**
 * The boots of a machine, oldest first. A boot begins with its session, or when its agent reports
 * another boot of the kernel without one. An event that names no session belongs to the boot in
 * which it happened. Events from before the first known boot belong to none.
 *
 * @param events all events of one machine, oldest first
 */
export function bootsOf(events: readonly MusterEvent[]): readonly Boot[] {
  const boots: Growing[] = [];
  const byId = new Map<string, Growing>();
  const begin = (id: string, from: Boot['from']): Growing => {
    const boot: Growing = { id, from, events: [] };
    boots.push(boot);
    byId.set(id, boot);
    return boot;
  };
  for (const event of events) {
    const { kind, session } = event;
    if (kind === 'boot.session' && session !== undefined) begin(session, 'network').events.push(event);
    else if (kind === 'agent.alive') aliveIn(event, boots, byId, begin).events.push(event);
    else if (session !== undefined && belongsToSession(event))
      (byId.get(session) ?? begin(session, 'network')).events.push(event);
    else boots.at(-1)?.events.push(event);
  }
  return boots.map(({ id, from, events: own }, index) => ({
    id,
    from,
    events: own,
    outcome: outcomeOf(own, index === boots.length - 1),
  }));
}

/**
 * An agent names the last session of its machine, also in a later boot from the machine's own disk.
 */
const belongsToSession = ({ kind }: MusterEvent): boolean =>
  !kind.startsWith('agent.') || kind === 'agent.certificate' || kind === 'agent.waiting';

/** The boot in which an agent reports this boot of the kernel for the first time. */
function aliveIn(
  event: MusterEvent,
  boots: readonly Growing[],
  byId: ReadonlyMap<string, Growing>,
  begin: (id: string, from: Boot['from']) => Growing,
): Growing {
  const kernel = String(event.fields?.boot ?? '');
  const same = boots.findLast((boot) => boot.kernel === kernel);
  if (same) return same;
  const session = event.session === undefined ? undefined : byId.get(event.session);
  const boot =
    session !== undefined && session.kernel === undefined ? session : begin(`kernel-${kernel}`, 'own-disk');
  boot.kernel = kernel;
  return boot;
}

function outcomeOf(events: readonly MusterEvent[], newest: boolean): BootOutcome {
  let outcome: BootOutcome = newest ? 'underway' : 'left';
  for (const { kind, fields } of events) {
    const step = kind === 'report.believed' ? fields?.step : undefined;
    const phase = kind === 'machine.phase' ? fields?.to : undefined;
    if (step === 'ready') outcome = 'ready';
    else if (step === 'failed' || phase === 'failed') outcome = 'failed';
    else if (kind === 'machine.held') outcome = 'held';
    else if (kind === 'boot.discovery') outcome = 'discovery';
  }
  const runs = events.some(({ kind }) => kind === 'agent.alive');
  return outcome === 'underway' && runs ? 'ready' : outcome;
}

/** When a boot began, and when its last event was. */
export function spanOf({ events }: Boot): { readonly from: Millis; readonly to: Millis } {
  return { from: events[0]!.at, to: events.at(-1)!.at };
}

/**
 * The boot that `wanted` names: an id, or how many boots back it is (`0` the last one, `-1` the one
 * before); undefined when there is no such boot.
 */
export function findBoot(boots: readonly Boot[], wanted = '0'): Boot | undefined {
  return /^(?:0|-[0-9]{1,4})$/.test(wanted)
    ? boots.at(Number(wanted) - 1)
    : boots.find(({ id }) => id === wanted);
}
