/**
 * Brings the agent of this version of Muster to running machines (decide.ts): keeps one record for
 * each cluster, `agent-build/CLUSTER`, and takes the orders of operators. Which agents run is known
 * from the machines' status, so a restarted server continues.
 */
import { z } from 'zod';
import { type AgentBundle, shortBuild } from '../../../agent/scripts/bundle.ts';
import type { AgentBuilds } from '../../../agent/wire/protocol.ts';
import { MusterError } from '../../../base/errors.ts';
import { parsed } from '../../../base/foreign-json.ts';
import type { Log } from '../../../base/log.ts';
import type { EventSink } from '../../../events/event.ts';
import type { Roster } from '../../../machines/roster.ts';
import { KEYS } from '../../../store/keys.ts';
import type { Store } from '../../../store/store.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import { type AgentTurn, agentTurn, type MachineAgent, type Wanted } from './decide.ts';

const schema = z.strictObject({
  v: z.literal(1),
  digest: z.string(),
  attempt: z.int().min(1),
  first: z.string().optional(),
  /** The operator who paused it. */
  pausedBy: z.string().optional(),
});
type BuildRecord = z.output<typeof schema>;

/**
 * Reads a stored record; undefined when it is not of a version known here: the upgrade of agents
 * then begins again with one control plane.
 */
export function decodeBuildRecord(text: string): BuildRecord | undefined {
  return schema.safeParse(parsed(text)).data;
}

/** What a machine runs and what is due for it. */
export interface AgentOfMachine {
  readonly machine: string;
  /** The first characters of the SHA-256 of its agent's bundle; absent: not known. */
  readonly runs?: string;
  readonly state: AgentTurn['state'];
  readonly text: string;
}

export interface AgentsOfCluster {
  readonly cluster: string;
  /** The first characters of the SHA-256 of the bundle that machines shall run. */
  readonly wanted: string;
  readonly attempt: number;
  readonly first?: string;
  readonly pausedBy?: string;
  readonly machines: readonly AgentOfMachine[];
}

export interface ClusterAgents extends AgentBuilds {
  /** @throws {MusterError} E_NOT_FOUND for an unknown cluster; the same holds for the orders */
  show(cluster: string): AgentsOfCluster;
  /** What a machine runs and what is due for it; undefined when its agent was never heard. */
  of(machine: string): (AgentOfMachine & Pick<AgentsOfCluster, 'wanted'>) | undefined;
  pause(cluster: string, by: string): Promise<AgentsOfCluster>;
  resume(cluster: string, by: string): Promise<AgentsOfCluster>;
  /** Begins another attempt: machines that did not keep the agent get it again, one first. */
  retry(cluster: string, by: string): Promise<AgentsOfCluster>;
}

interface BuildsDeps {
  readonly store: Store;
  readonly events: EventSink;
  readonly log: Log;
  readonly roster: Pick<Roster, 'get'>;
  readonly clusters: Pick<ResolvedClusters, 'get' | 'clusterOf'>;
  readonly bundle: AgentBundle;
}

interface Kept {
  readonly record: BuildRecord;
  readonly revision: number | 'absent';
}

/** Reads the records of all clusters. */
export async function openBuilds(deps: BuildsDeps): Promise<ClusterAgents> {
  const kept = new Map<string, Kept>();
  const { records } = await deps.store.list(KEYS.agentBuild.prefix());
  for (const { key, value, revision } of records) {
    const record = decodeBuildRecord(value);
    const [cluster] = KEYS.agentBuild.parse(key) ?? [];
    if (cluster !== undefined && record) kept.set(cluster, { record, revision });
    else deps.log.warn({ key }, 'this record of an upgrade of agents cannot be read and is ignored');
    if (cluster !== undefined && !record) kept.set(cluster, { record: NONE, revision });
  }
  return new Builds(deps, kept);
}

const NONE: BuildRecord = { v: 1, digest: '', attempt: 1 };

