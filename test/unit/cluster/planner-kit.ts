/**
 * A boot host's planner, and machines that do what its plans say, with keys and requests of their
 * own.
 */

import { encodePlan } from '../../../src/agent/wire/encode-plan.ts';
import type { AgentFacts, DataDisk, Marker } from '../../../src/agent/wire/facts.ts';
import type { Plan, PlanLine } from '../../../src/agent/wire/plan.ts';
import type { Clock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { openRollouts } from '../../../src/cluster/change/rollouts.ts';
import { openJoinTokens } from '../../../src/cluster/joining/tokens.ts';
import { openAppliedObjects } from '../../../src/cluster/objects/applied.ts';
import type { PlannerDeps } from '../../../src/cluster/plan/collect.ts';
import { openPresentObjects } from '../../../src/cluster/plan/desired-objects.ts';
import type { EtcdPart } from '../../../src/cluster/plan/etcd-part.ts';
import { type ClusterPlanner, createPlanner } from '../../../src/cluster/plan/planner.ts';
import { NO_SUPPLIES } from '../../../src/cluster/plan/supplies.ts';
import { followClusters } from '../../../src/cluster/resolve/resolved-clusters.ts';
import type { NewEvent } from '../../../src/events/event.ts';
import { requestText } from '../../../src/lab/simulated/keys.ts';
import { followMemberships } from '../../../src/machines/membership.ts';
import type { LeafName } from '../../../src/pki/hierarchy.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import type { Catalog, CatalogChange, Entry } from '../../../src/resources/catalog.ts';
import type { Document, Kind, KubernetesSpec } from '../../../src/resources/kinds.ts';
import { world } from '../pki/kit.ts';
import { FOUNDING, MACHINES, SHORT } from './kit.ts';
import { QUIET_ROLLOUTS } from './quiet.ts';
import { asked, PlayedTurns } from './turns-kit.ts';

/** A catalogue of values. */
export function catalogOf(documents: readonly Document[]) {
  const known = new Map(
    documents.map((document) => [`${document.kind}/${document.metadata.name}`, document]),
  );
  const listeners = new Set<(changes: readonly CatalogChange[]) => void>();
  const entry = (document: Document): Entry => ({ document, origin: { from: 'api', revision: 1 } });
  const catalog: Catalog = {
    get: <K extends Kind>(kind: K, name: string) => {
      const found = known.get(`${kind}/${name}`);
      return found && (entry(found) as Entry<K>);
    },
    list: <K extends Kind>(kind: K) =>
      [...known.values()].filter((one) => one.kind === kind).map(entry) as unknown as Entry<K>[],
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return {
    catalog,
    put(document: Document) {
      known.set(`${document.kind}/${document.metadata.name}`, document);
      for (const listener of listeners)
        listener([{ kind: document.kind, name: document.metadata.name, entry: entry(document) }]);
    },
  };
}

const document = (kind: Kind, name: string, spec: unknown) =>
  ({ apiVersion: 'muster/v1', kind, metadata: { name }, spec }) as Document;

export const clusterDocument = (changes: Partial<KubernetesSpec> = {}): Document =>
  document('Cluster', 'golden', { kubernetes: { ...SHORT, ...changes } });

export const machineDocument = (name: string, addresses: readonly string[]): Document =>
  document('Machine', name, { macs: ['52:54:00:00:00:01'], addresses });

/** What the founding says unless a test says otherwise: all members may start. */
export const granted = async (): Promise<EtcdPart> => ({ lines: [], founding: FOUNDING });

/** A boot host where nobody leaves, nothing is upgraded and nothing is supplied. */
export const QUIET: Pick<
  PlannerDeps,
  'departures' | 'releases' | 'running' | 'allowed' | 'supplies' | 'given' | 'orders'
> = {
  departures: { departing: () => undefined, gone: async () => undefined },
  releases: { of: () => undefined, heard: async () => undefined, reset: async () => undefined },
  running: () => undefined,
  allowed: (resolved) => ({ resolved }),
  supplies: () => NO_SUPPLIES,
  given: { value: () => undefined, tag: () => undefined },
  orders: [],
};

export async function rig(
  options: {
    readonly spec?: Partial<KubernetesSpec>;
    readonly machines?: readonly { readonly name: string; readonly addresses: readonly string[] }[];
    readonly etcd?: PlannerDeps['etcd'];
    readonly addons?: Parameters<typeof openPresentObjects>[0];
    /** The id of etcd's founding, asked each time. */
    readonly founding?: () => string;
    readonly supplies?: PlannerDeps['supplies'];
    readonly given?: PlannerDeps['given'];
    readonly allowed?: PlannerDeps['allowed'];
    /** What the boot host's clock says at first, ms since 1970. */
    readonly start?: number;
  } = {},
) {
  const { pki, clock, store } = await world(undefined, options.start);
  const known = catalogOf([
    clusterDocument(options.spec),
    ...(options.machines ?? MACHINES).map(({ name, addresses }) => machineDocument(name, addresses)),
  ]);
  const events: NewEvent[] = [];
  let filesystems = 0;
  const sink = { record: (event: NewEvent) => events.push(event) };
  const secrets = { key: async () => Buffer.alloc(32, 7) };
  const tokens = await openJoinTokens({ store, secrets, clock, events: sink, log: silentLog });
  const clusters = followClusters(known.catalog, followMemberships(known.catalog));
  const applied = openAppliedObjects({ store, clock, log: silentLog });
  const planner = createPlanner({
    ...QUIET,
    catalog: known.catalog,
    clusters,
    pki,
    clock,
    events: sink,
    restarts: openRollouts({
      ...QUIET_ROLLOUTS,
      ...{ clock, events: sink, askNow: asked(clock), givenTurns: new PlayedTurns().opened() },
    }),
    applied,
    tokens,
    etcd: options.etcd ?? granted,
    present: openPresentObjects(options.addons, options.founding ?? (() => 'F')),
    ...(options.supplies && { supplies: options.supplies }),
    ...(options.given && { given: options.given }),
    ...(options.allowed && { allowed: options.allowed }),
    newFilesystem: () => `00000000-0000-4000-8000-${String(++filesystems).padStart(12, '0')}`,
  });
  clocks.set(planner, clock);
  return { planner, known, clusters, applied, events, pki, clock, store, tokens };
}

/** Machines of a planner have its time. */
const clocks = new WeakMap<ClusterPlanner, Clock>();

/** A certificate request for a key. */
export const requestFor = (key: PrivateKey): string => requestText(key.object, 'whatever');

/** A machine that does what it is told, as far as its facts go. */
export class TestMachine {
  readonly name: string;
  readonly keys = new Map<LeafName, PrivateKey>();
  disk: DataDisk;
  marker: Marker | undefined;
  /** What else its agent says. */
  said: Partial<AgentFacts> = {};
  #requests = new Map<LeafName, string>();

  constructor(name: string, disk: DataDisk = { state: 'blank', device: '/dev/vdb' }) {
    this.name = name;
    this.disk = disk;
  }

  facts(changes: Partial<AgentFacts> = {}): AgentFacts {
    return {
      agent: '1',
      bootId: 'b',
      machineId: this.name,
      clock: Date.now(),
      disk: this.disk,
      ...(this.marker && { marker: this.marker }),
      etcd: { wal: 'absent', health: 'down' },
      pins: new Map([...this.keys].map(([leaf, key]) => [leaf, key.publicKey().pin()])),
      requests: this.#requests,
      ...this.said,
      ...changes,
    };
  }

  async obey(plan: Plan): Promise<void> {
    this.#requests = new Map();
    for (const line of plan.lines) await this.#do(line);
  }

  async #do(line: PlanLine): Promise<void> {
    if (line.do === 'create-data' || line.do === 'mount-data')
      this.disk = { state: 'ours', device: '/dev/vdb', filesystem: line.filesystem, mounted: true };
    if (line.do === 'marker') {
      const { do: _, ...marker } = line;
      this.marker = marker;
    }
    if (line.do === 'request') {
      const known = this.keys.get(line.leaf);
      const stays = known && known.publicKey().pin() !== line.replaces;
      const key = stays ? known : await PrivateKey.generate(line.algorithm);
      this.keys.set(line.leaf, key);
      this.#requests.set(line.leaf, requestFor(key));
    }
  }
}

/** Polls until the plan asks for no more at once. */
export async function settle(
  planner: Awaited<ReturnType<typeof rig>>['planner'],
  machine: TestMachine,
): Promise<Plan> {
  for (let polls = 0; polls < 10; polls++) {
    const plan = await planner.plan(
      { machine: machine.name, serial: '1', address: '10.0.0.1' },
      machine.facts({ clock: clocks.get(planner)?.now() ?? Date.now() }),
    );
    // Refuses a word that the agent would refuse.
    encodePlan(plan);
    if (plan.pollSeconds > 0) return plan;
    await machine.obey(plan);
  }
  throw new Error('ten polls were not enough');
}
