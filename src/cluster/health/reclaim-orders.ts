/**
 * Operators' orders to reclaim the space of etcd. An order that has not ended is in the store, so
 * that a server that starts goes on with it: every step can be repeated.
 */

import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/error-text.ts';
import { apart } from '../../base/rehearsal.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import { type ReclaimStep, reclaim, reclaimStep } from '../etcd/reclaim.ts';
import type { EtcdMaintenance } from '../etcd/views.ts';

export interface ReclaimOrder {
  readonly steps: readonly ReclaimStep[];
  /** Absent while it is being carried out. */
  readonly ended?: 'reclaimed' | 'failed';
}

interface ReclaimOrdersDeps {
  readonly store: Pick<Store, 'list' | 'commit'>;
  readonly clock: Clock;
  readonly gateway: (cluster: string) => EtcdMaintenance;
  readonly others: (cluster: string) => Pick<Parameters<typeof reclaim>[0], 'goingDown' | 'mute'>;
  /** Records a step as an event. */
  readonly record: (cluster: string, step: ReclaimStep) => void;
  /** Called when an order has ended. */
  readonly ended: (cluster: string, members: readonly MemberAddress[]) => Promise<unknown>;
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
}

/** Where the order is carried out. */
interface Place {
  readonly cluster: string;
  readonly members: readonly MemberAddress[];
  readonly quota: number;
}

export type ReclaimOrders = ReturnType<typeof createReclaimOrders>;

/** Makes the orders; those that a server before this one began wait until `resume`. */
export function createReclaimOrders(deps: ReclaimOrdersDeps) {
  const { store, clock, gateway, others, record, signal } = deps;
  const orders = new Map<string, ReclaimOrder>();
  /** Clusters whose order was under way when the server before this one ended. */
  const left = new Set<string>();
  let working: Promise<void> = Promise.resolve();

  const carryOut = async ({ cluster, members, quota }: Place): Promise<void> => {
    const note = (step: ReclaimStep, ended?: ReclaimOrder['ended']): void => {
      const steps = [...(orders.get(cluster)?.steps ?? []), step];
      orders.set(cluster, { steps, ...(ended && { ended }) });
      record(cluster, step);
    };
    await reclaim({
      ...{ cluster, members, quota, clock, signal, ...others(cluster) },
      etcd: gateway(cluster),
      note: (step) => note(step, step.code === 'reclaimed' ? 'reclaimed' : undefined),
    }).catch((error: unknown) => {
      // The next server goes on with it.
      if (signal.aborted) return;
      note(reclaimStep('failed', { why: messageOf(error) }), 'failed');
    });
    if (orders.get(cluster)?.ended === undefined) return;
    await store.commit([{ key: KEYS.etcdSpace.key(cluster), delete: true }]);
    await deps.ended(cluster, members);
  };
  const work = (place: Place): void => {
    orders.set(place.cluster, { steps: [] });
    const done = apart(() => carryOut(place));
    working = Promise.all([working, done]).then(() => undefined);
  };

  return {
    of: (cluster: string) => orders.get(cluster),
    /** Whether one is being carried out, or is to be gone on with. */
    isUnderWay: (cluster: string) =>
      left.has(cluster) || (orders.has(cluster) && orders.get(cluster)?.ended === undefined),
    /** Stores the order, and begins. */
    async begin(place: Place): Promise<void> {
      await store.commit([{ key: KEYS.etcdSpace.key(place.cluster), put: JSON.stringify({ v: 1 }) }]);
      work(place);
    },
    /** Reads the orders that were under way. */
    async resume(): Promise<void> {
      for (const { key } of (await store.list(KEYS.etcdSpace.prefix())).records) {
        const [cluster] = KEYS.etcdSpace.parse(key) ?? [];
        if (cluster !== undefined) left.add(cluster);
      }
    },
    /** Goes on with an order that was read. */
    goOn(place: Place): void {
      if (left.delete(place.cluster)) work(place);
    },
    close: () => working,
  };
}
