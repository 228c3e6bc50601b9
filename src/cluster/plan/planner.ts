/**
 * Turns an agent's poll (its identity and the facts it reports) into a plan. Everything that a
 * machine of a cluster receives passes through here, and only machines that an operator accepted,
 * which have a Machine document, receive anything.
 */

import type { ProbeName } from '../../agent/wire/evidence.ts';
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Plan, PlanLine } from '../../agent/wire/plan.ts';
import type { AgentIdentity, AgentPlanner } from '../../agent/wire/protocol.ts';
import { REPLACES_KEYS, REPORTS_PROGRAMS } from '../../agent/wire/versions.ts';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { Secret } from '../../base/secret.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import { readCsr } from '../../pki/csr.ts';
import type { GivenSecrets } from '../../pki/given-secrets.ts';
import { type HandoutOf, type Held, handout } from '../../pki/handout.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import { PrivateKey, type PublicKey } from '../../pki/keys.ts';
import { trustBundle } from '../../pki/keyset.ts';
import type { Pki } from '../../pki/pki.ts';
import type { Catalog } from '../../resources/catalog.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import type { AppliedObjects } from '../objects/applied.ts';
import { joinsByToken } from '../resolve/by-token.ts';
import { apiServers, clusterNames, holderOf, pkiRoles } from '../resolve/certificate-names.ts';
import type { Releases } from '../resolve/release.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import type { AllowedVersions } from './allowed.ts';
import { type Certificates, leavesOf, openCertificates } from './certificates.ts';
import { type ClusterKeys, type Keys, openClusterKeys } from './cluster-keys.ts';
import { dataPart } from './data.ts';
import { type Departure, type Departures, departurePlan } from './departure.ts';
import type { PresentOf } from './desired-objects.ts';
import { type EtcdPlanner, markerOf } from './etcd-part.ts';
import { hold } from './lines.ts';
import { loginsOf } from './logins.ts';
import { heldLines, type MachinePlan, type PlanOf, planLines } from './machine-plan.ts';
import type { ObjectsPart } from './objects-unit.ts';
import { aheadImages } from './prefetch-unit.ts';
import { openPreflight, type Preflight } from './preflight.ts';
import { type Probing, probeLines, probingOf } from './probes.ts';
import { rehearsed } from './rehearsed.ts';
import type { Restarts } from './restarts.ts';
import type { RunningChangeOf } from './running-change.ts';
import { pinImages, type Supplies, withMirrors } from './supplies.ts';

