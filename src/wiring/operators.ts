/** Wires the operators' API. */
import { hostname } from 'node:os';
import { quarantineMachine, releaseMachine } from '../agent/identity/quarantine.ts';
import { startEndingWatch } from '../agent/serve/ending-watch.ts';
import { Accounts } from '../api/accounts/accounts.ts';
import { firstLink } from '../api/accounts/first-link.ts';
import { openOperators } from '../api/accounts/operators.ts';
import { openPasskeys } from '../api/accounts/passkeys.ts';
import { Passwords } from '../api/accounts/passwords.ts';
import type { ProviderLogins } from '../api/accounts/provider-logins.ts';
import { openSessions } from '../api/accounts/sessions.ts';
import { createActions } from '../api/actions.ts';
import { type ApiDeps, startApi } from '../api/api.server.ts';
import { type ConcernDeps, overviewOf, watchConcerns } from '../api/concern-watch.ts';
import type { Daemon } from '../api/daemon.ts';
import { pageRoutes } from '../api/page.files.ts';
import { PendingOrders } from '../api/pending-orders.ts';
import { startWebhooks } from '../api/webhooks/webhooks.ts';
import { duration } from '../base/duration.ts';
import { formatIpv4 } from '../base/ipv4.ts';
import { createPost } from '../base/post.socket.ts';
import { openUserNames } from '../base/user-names.files.ts';
import type { HostPort, ServeOptions } from '../cli/serve/options.ts';
import { limitsOf } from '../cluster/change/groups.ts';
import { countBoots } from '../diagnosis/boot-metrics.ts';
import { startTraces } from '../diagnosis/trace-export.ts';
import { acceptMachine } from '../machines/accept.ts';
import { watchConditions } from '../machines/condition-watch.ts';
import { orderInstall } from '../machines/install-order.ts';
import { readTestReport, type TestReport } from '../machines/life/burn-in.ts';
import { createLives } from '../machines/life/orders.ts';
import { replaceMachine } from '../machines/life/replace.ts';
import { readCertificate, type WipeCertificate } from '../machines/life/wipe.ts';
import type { Member } from '../machines/roster.ts';
import { openExports } from '../pki/exported.ts';
import { readSpace, reserveOf } from '../pxe/assets/space.files.ts';
import { KEYS } from '../store/keys.ts';
import { hostArchive } from './backup.files.ts';
import type { Boot, CloseListener } from './boot.ts';
import type { Clusters } from './clusters.ts';
import type { Common } from './common.ts';
import { showFirstLink } from './first-link.files.ts';
import { providerLogins } from './identity-provider.files.ts';
import { followOperatorsTls, type OperatorsTls, operatorsTls } from './operators-tls.files.ts';
import { openPower, type Power } from './power.ts';
import type { State } from './state.ts';

/**
 * Opens the operators' socket and, if the options ask for it, the TCP listener for monitoring.
 * `opened` gets the function that closes each listener.
 */
export async function listenToOperators(
  options: ServeOptions,
  common: Common,
  state: State,
  boot: Boot,
  clusters: Clusters,
  daemon: Daemon,
  opened: (close: CloseListener) => void,
): Promise<void> {
  const { clock, log, metrics } = common;
  const { events, pki, agents } = state;
  const { socket, metricsListen, operatorsListen, operatorsName } = options;
  const accounts = await openAccounts(common, state, new Passwords(), providerLogins(options, clock));
  const tls = operatorsListen && (await operatorsTls(options, common, state));
  let shown = tls;
  const power = await openPower(common, state, options.state, neededBy(state, clusters));
  opened(async () => power.close());
  const { certificateState, agentCluster } = agents;
  const holders = { certificateState, agentCluster, certifies: power.certifies };
  const endings = startEndingWatch({ pki, agents: holders, events, metrics, clock, log });
  opened(() => endings.close());
  const lost = clusters.powered(power);
  opened(async () => lost.close());
  const page = operatorsListen && pageRoutes();
  const deps = operatorDeps(options, common, state, boot, clusters, {
    daemon,
    accounts,
    page: operatorsListen && pageOf(operatorsListen, operatorsName),
    pageAuthority: () => shown?.fingerprint,
    ...{ endings, power, lost: lost.lost },
  });
  deps.lives.begin();
  opened(() => deps.lives.close());
  watchEvents(options, common, state, deps, opened);
  const api = await startApi({
    listen: {
      socket,
      ...(metricsListen ? { metrics: metricsListen } : {}),
      ...(operatorsListen && tls && { https: { ...operatorsListen, ...tls } }),
    },
    ...(page && { page }),
    deps,
  });
  opened(() => api.close());
  if (tls === undefined || operatorsListen === undefined) return;
  const renewed = (next: OperatorsTls) => {
    shown = next;
    api.renew(next.pair);
  };
  opened(followOperatorsTls(options, common, state, tls, renewed));
  log.info({ port: api.httpsPort, authority: tls.fingerprint }, 'operators log in over HTTPS');
  if (page === undefined)
    log.warn({}, 'the web page is not built, so only the API is there: run `make page`');
  const first = await firstLink(accounts.operators, pageOf(operatorsListen, operatorsName));
  showFirstLink(first, options, log);
}

