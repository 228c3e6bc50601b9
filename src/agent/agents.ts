/**
 * The agents' side of the boot host, from the first cluster on: transport CA and listener are there
 * when a Cluster with Kubernetes is; its certificate follows the host's addresses and the calendar.
 * A boot host without clusters opens no port and makes no keys.
 */
import type { Clock } from '../base/clock.ts';
import { duration } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventSink, Reason } from '../events/event.ts';
import { PREVIEW_SESSION } from '../ignition/input.ts';
import type { ConfigLayer } from '../ignition/rendered.ts';
import type { KnownMachine } from '../machines/machine.ts';
import type { Memberships } from '../machines/membership.ts';
import type { Roster } from '../machines/roster.ts';
import { createTickets, type TicketFacts, type Tickets } from '../machines/tickets.ts';
import type { Pki } from '../pki/pki.ts';
import type { Secrets } from '../pki/secrets.ts';
import { type ServerCertificate, serverCertificate } from '../pki/server-certificate.ts';
import type { Catalog, LiveCatalog } from '../resources/catalog.ts';
import { KEYS, MUSTER_SCOPE } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import { type AgentServer, type Others, startAgentServer } from './agent.server.ts';
import { createAgentApi } from './agent-api.ts';
import { raiseAlarm, rearmMachine } from './alarm.ts';
import { type Identities, openIdentities } from './identities.ts';
import { inlineLayer } from './inline.ts';
import { type AgentSettings, agentLayer } from './layer.ts';
import { type LayerRequest, NO_TICKET, previewLayer, settingsFor } from './machine-layer.ts';
import type { Plan } from './plan.ts';
import type { AgentPlanner } from './protocol.ts';
import { createWithdrawals } from './withdrawal.ts';

export interface AgentsDeps {
  readonly store: Store;
  readonly pki: Pki;
  readonly secrets: Secrets;
  readonly catalog: Catalog & Partial<Pick<LiveCatalog, 'faults'>>;
  readonly memberships: Memberships;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Told of the settings of every layer that is made; tests look there for tickets. */
  readonly made?: (settings: AgentSettings) => void;
}

/** What is known only when machines are served. */
export interface AgentsListen {
  readonly host: string;
  readonly port: number;
  readonly planner: AgentPlanner;
  /** The whole plan of a machine, with keys that are made for it. Throws E_AGENT_WAIT. */
  readonly inline: (machine: string) => Promise<Plan>;
  /** Our addresses on the served networks: the names in the certificate. */
  readonly addresses: () => readonly string[];
  readonly ticketed: (session: string) => TicketFacts | undefined;
  /** Who answers what agents do not ask for: the registry. */
  readonly others?: Others;
  /** The cluster that a machine has still to leave, although no Cluster names it any more. */
  readonly leaving?: (machine: string) => string | undefined;
}

/** What the boot service takes of it. */
export interface AgentBoot {
  /**
   * The cluster that this machine's agent works for: the Cluster that gives it a role, or the one
   * that it has still to leave. Constant time.
   */
  agentCluster(machine: string): string | undefined;
  /**
   * Everything that a machine gets, with fresh keys and certificates: secret. Throws E_AGENT_WAIT
   * while it cannot be said.
   */
  inline(machine: string): Promise<Plan>;
  /** Two systems asked for what only one may have. Durable when it resolves. */
  alarm(machine: string, reason: Reason, address: string): Promise<void>;
  /**
   * The layer that puts the agent on this machine. Throws E_AGENT_WAIT while the transport CA is
   * not there.
   */
  layer(request: LayerRequest): ConfigLayer;
  /** Changes when the same machine would get another layer. */
  readonly version: number;
}

export interface Agents extends AgentBoot {
  readonly identities: Identities;
  /**
   * Listens as soon as there is a cluster. Rejects with E_PORT_IN_USE, E_SOCKET_OPEN when there is
   * one now.
   */
  listen(options: AgentsListen): Promise<void>;
  /** Looks at addresses, clusters and the certificate now. */
  refresh(): Promise<void>;
  /** The port that is listened on. */
  port(): number | undefined;
  /** Why it does not listen although it should. */
  fault(): string | undefined;
  /** What a certificate of an agent is worth now, its dates aside. */
  standingOf(machine: string, serial: string): 'valid' | 'superseded' | 'revoked';
  /** See {@link rearmMachine}. */
  rearm(name: string, options: { readonly keep: boolean }): Promise<KnownMachine>;
  close(): Promise<void>;
}

/** Interfaces get their addresses late, and a certificate ends on some day. */
const LOOK_EVERY = duration('10s');
/**
 * So long a generation of the CA that was distrusted is believed, and a certificate that ends is
 * kept.
 */
const CERTIFICATE_EVERY = duration('1m');
const NOT_UP = 'the listener for agents is not up yet';

