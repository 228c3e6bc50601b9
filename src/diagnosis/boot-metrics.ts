/** Counts how boots end and how long they take, from events. */
import { AgedMap } from '../base/aged.ts';
import type { Millis } from '../base/duration.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventLog, MusterEvent } from '../events/event.ts';

/** So many boots are watched at a time; the one that began first is forgotten first. */
const MAX_BOOTS = 20_000;

type Outcome = 'ready' | 'failed' | 'silent' | 'held';

/** How a boot ended with this event; undefined when it did not. */
export function endedBy({ kind, fields, reason }: MusterEvent): Outcome | undefined {
  if (kind === 'machine.held') return 'held';
  if (kind === 'machine.phase') return reason?.code === 'timed_out' ? 'silent' : undefined;
  if (kind !== 'report.believed') return undefined;
  return fields?.step === 'ready' || fields?.step === 'failed' ? fields.step : undefined;
}

/**
 * Counts the boots that end from now on: `muster_boots_total` and `muster_boot_seconds`.
 *
 * @returns a function that ends it
 */
export function countBoots(events: Pick<EventLog, 'subscribe'>, metrics: Metrics): () => void {
  const began = new AgedMap<string, Millis>();
  return events.subscribe((event) => {
    const { kind, session, at } = event;
    if (kind === 'boot.session' && session !== undefined) {
      began.set(session, at);
      if (began.size > MAX_BOOTS) began.delete(began.oldest()!.key);
      return;
    }
    const outcome = endedBy(event);
    if (outcome === undefined) return;
    metrics.add('muster_boots_total', { outcome });
    const since = session === undefined ? undefined : began.get(session);
    if (since === undefined || session === undefined) return;
    began.delete(session);
    if (outcome === 'ready') metrics.observe('muster_boot_seconds', Math.max(0, at - since) / 1000);
  });
}
