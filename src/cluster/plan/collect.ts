/**
 * Gathers what a machine's plan follows from, for `plan-of.ts` to decide. Each step may found keys,
 * issue certificates or give a turn, so gathering ends at the first thing that the machine lacks.
 */
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { AgentIdentity } from '../../agent/wire/protocol.ts';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { Secret } from '../../base/secret.ts';
import type { EventSink } from '../../events/event.ts';
import type { GivenSecrets } from '../../pki/given-secrets.ts';
import { type HandoutOf, handout } from '../../pki/handout.ts';
import { trustBundle } from '../../pki/keyset.ts';
import type { Pki } from '../../pki/pki.ts';
import type { Catalog } from '../../resources/catalog.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import type { AppliedObjects } from '../objects/applied.ts';
import { joinsByToken } from '../resolve/by-token.ts';
import { apiServers, pkiRoles } from '../resolve/certificate-names.ts';
import type { Releases } from '../resolve/release.ts';
import type { Resolution } from '../resolve/resolve.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import type { AllowedVersions } from './allowed.ts';
import { openCertificates } from './certificates.ts';
import type { ClusterKeys, Keys } from './cluster-keys.ts';
import { dataPart } from './data.ts';
import { type Departure, type Departures, departurePlan } from './departure.ts';
import type { PresentOf } from './desired-objects.ts';
import { type EtcdPlanner, markerOf } from './etcd-part.ts';
import { leavesFor, type Poll, signingKeys } from './leaves.ts';
import { loginsOf } from './logins.ts';
import { type PlanParts, programsOf } from './machine-plan.ts';
import type { PlanInput } from './plan-of.ts';
import { aheadImages } from './prefetch-unit.ts';
import { openPreflight } from './preflight.ts';
import { probeLines, probingOf } from './probes.ts';
import { rehearsed } from './rehearsed.ts';
import type { RestartDecision, Restarts, Revisions } from './restarts.ts';
import type { RunningChangeOf } from './running-change.ts';
import { pinImages, type SuppliesFor, withMirrors } from './supplies.ts';

export interface PlannerDeps {
  readonly catalog: Pick<Catalog, 'get'>;
  /** The Clusters of the catalogue, resolved once for all of their users. */
  readonly clusters: Pick<ResolvedClusters, 'clusterOf'>;
  readonly pki: Pki;
  readonly clock: Clock;
  readonly events: EventSink;
  /** Decides what a member of etcd may do. */
  readonly etcd: EtcdPlanner;
  /** Machines that were ordered out of their cluster. */
  readonly departures: Departures;
  /** Tokens of machines that join by one. */
  readonly tokens: MachineTokens;
  /** Decides when a machine may restart etcd or its API server. */
  readonly restarts: Restarts;
  /** Notes what machines run. */
  readonly releases: Pick<Releases, 'heard' | 'reset' | 'of'>;
  /** The change of a cluster that is under way. */
  readonly running: RunningChangeOf;
  /** Decides which versions a machine may have now. */
  readonly allowed: AllowedVersions;
  /** Makes the UUID of a new data filesystem. */
  readonly newFilesystem: () => string;
  /** Binaries and registries that this boot host has. */
  readonly supplies: SuppliesFor;
  /** Where passwords of registries are. */
  readonly given: Pick<GivenSecrets, 'value' | 'tag'>;
  /** Lines for this moment, when it is the turn of the machine that polls: a snapshot, a reboot. */
  readonly orders: readonly ((
    resolved: ResolvedCluster,
    machine: ClusterMachine,
    facts: AgentFacts,
  ) => PlanLine | undefined | Promise<PlanLine | undefined>)[];
  /** The in-cluster objects that control planes have to apply. */
  readonly present: PresentOf;
  /** Tells which of these objects each control plane has applied. */
  readonly applied: Pick<AppliedObjects, 'isDue'>;
}

/** Bootstrap tokens, one for each machine of a cluster whose workers join by token. */
export interface MachineTokens {
  /** The machine's token, `id.secret`; stored when this resolves. */
  of(cluster: string, machine: string): Promise<Secret>;
  /** Records that the machine's kubelet has a certificate, so that its token ends. */
  joined(cluster: string, machine: string): Promise<void>;
}

