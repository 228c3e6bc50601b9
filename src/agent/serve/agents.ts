/**
 * The part of the boot host that serves agents. It opens its listener and founds the transport CA
 * when the first Cluster with Kubernetes or the first document with a Secret appears: a boot host
 * without either opens no port and makes no keys.
 */
import { type Clock, timeToTell } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { ClockWitnesses } from '../../base/host-clock.ts';
import type { Standing } from '../../base/limits.server.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import { PREVIEW_SESSION } from '../../ignition/input.ts';
import type { ConfigLayer } from '../../ignition/rendered.ts';
import type { Consoles } from '../../machines/console.files.ts';
import { forgetDeleted, type Inventories, openInventories } from '../../machines/inventories.ts';
import type { KnownMachine } from '../../machines/machine.ts';
import type { Memberships } from '../../machines/membership.ts';
import type { Roster } from '../../machines/roster.ts';
import type { SecretUsers } from '../../machines/secret-users.ts';
import { createTickets, type TicketFacts, type Tickets } from '../../machines/tickets.ts';
import type { Pki } from '../../pki/pki.ts';
import type { Secrets } from '../../pki/secrets.ts';
import type { ServerCertificate } from '../../pki/server-certificate.ts';
import type { Catalog, LiveCatalog } from '../../resources/catalog.ts';
import { KEYS } from '../../store/keys.ts';
import type { Life } from '../../store/life.ts';
import type { Store } from '../../store/store.ts';
import { raiseAlarm, rearmMachine } from '../identity/alarm.ts';
import { approveMachine, type WaitingView, waitingKeys } from '../identity/approve.ts';
import { type AgentRecord, type Identities, openIdentities } from '../identity/identities.ts';
import { waitingReason } from '../identity/redeem.ts';
import { type KnownTpm, knownTpm } from '../identity/redeem-tpm.ts';
import { type TicketKeys, ticketKeysOnDemand } from '../identity/ticket-keys.ts';
import { createTpmChallenges, type TpmChallenges } from '../identity/tpm-challenges.ts';
import { createWaiting, type Waiting } from '../identity/waiting.ts';
import { createWithdrawals } from '../identity/withdrawal.ts';
import type { Plan } from '../wire/plan.ts';
import type { AgentBuilds, AgentPlanner, AgentSnapshots, LaterKeysGuard } from '../wire/protocol.ts';
import { createRevisionClaims } from '../wire/revision-claim.ts';
import { type AgentServer, type Others, startAgentServer } from './agent.server.ts';
import { type ConfigurationOf, createAgentApi, type PlannedPoll } from './agent-api.ts';
import { inlineLayer } from './inline.ts';
import { type AgentSettings, agentLayer } from './layer.ts';
import { type LayerRequest, NO_TICKET, previewLayer, settingsFor } from './machine-layer.ts';
import { createRounds } from './rounds.ts';
import { createTransport, type Transport } from './transport.ts';
import type { Witness } from './witness.ts';

export interface AgentsDeps {
  readonly store: Store;
  readonly pki: Pki;
  readonly secrets: Secrets;
  readonly catalog: Catalog & Partial<Pick<LiveCatalog, 'faults'>>;
  readonly memberships: Memberships;
  readonly secretUsers: Pick<SecretUsers, 'size' | 'mayUse' | 'subscribe'>;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly life: Pick<Life, 'number' | 'state' | 'detail' | 'seen' | 'isAhead'>;
  /** Other hosts that may become the boot host; agents ask them when this one does not answer. */
  readonly standby: readonly string[];
  /** Keeps what machines print on their consoles. */
  readonly consoles: Pick<Consoles, 'take'>;
  /** Compares what agents remember of the security log with it. */
  readonly witness: Witness;
  /** Told the clocks of the machines. */
  readonly witnesses: ClockWitnesses;
  /** Called with the settings of every layer that is made; tests read tickets from them. */
  readonly made?: (settings: AgentSettings) => void;
}

