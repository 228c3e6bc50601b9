/** Tells that this host took over, and measures the hosts that share its store. */
import { hostState } from '../api/hosts.ts';
import { systemClock } from '../base/clock.ts';
import { duration } from '../base/duration.ts';
import type { TakeOver } from '../store/etcd/acting.socket.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

const CEASED: Readonly<Record<TakeOver['how'], string>> = {
  handed_over: 'an operator let it hand over',
  stopped: 'its server was stopped',
  lease_ended: 'its lease ended, because it was dead, paused or cut off from etcd',
};
const MEASURE_EVERY = duration('10s');

/** Records a take-over once this host answers, and keeps the metrics of the hosts. */
export function tellTakeOver(
  { outside: { hosts }, log, metrics, clock, signal }: Common,
  { events }: Pick<State, 'events'>,
): void {
  const after = hosts.takeOver();
  const ms = after === undefined ? 0 : Math.round(systemClock.monotonic() - after.goneAt);
  metrics.set('muster_take_over_gap', {}, ms / 1000);
  if (after !== undefined && after.from !== hosts.sharedAs) {
    const text = `${hosts.sharedAs} acts after ${after.from}: ${CEASED[after.how]}. It answers ${ms} ms after the other one's turn ended.`;
    log.info({ from: after.from, how: after.how, ms }, 'this host took over');
    events.record({
      kind: 'host.take-over',
      subject: 'muster',
      reason: { code: after.how, text },
      fields: { from: after.from, to: hosts.sharedAs!, ms: String(ms) },
    });
  }
  if (!hosts.shared) return;
  const measure = (): void => {
    if (signal.aborted) return;
    const states = hosts.list().map(hostState);
    for (const state of ['acting', 'standby', 'silent'] as const)
      metrics.set('muster_boot_hosts', { state }, states.filter((one) => one === state).length);
    clock.after(MEASURE_EVERY, measure);
  };
  measure();
}