/** A poll, in the versions that the machine may have now. */
interface AllowedPoll extends Poll {
  /** Images that the machine fetches ahead of their use; absent while no upgrade is under way. */
  readonly ahead: readonly string[] | undefined;
}

/** Opens what gathers the inputs of plans, for all clusters of this boot host. */
export function openCollector(
  deps: PlannerDeps,
  clusterKeys: ClusterKeys,
): (identity: AgentIdentity, facts: AgentFacts) => Promise<PlanInput> {
  const { releases, restarts, events, departures } = deps;
  const certificates = openCertificates(deps);
  const preflights = openPreflight(deps.clock);

  const leaving = async (
    record: Departure,
    name: string,
    facts: AgentFacts,
    poll?: Poll,
  ): Promise<PlanInput> => {
    // The founding needs the facts of every member, for when the cluster is founded again.
    if (poll?.machine.roles.includes('etcd')) await deps.etcd(poll.resolved, poll.machine, facts);
    if (record.reset) await releases.reset(record.cluster);
    const plan = departurePlan(record, name, facts);
    if (plan.gone) await departures.gone(record.cluster, name);
    return { lacks: 'membership', plan };
  };

  const ofMember = async (poll: Poll): Promise<PlanInput> => {
    const { resolved, machine, facts } = poll;
    // What it runs now is known before it is decided what it may run next.
    if (releases.of(resolved.name)) await releases.heard(resolved, machine, facts);
    const may = deps.allowed(resolved, machine);
    if (may.resolved === undefined) return { lacks: 'sound cluster', why: may.why };
    const ahead = may.ahead && aheadImages(may.ahead, machine, deps.supplies(may.ahead, machine));
    return gather({ resolved: may.resolved, machine, facts, ahead });
  };

  const gather = async (poll: AllowedPoll): Promise<PlanInput> => {
    const { resolved, machine, facts } = poll;
    const of = { facts, upgrading: poll.ahead !== undefined };
    const data = dataPart(resolved, machine, facts, deps.newFilesystem);
    if (data.state !== 'there') return { ...of, lacks: 'disk', data };

    const isMember = machine.roles.includes('etcd');
    const etcd = isMember ? await deps.etcd(resolved, machine, facts) : markerOf(poll);
    if (etcd?.hold?.stop === true) {
      const parts = { ...suppliedTo(deps, resolved, machine), data: data.lines, etcd };
      return { ...of, lacks: 'etcd', parts };
    }
    const running = deps.running(resolved.name);
    const rehearsal = running?.rehearsal(machine.name);
    const known = await clusterKeys.of(resolved, isMember).catch(whenClockInDoubt);
    if (known instanceof MusterError)
      return { ...of, lacks: 'keys', data: data.lines, clockDoubt: known.message };
    if (known === undefined) return { ...of, lacks: 'keys', data: data.lines };

    const keys = { ...known, keysets: rehearsed(known.keysets, rehearsal) };
    const present = machine.roles.includes('control-plane')
      ? await deps.present(resolved, machine, trustBundle(keys.keysets.get('ca')!))
      : undefined;
    const digest = present?.part.digest;
    const due =
      digest !== undefined && (await deps.applied.isDue(resolved.name, machine.name, digest, facts));
    const probing =
      rehearsal?.quiet === true ? { probes: [] } : probingOf(machine, keys.keysets, keys.encryption);
    const leaves = await leavesFor({ certificates, events }, poll, keys, due, probing);
    const { held, probes } = leaves;
    const { signing, refused } = await signingKeys(deps.pki, poll, keys);
    const missing = leaves.missing ?? refused;
    if (missing)
      return { ...of, lacks: 'certificates', before: [...data.lines, ...(etcd?.lines ?? [])], missing };

    await releases.heard(resolved, machine, facts);
    const preflight = preflights.of(machine.name, facts);
    const orders = await Promise.all(deps.orders.map((order) => order(resolved, machine, facts)));
    const parts = {
      ...suppliedTo(deps, resolved, machine),
      ...{ machine, data: data.lines, etcd, ahead: poll.ahead },
      objects: due ? present?.part : undefined,
      probes: probeLines(machine, probing, probes),
      orders: orders.flatMap((line) => line ?? []),
      pki: pkiFiles(poll, keys, { leaves: held, signing }, await joinsOf(deps.tokens, poll)),
    };
    const programs = preflight ? undefined : programsOf(parts);
    const restart = await turnOf(restarts, poll, programs?.wanted ?? {});
    const changing = running !== undefined && !running.paused && !running.held;
    const addons = present?.addons.hold;
    return { ...of, lacks: 'nothing', parts, preflight, programs, restart, addons, changing };
  };

  return async ({ machine: name }, facts) => {
    if (deps.catalog.get('Machine', name) === undefined) return { lacks: 'document', machine: name };
    const cluster = deps.clusters.clusterOf(name);
    const resolved = cluster?.resolved;
    const machine = resolved?.machines.find((one) => one.name === name);
    const poll = resolved && machine && { resolved, machine, facts };
    const record = departures.departing(name, resolved?.name);
    if (record) return leaving(record, name, facts, resolved?.name === record.cluster ? poll : undefined);
    if (cluster === undefined) return { lacks: 'cluster' };
    return poll ? ofMember(poll) : { lacks: 'sound cluster', why: firstFault(cluster.faults, name) };
  };
}

