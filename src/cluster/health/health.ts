/** `muster cluster status` and `verify`: gathers what is known about a cluster, and judges it. */
import type { Clock } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Reason } from '../../events/event.ts';
import type { Roster } from '../../machines/roster.ts';
import { trustBundle } from '../../pki/keyset.ts';
import type { Pki } from '../../pki/pki.ts';
import { notYetValid } from '../../pki/redate.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import type { EtcdCondition } from '../etcd/condition.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import { recordedMembers } from '../etcd/record.ts';
import type { FoundingStatus } from '../etcd/status.ts';
import type { Kube } from '../kube.ts';
import { addressOf, type ResolvedCluster } from '../model/resolved-cluster.ts';
import type { AllowedVersions } from '../plan/allowed.ts';
import type { Running } from '../resolve/release.ts';
import type { Resolution } from '../resolve/resolve.ts';
import { noCluster, type ResolvedClusters } from '../resolve/resolved-clusters.ts';
import { bad, type ClusterHealth, type Finding } from './finding.ts';
import { judgeCertificates, judgeKubernetes, judgeMachines, judgeProbes, type MachineSeen } from './judge.ts';
import { type AgentsSeen, judgeAgents } from './judge-agents.ts';
import { judgeEtcd } from './judge-etcd.ts';
import { judgeObjects } from './judge-objects.ts';
import { judgePrograms, type ProgramsSeen } from './judge-programs.ts';
import { type ObjectsStatusDeps, objectsStatus } from './objects-status.ts';
import { observeKubernetes } from './observe.ts';
import { type Probed, probe } from './probe.ts';
import { type Circumstances, judgeChange, type UnderWay } from './under-way.ts';

export interface HealthDeps {
  readonly clusters: Pick<ResolvedClusters, 'get' | 'at'>;
  /** What founded clusters run. */
  readonly running: Pick<Running, 'of'>;
  readonly founding: (cluster: string) => Promise<FoundingStatus>;
  /** What the members of etcd report of themselves; asked only where a founding is recorded. */
  readonly condition: (cluster: string, members: readonly MemberAddress[]) => Promise<EtcdCondition>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly pki: Pick<Pki, 'isFounded' | 'issued' | 'keysets'>;
  readonly objects: ObjectsStatusDeps;
  readonly roster: Pick<Roster, 'get' | 'heartbeats'>;
  /** Why its agent cannot work: it would be held at its boot, or waits for an approval. */
  readonly stopped: (machine: string) => Reason | undefined;
  /** `valid` when this certificate of the machine's agent is in force. */
  readonly certificateState: (machine: string, serial: string) => string;
  /** What is still wrong in a cluster after a snapshot was restored. */
  readonly restored: (cluster: string) => string | undefined;
  /** Which agents the machines of a cluster run. */
  readonly agents: (cluster: string) => AgentsSeen;
  /** The change of a cluster that is under way. */
  readonly change: (resolved: ResolvedCluster) => UnderWay | undefined;
  /** The programs of a machine that has its turn to restart some of them. */
  readonly turns: (cluster: string, machine: string) => readonly string[];
  /** Which versions a machine may have now. */
  readonly allowed: AllowedVersions;
  /** What the agent of a machine reported last; undefined when it is not heard. */
  readonly programs: (machine: string) => ProgramsSeen | undefined;
  readonly clock: Clock;
  readonly newId: () => string;
}

interface LookAt {
  /**
   * Whether only etcd and its machines are checked, for a cluster without running control planes.
   */
  readonly etcdOnly: boolean;
  /** Set before a change begins: what restarts in its turn is a fault then, as for `verify`. */
  readonly begins?: true;
  /** Set to probe the network with pods; when absent, no pod is made. */
  readonly probe?: { readonly image?: string | undefined; readonly signal: AbortSignal };
}

export interface Health {
  /** @throws {MusterError} E_NOT_FOUND when there is no such cluster. */
  look(cluster: string, at: LookAt): Promise<ClusterHealth>;
}

const RESTORED_FIX = 'wait; the boot host does it as soon as an API server is ready';

/** How long applying the objects may take: a few polls and kubectl. `verify` allows no time. */
const OBJECTS_TAKE = duration('5m');

/** Makes the checks of clusters, which read the given parts and the clusters' own APIs. */
export function createHealth(deps: HealthDeps): Health {
  return {
    async look(cluster, at) {
      const completed = deps.clusters.get(cluster);
      if (completed === undefined) throw noCluster(cluster);
      const resolved = completed.resolved && released(deps, completed.resolved);
      const findings =
        resolved === undefined
          ? await incomplete(deps, cluster, completed)
          : await looked(deps, resolved, at);
      return {
        cluster,
        ok: findings.every(({ ok }) => ok),
        at: new Date(deps.clock.now()).toISOString(),
        scope: resolved === undefined ? INCOMPLETE : scopeOf(at),
        findings,
      };
    },
  };
}