export async function openAgents(deps: AgentsDeps): Promise<Agents> {
  const { store, pki, secrets, memberships, roster, clock, log } = deps;
  const identities = await openIdentities({ store, log });
  // A machine that has still to leave its cluster gets plans until it has left.
  const agentCluster = (machine: string): string | undefined =>
    memberships.roleGiver(machine) ?? options?.leaving?.(machine);
  const withdrawals = createWithdrawals({ ...deps, identities, agentCluster });
  // Who was ready may run: nothing was heard of it while this process was not there to hear.
  roster.heartbeats.suppose(
    identities
      .list()
      .flatMap(({ machine, revoked }) =>
        revoked === undefined && roster.get(machine)?.status.phase === 'ready' ? [machine] : [],
      ),
  );

  let options: AgentsListen | undefined;
  let tickets: Tickets | undefined;
  let server: AgentServer | undefined;
  let certificate: ServerCertificate | undefined;
  let trusted: ReadonlySet<string> = new Set();
  let primary = '';
  let version = 0;
  let named = '';
  let failed: string | undefined;
  let stopped = false;
  let cancel: () => void = () => {};
  let looking: Promise<void> = Promise.resolve();

  const take = async (): Promise<ServerCertificate> => {
    const next = await serverCertificate({ pki, secrets, clock }, options!.addresses());
    const keyset = (await pki.keysets(MUSTER_SCOPE)).get('transport-ca')!;
    trusted = new Set(keyset.trusted.map(({ id }) => id));
    ({ primary } = keyset);
    if (next.authority !== certificate?.authority) version++;
    if (next.certificate !== certificate?.certificate || next.authority !== certificate?.authority)
      server?.renew(next);
    certificate = next;
    return next;
  };

  const start = async (listen: AgentsListen): Promise<void> => {
    tickets ??= createTickets(await secrets.key('tickets'));
    const door = createAgentApi({
      ...deps,
      ...listen,
      tickets,
      identities,
      trusted: () => trusted,
      primary: () => primary,
      agentCluster,
      revision: async () => (await store.list(KEYS.founding.prefix())).revision,
    });
    const { host, port, others } = listen;
    server = await startAgentServer({
      ...deps,
      door,
      listen: { host, port },
      certificate: await take(),
      ...(others && { others }),
    });
    log.info({ agents: server.port }, 'listening for agents');
  };

  /** When it was last looked who was taken out. */
  let withdrawnAt = -LOOK_EVERY;
  /** When the certificate was last looked at for its own sake. */
  let lookedAt = 0;

  const look = async (): Promise<void> => {
    if (stopped || options === undefined) return;
    if (clock.monotonic() - withdrawnAt >= LOOK_EVERY) {
      withdrawnAt = clock.monotonic();
      await withdrawals.look();
    }
    if (memberships.size === 0) return;
    if (server === undefined) return start(options);
    const now = options.addresses().join(' ');
    if (now === named && clock.monotonic() - lookedAt < CERTIFICATE_EVERY) return;
    named = now;
    lookedAt = clock.monotonic();
    await take();
  };

  /** One after the other; what fails is said once and tried again. */
  const refresh = (): Promise<void> => {
    looking = looking.catch(() => {}).then(look);
    return looking;
  };
  const quietly = (): void =>
    void refresh().then(
      () => {
        failed = undefined;
      },
      (error: unknown) => {
        const text = error instanceof MusterError ? `${error.code} ${error.message}` : String(error);
        if (text !== failed) log.error({ error: text }, 'agents cannot be listened to; trying again');
        failed = text;
      },
    );
  const schedule = (): void => {
    if (stopped) return;
    cancel = clock.after(LOOK_EVERY, () => {
      quietly();
      schedule();
    });
  };
  const unsubscribe = memberships.subscribe(quietly);

  return {
    identities,
    get version() {
      return version;
    },
    agentCluster,
    async inline(machine) {
      if (options === undefined) throw new MusterError('E_AGENT_WAIT', NOT_UP);
      return options.inline(machine);
    },
    alarm: (machine, reason, address) => raiseAlarm(deps, machine, reason, address),
    layer(request) {
      if (certificate === undefined || options === undefined || tickets === undefined)
        throw new MusterError('E_AGENT_WAIT', NOT_UP);
      const { machine, session, plan } = request;
      const { authority } = certificate;
      const now = clock.now();
      if (request.delivery === 'inline') return inlineLayer({ machine, authority, now, plan });
      const ticket = session === PREVIEW_SESSION ? NO_TICKET : tickets.of({ id: session, machine }).reveal();
      const settings = settingsFor(request, { port: server?.port ?? options.port, authority, ticket, now });
      deps.made?.(settings);
      return agentLayer(settings);
    },
    async listen(given) {
      options = given;
      await refresh();
      schedule();
    },
    refresh,
    port: () => server?.port,
    fault: () => failed,
    standingOf(machine, serial) {
      const record = identities.get(machine);
      if (record?.serial !== serial && record?.next?.serial !== serial) return 'superseded';
      return record.revoked === undefined ? 'valid' : 'revoked';
    },
    rearm: (name, { keep }) => rearmMachine({ ...deps, identities }, name, { keep }),
    async close() {
      stopped = true;
      cancel();
      unsubscribe();
      await looking.catch(() => {});
      await server?.close();
    },
  };
}

const NO_BOOT_HOST = 'only a boot host can say that';

/**
 * The agents' side of documents alone, for `render -f`: no keys, no tickets, nobody who listens.
 */
export function previewAgents({ memberships, clock }: Pick<AgentsDeps, 'memberships' | 'clock'>): AgentBoot {
  const refuse = (): Promise<never> => Promise.reject(new MusterError('E_AGENT_WAIT', NO_BOOT_HOST));
  return {
    version: 0,
    agentCluster: (machine) => memberships.roleGiver(machine),
    inline: refuse,
    alarm: refuse,
    layer: (request) => previewLayer(request, clock.now()),
  };
}