/** Why the cluster of a machine cannot do without it now, as far as the boot host knows. */
export const neededBy =
  (
    { memberships }: Pick<State, 'memberships'>,
    { resolved: resolvedOf, rollouts }: Pick<Clusters, 'resolved' | 'rollouts'>,
  ) =>
  async (machine: string): Promise<string | undefined> => {
    const cluster = memberships.clusterOf(machine);
    if (cluster === undefined) return undefined;
    const resolved = resolvedOf(cluster);
    const member = resolved?.machines.find(({ name }) => name === machine);
    if (resolved === undefined || member === undefined) return `what ${cluster} needs is not known`;
    if (rollouts.turns(cluster, machine).length > 0 || rollouts.goingDown(cluster).includes(machine))
      return 'it restarts for a change of its cluster';
    return rollouts.whyStays(resolved, member, limitsOf(resolved.machines));
  };

/** Reads the accounts of operators from the store. */
export async function openAccounts(
  { clock, log }: Pick<Common, 'clock' | 'log'>,
  { store }: Pick<State, 'store'>,
  passwords: Passwords,
  provider: ProviderLogins | undefined,
): Promise<Accounts> {
  return new Accounts({
    operators: await openOperators({ store, clock, log }),
    passkeys: await openPasskeys({ store, clock, log }),
    sessions: await openSessions({ store, clock, log }),
    ...{ passwords, provider, clock },
  });
}