/**
 * The Cluster with the versions that its machines may have: a document that asks for newer ones has
 * not reached them before an upgrade, and an upgrade begins only where all is well.
 */
function released({ clusters, running }: HealthDeps, resolved: ResolvedCluster): ResolvedCluster {
  const known = running.of(resolved.name);
  return (known && clusters.at(resolved.name, known.release)) ?? resolved;
}

const scopeOf = ({ etcdOnly, probe: probes }: LookAt): string => {
  if (etcdOnly) return 'etcd only: Kubernetes was not checked';
  return probes ? 'all' : 'all but the network between pods, which `muster cluster verify` probes';
};

const INCOMPLETE = "etcd, certificates and machines only: the Cluster's document is incomplete";

/**
 * The findings for a cluster whose document is incomplete: its faults, and what can be checked
 * nevertheless.
 */
async function incomplete(
  deps: HealthDeps,
  cluster: string,
  { faults, access }: Resolution,
): Promise<readonly Finding[]> {
  const errors = faults.filter(({ severity }) => severity === 'error');
  const found = errors.map(({ fault }) =>
    bad(
      'cluster',
      cluster,
      fault.message,
      `correct ${fault.path ?? 'the Cluster'}, or add or correct the Machine that it names, and apply that`,
    ),
  );
  const names = new Set(access?.machines.map(({ name }) => name));
  const [founding, issued] = await Promise.all([recorded(deps, cluster), issuedOf(deps, cluster)]);
  return [
    ...found,
    ...(founding ? await etcdOf(deps, founding, undefined) : []),
    ...judgeCertificates(cluster, names, issued, deps.clock.now()),
    ...judgeMachines([...names].map((name) => seen(deps, name))),
  ];
}

/** The status of the founding; undefined when the cluster has no record of one. */
const recorded = ({ founding }: HealthDeps, cluster: string): Promise<FoundingStatus | undefined> =>
  founding(cluster).catch((error: unknown) => {
    if (error instanceof MusterError && error.code === 'E_NOT_FOUND') return undefined;
    throw error;
  });

async function looked(deps: HealthDeps, resolved: ResolvedCluster, at: LookAt): Promise<readonly Finding[]> {
  const machines = resolved.machines.filter(({ roles }) => !at.etcdOnly || roles.includes('etcd'));
  const names = new Set(machines.map(({ name }) => name));
  const [founding, issued] = await Promise.all([deps.founding(resolved.name), issuedOf(deps, resolved.name)]);
  const restored = deps.restored(resolved.name);
  const circumstances = circumstancesOf(deps, resolved, founding, at);
  const findings = [
    ...judgeChange(resolved.name, circumstances.change),
    ...(restored === undefined || at.etcdOnly
      ? []
      : [bad('restored', resolved.name, restored, RESTORED_FIX)]),
    ...(await etcdOf(deps, founding, membersOf(resolved), circumstances)),
    ...(at.etcdOnly ? [] : await kubernetes(deps, resolved, at, circumstances)),
    ...judgeCertificates(resolved.name, names, issued, deps.clock.now()),
    ...(await futureAuthorities(deps, resolved.name)),
    ...judgeMachines(
      [...names].map((name) => seen(deps, name)),
      circumstances,
    ),
    ...judgeAgents(resolved.name, deps.agents(resolved.name)),
  ];
  return withClock(deps, resolved.name, findings);
}

const CLOCK_FIX =
  "set this boot host's clock (chrony or systemd-timesyncd), or name timeServers in the Cluster; nothing is issued until then";

const CLOCK_FIRST = 'set the clock of this boot host first, and look again';

/**
 * The findings with the doubt about the host's clock before them. By a wrong clock the boot host
 * accepts no certificate of etcd and API servers, so what it cannot reach may be well.
 */
function withClock({ clock }: HealthDeps, cluster: string, findings: readonly Finding[]): readonly Finding[] {
  const doubt = clock.doubt();
  if (doubt === undefined) return findings;
  const unreached = ({ ok, check }: Finding): boolean => !ok && (check === 'etcd' || check === 'apiserver');
  return [
    bad('clock', cluster, doubt.text, CLOCK_FIX),
    ...findings.map((one) => (unreached(one) ? { ...one, fix: `${CLOCK_FIRST}; then: ${one.fix}` } : one)),
  ];
}