export interface PlannerDeps {
  readonly catalog: Catalog;
  /** The Clusters of the catalogue, resolved once for all of their users. */
  readonly clusters: Pick<ResolvedClusters, 'clusterOf'>;
  readonly pki: Pki;
  readonly clock: Clock;
  readonly events: EventSink;
  /** Decides what a member of etcd may do. */
  readonly etcd: EtcdPlanner;
  /** Machines that were ordered out of their cluster; without it, no machine ever leaves. */
  readonly departures?: Departures;
  /** Tokens of machines that join by one. */
  readonly tokens: MachineTokens;
  /** Decides when a machine may restart etcd or its API server. */
  readonly restarts: Restarts;
  /** Notes what machines run; without it, nothing is noted. */
  readonly releases?: Pick<Releases, 'heard' | 'reset' | 'of'>;
  /** The change of a cluster that is under way; without it, there is never one. */
  readonly running?: RunningChangeOf;
  /** Decides which versions a machine may have now; without it, those of the document. */
  readonly allowed?: AllowedVersions;
  /** Makes the UUID of a new data filesystem. */
  readonly newFilesystem: () => string;
  /** Binaries and registries that this boot host has; absent: the machines' images contain them. */
  readonly supplies?: (resolved: ResolvedCluster, machine: ClusterMachine) => Supplies;
  /** Where passwords of registries are; without it, machines log in nowhere. */
  readonly given?: Pick<GivenSecrets, 'value' | 'tag'>;
  /** Lines for this moment, when it is the turn of the machine that polls: a snapshot, a reboot. */
  readonly orders?: readonly ((
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

export interface ClusterPlanner {
  readonly plan: AgentPlanner;
  /**
   * The whole plan of a worker whose agent does not poll (`delivery: inline`). Each call makes new
   * keys for the worker.
   *
   * @throws {MusterError} E_AGENT_WAIT, with the reason, while there is no plan yet.
   */
  readonly inline: (machine: string) => Promise<Plan>;
}

/** Seconds until the next poll, by what the machine waits for. */
const POLL = {
  /** The machine waits for nothing: the next lines are ready as soon as these are carried out. */
  now: 0,
  /** The machine waits for other machines. */
  soon: 2,
  /** The machine waits for an operator, or for a retry of a failed line. */
  held: 10,
  /** The machine waits for nothing: it has carried out the whole plan. */
  settled: 30,
  /** The machine belongs to no cluster. */
  idle: 60,
} as const;

/** Seconds until the next poll during a change: at most 100 machines poll in a second. */
const changing = ({ machines }: ResolvedCluster): number =>
  Math.min(POLL.settled, Math.max(POLL.soon, Math.ceil(machines.length / 100)));

/**
 * Creates the planner of all clusters on this boot host.
 *
 * @example
 * const planner = createPlanner({ catalog, clusters, pki, clock, events, etcd, tokens, restarts,
 *   newFilesystem: randomUUID, present, applied });
 * const { lines, pollSeconds } = await planner.plan({ machine: 'cp1', serial, address }, facts);
 */
export function createPlanner(deps: PlannerDeps): ClusterPlanner {
  const planner = new Planner(deps);
  return {
    plan: (identity, facts) => planner.plan(identity, facts),
    inline: (machine) => planner.inline(machine),
  };
}

/** The fault of a clock in doubt, as a value; throws every other error. */
function whenClockInDoubt(error: unknown): MusterError {
  if (error instanceof MusterError && error.code === 'E_CLOCK') return error;
  throw error;
}

const clockText = (doubt: string): string =>
  `The boot host issues nothing while its clock is in doubt: ${doubt}. Set the clock of the boot host.`;

const only = (pollSeconds: number, ...lines: readonly PlanLine[]): Plan => ({ lines, pollSeconds });

/** A poll: the cluster and the machine that polls, and the facts that the machine reports. */
interface Poll {
  /** Images that the machine fetches ahead of their use. */
  readonly ahead?: readonly string[] | undefined;
  readonly resolved: ResolvedCluster;
  readonly machine: ClusterMachine;
  readonly facts: AgentFacts;
}

class Planner {
  readonly #deps: PlannerDeps;
  readonly #certificates: Certificates;
  readonly #preflight: Preflight;
  readonly #keys: ClusterKeys;

  constructor(deps: PlannerDeps) {
    this.#deps = deps;
    this.#keys = openClusterKeys(deps);
    this.#certificates = openCertificates(deps);
    this.#preflight = openPreflight(deps.clock);
  }

  async plan(identity: AgentIdentity, facts: AgentFacts): Promise<Plan> {
    const { catalog } = this.#deps;
    if (catalog.get('Machine', identity.machine) === undefined)
      return only(
        POLL.held,
        hold('not-accepted', `${identity.machine} is not accepted: nothing is written to its disks.`),
      );
    const cluster = this.#deps.clusters.clusterOf(identity.machine);
    const machine = cluster?.resolved?.machines.find(({ name }) => name === identity.machine);
    const leaves = this.#deps.departures?.departing(identity.machine, cluster?.resolved?.name);
    if (leaves) {
      const own = cluster?.resolved?.name === leaves.cluster && machine;
      return this.#departure(
        leaves,
        identity.machine,
        facts,
        own ? { resolved: cluster.resolved, machine, facts } : undefined,
      );
    }
    if (cluster === undefined) return only(POLL.idle);
    const { resolved, faults } = cluster;
    if (resolved === undefined || machine === undefined) {
      const first =
        faults.find(({ severity }) => severity === 'error') ??
        faults.find((fault) => fault.machine === identity.machine);
      return only(POLL.held, hold('cluster-faulty', first?.fault.message ?? 'The Cluster is incomplete.'));
    }
    return this.#planNow({ resolved, machine, facts });
  }

  /** The plan with the versions that the machine may have now. */
  async #planNow(poll: Poll): Promise<Plan> {
    const { releases, allowed } = this.#deps;
    const { resolved, machine, facts } = poll;
    // What it runs now is known before it is decided what it may run next.
    if (releases?.of(resolved.name)) await releases.heard(resolved, machine, facts);
    const may = allowed?.(resolved, machine) ?? { resolved };
    if (may.resolved === undefined) return only(POLL.held, hold('cluster-faulty', may.why));
    const ahead =
      'ahead' in may && may.ahead
        ? aheadImages(may.ahead, machine, this.#deps.supplies?.(may.ahead, machine))
        : undefined;
    const plan = await this.#planOf({ ...poll, resolved: may.resolved, ahead });
    // During an upgrade machines wait for each other.
    return ahead === undefined ? plan : { ...plan, pollSeconds: Math.min(plan.pollSeconds, POLL.soon) };
  }

  /** The plan of a machine that leaves. `poll` is given if its cluster still names the machine. */
  async #departure(
    record: Departure,
    machine: string,
    facts: AgentFacts,
    poll: Poll | undefined,
  ): Promise<Plan> {
    // The founding needs the facts of every member, for when the cluster is founded again.
    if (poll?.machine.roles.includes('etcd')) await this.#deps.etcd(poll.resolved, poll.machine, facts);
    if (record.reset) await this.#deps.releases?.reset(record.cluster);
    const { gone, ...plan } = departurePlan(record, machine, facts);
    if (gone) await this.#deps.departures?.gone(record.cluster, machine);
    return plan;
  }

  async #planOf(poll: Poll): Promise<Plan> {
    const { resolved, machine, facts } = poll;
    const data = dataPart(resolved, machine, facts, this.#deps.newFilesystem);
    if (data.state === 'held') return { lines: data.lines, pollSeconds: POLL.held };
    if (data.state === 'coming') return { lines: data.lines, pollSeconds: this.#next(facts, POLL.now) };

    const isMember = machine.roles.includes('etcd');
    const etcd = isMember ? await this.#deps.etcd(resolved, machine, facts) : markerOf(poll);
    if (etcd?.hold?.stop === true)
      return {
        lines: heldLines({ ...this.#supplied(resolved, machine), data: data.lines, etcd }),
        pollSeconds: etcd.pollSeconds ?? POLL.held,
      };

    const running = this.#deps.running?.(resolved.name);
    const rehearsal = running?.rehearsal(machine.name);
    const known = await this.#keys.of(resolved, isMember).catch(whenClockInDoubt);
    if (known instanceof MusterError)
      return only(POLL.held, ...data.lines, hold('clock', clockText(known.message)));
    if (known === undefined)
      return only(
        POLL.soon,
        ...data.lines,
        hold(
          'waiting-for-members',
          'No member of etcd has polled yet; the keys of the cluster are made when the first of them polls.',
        ),
      );
    const keysets = rehearsed(known.keysets, rehearsal);
    const keys = { ...known, keysets };
    const isControlPlane = machine.roles.includes('control-plane');
    const present = isControlPlane
      ? await this.#deps.present(resolved, machine, trustBundle(keysets.get('ca')!))
      : undefined;
    const objects = present && (await this.#due(poll, present.part));
    // An agent that reports no evidence asks no listener.
    const asks = Number(facts.agent) >= REPORTS_PROGRAMS && rehearsal?.quiet !== true;
    const probing = asks ? probingOf(machine, keysets, keys.encryption) : { probes: [] };
    const leaves = await this.#leaves(poll, keys, objects !== undefined, probing);
    if (leaves.limited !== undefined)
      return {
        lines: [...data.lines, ...(etcd?.lines ?? []), hold(leaves.limited.code, leaves.limited.text)],
        pollSeconds: POLL.held,
      };
    if (leaves.requests.length > 0)
      return {
        lines: [...data.lines, ...(etcd?.lines ?? []), ...leaves.requests],
        pollSeconds: leaves.refused ? POLL.held : this.#next(facts, POLL.now),
      };
    await this.#deps.releases?.heard(resolved, machine, facts);
    const restart: PlanOf['restart'] = (wanted) => this.#deps.restarts.ask(resolved, machine, facts, wanted);
    const preflight = this.#preflight.of(machine.name, facts);
    const probes = probeLines(machine, probing, leaves.probes);
    const ordered = (this.#deps.orders ?? []).map((line) => line(resolved, machine, facts));
    const orders = (await Promise.all(ordered)).flatMap((line) => line ?? []);
    const input = {
      resolved,
      machine,
      data: data.lines,
      etcd,
      objects,
      preflight,
      restart,
      probes,
      orders,
      ahead: poll.ahead,
    };
    const joins = await this.#joins(poll);
    const planned = () => this.#lines(input, keys, leaves.held, joins);
    let { lines, soon } = planned();
    if ((await this.#deps.restarts.follow(resolved, machine)) === 'ask') {
      ({ lines, soon } = planned());
      await this.#deps.restarts.follow(resolved, machine);
    }
    const waiting =
      soon ||
      orders.length > 0 ||
      etcd?.hold !== undefined ||
      facts.applied === undefined ||
      facts.hold !== undefined;
    const often = running && !running.paused && !running.held ? changing(resolved) : POLL.settled;
    const pollSeconds = etcd?.pollSeconds ?? (waiting ? POLL.soon : often);
    // Missing add-ons hold the plan only at its end, and a hold of etcd takes precedence.
    const lacking = present?.addons.hold;
    if (lacking === undefined || etcd?.hold !== undefined) return { lines, pollSeconds };
    return {
      lines: [...lines, hold(lacking.code, lacking.text)],
      pollSeconds: Math.max(pollSeconds, POLL.held),
    };
  }

  /** The plan of a machine that has all of its certificates. */
  #lines(
    input: Omit<PlanOf, 'pki' | 'binaries'>,
    { keysets, encryption }: Keys,
    leaves: ReadonlyMap<LeafName, Held>,
    joins?: HandoutOf['joins'],
  ): MachinePlan {
    const { resolved, machine } = input;
    const pki = handout({
      roles: pkiRoles(machine),
      cluster: resolved.name,
      user: machine.name,
      keysets,
      leaves,
      encryption: { keyset: encryption, encrypts: resolved.encryptSecrets },
      servers: apiServers(resolved, machine),
      joins,
    });
    return planLines({ ...input, ...this.#supplied(resolved, machine), pki });
  }

  /** The cluster with this boot host's images and mirrors, and the binaries for the machine. */
  #supplied(
    resolved: ResolvedCluster,
    machine: ClusterMachine,
  ): Pick<PlanOf, 'resolved' | 'binaries' | 'logins'> {
    const supplies = this.#deps.supplies?.(resolved, machine);
    return {
      resolved: supplies ? withMirrors(pinImages(resolved, supplies.digestOf), supplies.mirrors) : resolved,
      binaries: supplies?.binaries,
      logins: loginsOf(resolved, machine.name, this.#deps.given),
    };
  }

  async inline(name: string): Promise<Plan> {
    const wait = (why: string): never => {
      throw new MusterError('E_AGENT_WAIT', why);
    };
    const { resolved: wanted } = this.#deps.clusters.clusterOf(name) ?? {};
    const machine = wanted?.machines.find((one) => one.name === name);
    if (wanted === undefined || machine === undefined) return wait('the Cluster is incomplete');
    // A document may ask for versions that its API servers do not have yet.
    const may = this.#deps.allowed?.(wanted, machine) ?? { resolved: wanted };
    if (may.resolved === undefined) return wait(may.why);
    const { resolved } = may;
    if (machine.roles.some((role) => role !== 'worker'))
      return wait(
        'only workers can have their secrets inline: a member of etcd starts when its agent gets the grant',
      );
    const keys = await this.#keys.of(resolved, false);
    if (keys === undefined)
      return wait('the keys of the cluster are made when its first member of etcd polls');
    const { pki } = this.#deps;
    const leaves = leavesOf(resolved, machine, false).map(async (leaf): Promise<[LeafName, Held]> => {
      const key = await PrivateKey.generate(resolved.keys);
      const { leafLifetime: lifetime } = resolved.pki;
      const order = { leaf, holder: holderOf(machine), cluster: clusterNames(resolved), lifetime };
      const { certificate } = await pki.issue(resolved.name, { ...order, publicKey: key.publicKey() });
      return [leaf, { certificate, key }];
    });
    const held = new Map(await Promise.all(leaves));
    const { lines } = this.#lines({ resolved, machine, data: [] }, keys, held);
    return { lines, pollSeconds: 0 };
  }

  /** Seconds until the next poll; longer after a failed plan, because a retry would fail again. */
  #next({ hold: failed }: AgentFacts, seconds: number): number {
    return failed === undefined ? seconds : Math.max(seconds, POLL.held);
  }

  /**
   * How the kubelet of a worker that joins by token gets its certificate; empty for other machines.
   */
  async #joins({ resolved, machine, facts }: Poll): Promise<HandoutOf['joins']> {
    if (!joinsByToken(resolved, machine)) return undefined;
    const { tokens } = this.#deps;
    if (facts.joined) {
      await tokens.joined(resolved.name, machine.name);
      return {};
    }
    // Before the first step of a boot the directory of certificates is not mounted, so the machine
    // cannot know yet whether it has one.
    return facts.step === undefined ? {} : { token: await tokens.of(resolved.name, machine.name) };
  }

  /** The in-cluster objects, if this control plane has not applied them yet. */
  async #due({ resolved, machine, facts }: Poll, part: ObjectsPart): Promise<ObjectsPart | undefined> {
    const due = await this.#deps.applied.isDue(resolved.name, machine.name, part.digest, facts);
    return due ? part : undefined;
  }

  /**
   * Certificates for the machine's keys, and lines that make the machine send the missing requests.
   */
  async #leaves(
    { resolved, machine, facts }: Poll,
    keys: Keys,
    applies: boolean,
    { probes: wanted }: Probing,
  ) {
    const leaves = leavesOf(resolved, machine, applies).filter(
      (leaf) => leaf !== 'kubelet' || !joinsByToken(resolved, machine),
    );
    let refused = false;
    let limited: Reason | undefined;
    const limit = (error: unknown): undefined => {
      if (!(error instanceof MusterError)) throw error;
      if (error.code === 'E_CLOCK') limited = { code: 'clock', text: clockText(error.message) };
      else if (error.code === 'E_CERTIFICATE_LIMIT')
        limited = { code: 'too-many-certificates', text: error.message };
      else throw error;
    };
    const get = async (leaf: LeafName, generation?: string) => {
      const request = this.#request(machine.name, leaf, facts);
      refused ||= request === 'refused';
      const publicKey = request === 'refused' ? undefined : request;
      const pin = facts.pins.get(leaf) ?? publicKey?.pin();
      const order = {
        leaf,
        holder: holderOf(machine),
        cluster: clusterNames(resolved),
        publicKey,
        generation,
        lifetime: resolved.pki.leafLifetime,
        replacesKeys: !(Number(facts.agent) < REPLACES_KEYS),
      };
      return pin === undefined
        ? undefined
        : this.#certificates.get(resolved.name, keys, { ...order, pin }).catch(limit);
    };
    const issued = await Promise.all(leaves.map((leaf) => get(leaf)));
    const held = new Map<LeafName, Held>();
    /** The leaves that lack a certificate, and whether their keys are to be replaced. */
    const lacking = new Map<LeafName, boolean>();
    for (const [n, leaf] of leaves.entries()) {
      const made = issued[n];
      if (made !== undefined && made !== 'new-key') held.set(leaf, made);
      else lacking.set(leaf, made === 'new-key');
    }
    const probes = new Map<ProbeName, string>();
    for (const { name, leaf, generation } of wanted) {
      const made = await get(leaf, generation);
      if (made !== undefined && made !== 'new-key') probes.set(name, made.certificate);
      else lacking.set(leaf, made === 'new-key');
    }
    const requests = [...lacking].map(([leaf, replaced]): PlanLine => {
      const replaces = replaced ? facts.pins.get(leaf) : undefined;
      return { do: 'request', leaf, algorithm: resolved.keys, ...(replaces && { replaces }) };
    });
    if (limited !== undefined && limited.code !== 'clock')
      this.#deps.events.record({
        kind: 'certificate.refused',
        subject: machine.name,
        reason: { code: 'too_many', text: limited.text },
      });
    return { held, probes, requests, refused, limited };
  }

  #request(machine: string, leaf: LeafName, facts: AgentFacts): PublicKey | 'refused' | undefined {
    const text = facts.requests.get(leaf);
    if (text === undefined) return undefined;
    const read = readCsr(text);
    if (read.ok) return read.publicKey;
    this.#deps.events.record({
      kind: 'certificate.refused',
      subject: machine,
      reason: { code: read.reason, text: `A request for ${leaf} was refused: ${read.text}.` },
    });
    return 'refused';
  }
}