/** Whom agents are served for, and with: the boots, the clusters, the addresses of this host. */
export interface AgentPeers {
  readonly host: string;
  readonly port: number;
  readonly planner: AgentPlanner;
  /**
   * The whole plan of a machine, with keys made for it.
   *
   * @throws {MusterError} E_AGENT_WAIT while it cannot be made
   */
  readonly inline: (machine: string) => Promise<Plan>;
  /** Our addresses on the served networks: the names in the certificate. */
  readonly addresses: () => readonly string[];
  /** What is known of a boot session that carries a ticket. */
  readonly ticketed: (session: string) => TicketFacts | undefined;
  /** Whether an address may ask for a first certificate. */
  readonly admits: (address: string) => boolean;
  /** What is known of an address. */
  readonly standing: (address: string) => Standing;
  /** Called with the address of every request whose certificate is an agent's. */
  readonly heard: (address: string) => void;
  /** Answers requests that are not an agent's: the registry. */
  readonly others: Others;
  /** Whether the machine itself is at an address: its own, and no other hardware answers there. */
  readonly isAt: (machine: string, address: string) => boolean;
  /** Whether documents want a disk of a machine encrypted with a key of the boot host. */
  readonly keepsDataKey: (machine: string) => boolean;
  /** What a machine's boot disk gets; see {@link ConfigurationOf}. */
  readonly configuration: ConfigurationOf;
  readonly snapshots: AgentSnapshots;
  /** Which agent machines run. */
  readonly builds: AgentBuilds;
  /** Holds clusters whose keys are later than this store's. */
  readonly laterKeys: LaterKeysGuard;
  /** Told about every poll that was answered with a plan. */
  readonly planned: PlannedPoll;
  /** The cluster that a machine has still to leave, although no Cluster names it any more. */
  readonly leaving: (machine: string) => string | undefined;
}

/** The part that the boot service uses. */
export interface AgentBoot {
  /**
   * The cluster that this machine's agent works for: the Cluster that gives it a role, or the one
   * that it has still to leave. Constant time.
   */
  agentCluster(machine: string): string | undefined;
  /** The TPM that is known for a machine. Constant time. */
  tpm(machine: string): KnownTpm | undefined;
  /** Why a machine's agent does not go on that waits for an approval. Constant time. */
  waits(machine: string): Reason | undefined;
  /**
   * Whether an agent may work on this machine: for a cluster, or to bring values of Secrets.
   * Constant time.
   */
  hasAgent(machine: string): boolean;
  /**
   * The whole plan of a machine, with fresh keys and certificates: secret.
   *
   * @throws {MusterError} E_AGENT_WAIT while it cannot be made
   */
  inline(machine: string): Promise<Plan>;
  /** Raises the machine's alarm: two systems may hold its credentials. Durable when it resolves. */
  alarm(machine: string, reason: Reason, address: string): Promise<void>;
  /**
   * The layer that puts the agent on this machine.
   *
   * @throws {MusterError} E_AGENT_WAIT while there is no transport CA; E_CONFIG for a disk
   * selector that cannot be passed to the agent.
   */
  layer(request: LayerRequest): ConfigLayer;
  /** Increases when the same machine would get another layer. */
  readonly version: number;
}

export interface Agents extends AgentBoot {
  readonly identities: Identities;
  /** What agents report of their machines' parts. */
  readonly inventories: Inventories;
  /**
   * Takes the peers, and listens as soon as there is a cluster.
   *
   * @throws {MusterError} E_PORT_IN_USE or E_SOCKET_OPEN when there is a cluster now and the port
   * cannot be opened
   */
  serve(peers: AgentPeers): Promise<void>;
  /** Checks addresses, clusters and the certificate now instead of at the next interval. */
  refresh(): Promise<void>;
  /** Reads the transport CA again: agents and listener use what a rotation has changed. */
  trustChanged(): Promise<void>;
  /** The secrets from which tickets are derived; made when they are first asked for. */
  ticketKeys(): Promise<TicketKeys>;
  /** The listener's port; undefined while there is none. */
  port(): number | undefined;
  /** Why there is no listener although there should be one. */
  fault(): string | undefined;
  /** Whether an agent's certificate is believed now, its dates aside. */
  certificateState(machine: string, serial: string): 'valid' | 'superseded' | 'revoked';
  /** See {@link waitingKeys}. */
  waiting(asked: { readonly codes: boolean }): readonly WaitingView[];
  /** See {@link approveMachine}. */
  approve(machine: string, code: string): Promise<Omit<WaitingView, 'code'>>;
  /** See {@link rearmMachine}. */
  rearm(name: string, options: { readonly keep: boolean }): Promise<KnownMachine>;
  close(): Promise<void>;
}

/** How often addresses, clusters and withdrawals are checked. Interfaces may get addresses late. */
const LOOK_EVERY = duration('10s');
/**
 * How often certificate and CA are read when no address changed. A distrusted generation of the CA
 * is still accepted for up to this time.
 */
const CERTIFICATE_EVERY = duration('1m');

/** How often ended certificates are removed from the ledger. */
const PRUNE_EVERY = duration('1d');

const notUp = (): MusterError => new MusterError('E_AGENT_WAIT', 'the listener for agents is not up yet');

/**
 * Opens the part that serves agents: reads their identities from the store. The listener opens with
 * {@link Agents.serve}.
 */
