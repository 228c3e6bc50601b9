/**
 * Measures the health of clusters by what their agents report with each poll. Nothing is asked of
 * etcd or of API servers for it.
 */
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Clock } from '../../base/clock.ts';
import { duration, millis } from '../../base/duration.ts';
import type { MetricName, Metrics } from '../../base/metrics.ts';
import type { Roster } from '../../machines/roster.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { ProgramsSeen } from './judge-programs.ts';

const MEASURE_EVERY = millis(15_000);
/** After the start of the server, agents have this long to poll before they count as silent. */
const FIRST_POLLS = duration('1m');

type Health = Pick<AgentFacts, 'etcd' | 'apiserver' | 'evidence' | 'runs'>;

/** What is counted of each cluster: the metric, its machines, and the states that one can have. */
const COUNTED: readonly {
  readonly metric: MetricName;
  readonly label: string;
  readonly role?: 'etcd' | 'control-plane';
  readonly states: readonly string[];
  /** The state of a machine that is heard. */
  readonly of: (facts: Health, held: boolean) => string;
}[] = [
  {
    metric: 'muster_cluster_machines',
    label: 'state',
    states: ['running', 'held', 'silent'],
    of: (_facts, held) => (held ? 'held' : 'running'),
  },
  {
    metric: 'muster_cluster_etcd_members',
    label: 'health',
    role: 'etcd',
    states: ['serving', 'alive', 'down', 'silent'],
    of: ({ etcd }) => etcd.health,
  },
  {
    metric: 'muster_cluster_apiservers',
    label: 'health',
    role: 'control-plane',
    states: ['ready', 'alive', 'down', 'silent'],
    of: ({ apiserver }) => apiserver?.health ?? 'down',
  },
];

export interface HealthMetrics {
  /** Notes what a machine's agent reported. */
  heard(machine: string, facts: Health): void;
  /** What a machine that is heard reported last of its programs. */
  programs(machine: string): ProgramsSeen | undefined;
  close(): void;
}

/** Starts to measure. Clusters that are gone keep their series, with zeros. */
export function measureHealth(deps: {
  /** The clusters that are founded now. */
  readonly clusters: () => readonly ResolvedCluster[];
  readonly roster: Pick<Roster, 'get' | 'heartbeats'>;
  readonly metrics: Pick<Metrics, 'set'>;
  readonly clock: Clock;
}): HealthMetrics {
  const { clusters, roster, metrics, clock } = deps;
  const reported = new Map<string, Health>();
  let shown: ReadonlySet<string> = new Set();
  let cancel: () => void;

  const stateOf = (machine: string, of: (facts: Health, held: boolean) => string): string => {
    const facts = reported.get(machine);
    if (facts === undefined || roster.heartbeats.alive(machine) === undefined) return 'silent';
    return of(facts, roster.get(machine)?.status.agent?.hold !== undefined);
  };
  const measure = (cluster: string, machines: ResolvedCluster['machines']): void => {
    for (const { metric, label, role, states, of } of COUNTED) {
      const found = machines
        .filter(({ roles }) => role === undefined || roles.includes(role))
        .map(({ name }) => stateOf(name, of));
      for (const state of states)
        metrics.set(metric, { cluster, [label]: state }, found.filter((one) => one === state).length);
    }
  };
  const round = (): void => {
    const now = clusters();
    const wanted = new Set(now.flatMap(({ machines }) => machines.map(({ name }) => name)));
    for (const machine of reported.keys()) if (!wanted.has(machine)) reported.delete(machine);
    for (const { name, machines } of now) measure(name, machines);
    const names = new Set(now.map(({ name }) => name));
    for (const name of shown) if (!names.has(name)) measure(name, []);
    shown = names;
    cancel = clock.after(MEASURE_EVERY, round);
  };
  cancel = clock.after(FIRST_POLLS, round);
  return {
    heard: (machine, { etcd, apiserver, evidence, runs }) =>
      void reported.set(machine, {
        etcd,
        ...(apiserver && { apiserver }),
        ...(evidence && { evidence }),
        ...(runs && { runs }),
      }),
    programs(machine) {
      const known = roster.heartbeats.alive(machine) && reported.get(machine);
      return known && { programs: known.evidence?.programs, runs: known.runs };
    },
    close: () => cancel(),
  };
}
