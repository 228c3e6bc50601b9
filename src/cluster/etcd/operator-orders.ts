/**
 * Operators' orders on a founding: each is checked against the record and against etcd as it is
 * now, stored, and then carried out.
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
import { orderRestore, type RestoreOrder } from './restoring.ts';
import { type FoundingStep, foundingStep } from './steps.ts';

interface OperatorOrdersDeps {
  readonly records: FoundingRecords;
  readonly executor: Executor;
  readonly clock: Clock;
  /** Between two looks at etcd. */
  readonly interval: Millis;
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
}

interface Order {
  /** Pure: what the order makes of what is known. */
  readonly decide: (known: Known, moment: Moment) => Ordered;
  readonly step: FoundingStep;
  /**
   * Whether the result counts even if it is the first. Where it does not, etcd is asked again, up
   * to `LOOKS` times: a change of etcd's leader must not decide. Absent: every result counts.
   */
  readonly conclusive?: (result: Ordered) => boolean;
}

/** etcd elects a leader within about three seconds; this many looks take longer. */
const LOOKS = 7;
const isAllowed = ({ ok }: Ordered): boolean => ok;
const isRefused = ({ ok }: Ordered): boolean => !ok;

/**
 * Every order resolves with the record as it is stored.
 *
 * @throws {MusterError} E_FOUNDING when the founding does not allow the order, E_CONFLICT when the
 * record was changed meanwhile.
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
      // A quorum that was seen once is a quorum.
      conclusive: isRefused,
    });
  }

  /**
   * etcd is looked at now, not as it was before the fault that the operator is here for. What the
   * order makes of the record is stored before the executor begins.
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