export async function openAgents(deps: AgentsDeps): Promise<Agents> {
  const { memberships, secretUsers, clock, log } = deps;
  const identities = await openIdentities(deps);
  const inventories = await openInventories(deps);
  supposeReady(deps, identities);
  let peers: AgentPeers | undefined;
  let tickets: Tickets | undefined;
  let server: AgentServer | undefined;
  // A machine that has still to leave its cluster gets plans until it has left.
  const agentCluster = (machine: string): string | undefined =>
    memberships.roleGiver(machine) ?? peers?.leaving(machine);
  const hasAgent = (machine: string): boolean =>
    agentCluster(machine) !== undefined || secretUsers.mayUse(machine);
  const withdrawals = createWithdrawals({ ...deps, identities, hasAgent });
  const transport = createTransport(deps);
  const known: Known = {
    identities,
    inventories,
    transport,
    hasAgent,
    waiting: createWaiting(clock),
    challenges: createTpmChallenges(clock),
    ticketKeys: ticketKeysOnDemand(deps),
    authority: () => transport.certificate?.authority ?? '',
  };
  const { waiting, challenges, ticketKeys, authority } = known;
  const certificates = followCertificate(transport, clock);
  const withdraw = atMostEvery(LOOK_EVERY, clock, withdrawals.look);
  const prune = atMostEvery(PRUNE_EVERY, clock, () => pruneLedgers(deps));
  const round = async (): Promise<void> => {
    if (peers === undefined) return;
    await withdraw();
    await prune();
    if (tickets) await (await ticketKeys()).prune();
    if (memberships.size === 0 && secretUsers.size === 0) return;
    if (server === undefined) {
      tickets ??= createTickets((await ticketKeys()).all);
      server = await openListener(deps, known, peers, tickets);
      return;
    }
    const certificate = await certificates.changed(peers.addresses());
    if (certificate) server.renew(certificate);
  };
  const failed = (error: string): void => log.error({ error }, 'agents cannot be listened to; trying again');
  const rounds = createRounds({ clock, every: LOOK_EVERY, round, failed });
  const followed = [memberships, secretUsers].map((one) => one.subscribe(rounds.soon));
  const unsubscribe = [...followed, forgetDeleted(inventories, deps)];

  return {
    identities,
    inventories,
    get version() {
      return transport.version;
    },
    agentCluster,
    hasAgent,
    async inline(machine) {
      if (peers === undefined) throw notUp();
      return peers.inline(machine);
    },
    alarm: (machine, reason, address) => raiseAlarm(deps, machine, reason, address),
    layer(request) {
      const { certificate } = transport;
      if (certificate === undefined || peers === undefined || tickets === undefined) throw notUp();
      const { standby, made } = deps;
      const port = server?.port ?? peers.port;
      const host = { authority: certificate.authority, tickets, port, now: timeToTell(clock), standby };
      return hostLayer(request, host, made);
    },
    async serve(given) {
      peers = given;
      await rounds.now();
      rounds.start();
    },
    refresh: rounds.now,
    async trustChanged() {
      certificates.forget();
      await rounds.now();
    },
    ticketKeys,
    port: () => server?.port,
    fault: rounds.failure,
    certificateState: (machine, serial) => stateOf(identities.get(machine), serial),
    tpm: (machine) => knownTpm({ ...deps, identities }, machine),
    waits: (machine) => (waiting.of(machine).length === 0 ? undefined : waitingReason(machine)),
    waiting: (asked) => waitingKeys({ waiting, authority }, asked),
    async approve(machine, code) {
      if (peers === undefined || tickets === undefined) throw notUp();
      const { ticketed } = peers;
      return approveMachine(
        { ...deps, tickets, identities, waiting, challenges, ticketed, authority },
        machine,
        code,
      );
    },
    rearm: (name, { keep }) => rearmMachine({ ...deps, identities }, name, { keep }),
    async close() {
      for (const one of unsubscribe) one();
      await rounds.close();
      await server?.close();
    },
  };
}

/** What is known of agents before anybody is served. */
interface Known extends Pick<Agents, 'identities' | 'inventories' | 'hasAgent' | 'ticketKeys'> {
  readonly transport: Transport;
  readonly waiting: Waiting;
  readonly challenges: TpmChallenges;
  /** PEM of all trusted generations. */
  readonly authority: () => string;
}

/**
 * Opens the listener.
 *
 * @throws {MusterError} E_PORT_IN_USE or E_SOCKET_OPEN when the port cannot be opened
 */