class Builds implements ClusterAgents {
  readonly #deps: BuildsDeps;
  readonly #kept: Map<string, Kept>;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: BuildsDeps, kept: Map<string, Kept>) {
    this.#deps = deps;
    this.#kept = kept;
  }

  async offer(machine: string): Promise<string | undefined> {
    const cluster = this.#deps.clusters.clusterOf(machine)?.resolved?.name;
    const turn = this.#turn(cluster, machine);
    if (turn.state !== 'taking') return undefined;
    const { digest, attempt } = this.#wanted(cluster);
    const offered = `${digest}.${attempt}`;
    if (!turn.chosen || cluster === undefined) return offered;
    // Another poll may have chosen its machine meanwhile.
    return this.#inTurn(async () => {
      const again = this.#turn(cluster, machine);
      if (again.state !== 'taking') return undefined;
      if (again.chosen) {
        await this.#write(cluster, { ...this.#record(cluster), first: machine });
        this.#tell(cluster, 'first', `${machine} takes the agent ${shortBuild(digest)} first.`);
      }
      return offered;
    });
  }

  bundle(digest: string): Uint8Array | undefined {
    const { bundle } = this.#deps;
    return digest === bundle.digest ? bundle.tar : undefined;
  }

  show(cluster: string): AgentsOfCluster {
    const resolution = this.#deps.clusters.get(cluster);
    if (resolution === undefined) throw noCluster(cluster);
    const { machines = [] } = resolution.resolved ?? {};
    const { digest, attempt, first, pausedBy } = this.#record(cluster);
    return {
      cluster,
      wanted: shortBuild(digest),
      attempt,
      ...(first !== undefined && { first }),
      ...(pausedBy !== undefined && { pausedBy }),
      machines: machines.map(({ name }) => this.#view(cluster, name)),
    };
  }

  of(machine: string): ReturnType<ClusterAgents['of']> {
    if (this.#deps.roster.get(machine)?.status.agent === undefined) return undefined;
    const cluster = this.#deps.clusters.clusterOf(machine)?.resolved?.name;
    return { ...this.#view(cluster, machine), wanted: shortBuild(this.#deps.bundle.digest) };
  }

  pause(cluster: string, by: string): Promise<AgentsOfCluster> {
    const text = `${by} paused the upgrade of agents.`;
    return this.#order(cluster, { code: 'paused', text }, (record) => ({ ...record, pausedBy: by }));
  }

  resume(cluster: string, by: string): Promise<AgentsOfCluster> {
    const text = `${by} resumed the upgrade of agents.`;
    return this.#order(cluster, { code: 'resumed', text }, ({ pausedBy: _, ...record }) => record);
  }

  retry(cluster: string, by: string): Promise<AgentsOfCluster> {
    const text = `${by} ordered another attempt to upgrade agents.`;
    return this.#order(cluster, { code: 'retry', text }, ({ first: _, ...record }) => ({
      ...record,
      attempt: record.attempt + 1,
    }));
  }

  /** The record for the bundle of this server; that of another bundle counts only as paused. */
  #record(cluster: string): BuildRecord {
    const { digest } = this.#deps.bundle;
    const { first, ...record } = this.#kept.get(cluster)?.record ?? NONE;
    return { ...record, digest, ...(record.digest === digest && first !== undefined && { first }) };
  }

  #wanted(cluster: string | undefined): Wanted {
    if (cluster === undefined) return { digest: this.#deps.bundle.digest, attempt: 1, paused: false };
    const { pausedBy, ...record } = this.#record(cluster);
    return { ...record, paused: pausedBy !== undefined };
  }

  #turn(cluster: string | undefined, machine: string): AgentTurn {
    if (cluster === undefined && this.#deps.clusters.clusterOf(machine) !== undefined) return INCOMPLETE;
    const machines =
      cluster === undefined ? [] : (this.#deps.clusters.get(cluster)?.resolved?.machines ?? []);
    const agents = machines.map(({ name, roles }) => this.#agent(name, roles.some(isCarrying)));
    const others = agents.filter(({ name }) => name !== machine);
    // A machine outside of clusters carries nothing, and waits for nobody.
    const asking = agents.find(({ name }) => name === machine) ?? this.#agent(machine, true);
    return agentTurn(asking, others, this.#wanted(cluster));
  }

  #agent(name: string, carries: boolean): MachineAgent {
    const { build, refused } = this.#deps.roster.get(name)?.status.agent ?? {};
    return { name, carries, ...(build !== undefined && { build }), ...(refused && { refused }) };
  }

  #view(cluster: string | undefined, machine: string): AgentOfMachine {
    const { build } = this.#agent(machine, false);
    const { state, text } = this.#turn(cluster, machine);
    return { machine, state, text, ...(build !== undefined && { runs: shortBuild(build) }) };
  }

  async #order(
    cluster: string,
    reason: { readonly code: string; readonly text: string },
    change: (record: BuildRecord) => BuildRecord,
  ): Promise<AgentsOfCluster> {
    this.show(cluster);
    await this.#inTurn(() => this.#write(cluster, change(this.#record(cluster))));
    this.#tell(cluster, reason.code, reason.text);
    return this.show(cluster);
  }

  #tell(cluster: string, code: string, text: string): void {
    this.#deps.events.record({
      kind: 'cluster.agents',
      subject: `Cluster/${cluster}`,
      reason: { code, text },
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work, work);
    this.#last = next;
    return next;
  }

  async #write(cluster: string, record: BuildRecord): Promise<void> {
    const key = KEYS.agentBuild.key(cluster);
    const expect = this.#kept.get(cluster)?.revision ?? 'absent';
    const result = await this.#deps.store.commit([{ key, put: JSON.stringify(record), expect }]);
    if (!result.ok) throw new MusterError('E_CONFLICT', `${key} was changed meanwhile`);
    this.#kept.set(cluster, { record, revision: result.revision });
  }
}

/** Its cluster's pause, its first machine and failures count as soon as the others are known. */
const INCOMPLETE: AgentTurn = {
  state: 'waits',
  text: 'The documents of its cluster are incomplete, so it is not known which machines come first.',
};

const isCarrying = (role: string): boolean => role === 'etcd' || role === 'control-plane';
