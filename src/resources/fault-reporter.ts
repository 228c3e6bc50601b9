/**
 * Reports faults of documents in the log, as events and as a metric. An unchanged fault is reported
 * once.
 */
import type { Fault } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventSink } from '../events/event.ts';

/** The faults of one file are cut after this many characters in the log, and in their event. */
const LOG_CHARACTERS = 2000;
const EVENT_CHARACTERS = 500;

export interface FaultReporterDeps {
  readonly log: Log;
  readonly events: EventSink;
  readonly metrics: Pick<Metrics, 'set'>;
}

/** Faults by the file that contains them, or by the document (`KIND/NAME`) of the API. */
export type FaultsBySubject = ReadonlyMap<string, readonly Fault[]>;

export class FaultReporter {
  readonly #deps: FaultReporterDeps;
  /** Text of the faults that were reported last, by subject. */
  #reported: ReadonlyMap<string, string> = new Map();

  constructor(deps: FaultReporterDeps) {
    this.#deps = deps;
  }

  /** Whether the last report had faults. */
  get reported(): boolean {
    return this.#reported.size > 0;
  }

  /**
   * Writes one log line and one event for each subject whose faults differ from the last report.
   * `faults`: all current faults.
   */
  report(faults: FaultsBySubject): void {
    const { log, events, metrics } = this.#deps;
    const now = new Map<string, string>();
    for (const [subject, found] of faults) {
      const text = found
        .map(({ at, message }) => `${at?.line ?? 1}:${at?.column ?? 1} ${message}`)
        .join('; ');
      now.set(subject, text);
      if (this.#reported.get(subject) === text) continue;
      const { code } = found[0]!;
      log.error({ file: subject, faults: found.length, code }, text.slice(0, LOG_CHARACTERS));
      events.record({
        kind: 'document.invalid',
        subject,
        reason: { code, text: text.slice(0, EVENT_CHARACTERS) },
        fields: { faults: found.length },
      });
    }
    this.#reported = now;
    metrics.set('muster_document_faults', {}, now.size);
  }
}
