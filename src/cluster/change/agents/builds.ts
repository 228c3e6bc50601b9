/**
 * Brings the agent of this version of Muster to running machines (decide.ts). What is ordered for a
 * cluster is its change `CLUSTER.agents` (kind.ts). Which agents run is known from the machines'
 * status, so a restarted server continues.
 */
import { z } from 'zod';
import { type AgentBundle, shortBuild } from '../../../agent/scripts/bundle.ts';
import type { AgentBuilds } from '../../../agent/wire/protocol.ts';
import type { Parsed } from '../../../base/body.ts';
import type { Roster } from '../../../machines/roster.ts';
import { agentsScope } from '../../../store/keys.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { Changes } from '../changes.ts';
import { AGENT_STATES, type AgentTurn, agentTurn, type MachineAgent, type Wanted } from './decide.ts';
import { AGENT_UPGRADE, type AgentsOrder, agentsOrder } from './order.ts';

/** What a machine runs and what is due for it. */
export const agentOfMachine = z.strictObject({
  machine: z.string(),
  runs: z.string().optional().meta({ description: 'The first characters of the SHA-256 of its agent.' }),
  state: z.enum(Object.keys(AGENT_STATES) as readonly (keyof typeof AGENT_STATES)[]),
  text: z.string(),
});
export type AgentOfMachine = Parsed<z.output<typeof agentOfMachine>>;

export interface AgentsOfCluster {
  /** The first characters of the SHA-256 of the bundle that machines shall run. */
  readonly wanted: string;
  /** `carries`: it runs etcd or an API server. */
  readonly machines: readonly (AgentOfMachine & Pick<MachineAgent, 'carries'>)[];
}

export interface ClusterAgents extends AgentBuilds {
  /** @throws {MusterError} E_NOT_FOUND for an unknown cluster; the same holds for `next` */
  show(cluster: string): AgentsOfCluster;
  /** What a machine runs and what is due for it; undefined when its agent was never heard. */
  of(machine: string): (AgentOfMachine & Pick<AgentsOfCluster, 'wanted'>) | undefined;
  /**
   * The order of another attempt: machines that did not keep the agent get it again, one first.
   */
  next(cluster: string): AgentsOrder;
}

interface BuildsDeps {
  readonly changes: Pick<Changes, 'record' | 'begin' | 'amend'>;
  readonly roster: Pick<Roster, 'get'>;
  readonly clusters: Pick<ResolvedClusters, 'get' | 'clusterOf'>;
  readonly bundle: AgentBundle;
  /** Why its release counts as not signed; undefined: it is, or nobody asks for it. */
  readonly unsigned: string | undefined;
}

/** Makes the part that offers agents to machines; it keeps nothing itself. */
export const createBuilds = (deps: BuildsDeps): ClusterAgents => new Builds(deps);

