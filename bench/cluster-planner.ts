/**
 * Runs a cluster's planner in this process, over a real store on the disk: it makes certificates
 * and plans, without sockets.
 */

import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { encodePlan } from '../src/agent/wire/encode-plan.ts';
import type { AgentFacts } from '../src/agent/wire/facts.ts';
import { systemClock } from '../src/base/clock.ts';
import { silentLog } from '../src/base/log.ts';
import { createMetrics } from '../src/base/metrics.ts';
import { openGivenTurns } from '../src/cluster/change/given-turns.ts';
import { openRollouts } from '../src/cluster/change/rollouts.ts';
import { membersOf } from '../src/cluster/etcd/etcd-plan.ts';
import { openAppliedObjects } from '../src/cluster/objects/applied.ts';
import { openPresentObjects } from '../src/cluster/plan/desired-objects.ts';
import { createPlanner } from '../src/cluster/plan/planner.ts';
import { NO_SUPPLIES } from '../src/cluster/plan/supplies.ts';
import { followClusters } from '../src/cluster/resolve/resolved-clusters.ts';
import { createEventLog } from '../src/events/log.ts';
import { MEMBERS, orderOf, writeDocuments } from '../src/lab/simulated/documents.files.ts';
import { MachineKey } from '../src/lab/simulated/keys.ts';
import type { LeafName } from '../src/pki/hierarchy.ts';
import { PublicKey } from '../src/pki/keys.ts';
import type { Pki } from '../src/pki/pki.ts';
import { openSecrets } from '../src/pki/secrets.ts';
import { NO_CLUSTER } from '../src/pki/server-certificate.ts';
import { newVaultKey, vaultFrom } from '../src/pki/vault.ts';
import { MUSTER_SCOPE } from '../src/store/keys.ts';
import { openSqliteStore } from '../src/store/sqlite.files.ts';
import { openRecords } from '../src/wiring/state.ts';
import { QUIET_ROLLOUTS } from '../test/unit/cluster/quiet.ts';

/** On the disk of the checkout, because on a tmpfs every fsync would be free. */
const DIRECTORY = new URL('../.cache/bench-cluster/', import.meta.url).pathname;

/**
 * A machine whose agent has already made a key and a request for each leaf, which is not measured.
 */
export interface BenchMachine {
  readonly name: string;
  readonly address: string;
  readonly isMember: boolean;
  readonly keys: ReadonlyMap<
    LeafName,
    { readonly pin: string; readonly request: string; readonly spki: string }
  >;
}

const WORKER_LEAVES: readonly LeafName[] = ['agent', 'kubelet', 'kubelet-serving'];
const MEMBER_LEAVES: readonly LeafName[] = [
  ...WORKER_LEAVES,
  'apiserver',
  'apiserver-kubelet-client',
  'front-proxy-client',
  'apiserver-etcd-client',
  'etcd-server',
  'etcd-peer',
  'etcd-healthcheck-client',
  'admin',
  'controller-manager',
  'scheduler',
  'applier',
];

export function makeMachines(count: number): readonly BenchMachine[] {
  return Array.from({ length: count }, (_, n) => {
    const { name, address } = orderOf(n);
    const isMember = n < MEMBERS;
    const keys = (isMember ? MEMBER_LEAVES : WORKER_LEAVES).map((leaf) => {
      const key = new MachineKey();
      return [leaf, { pin: key.pin, request: key.request(name), spki: key.publicPem }] as const;
    });
    return { name, address, isMember, keys: new Map(keys) };
  });
}

export interface OpenedPlanner {
  readonly pki: Pki;
  /**
   * Issues all certificates of one machine and makes its whole plan, as its polls would. Resolves
   * to the length of the plan in octets.
   */
  serve(machine: BenchMachine): Promise<number>;
  /** Makes the plan of a machine that has its certificates; resolves to its length in octets. */
  plan(machine: BenchMachine): Promise<number>;
  close(): Promise<void>;
}

/**
 * Opens an empty store with the documents of these machines' cluster. etcd's founding is granted
 * immediately, because it is not measured.
 */
