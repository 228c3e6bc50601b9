/**
 * The founding records of all clusters: read from the store, written only if their revision is the
 * expected one, and kept in memory as last read or written. No other process writes them while this
 * process lives.
 */
import type { Log } from '../../base/log.ts';
import type { EventSink } from '../../events/event.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import type { FoundingRecord } from './founding.ts';
import { decodeFounding, encodeFounding } from './record.ts';
import { type FoundingStep, reasonOf } from './steps.ts';

/** A record with the revision at which it was read. */
interface RecordRead {
  /** Undefined when the cluster was never founded. */
  readonly record: FoundingRecord | undefined;
  /** The revision at which the record was written. */
  readonly expect: number | 'absent';
  /** The revision of the store when it was read. */
  readonly revision: number;
}

interface FoundingRecordsDeps {
  readonly store: Store;
  readonly log: Log;
  readonly events: EventSink;
}

/** Reads and writes the founding records, and answers from memory. */
export class FoundingRecords {
  readonly #deps: FoundingRecordsDeps;
  readonly #latest = new Map<string, FoundingRecord>();

  constructor(deps: FoundingRecordsDeps) {
    this.#deps = deps;
  }

  /** @throws {MusterError} E_FOUNDING when the stored record cannot be understood. */
  async read(cluster: string): Promise<RecordRead> {
    const key = KEYS.founding.key(cluster);
    const { records, revision } = await this.#deps.store.list(key);
    const found = records.find((one) => one.key === key);
    const record = found && decodeFounding(key, found.value);
    if (record) this.#latest.set(cluster, record);
    return { revision, expect: found?.revision ?? 'absent', record };
  }

  /**
   * Writes the record if nobody changed it since it was read, and records an event with the step.
   * Resolves with false, and changes nothing, when it was changed. When it resolves with true the
   * record is durable.
   */
  async write(record: FoundingRecord, { expect }: RecordRead, step: FoundingStep): Promise<boolean> {
    const { store, log, events } = this.#deps;
    const { cluster, id } = record;
    const key = KEYS.founding.key(cluster);
    const result = await store.commit([{ key, put: encodeFounding(record), expect }]);
    if (!result.ok) return false;
    this.#latest.set(cluster, record);
    const reason = reasonOf(step);
    log.info({ cluster, founding: id, step: step.code }, `founding: ${reason.text}`);
    events.record({
      kind: 'cluster.founding',
      subject: `Cluster/${cluster}`,
      reason,
      fields: { founding: id, ...step.fields },
    });
    return true;
  }

  /**
   * Reads the records of all clusters; used when the server starts.
   *
   * @throws {MusterError} E_FOUNDING when a stored record cannot be understood.
   */
  async readAll(): Promise<readonly FoundingRecord[]> {
    const { records } = await this.#deps.store.list(KEYS.founding.prefix());
    return records.map(({ key, value }) => {
      const record = decodeFounding(key, value);
      this.#latest.set(record.cluster, record);
      return record;
    });
  }

  /** The cluster's record in memory. */
  latest(cluster: string): FoundingRecord | undefined {
    return this.#latest.get(cluster);
  }

  /** All records in memory. */
  all(): readonly FoundingRecord[] {
    return [...this.#latest.values()];
  }
}