class Builds implements ClusterAgents {
  readonly #deps: BuildsDeps;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: BuildsDeps) {
    this.#deps = deps;
  }

  async offer(machine: string): Promise<string | undefined> {
    const cluster = this.#deps.clusters.clusterOf(machine)?.resolved?.name;
    if (this.#turn(cluster, machine).state !== 'taking') return undefined;
    if (cluster === undefined) return `${this.#deps.bundle.digest}.1`;
    // Another poll may have chosen its machine meanwhile.
    const offered = this.#last.then(() => this.#offerIn(cluster, machine));
    this.#last = offered.catch(() => undefined);
    return offered;
  }

  /** Offers the agent when what the change says of it is durable. */
  async #offerIn(cluster: string, machine: string): Promise<string | undefined> {
    const { changes } = this.#deps;
    const turn = this.#turn(cluster, machine);
    if (turn.state !== 'taking') return undefined;
    const scope = agentsScope(cluster);
    const { digest, attempt, state } = this.#ordered(cluster);
    const order: AgentsOrder = { v: 1, digest, attempt };
    if (state === 'none' || (state === 'ended' && turn.chosen)) {
      const change = { cluster: scope, kind: AGENT_UPGRADE, order, pauseBefore: [], without: [] };
      await changes.begin(change, 'muster');
    }
    if (turn.chosen) {
      const text = `It takes the agent ${shortBuild(digest)} first.`;
      await changes.amend(scope, { ...order, first: machine }, { code: 'turn', text, machine });
    }
    return `${digest}.${attempt}`;
  }

  bundle(digest: string): Uint8Array | undefined {
    const { bundle } = this.#deps;
    return digest === bundle.digest ? bundle.tar : undefined;
  }

  show(cluster: string): AgentsOfCluster {
    const agents = this.#agents(cluster);
    const ordered = this.#ordered(cluster);
    return {
      wanted: shortBuild(ordered.digest),
      machines: agents.map((one) => ({
        ...viewOf(one, turnOf(one, agents, ordered)),
        carries: one.carries,
      })),
    };
  }

  of(machine: string): ReturnType<ClusterAgents['of']> {
    if (this.#deps.roster.get(machine)?.status.agent === undefined) return undefined;
    const cluster = this.#deps.clusters.clusterOf(machine)?.resolved?.name;
    const view = viewOf(this.#agent(machine, false), this.#turn(cluster, machine));
    return { ...view, wanted: shortBuild(this.#deps.bundle.digest) };
  }

  next(cluster: string): AgentsOrder {
    this.#agents(cluster);
    const { digest, attempt, state } = this.#ordered(cluster);
    return { v: 1, digest, attempt: state === 'none' ? attempt : attempt + 1 };
  }

  /** @throws {MusterError} E_NOT_FOUND */
  #agents(cluster: string): readonly MachineAgent[] {
    const resolution = this.#deps.clusters.get(cluster);
    if (resolution === undefined) throw noCluster(cluster);
    const { machines = [] } = resolution.resolved ?? {};
    return machines.map(({ name, roles }) => this.#agent(name, roles.some(isCarrying)));
  }

  /** What is ordered for the agent of this Muster; a pause counts for any agent. */
  #ordered(cluster: string): Ordered {
    const { unsigned } = this.#deps;
    const { digest } = this.#deps.bundle;
    const record = this.#deps.changes.record(agentsScope(cluster));
    const order = agentsOrder.safeParse(record?.order).data;
    const paused = record?.paused !== undefined && record.ended === undefined;
    if (!record || order?.digest !== digest)
      return { digest, attempt: 1, paused, unsigned, state: 'none', without: [] };
    return {
      ...order,
      unsigned,
      paused: paused || record.route === 'back',
      state: record.ended ? 'ended' : 'under way',
      without: record.without,
    };
  }

  #turn(cluster: string | undefined, machine: string): AgentTurn {
    if (cluster !== undefined) {
      const agents = this.#agents(cluster);
      const asking = agents.find(({ name }) => name === machine);
      if (asking) return turnOf(asking, agents, this.#ordered(cluster));
    } else if (this.#deps.clusters.clusterOf(machine) !== undefined) return INCOMPLETE;
    // A machine outside of clusters carries nothing, and waits for nobody.
    const { bundle, unsigned } = this.#deps;
    const wanted = { digest: bundle.digest, attempt: 1, paused: false, unsigned };
    return agentTurn(this.#agent(machine, true), [], wanted);
  }

  #agent(name: string, carries: boolean): MachineAgent {
    const { build, refused } = this.#deps.roster.get(name)?.status.agent ?? {};
    return { name, carries, ...(build !== undefined && { build }), ...(refused && { refused }) };
  }
}

interface Ordered extends Wanted {
  readonly state: 'none' | 'under way' | 'ended';
  /** Machines that nobody waits for. */
  readonly without: readonly string[];
}

const turnOf = (asking: MachineAgent, agents: readonly MachineAgent[], ordered: Ordered): AgentTurn =>
  agentTurn(
    asking,
    ordered.without.length === 0 ? agents : agents.filter(({ name }) => !ordered.without.includes(name)),
    ordered,
  );

const viewOf = ({ name, build }: MachineAgent, { state, text }: AgentTurn): AgentOfMachine => ({
  ...{ machine: name, state, text },
  ...(build !== undefined && { runs: shortBuild(build) }),
});

/** Its cluster's pause, its first machine and failures count as soon as the others are known. */
const INCOMPLETE: AgentTurn = {
  state: 'waits',
  text: 'The documents of its cluster are incomplete, so it is not known which machines come first.',
};

const isCarrying = (role: string): boolean => role === 'etcd' || role === 'control-plane';
