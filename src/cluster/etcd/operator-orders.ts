/**
 * Operators' orders on a founding: each is checked against the record and against etcd's present
 * state, stored, and then carried out.
 */
import { type Clock, pause } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { ClusterState } from './cluster-state.ts';
import { openByOperator } from './evidence.ts';
import type { Executor } from './executor.ts';
import type { FoundingRecord, Known } from './founding.ts';
import { type Departure, orderAdopt, orderCallOff, orderLeaving, orderReset } from './leaving.ts';
import { type Moment, newFoundingId, type Ordered } from './order.ts';
import type { FoundingRecords } from './records.ts';
import { orderRestore, orderSnapshot, type RestoreOrder, type SnapshotOrder } from './restoring.ts';
import { type FoundingStep, foundingStep } from './steps.ts';

interface OperatorOrdersDeps {
  readonly records: FoundingRecords;
  readonly executor: Executor;
  readonly clock: Clock;
  /** The pause between two requests to etcd, in milliseconds. */
  readonly interval: Millis;
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
}

interface Order {
  /** Computes the new record, or a refusal, from what is known. Pure. */
  readonly decide: (known: Known, moment: Moment) => Ordered;
  readonly step: FoundingStep;
  /**
   * Whether a result is final. If it is not, etcd is asked again, up to `LOOKS` times, so that an
   * election of etcd's leader does not decide the order. When absent, every result is final.
   */
  readonly conclusive?: (result: Ordered) => boolean;
}

/**
 * How often etcd is asked. It elects a leader within about three seconds, and this many requests
 * take longer.
 */
const LOOKS = 7;
const isAllowed = ({ ok }: Ordered): boolean => ok;
const isRefused = ({ ok }: Ordered): boolean => !ok;

/**
 * Carries out orders. Every order resolves with the record that was stored.
 *
 * @throws {MusterError} E_FOUNDING when the founding does not allow the order, E_CONFLICT when the
 *   record was changed meanwhile.
 */
export class OperatorOrders {
  readonly #deps: OperatorOrdersDeps;

  constructor(deps: OperatorOrdersDeps) {
    this.#deps = deps;
  }

  async open(state: ClusterState): Promise<FoundingRecord> {
    const step = foundingStep('opened_by_operator');
    const record = await this.#carryOut(state, { decide: openByOperator, step });
    state.opened = true;
    state.rolledBack = undefined;
    return record;
  }

  leave(state: ClusterState, departures: readonly Departure[]): Promise<FoundingRecord> {
    const machines = departures.map(({ machine }) => machine).join(', ');
    return this.#carryOut(state, {
      decide: (known, { now }) => orderLeaving(known, departures, now),
      step: foundingStep('leaving_ordered', { machines }),
      conclusive: isAllowed,
    });
  }

  reset(state: ClusterState): Promise<FoundingRecord> {
    return this.#carryOut(state, {
      decide: (known, { now }) => orderReset(known, now),
      step: foundingStep('reset'),
    });
  }

  callOff(state: ClusterState, member: string): Promise<FoundingRecord> {
    return this.#carryOut(state, {
      decide: (known) => orderCallOff(known, member),
      step: foundingStep('called_off', { member }),
    });
  }

  adopt(state: ClusterState, member: string): Promise<FoundingRecord> {
    return this.#carryOut(state, {
      decide: (known) => orderAdopt(known, member),
      step: foundingStep('adopted', { member }),
    });
  }

  restore(state: ClusterState, order: RestoreOrder): Promise<FoundingRecord> {
    const { member, without } = order;
    return this.#carryOut(state, {
      decide: (known, moment) => orderRestore(known, order, moment),
      step: foundingStep('restore_ordered', { member, without: without.join(', ') || 'none' }),
      // A quorum that was seen once is enough.
      conclusive: isRefused,
    });
  }

  restoreSnapshot(state: ClusterState, order: SnapshotOrder): Promise<FoundingRecord> {
    const { snapshot, member = 'the first that can', without } = order;
    const abandoned = without.join(', ') || 'none';
    return this.#carryOut(state, {
      decide: (known, moment) => orderSnapshot(known, order, moment),
      step: foundingStep('snapshot_ordered', { snapshot: snapshot.id, member, without: abandoned }),
      conclusive: isRefused,
    });
  }

  /**
   * Carries out one order. etcd is asked now, because an earlier answer may predate the fault that
   * the operator wants to repair. The order's record is stored before the executor begins.
   */
  #carryOut(state: ClusterState, { decide, step, conclusive = () => true }: Order): Promise<FoundingRecord> {
    const { records, executor, clock, interval, signal } = this.#deps;
    return state.inTurn(async () => {
      for (let looks = 1; ; looks++) {
        const read = await records.read(state.cluster);
        const { record } = read;
        const view = record?.founded ? await state.views.fresh(state.addresses(record)) : undefined;
        const known = state.known(clock.monotonic(), record, view);
        const result = decide(known, { now: clock.now(), id: newFoundingId() });
        if (!conclusive(result) && looks < LOOKS && !signal.aborted) {
          await pause(clock, interval, signal);
          continue;
        }
        if (!result.ok) throw new MusterError('E_FOUNDING', `${state.cluster}: ${result.text}`);
        if (!(await records.write(result.record, read, step)))
          throw new MusterError('E_CONFLICT', `the founding of ${state.cluster} was changed meanwhile`);
        executor.start(state);
        return result.record;
      }
    });
  }
}