/** What operators' requests need of the server, by name. */
export function operatorDeps(
  options: ServeOptions,
  common: Common,
  state: State,
  boot: Boot,
  clusters: Clusters,
  {
    endings,
    lost,
    ...shown
  }: Pick<ApiDeps, 'daemon' | 'accounts' | 'page' | 'pageAuthority'> &
    Pick<ConcernDeps, 'endings' | 'lost'> & { readonly power: Power },
): ApiDeps {
  const { clock, log, metrics, systemCalls } = common;
  const {
    catalog,
    releases,
    roster,
    leases,
    events,
    addons,
    pki,
    agents,
    assets,
    artifacts,
    acting,
    security,
    given,
    secretUsers,
    store,
    life,
    snapshotFiles,
    consoles,
  } = state;
  const quarantine = { roster, identities: agents.identities, events, clock };
  const bmcs = bmcsOf(shown.power);
  const lives = createLives({
    ...{ roster, events, clock, log, cluster: clusters.outOfUse },
    ...bmcs,
    runs: (machine) => roster.heartbeats.alive(machine) !== undefined,
    whyNoWipe: (member) => whyNoWipe(boot.networks.served(), member),
    endCertificate: async (machine) => void (await agents.identities.revoke(machine)),
    endKeys: async (machine) => {
      await agents.identities.revoke(machine);
      for (const { filesystem } of await pki.dataKeys.of(machine))
        await pki.dataKeys.remove(machine, filesystem);
    },
  });
  const pending = options.requireSecondPerson ? new PendingOrders(clock) : undefined;
  const exports = openExports({ store, pki, clock });
  const concerns: ConcernDeps = {
    ...{ daemon: shown.daemon, catalog, preview: boot.service, roster, exports, endings, lost },
    waits: (machine) => agents.waits(machine),
    laterKeys: clusters.laterKeys,
    founding: clusters.founding,
    checked: clusters.checked,
    late: (cluster) => clusters.snapshots.late(cluster),
    clock,
    names: state.names,
    waiting: () => pending?.list().length ?? 0,
    async space() {
      const space = await readSpace(options.state);
      return { free: space.free, reserve: reserveOf(space) };
    },
  };
  return {
    ...shown,
    systemCalls,
    catalog,
    assets,
    artifacts,
    roster,
    ...{ leases, sightings: state.sightings, searchBmcs: searching(common, boot) },
    inventories: agents.inventories,
    consoles,
    kubelets: () => kubeletsIn(artifacts),
    events,
    security,
    pending,
    overview: () => overviewOf(concerns),
    actions: createActions({ acting, events, security, userName: openUserNames(), clock }),
    accept: (name, choices) =>
      acceptMachine({ catalog, roster, events, inventories: agents.inventories }, name, choices),
    preview: boot.service,
    names: state.names,
    addons,
    founding: clusters.founding,
    running: releases,
    snapshots: clusters.snapshots,
    ...{ hosts: common.outside.hosts, hostBackup: { life, archive: hostArchive(options, { clock }, state) } },
    ...{ changes: clusters.changes, imageOf: clusters.imageOf, laterKeys: clusters.laterKeys },
    builds: clusters.builds,
    ...{ health: clusters.health, checked: clusters.checked },
    etcdSpace: clusters.watch,
    membership: clusters.membership,
    waiting: clusters.waiting,
    ...clusters.credentials,
    ...hardwareOrders(state, boot.service, clock, {
      ...{ has: bmcs.has, restart: bmcs.restart, needed: neededBy(state, clusters) },
    }),
    quarantine: {
      hold: (machine, why, deletePods) => quarantineMachine(quarantine, machine, { why, deletePods }),
      release: (machine) => releaseMachine(quarantine, machine),
      leaveEtcd: clusters.quarantinedMembers.leave,
      returnToEtcd: clusters.quarantinedMembers.release,
    },
    ...{ lives, ...reportsIn(store) },
    resolved: clusters.resolved,
    secrets: { given, users: secretUsers },
    pki,
    exports,
    resealSnapshots: () => snapshotFiles.rewrap(),
    agents,
    metrics,
    clock,
    log,
  };
}

