/**
 * What has to be done at a cluster's API for machines on their way out: drain, later delete the
 * Node. What is next stands in the founding's record, so that any life of the server goes on from
 * there.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import type { Founder } from '../etcd/founder.ts';
import type { Leaving } from '../etcd/founding.ts';
import { firstReady, type Kube } from '../kube.ts';
import { addressOf, withRole } from '../spec/resolved-cluster.ts';
import type { ResolvedClusters } from '../spec/resolved-clusters.ts';
import { deleteNode, drain } from './drain.ts';

export interface DeparturesDeps {
  readonly founder: Pick<Founder, 'records' | 'passed'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Departures {
  /** There may be something to do in this cluster. */
  go(cluster: string): void;
  /** Why a machine is still where it is. */
  waiting(cluster: string): Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** Why a machine does not go on from this step. */
interface Why {
  readonly stage: Leaving['stage'];
  readonly text: string;
}

/** Between two rounds: evictions take seconds. */
const EVERY = duration('2s');

export function createDepartures(deps: DeparturesDeps): Departures {
  const { founder, clock, log } = deps;
  const running = new Map<string, Promise<void>>();
  const why = new Map<string, Map<string, Why>>();
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
      const texts = new Map<string, Why>();
      for (const [machine, leaving] of machines) {
        const text = await advance(deps, cluster, machine, leaving).catch((error: unknown) => {
          log.debug({ err: error, cluster, machine }, 'a machine on its way out');
          return `the API does not answer: ${error instanceof Error ? error.message : String(error)}`;
        });
        if (text !== undefined) texts.set(machine, { stage: leaving.stage, text });
      }
      why.set(cluster, texts);
      if (texts.size > 0) await pause(clock, EVERY, stopping.signal);
    }
  };

  return {
    go(cluster) {
      if (running.has(cluster) || due(cluster).length === 0) return;
      const work = loop(cluster)
        .catch((error: unknown) => log.error({ err: error, cluster }, 'machines on their way out'))
        .finally(() => running.delete(cluster));
      running.set(cluster, work);
    },
    // Of what is still due: the founding's own work may have gone on since the last round.
    waiting: (cluster) =>
      Object.fromEntries(
        due(cluster).flatMap(([machine, { stage }]) => {
          const found = why.get(cluster)?.get(machine);
          return found?.stage === stage ? [[machine, found.text]] : [];
        }),
      ),
    async close() {
      stopping.abort();
      await Promise.all(running.values());
    },
  };
}

/** One round for one machine; the text says what is waited for. */
async function advance(
  { founder, clusters, kubes, clock }: DeparturesDeps,
  cluster: string,
  machine: string,
  { stage, node, drainUntil }: Leaving,
): Promise<string | undefined> {
  // the founding's own work; what follows it is ours again
  if (stage === 'etcd') return 'it is still a member of etcd';
  const drains = stage === 'drain' && node && drainUntil > 0;
  if (drains || stage === 'node') {
    const resolved = clusters.get(cluster)?.resolved;
    if (resolved === undefined) return 'the Cluster is incomplete, so that nobody knows where its API is';
    const asked = withRole(resolved, 'control-plane').filter(({ name }) => name !== machine);
    const kube = await firstReady(asked.map((one) => kubes(cluster, addressOf(one))));
    if (stage === 'node') await deleteNode(kube, machine);
    else {
      const late = clock.now() > drainUntil;
      const { left, kept } = await drain(kube, machine);
      if (left.length > 0) return stillThere(left, kept, late);
    }
  }
  await founder.passed(cluster, machine, stage);
  return undefined;
}

/** Pods are asked to go as long as the machine waits: a budget may allow it at any time. */
function stillThere(left: readonly string[], kept: readonly string[], late: boolean): string {
  const shown = (all: readonly string[]): string =>
    all.slice(0, 5).join(', ') + (all.length > 5 ? ` and ${all.length - 5} more` : '');
  const text = `pods are still there: ${shown(left)}${kept.length > 0 ? `; kept by budgets: ${shown(kept)}` : ''}`;
  return late ? `${text}; the time for it is up, \`remove-node --no-drain\` goes on without` : text;
}