async function openListener(
  deps: AgentsDeps,
  known: Known,
  peers: AgentPeers,
  tickets: Tickets,
): Promise<AgentServer> {
  const { store, secrets, log } = deps;
  const { transport, ticketKeys: _, ...asked } = known;
  const api = createAgentApi({
    ...deps,
    ...asked,
    ...peers,
    tickets,
    trusted: transport.trusted,
    primary: transport.primary,
    claims: createRevisionClaims(await secrets.key('revisions')),
    revision: async () => (await store.list(KEYS.founding.prefix())).revision,
  });
  const { certificate } = await transport.refresh(peers.addresses());
  const { host, port } = peers;
  const server = await startAgentServer({ ...deps, ...peers, api, listen: { host, port }, certificate });
  log.info({ agents: server.port }, 'listening for agents');
  return server;
}

/** Reads the listener's certificate again when addresses change, and once in a while. */
function followCertificate(transport: Transport, clock: Pick<Clock, 'monotonic'>) {
  /** The addresses that the certificate was last asked for. */
  let named = '';
  let readAt: number = -CERTIFICATE_EVERY;
  return {
    /** The certificate, if it or the CA is another one than at the last call. */
    async changed(addresses: readonly string[]): Promise<ServerCertificate | undefined> {
      const now = addresses.join(' ');
      if (now === named && clock.monotonic() - readAt < CERTIFICATE_EVERY) return undefined;
      named = now;
      readAt = clock.monotonic();
      const { certificate, changed } = await transport.refresh(addresses);
      return changed ? certificate : undefined;
    },
    /** Lets the next call read it in any case. */
    forget(): void {
      readAt = -CERTIFICATE_EVERY;
    },
  };
}

/** Removes ended certificates from all ledgers. If that fails, agents are answered all the same. */
async function pruneLedgers({ pki, log }: Pick<AgentsDeps, 'pki' | 'log'>): Promise<void> {
  try {
    for (const scope of await pki.scopes()) {
      const entries = await pki.prune(scope);
      if (entries > 0) log.info({ scope, entries }, 'removed ended certificates from the ledger');
    }
  } catch (err) {
    log.warn({ err }, 'cannot remove ended certificates from the ledger');
  }
}

/** Does `work` unless it was done less than `every` ago. */
function atMostEvery(
  every: Millis,
  clock: Pick<Clock, 'monotonic'>,
  work: () => Promise<void>,
): () => Promise<void> {
  let doneAt = -every;
  return async () => {
    if (clock.monotonic() - doneAt < every) return;
    doneAt = clock.monotonic();
    await work();
  };
}

/** The agent's layer with the boot host's CA and, for a boot, a ticket. */
function hostLayer(
  request: LayerRequest,
  host: Pick<AgentSettings, 'authority' | 'now'> & {
    readonly tickets: Tickets;
    readonly port: number;
    readonly standby: readonly string[];
  },
  made: AgentsDeps['made'],
): ConfigLayer {
  const { machine, session, plan } = request;
  const { tickets, ...known } = host;
  if (request.delivery === 'inline') return inlineLayer({ machine, ...known, plan });
  const ticket = session === PREVIEW_SESSION ? NO_TICKET : tickets.of({ id: session, machine }).reveal();
  const settings = settingsFor(request, { ...known, ticket });
  made?.(settings);
  return agentLayer(settings);
}

function stateOf(record: AgentRecord | undefined, serial: string): 'valid' | 'superseded' | 'revoked' {
  if (record?.serial !== serial && record?.next?.serial !== serial) return 'superseded';
  return record.revoked === undefined ? 'valid' : 'revoked';
}

/**
 * Counts machines that were ready as running, because their agents could not be heard while this
 * server was down.
 */
function supposeReady({ roster }: Pick<AgentsDeps, 'roster'>, identities: Identities): void {
  const valid = identities.list().filter(({ revoked }) => revoked === undefined);
  roster.heartbeats.suppose(
    valid.flatMap(({ machine }) => (roster.get(machine)?.status.phase === 'ready' ? [machine] : [])),
  );
}

const NO_BOOT_HOST = 'only a boot host can say that';

/**
 * An {@link AgentBoot} for documents alone, for `render -f`: without keys, tickets and listener.
 */
export function previewAgents({ memberships, clock }: Pick<AgentsDeps, 'memberships' | 'clock'>): AgentBoot {
  const refuse = (): Promise<never> => Promise.reject(new MusterError('E_AGENT_WAIT', NO_BOOT_HOST));
  return {
    version: 0,
    agentCluster: (machine) => memberships.roleGiver(machine),
    tpm: () => undefined,
    waits: () => undefined,
    // Asked only where tickets are given out.
    hasAgent: (machine) => memberships.roleGiver(machine) !== undefined,
    inline: refuse,
    alarm: refuse,
    layer: (request) => previewLayer(request, clock.now()),
  };
}
