/**
 * Drains the nodes of leaving machines, and later deletes their Node objects. The next step of each
 * is in the founding's record, so a restarted server continues from there.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { errorTexts } from '../../base/error-text.ts';
import { firstFew } from '../../base/first-few.ts';
import type { Log } from '../../base/log.ts';
import { apart } from '../../base/rehearsal.ts';
import type { Founder } from '../etcd/founder.ts';
import type { Leaving } from '../etcd/founding.ts';
import { firstReady, type Kube } from '../kube.ts';
import { addressOf, withRole } from '../model/resolved-cluster.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import { deleteNode, drain } from './drain.ts';

interface DeparturesDeps {
  readonly founder: Pick<Founder, 'records' | 'passed'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Departures {
  /** Starts the work for this cluster, if there is work and it is not being done already. */
  go(cluster: string): void;
  /** Machine → what its departure waits for. */
  waiting(cluster: string): Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** What a machine waits for in one stage of its departure. */
interface Waiting {
  readonly stage: Leaving['stage'];
  readonly text: string;
}

/** The pause between two rounds; evictions take seconds. */
const INTERVAL = duration('2s');

/** Makes the part that drains leaving nodes and deletes them; it works on a cluster after `go`. */
export function createDepartures(deps: DeparturesDeps): Departures {
  const { founder, clock, log } = deps;
  const textOf = errorTexts(log);
  const running = new Map<string, Promise<void>>();
  const waiting = new Map<string, Map<string, Waiting>>();
  const stopping = new AbortController();

  const due = (cluster: string): readonly (readonly [string, Leaving])[] => {
    const record = founder.records().find((one) => one.cluster === cluster);
    if (!record || record.reset) return [];
    return Object.entries(record.leaving ?? {}).filter(([, { stage }]) => stage !== 'down');
  };

  const loop = async (cluster: string): Promise<void> => {
    while (!stopping.signal.aborted) {
      const machines = due(cluster);
      if (machines.length === 0) return;
      const texts = new Map<string, Waiting>();
      for (const [machine, leaving] of machines) {
        const text = await advance(deps, cluster, machine, leaving).catch((error: unknown) => {
          log.debug({ err: error, cluster, machine }, 'a leaving machine cannot be drained yet');
          return `the API does not answer: ${textOf(error, { cluster, machine })}`;
        });
        if (text !== undefined) texts.set(machine, { stage: leaving.stage, text });
      }
      waiting.set(cluster, texts);
      if (texts.size > 0) await pause(clock, INTERVAL, stopping.signal);
    }
  };

  return {
    go(cluster) {
      if (running.has(cluster) || due(cluster).length === 0) return;
      const work = apart(() => loop(cluster))
        .catch((error: unknown) => log.error({ err: error, cluster }, 'draining leaving machines'))
        .finally(() => running.delete(cluster));
      running.set(cluster, work);
    },
    // Only for stages that are still pending: the founder may have finished one since the last
    // round.
    waiting: (cluster) =>
      Object.fromEntries(
        due(cluster).flatMap(([machine, { stage }]) => {
          const found = waiting.get(cluster)?.get(machine);
          return found?.stage === stage ? [[machine, found.text]] : [];
        }),
      ),
    async close() {
      stopping.abort();
      await Promise.all(running.values());
    },
  };
}

/**
 * One round for one machine. Resolves with what the machine waits for, or with undefined when the
 * stage is done.
 */
async function advance(
  { founder, clusters, kubes, clock }: DeparturesDeps,
  cluster: string,
  machine: string,
  { stage, node, drainUntil }: Leaving,
): Promise<string | undefined> {
  // The executor in src/cluster/etcd removes the member; the stage after that is handled here
  // again.
  if (stage === 'etcd') return 'it is still a member of etcd';
  const drains = stage === 'drain' && node && drainUntil > 0;
  if (drains || stage === 'node') {
    const resolved = clusters.get(cluster)?.resolved;
    if (resolved === undefined) return 'the Cluster is incomplete, so the address of its API is unknown';
    const asked = withRole(resolved, 'control-plane').filter(({ name }) => name !== machine);
    const kube = await firstReady(asked.map((one) => kubes(cluster, addressOf(one))));
    if (stage === 'node') await deleteNode(kube, machine);
    else {
      const late = clock.doubt() === undefined && clock.now() > drainUntil;
      const { left, kept } = await drain(kube, machine);
      if (left.length > 0) return stillThere(left, kept, late);
    }
  }
  await founder.passed(cluster, machine, stage);
  return undefined;
}

/**
 * A text that says what the drain waits for. Evictions are requested until all pods are gone, even
 * after the time is over, because a budget may allow them at any moment.
 */
function stillThere(left: readonly string[], kept: readonly string[], late: boolean): string {
  const text = `pods are still there: ${firstFew(left)}${kept.length > 0 ? `; kept by budgets: ${firstFew(kept)}` : ''}`;
  return late ? `${text}; the drain took too long: \`remove-node --no-drain\` skips it` : text;
}
