/**
 * The daemon, wired: state → cores → listeners → ready. Nothing is decided here.
 */

import { randomBytes, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { isatty } from 'node:tty';
import { openAgents } from './agent/agents.ts';
import { startApi } from './api/api.server.ts';
import { artifactRoutes } from './api/artifacts.ts';
import { assetRoutes } from './api/assets.ts';
import type { Readiness } from './api/deps.ts';
import { readinessOf } from './api/readiness.ts';
import { openArtifactBook } from './artifacts/book.ts';
import { type Clock, systemClock } from './base/clock.ts';
import { type InheritedSocket, inheritedSockets } from './base/inherited.ts';
import { formatIpv4 } from './base/ipv4.ts';
import { createMetrics, type Metrics } from './base/metrics.ts';
import { connectServiceManager } from './base/notify.files.ts';
import { createLog, type DaemonLog } from './base/pino.files.ts';
import { openSystemCalls } from './base/system-calls.socket.ts';
import { VERSION } from './base/version.ts';
import type { ServeOptions } from './cli/serve/options.ts';
import { createDepartures } from './cluster/change/departures.ts';
import { createMembership } from './cluster/change/membership.ts';
import { openRollouts } from './cluster/change/rollouts.ts';
import { foundingOrders } from './cluster/etcd/commands.ts';
import { createEtcdPlanner } from './cluster/etcd/etcd-plan.ts';
import { createFounder } from './cluster/etcd/founder.ts';
import { createGateways } from './cluster/etcd/gateway.socket.ts';
import { createHealth } from './cluster/health/health.ts';
import { startApprover } from './cluster/joining/approver.ts';
import { startNodeKeeper } from './cluster/joining/node-keeper.ts';
import { startTokenKeeper } from './cluster/joining/token-keeper.ts';
import { openJoinTokens } from './cluster/joining/tokens.ts';
import { userEtcdClient, userKubeconfig } from './cluster/joining/user-credentials.ts';
import { createKubes } from './cluster/kube.socket.ts';
import { openAddons } from './cluster/objects/addons/library.ts';
import { openAppliedObjects } from './cluster/objects/applied.ts';
import { openPresentObjects } from './cluster/plan/desired-objects.ts';
import { createPlanner } from './cluster/plan/planner.ts';
import { checkAll } from './cluster/spec/check-documents.ts';
import { followClusters } from './cluster/spec/resolved-clusters.ts';
import { attachEventJournal } from './events/journal.files.ts';
import { createEventLog } from './events/log.ts';
import { logEvents } from './events/to-log.ts';
import { render } from './ignition/render.ts';
import { acceptMachine } from './machines/accept.ts';
import { followMemberships } from './machines/membership.ts';
import { openRoster } from './machines/roster.ts';
import { openPki } from './pki/pki.ts';
import { openSecrets } from './pki/secrets.ts';
import { startVault } from './pki/vault-key.files.ts';
import { createAddressOwners } from './pxe/address-owners.ts';
import { openAssets } from './pxe/assets/assets.files.ts';
import { watchSpace } from './pxe/assets/space.files.ts';
import { createBootService } from './pxe/decide/boot-service.ts';
import { startDhcp } from './pxe/dhcp/dhcp.socket.ts';
import { openLeaseBook } from './pxe/dhcp/leases.ts';
import { firmwareServed } from './pxe/firmware/loaders.ts';
import { startMachineHttp } from './pxe/http/machines.server.ts';
import { serveRegistry } from './pxe/http/registry.server.ts';
import { hostAddresses, interfaceIndex } from './pxe/interfaces.files.ts';
import { followNetworks, type LiveNetworks } from './pxe/live-networks.ts';
import { createSupplies } from './pxe/supplies.ts';
import { startTftp } from './pxe/tftp/tftp.socket.ts';
import { openCatalog } from './resources/catalog.files.ts';
import { type Kind, PLURAL } from './resources/kinds.ts';
import { PKI_PREFIX } from './store/keys.ts';
import { openSqliteStore } from './store/sqlite.files.ts';

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Whether there is no document of any kind: then no machine gets anything. */
const isEmpty = (catalog: Pick<State['catalog'], 'list'>): boolean =>
  (Object.keys(PLURAL) as Kind[]).every((kind) => catalog.list(kind).length === 0);

/** The listening TCP socket that was handed over, or an own one when none was. */
function httpListener(sockets: readonly InheritedSocket[], port: number) {
  const inherited = sockets.find(({ name }) => name === 'http');
  return inherited ? { fd: inherited.fd } : { host: '0.0.0.0', port };
}

/** `dhcp-eth1` → `eth1`: the interfaces that are listened on. */
function interfacesOf(sockets: readonly InheritedSocket[]): readonly string[] {
  return sockets.flatMap(({ name }) => (name.startsWith('dhcp-') ? [name.slice('dhcp-'.length)] : []));
}

function tftpSockets(sockets: readonly InheritedSocket[]) {
  return sockets.flatMap(({ fd, name }) =>
    name.startsWith('tftp-') ? [{ fd, interface: name.slice('tftp-'.length) }] : [],
  );
}

/** What the readiness of the server depends on, as it is now. */
const readiness = (networks: LiveNetworks, { catalog, disk, journal, agents, assets }: State): Readiness =>
  readinessOf({
    served: networks.served().map(({ name }) => name),
    networks: catalog.list('Network').length,
    storeFailure: disk.failure,
    journalFailing: journal.failing,
    firmware: firmwareServed((name) => assets.loader(name) !== undefined),
    agentsFault: agents.fault(),
    faults: [...networks.faults(), ...catalog.faults()],
  });

/** What every room takes. */
interface Common {
  readonly clock: Clock;
  readonly log: DaemonLog;
  readonly metrics: Metrics;
  /** Aborts when the daemon stops. */
  readonly signal: AbortSignal;
}

/**
 * Opens what is known; each part is closed by `closing`. `broken` is called when the store cannot
 * go on.
 */
async function openState(
  options: ServeOptions,
  common: Common,
  closing: AsyncDisposableStack,
  broken: (error: Error) => void,
) {
  const { clock, log, metrics } = common;
  const events = createEventLog({ ...common, perSubject: 200, subjects: 50_000 });
  const journal = await attachEventJournal({ ...common, events, directory: join(options.state, 'events') });
  closing.defer(() => journal.close());
  closing.defer(logEvents(events, log.unredacted));
  /** What the disk said when it last refused a commit; nothing while it takes them. */
  const disk: { failure: string | undefined } = { failure: undefined };
  const store = await openSqliteStore({
    path: join(options.state, 'muster.db'),
    log,
    metrics,
    broken,
    failing: (cause) => {
      disk.failure = cause;
    },
  });
  closing.defer(() => store.close());
  const catalog = await openCatalog({
    ...common,
    ...(options.config === undefined ? {} : { directory: options.config }),
    store,
    events,
    checkConfig: checkAll,
  });
  closing.defer(() => catalog.close());
  const memberships = followMemberships(catalog);
  closing.defer(() => memberships.close());
  const assets = await openAssets({
    directory: join(options.state, 'assets'),
    loaderDirectories: options.loaders,
    log,
  });
  closing.defer(watchSpace({ directory: options.state, metrics, clock, log }));
  const artifacts = await openArtifactBook(store);
  const addons = openAddons(assets.read);
  const leases = await openLeaseBook({ store, clock, events, metrics });
  const roster = await openRoster({ ...common, store, catalog, events });
  closing.defer(() => roster.close());
  const vault = startVault({
    file: options.vaultKey,
    credentialsDirectory: process.env.CREDENTIALS_DIRECTORY,
    state: options.state,
    sealed: (await store.list(PKI_PREFIX)).records.length > 0,
    warn: (text) => log.warn({}, text),
  });
  const pki = openPki({ store, vault, clock });
  const secrets = openSecrets({ store, vault });
  const agents = await openAgents({
    ...common,
    store,
    pki,
    secrets,
    catalog,
    memberships,
    roster,
    events,
  });
  const tokens = await openJoinTokens({ store, secrets, clock, events, log });
  return {
    events,
    journal,
    disk,
    store,
    catalog,
    memberships,
    assets,
    artifacts,
    addons,
    leases,
    roster,
    pki,
    agents,
    tokens,
  };
}

type State = Awaited<ReturnType<typeof openState>>;

/**
 * Starts to answer machines and operators. Nobody is cut off at the end: all listeners let what is
 * under way finish, together.
 */
async function listen(
  options: ServeOptions,
  common: Common,
  state: State,
  closing: AsyncDisposableStack,
  stop: () => void,
) {
  const {
    catalog,
    memberships,
    roster,
    leases,
    assets,
    artifacts,
    addons,
    events,
    store,
    agents,
    pki,
    tokens,
  } = state;
  const sockets = inheritedSockets(process.env, process.pid);
  const networks = followNetworks({
    ...common,
    catalog,
    addresses: hostAddresses,
    interfaces: interfacesOf(sockets),
    indexOf: interfaceIndex,
    httpPort: options.httpPort,
  });
  const { subjectOf, leasedAddresses } = createAddressOwners({ networks: networks.served, leases, roster });
  const boot = createBootService({
    catalog,
    memberships,
    roster,
    assets,
    networks: networks.served,
    render,
    events,
    metrics: common.metrics,
    clock: common.clock,
    agents,
    leasedAddresses,
  });
  closing.defer(() => boot.close());

  const listeners: (() => Promise<void>)[] = [];
  closing.defer(async () => {
    stop();
    await Promise.all(listeners.map((close) => close()));
  });
  const machines = { ...common, networks: networks.served, boot, assets, events, subjectOf };
  const gateway = createGateways({ ...common, pki });
  const founder = createFounder({ ...common, store, events, gateway });
  closing.defer(() => founder.close());
  await founder.resume();
  const etcd = createEtcdPlanner(founder);
  const clusters = followClusters(catalog, memberships);
  closing.defer(() => clusters.close());
  const supplies = createSupplies({
    networks: networks.served,
    roster,
    book: artifacts,
    agentPort: agents.port,
  });
  const foundingOf = (cluster: string) => founder.records().find((record) => record.cluster === cluster)?.id;
  const present = openPresentObjects(addons, foundingOf);
  const applied = openAppliedObjects({ ...common, store });
  const planner = createPlanner({
    ...common,
    catalog,
    clusters,
    pki,
    events,
    etcd,
    departures: founder,
    tokens,
    newFilesystem: randomUUID,
    restarts: openRollouts({ ...common, events }),
    supplies,
    present,
    applied,
  });
  // Before any configuration leaves: it says where agents are listened to, and our CA.
  await agents.listen({
    host: '0.0.0.0',
    port: options.agentPort,
    planner: planner.plan,
    inline: planner.inline,
    addresses: () => networks.served().map(({ serverAddress }) => formatIpv4(serverAddress)),
    ticketed: (session) => boot.ticketed(session),
    leaving: (machine) => founder.departing(machine, undefined)?.cluster,
    others: (request, response) =>
      serveRegistry(request, response, { book: artifacts, assets, metrics: common.metrics }),
  });
  listeners.push(() => agents.close());
  // HTTP comes first: its port is part of what DHCP says.
  const http = await startMachineHttp({ ...machines, listen: httpListener(sockets, options.httpPort) });
  listeners.push(() => http.close());
  const tftp = await startTftp({ ...machines, sockets: tftpSockets(sockets) });
  listeners.push(() => tftp.stopped);
  const dhcp = await startDhcp({ ...machines, sockets, leases, store });
  listeners.push(() => dhcp.close());
  const founding = foundingOrders(clusters, founder);
  const kubes = createKubes({ ...common, pki });
  const departures = createDepartures({ ...common, founder, clusters: clusters, kubes });
  closing.defer(() => departures.close());
  for (const { cluster } of founder.records()) departures.go(cluster);
  const approver = startApprover({ ...common, founder, clusters: clusters, kubes, tokens, events });
  closing.defer(() => approver.close());
  const keeper = startTokenKeeper({ ...common, founder, clusters: clusters, kubes, tokens });
  closing.defer(() => keeper.close());
  const nodes = startNodeKeeper({ ...common, founder, clusters: clusters, kubes, store, events });
  closing.defer(() => nodes.close());
  const membership = createMembership({ ...common, catalog, clusters: clusters, founder, departures });
  const health = createHealth({
    ...common,
    clusters: clusters,
    founding: founding.status,
    kubes,
    pki,
    objects: { present, applied },
    roster,
    certificateState: agents.certificateState,
    newId: () => randomBytes(4).toString('hex'),
  });
  const person = { clusters: clusters, pki, events, recorded: founder.recorded };
  const api = await startApi({
    listen: { socket: options.socket, ...(options.metricsListen ? { metrics: options.metricsListen } : {}) },
    routes: [...assetRoutes(assets, artifacts), ...artifactRoutes(artifacts, assets)],
    deps: {
      ...common,
      systemCalls: openSystemCalls({ env: process.env, log: common.log }),
      catalog,
      roster,
      leases,
      events,
      accept: (name, choices) => acceptMachine({ catalog, roster, events }, name, choices),
      preview: boot,
      addons,
      founding,
      health,
      membership,
      waiting: departures.waiting,
      pki,
      agents,
      kubeconfig: (cluster, user) => userKubeconfig(person, cluster, user),
      etcdClient: (cluster, user) => userEtcdClient(person, cluster, user),
      daemon: {
        version: VERSION,
        startedAt: common.clock.now(),
        readiness: () => readiness(networks, state),
        reread: () => reread(networks, state),
      },
    },
  });
  listeners.push(() => api.close());
  common.log.info(
    { http: http.port, socket: options.socket, sockets: sockets.map(({ name }) => name) },
    'listening',
  );
  return { networks };
}

/** What a reload reads besides documents. */
function reread(networks: LiveNetworks, { assets }: Pick<State, 'assets'>): void {
  networks.refresh();
  assets.rescanLoaders();
}

/**
 * Runs until SIGTERM or SIGINT. SIGHUP reads documents and loader directories again; but when
 * standard input or output is a terminal, it ends the server in order, because that terminal was
 * closed. Throws MusterError when the server cannot start, and when the store fails for good: the
 * service manager starts the process again.
 */
export async function serve(options: ServeOptions): Promise<void> {
  const clock = systemClock;
  const onTerminal = isatty(0) || isatty(1);
  const metrics = createMetrics();
  const log = createLog({
    level: options.logLevel,
    pretty: process.stdout.isTTY === true,
    dropped: (lines) => metrics.add('muster_log_lines_dropped_total', {}, lines),
  });
  const stopping = new AbortController();
  const common = { clock, log, metrics, signal: stopping.signal };
  const manager = connectServiceManager({ env: process.env, clock, log });
  const ended = Promise.withResolvers<void>();
  // What was opened last is closed first, also when starting fails half-way.
  const closing = new AsyncDisposableStack();
  closing.defer(() => log.flush());
  closing.defer(() => manager.close());
  try {
    const state = await openState(options, common, closing, ended.reject);
    const { networks } = await listen(options, common, state, closing, () => stopping.abort());
    const ready = (): Promise<void> => {
      const status = [
        counted(networks.served().length, 'network'),
        counted(state.catalog.list('Machine').length, 'machine'),
      ].join(', ');
      log.info({}, `ready: ${status}`);
      if (isEmpty(state.catalog))
        log.info({}, 'there are no documents: name a directory with --config, or run muster apply -f FILE');
      return manager.ready(status);
    };
    const reload = async (): Promise<void> => {
      await manager.reloading();
      await state.catalog.reload().catch((error: unknown) => log.error({ err: error }, 'reload'));
      reread(networks, state);
      await ready();
    };
    // A terminal sends SIGHUP when it is closed; a service manager, to reload.
    if (onTerminal) process.once('SIGHUP', () => ended.resolve());
    else process.on('SIGHUP', () => void reload());
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => ended.resolve());
    await ready();
    await ended.promise;
    log.info({}, 'stopping');
    await manager.stopping();
  } finally {
    await closing.disposeAsync();
  }
}