/** What is under way, by which the rest is judged. */
function circumstancesOf(
  { change, turns, allowed, roster }: HealthDeps,
  resolved: ResolvedCluster,
  { record }: FoundingStatus,
  { begins, probe: probes }: LookAt,
): Circumstances {
  return {
    change: change(resolved),
    ...(!begins && !probes && { turns: (name) => turns(resolved.name, name) }),
    ended: (name) => roster.get(name)?.status.agent?.ended,
    leaving: new Set(Object.keys(record?.leaving ?? {})),
    allowed: (name) => {
      const machine = resolved.machines.find((one) => one.name === name);
      return machine && allowed(resolved, machine).resolved;
    },
  };
}

async function etcdOf(
  { condition }: HealthDeps,
  founding: FoundingStatus,
  documented: readonly MemberAddress[] | undefined,
  circumstances: Circumstances = {},
): Promise<readonly Finding[]> {
  const { cluster, record } = founding;
  const asked = record && (await condition(cluster, documented ?? recordedMembers(record)));
  return judgeEtcd(founding, documented, circumstances, asked);
}

/** CAs that begin in the future, and why that does not end by itself. */
async function futureAuthorities({ pki, clock }: HealthDeps, cluster: string): Promise<readonly Finding[]> {
  if (!(await pki.isFounded(cluster))) return [];
  return notYetValid(await pki.keysets(cluster), clock.now()).map((name) =>
    bad(
      'certificate',
      cluster,
      `the CA ${name} begins in the future, so nobody accepts it: the clock was wrong when it was made`,
      `Muster makes its certificate again while the clock is proved, unless another tool or a rotation made it; then muster pki rotate ${name} --cluster ${cluster}`,
    ),
  );
}

async function issuedOf({ pki, certificateState }: HealthDeps, cluster: string) {
  const own = (await pki.isFounded(cluster)) ? await pki.issued(cluster) : [];
  const agents = (await pki.isFounded(MUSTER_SCOPE)) ? await pki.issued(MUSTER_SCOPE) : [];
  return [
    ...own,
    ...agents.filter((one) => one.leaf === 'agent' && certificateState(one.to, one.serial) === 'valid'),
  ];
}

function seen({ roster, stopped }: HealthDeps, name: string): MachineSeen {
  const status = roster.get(name)?.status;
  const alive = roster.heartbeats.alive(name);
  return {
    name,
    heard: alive !== undefined,
    supposed: alive !== undefined && alive.bootId === undefined,
    known: status?.agent !== undefined,
    stopped: stopped(name),
    hold: status?.agent?.hold,
    alarm: status?.alarm,
    quarantine: status?.quarantine,
  };
}

async function objects(
  deps: HealthDeps,
  resolved: ResolvedCluster,
  at: LookAt,
  served: boolean,
): Promise<Finding> {
  const keysets = await deps.pki.keysets(resolved.name);
  const status = await objectsStatus(deps.objects, resolved, trustBundle(keysets.get('ca')!), deps.allowed);
  const patience = at.probe ? duration('0s') : OBJECTS_TAKE;
  return judgeObjects(resolved.name, status, { served, now: deps.clock.now(), patience });
}

async function kubernetes(
  deps: HealthDeps,
  resolved: ResolvedCluster,
  at: LookAt,
  circumstances: Circumstances,
): Promise<readonly Finding[]> {
  const { kubes, clock, newId, pki } = deps;
  if (!(await pki.isFounded(resolved.name)))
    return [
      bad(
        'apiserver',
        resolved.name,
        'the cluster has no keys yet: no member of etcd has asked for a plan',
        'power on its members of etcd',
      ),
    ];
  const kubeOf = (machine: ResolvedCluster['machines'][number]): Kube =>
    kubes(resolved.name, addressOf(machine));
  const api = await observeKubernetes(resolved, kubeOf);
  const found = [
    ...judgeKubernetes(resolved, api, circumstances),
    ...judgePrograms(resolved, deps.programs, circumstances),
    await objects(deps, resolved, at, typeof api.api === 'object'),
  ];
  if (!at.probe || typeof api.api !== 'object') return found;
  const { by, nodes } = api.api;
  const image = at.probe.image ?? resolved.cni.images?.flannel ?? resolved.cni.images?.['kube-router'];
  if (image === undefined)
    return [
      ...found,
      bad(
        'network',
        resolved.name,
        'no image that every node has is known, so the probe cannot run',
        'name one with --probe-image',
      ),
    ];
  const machine = resolved.machines.find(({ name }) => name === by)!;
  const probes: readonly Probed[] = await probe({
    resolved,
    clock,
    kube: kubeOf(machine),
    nodes: nodes.filter(({ ready }) => ready).map(({ name }) => name),
    image,
    id: newId(),
    signal: at.probe.signal,
  });
  return [...found, ...judgeProbes(resolved.name, probes)];
}