/** Asks which programs may restart now; when the others were asked first, once more. */
async function turnOf(
  restarts: Restarts,
  { resolved, machine, facts }: Poll,
  wanted: Revisions,
): Promise<RestartDecision | undefined> {
  const ask = () =>
    Object.keys(wanted).length > 0 ? restarts.ask(resolved, machine, facts, wanted) : undefined;
  const first = ask();
  if ((await restarts.follow(resolved, machine)) === 'keep') return first;
  const second = ask();
  await restarts.follow(resolved, machine);
  return second;
}

/**
 * How the kubelet of a worker that joins by token gets its certificate; undefined for other
 * machines.
 */
async function joinsOf(
  tokens: MachineTokens,
  { resolved, machine, facts }: Poll,
): Promise<HandoutOf['joins']> {
  if (!joinsByToken(resolved, machine)) return undefined;
  if (facts.joined) {
    await tokens.joined(resolved.name, machine.name);
    return {};
  }
  // Before the first step of a boot the directory of certificates is not mounted, so the machine
  // cannot know yet whether it has one.
  return facts.step === undefined ? {} : { token: await tokens.of(resolved.name, machine.name) };
}

/** The fault that holds a machine: an error of its Cluster, or else what concerns this machine. */
function firstFault(faults: Resolution['faults'], name: string): string {
  const first =
    faults.find(({ severity }) => severity === 'error') ?? faults.find(({ machine }) => machine === name);
  return first?.fault.message ?? 'The Cluster is incomplete.';
}

/** The fault of a clock in doubt, as a value; throws every other error. */
function whenClockInDoubt(error: unknown): MusterError {
  if (error instanceof MusterError && error.code === 'E_CLOCK') return error;
  throw error;
}

/** The PKI's files for a machine. */
export function pkiFiles(
  { resolved, machine }: Pick<Poll, 'resolved' | 'machine'>,
  { keysets, encryption }: Keys,
  { leaves, signing }: Pick<HandoutOf, 'leaves' | 'signing'>,
  joins?: HandoutOf['joins'],
): PlanParts['pki'] {
  return handout({
    roles: pkiRoles(machine),
    cluster: resolved.name,
    user: machine.name,
    keysets,
    ...{ leaves, signing },
    encryption: { keyset: encryption, encrypts: resolved.encryptSecrets },
    servers: apiServers(resolved, machine),
    joins,
  });
}

/** The cluster with this boot host's images and mirrors, and the binaries for the machine. */
export function suppliedTo(
  deps: Pick<PlannerDeps, 'supplies' | 'given'>,
  resolved: ResolvedCluster,
  machine: ClusterMachine,
): Pick<PlanParts, 'resolved' | 'binaries' | 'logins'> {
  const { binaries, digestOf, mirrors } = deps.supplies(resolved, machine);
  return {
    resolved: withMirrors(pinImages(resolved, digestOf), mirrors),
    binaries,
    logins: loginsOf(resolved, machine.name, deps.given),
  };
}