/** Searches for BMCs on the served segments; all who ask meanwhile get the same answer. */
function searching({ outside }: Pick<Common, 'outside'>, { networks }: Pick<Boot, 'networks'>) {
  let running: ReturnType<Common['outside']['searchRedfish']> | undefined;
  return () => {
    const attached = networks.served().filter((one) => one.interface !== undefined);
    const from = new Set(attached.map(({ serverAddress }) => formatIpv4(serverAddress)));
    running ??= outside.searchRedfish([...from]).finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** What orders about machines have their BMCs do; it resolves with false where there is none. */
function bmcsOf(power: Pick<Power, 'give' | 'reach'>) {
  const has = (machine: string): boolean => power.reach(machine) !== undefined;
  const give = async (machine: string, order: Parameters<Power['give']>[1]): Promise<boolean> => {
    if (!has(machine)) return false;
    await power.give([machine], order);
    return true;
  };
  return {
    has,
    switchOff: (machine: string, by: string) =>
      give(machine, { want: 'shut-down', by, hardAfter: SHUT_DOWN }),
    restart: (machine: string, by: string) => give(machine, { want: 'cycle', boot: 'network', by }),
  };
}

/** Orders about the hardware of machines: another machine, and what is on a disk. */
const hardwareOrders = (
  {
    catalog,
    roster,
    events,
    agents,
    leases,
  }: Pick<State, 'catalog' | 'roster' | 'events' | 'agents' | 'leases'>,
  { homeOf }: Pick<Boot['service'], 'homeOf'>,
  clock: Common['clock'],
  power: Parameters<typeof orderInstall>[0]['power'],
): Pick<ApiDeps, 'replace' | 'install'> => ({
  replace: (machine, by) =>
    replaceMachine(
      {
        ...{ catalog, roster, events, inventories: agents.inventories },
        hasTpm: (name) => agents.tpm(name) !== undefined,
        endCertificate: (name) => agents.rearm(name, { keep: false }),
        endLease: (mac) => leases.end(mac),
      },
      machine,
      by,
    ),
  install: (machine, order) => orderInstall({ roster, clock, events, homeOf, power }, machine, order),
});

/** What machines reported of wipes and tests. */
const reportsIn = (store: Pick<State['store'], 'list'>): Pick<ApiDeps, 'wipes' | 'tests'> => ({
  wipes: (machine) => wipesOf(store, machine),
  tests: (machine) => testsOf(store, machine),
});

/** The certificates of a machine's wipes, the newest first. */
async function wipesOf(
  store: Pick<State['store'], 'list'>,
  machine: string,
): Promise<readonly WipeCertificate[]> {
  const { records } = await store.list(KEYS.wipe.prefix(machine));
  const read = records.flatMap(({ value }) => readCertificate(value) ?? []);
  return read.sort((a, b) => b.at - a.at);
}

/** The reports of a machine's tests, the newest first. */
async function testsOf(store: Pick<State['store'], 'list'>, machine: string): Promise<readonly TestReport[]> {
  const { records } = await store.list(KEYS.test.prefix(machine));
  const read = records.flatMap(({ value }) => readTestReport(value) ?? []);
  return read.sort((a, b) => b.at - a.at);
}

/** Why no network gives a machine the system that wipes. */
function whyNoWipe(
  networks: readonly { readonly name: string; readonly discovery?: string }[],
  { status: { seen } }: Member,
): string | undefined {
  const found = networks.filter(({ name }) => seen.network === undefined || name === seen.network);
  if (found.some(({ discovery }) => discovery !== undefined)) return undefined;
  return `${seen.network === undefined ? 'no Network' : `the Network ${seen.network}`} names a discovery image, which does that (docs/inventory.md)`;
}

/** How long the system of a machine that is taken out may take to shut down. */
const SHUT_DOWN = duration('5m');

/** The versions of kubelet that this boot host has. */
const kubeletsIn = (artifacts: Pick<State['artifacts'], 'list'>): readonly string[] =>
  artifacts.list().flatMap((one) => (one.kind === 'binary' && one.name === 'kubelet' ? [one.version] : []));

/** Starts what follows events: the metrics of boots, webhooks, and traces if they are asked for. */
function watchEvents(
  { otlpEndpoint, localWebhooks }: ServeOptions,
  { clock, log, metrics }: Common,
  { catalog, events, given, roster, agents }: State,
  { overview }: Pick<ApiDeps, 'overview'>,
  opened: (close: CloseListener) => void,
): void {
  const uncount = countBoots(events, metrics);
  opened(async () => uncount());
  const waits = (machine: string) => agents.waits(machine);
  const unwatch = watchConditions({ roster, waits, events, metrics, clock });
  opened(async () => unwatch());
  const unconcern = watchConcerns({ overview, events, metrics, clock, log });
  opened(async () => unconcern());
  const secret = (name: string, key: string) => given.value(name, key);
  const endWebhooks = startWebhooks({
    catalog,
    events,
    secret,
    post: createPost({ local: localWebhooks }).post,
    metrics,
    clock,
    log,
  });
  opened(async () => endWebhooks());
  if (otlpEndpoint === undefined) return;
  const traces = {
    endpoint: otlpEndpoint,
    host: hostname(),
    events,
    post: createPost({ local: true }).post,
    metrics,
    clock,
    log,
  };
  const endTraces = startTraces(traces);
  opened(async () => endTraces());
}

/** The address of the page. A listener on all addresses is named by this host's name. */
function pageOf({ host, port }: HostPort, given: string | undefined): string {
  const name = given ?? (host === '0.0.0.0' || host === '::' ? hostname() : host);
  return `https://${name.includes(':') ? `[${name}]` : name}:${port}`;
}
