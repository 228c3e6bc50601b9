/** Runs a task for every founded cluster at an interval, one at a time for each cluster. */
import { type Clock, pause } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import type { Founder } from '../etcd/founder.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';

export interface RoundsDeps {
  readonly founder: Pick<Founder, 'records'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The input of one run. `state` is kept between runs while the cluster is founded. */
export interface Look<State> {
  readonly resolved: ResolvedCluster;
  /** The id of etcd's founding. */
  readonly founding: string;
  readonly state: State;
  /** Aborts when the rounds end. */
  readonly signal: AbortSignal;
}

export interface Rounds {
  /** Starts no further run; resolves when the runs under way are over. */
  close(): Promise<void>;
}

/**
 * Runs `take` for every founded cluster from now on, until it is closed. A run that rejects is
 * logged with `what`, and the next round repeats it.
 */
export function startRounds<State>(
  { founder, clusters, clock, log }: RoundsDeps,
  { every, what, begin }: { readonly every: Millis; readonly what: string; readonly begin: () => State },
  take: (look: Look<State>) => Promise<void>,
): Rounds {
  const stopping = new AbortController();
  const { signal } = stopping;
  const states = new Map<string, State>();
  const running = new Map<string, Promise<void>>();

  const look = (cluster: string, founding: string): void => {
    const resolved = clusters.get(cluster)?.resolved;
    // While the document is incomplete, the cluster's machines are not known.
    if (resolved === undefined || running.has(cluster)) return;
    const state = states.get(cluster) ?? begin();
    states.set(cluster, state);
    const round = take({ resolved, founding, state, signal })
      .catch((error: unknown) => log.debug({ err: error, cluster }, what))
      .finally(() => running.delete(cluster));
    running.set(cluster, round);
  };

  const loop = async (): Promise<void> => {
    while (!signal.aborted) {
      const founded = founder.records().filter((record) => record.founded && !record.reset);
      for (const { cluster, id } of founded) look(cluster, id);
      for (const cluster of states.keys())
        if (!founded.some((one) => one.cluster === cluster)) states.delete(cluster);
      await pause(clock, every, signal);
    }
  };
  const looping = loop().catch((error: unknown) => log.error({ err: error }, what));

  return {
    async close() {
      stopping.abort();
      await looping;
      await Promise.all(running.values());
    },
  };
}
