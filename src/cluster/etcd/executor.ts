/**
 * Calls etcd to carry out what the records say: members are removed, added as learners and
 * promoted. Each result is stored before the next step, so a restarted server continues from the
 * record.
 */

import { type Clock, pause } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import type { Log } from '../../base/log.ts';
import { apart } from '../../base/rehearsal.ts';
import type { ClusterState } from './cluster-state.ts';
import { hasWork, nextWork } from './next-step.ts';
import type { FoundingRecords } from './records.ts';
import type { ReplacingStep } from './replacing.ts';
import type { EtcdGateway } from './views.ts';

interface ExecutorDeps {
  readonly records: FoundingRecords;
  readonly gateway: (cluster: string) => EtcdGateway;
  readonly clock: Clock;
  readonly log: Log;
  /** The pause between two requests to etcd while a step has to wait, in milliseconds. */
  readonly interval: Millis;
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
}

/**
 * The machines of a cluster that may go down at any moment: they were ordered to reboot, or have
 * their turn to restart etcd. Their members still answer, and nothing else may be taken away.
 */
export type GoingDown = (cluster: string) => readonly string[];

/** Carries out the removals and replacements of all clusters, with one loop for each cluster. */
export class Executor {
  readonly #deps: ExecutorDeps;
  /** Absent until `begin`. */
  #goingDown: GoingDown | undefined;

  constructor(deps: ExecutorDeps) {
    this.#deps = deps;
  }

  /** Lets the loops start. */
  begin(goingDown: GoingDown): void {
    this.#goingDown = goingDown;
  }

  /**
   * Works until the cluster's record has nothing left to do. There is one loop for each cluster.
   * Does nothing before `begin`.
   */
  start(state: ClusterState): void {
    const { cluster } = state;
    const goingDown = this.#goingDown;
    if (goingDown === undefined) return;
    state.executing ??= apart(() => this.#run(state, goingDown))
      .catch((error: unknown) => this.#deps.log.error({ err: error, cluster }, 'replacing a member'))
      .finally(() => {
        state.executing = undefined;
      });
  }

  async #run(state: ClusterState, goingDown: GoingDown): Promise<void> {
    const { records, clock, log, interval, signal } = this.#deps;
    const { cluster } = state;
    while (!signal.aborted) {
      const read = await records.read(cluster);
      const { record } = read;
      if (!record || !hasWork(record)) return;
      const addresses = state.addresses(record);
      const view = await state.views.fresh(addresses);
      // From here to the call nothing waits, so that no turn can be given in between.
      const down = goingDown(cluster);
      const step = nextWork(
        record,
        view,
        addresses.filter(({ name }) => down.includes(name)),
      );
      state.waiting = undefined;
      try {
        if (step.do === 'note') await state.inTurn(() => records.write(step.record, read, step.step));
        else if (step.do === 'wait') state.waiting = step.why;
        else await this.#ask(cluster, addresses, step);
        if (step.do !== 'wait') continue;
      } catch (error) {
        // etcd answers "unhealthy cluster" for seconds after a removal, and "not in sync" until the
        // learner has caught up. Then the executor asks it again.
        state.waiting = `${step.do}: ${messageOf(error)}`;
        log.debug({ err: error, cluster }, 'replacing a member: etcd refuses for now');
      }
      await pause(clock, interval, signal);
    }
  }

  async #ask(
    cluster: string,
    addresses: ReturnType<ClusterState['addresses']>,
    step: Extract<ReplacingStep, { do: 'remove' | 'add' | 'promote' }>,
  ): Promise<void> {
    const gateway = this.#deps.gateway(cluster);
    switch (step.do) {
      case 'remove':
        return gateway.remove(addresses, step.id);
      case 'add':
        return gateway.addLearner(addresses, step.peerUrl);
      case 'promote':
        return gateway.promote(addresses, step.id);
    }
  }
}