export async function openPlanner(machines: readonly BenchMachine[]): Promise<OpenedPlanner> {
  rmSync(DIRECTORY, { recursive: true, force: true });
  mkdirSync(DIRECTORY, { recursive: true });
  const directory = join(DIRECTORY, 'config');
  writeDocuments(
    directory,
    machines.map((_, n) => orderOf(n)),
    join(DIRECTORY, 'state'),
  );
  const [clock, log, metrics] = [systemClock, silentLog, createMetrics()];
  const store = await openSqliteStore({ path: join(DIRECTORY, 'store.sqlite'), log, metrics });
  const events = createEventLog({ metrics, clock, log, perSubject: 200, subjects: 50_000 });
  const vault = vaultFrom(newVaultKey(), 'bench');
  const secrets = openSecrets({ store, vault });
  const closing = new AsyncDisposableStack();
  const { catalog, memberships, pki, tokens, given } = await openRecords(
    { clock, log, metrics, signal: new AbortController().signal },
    { store, vault, secrets, events, directory, checkLate: undefined },
    closing,
  );
  const clusters = followClusters(catalog, memberships);
  const planner = createPlanner({
    ...{ catalog, clusters, pki, clock, events },
    restarts: openRollouts({
      ...{ clock, events, ...QUIET_ROLLOUTS },
      askNow: async () => ({ at: clock.monotonic(), etcd: new Set(), 'kube-apiserver': new Set() }),
      givenTurns: await openGivenTurns({ store, log, clock }),
    }),
    applied: openAppliedObjects({ store, clock, log }),
    etcd: async (resolved) => ({
      lines: [],
      founding: { state: 'new', token: 'muster-fbench', members: membersOf(resolved) },
    }),
    present: openPresentObjects(undefined, () => 'bench'),
    tokens,
    newFilesystem: randomUUID,
    departures: { departing: () => undefined, gone: async () => undefined },
    releases: { of: () => undefined, heard: async () => undefined, reset: async () => undefined },
    running: () => undefined,
    allowed: (one) => ({ resolved: one }),
    supplies: () => NO_SUPPLIES,
    given,
    orders: [],
  });
  const ask = async (machine: BenchMachine, requests: boolean): Promise<number> => {
    const identity = { machine: machine.name, serial: '1', address: machine.address };
    const plan = await planner.plan(identity, factsOf(machine, requests));
    const unfinished = plan.lines.find((line) => line.do === 'request' || line.do === 'hold');
    if (unfinished) throw new Error(`${machine.name} has an incomplete plan: ${JSON.stringify(unfinished)}`);
    return encodePlan(plan).tar.length;
  };
  return {
    pki,
    async serve(machine) {
      const publicKey = PublicKey.fromPem(machine.keys.get('agent')!.spki);
      const holder = { name: machine.name, addresses: [] };
      await pki.issue(MUSTER_SCOPE, { leaf: 'agent', holder, cluster: NO_CLUSTER, publicKey });
      await ask(machine, true);
      return ask(machine, false);
    },
    plan: (machine) => ask(machine, false),
    async close() {
      clusters.close();
      await closing.disposeAsync();
      await store.close();
      rmSync(DIRECTORY, { recursive: true, force: true });
    },
  };
}

function factsOf({ name, isMember, keys }: BenchMachine, requests: boolean): AgentFacts {
  const own = [...keys].filter(([leaf]) => leaf !== 'agent');
  return {
    agent: '1',
    bootId: 'bench',
    machineId: createHash('sha256').update(name).digest('hex').slice(0, 32),
    clock: systemClock.now(),
    disk: isMember
      ? {
          state: 'ours',
          device: '/dev/vdb',
          filesystem: '00000000-0000-4000-8000-000000000001',
          mounted: true,
        }
      : { state: 'unused' },
    etcd: { wal: 'absent', health: 'down' },
    pins: new Map(own.map(([leaf, { pin }]) => [leaf, pin])),
    requests: new Map(requests ? own.map(([leaf, { request }]) => [leaf, request]) : []),
  };
}
