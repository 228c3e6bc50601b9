/**
 * The API with the real rooms behind it, on a store in memory and a unix socket in a temporary
 * directory.
 */

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { quarantineMachine, releaseMachine } from '../../../src/agent/identity/quarantine.ts';
import { AGENT_BUNDLE } from '../../../src/agent/scripts/bundle.ts';
import { type Agents, openAgents, previewAgents } from '../../../src/agent/serve/agents.ts';
import { Accounts } from '../../../src/api/accounts/accounts.ts';
import { openOperators } from '../../../src/api/accounts/operators.ts';
import { openPasskeys } from '../../../src/api/accounts/passkeys.ts';
import { Passwords } from '../../../src/api/accounts/passwords.ts';
import type { ProviderLogins } from '../../../src/api/accounts/provider-logins.ts';
import { openSessions } from '../../../src/api/accounts/sessions.ts';
import { createActions } from '../../../src/api/actions.ts';
import { type ApiDeps, startApi } from '../../../src/api/api.server.ts';
import type { Route } from '../../../src/api/handler.ts';
import { type OperationDeps, ROUTES } from '../../../src/api/operations.ts';
import { PendingOrders } from '../../../src/api/pending-orders.ts';
import { openArtifactBook } from '../../../src/artifacts/book.ts';
import { ManualClock } from '../../../src/base/clock.ts';
import { ipv4 } from '../../../src/base/ipv4.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { beforeChange } from '../../../src/base/rehearsal.ts';
import { openSystemCalls } from '../../../src/base/system-calls.socket.ts';
import { openUserNames } from '../../../src/base/user-names.files.ts';
import { type ApiClient, connectApi } from '../../../src/cli/client.socket.ts';
import { NO_REPORTS } from '../../../src/cli/documents/local.ts';
import { createCopies, nameOfCopy } from '../../../src/cluster/backup/copies.files.ts';
import { openSnapshotFiles } from '../../../src/cluster/backup/snapshot-files.files.ts';
import { createSnapshots } from '../../../src/cluster/backup/snapshots.ts';
import { createBuilds } from '../../../src/cluster/change/agents/builds.ts';
import { agentUpgrade } from '../../../src/cluster/change/agents/kind.ts';
import { createChangeOrders } from '../../../src/cluster/change/change-orders.ts';
import { type Changes, openChanges } from '../../../src/cluster/change/changes.ts';
import { createDepartures } from '../../../src/cluster/change/departures.ts';
import { type AnyKind, anyKind } from '../../../src/cluster/change/kind.ts';
import { openLaterKeys } from '../../../src/cluster/change/later-keys.ts';
import { createMembership } from '../../../src/cluster/change/membership.ts';
import { ownRotation } from '../../../src/cluster/change/own/own-rotation.ts';
import { ownOrders } from '../../../src/cluster/change/own/prepare.ts';
import { createQuarantinedMembers } from '../../../src/cluster/change/quarantined-member.ts';
import { openReleases } from '../../../src/cluster/change/releases.ts';
import { createImageOf } from '../../../src/cluster/change/roll/images.ts';
import { rollOrders } from '../../../src/cluster/change/roll/prepare.ts';
import { roll } from '../../../src/cluster/change/roll/roll.ts';
import { rotationOrders } from '../../../src/cluster/change/rotation/prepare.ts';
import { rotation } from '../../../src/cluster/change/rotation/rotation.ts';
import { upgradeOrders } from '../../../src/cluster/change/upgrade/prepare.ts';
import { upgrade } from '../../../src/cluster/change/upgrade/upgrade.ts';
import { foundingOrders } from '../../../src/cluster/etcd/commands.ts';
import { createFounder } from '../../../src/cluster/etcd/founder.ts';
import { createHealth, type Health } from '../../../src/cluster/health/health.ts';
import {
  clusterEndpoint,
  userCredential,
  userEtcdClient,
  userKubeconfig,
} from '../../../src/cluster/joining/user-credentials.ts';
import { openAddons } from '../../../src/cluster/objects/addons/library.ts';
import { openAppliedObjects } from '../../../src/cluster/objects/applied.ts';
import { openPresentObjects } from '../../../src/cluster/plan/desired-objects.ts';
import { NO_SUPPLIES } from '../../../src/cluster/plan/supplies.ts';
import { checkWith } from '../../../src/cluster/resolve/check-documents.ts';
import { windowsOf } from '../../../src/cluster/resolve/maintenance.ts';
import type { Releases } from '../../../src/cluster/resolve/release.ts';
import { followClusters, noCluster } from '../../../src/cluster/resolve/resolved-clusters.ts';
import { createActing } from '../../../src/events/actor.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { openSecurityLog } from '../../../src/events/security-log.files.ts';
import { render } from '../../../src/ignition/render.ts';
import { acceptMachine } from '../../../src/machines/accept.ts';
import { type Consoles, openConsoles } from '../../../src/machines/console.files.ts';
import { type Inventories, openInventories } from '../../../src/machines/inventories.ts';
import { followMemberships } from '../../../src/machines/membership.ts';
import { openRoster, type Roster } from '../../../src/machines/roster.ts';
import { followSecretUsers } from '../../../src/machines/secret-users.ts';
import { auditHead, openAuditKey } from '../../../src/pki/audit-key.ts';
import { openExports } from '../../../src/pki/exported.ts';
import { openGivenSecrets } from '../../../src/pki/given-secrets.ts';
import { openPki, type Pki } from '../../../src/pki/pki.ts';
import { openSecrets } from '../../../src/pki/secrets.ts';
import { serverCertificate } from '../../../src/pki/server-certificate.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { openAssets } from '../../../src/pxe/assets/assets.files.ts';
import { createBootService, type RunningBootService } from '../../../src/pxe/decide/boot-service.ts';
import { type LeaseBook, openLeaseBook } from '../../../src/pxe/dhcp/leases.ts';
import { joinNetworks } from '../../../src/pxe/networks.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import { secretCheck } from '../../../src/resources/check-secrets.ts';
import { openLife } from '../../../src/store/life.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';
import { ALONE } from '../agent/nobody.ts';
import { NO_HOOKS } from '../cluster/change/hooks-kit.ts';
import { QUIET_HEALTH } from '../cluster/quiet.ts';
import { checkedRoutes } from './contract-check.ts';

export interface World {
  readonly directory: string;
  readonly socket: string;
  readonly client: ApiClient;
  readonly deps: ApiDeps;
  readonly clock: ManualClock;
  readonly roster: Roster;
  readonly leases: LeaseBook;
  readonly inventories: Inventories;
  readonly consoles: Consoles;
  readonly boot: RunningBootService;
  readonly pki: Pki;
  readonly agents: Agents;
  readonly releases: Releases;
  readonly changes: Changes;
  /** The readiness that /readyz reports. */
  ready: boolean;
  readonly metricsPort: number;
  /** With `https: true`: the port where operators log in, and the CA of its certificate. */
  readonly httpsPort: number | undefined;
  readonly authority: string;
  readonly store: Store;
  close(): Promise<void>;
}

/** What a hash of a password costs: microseconds. */
export const CHEAP = { N: 2, r: 8, p: 1 } as const;

const HASH = 'a'.repeat(64);
/** No member of etcd answers here. */
const CONDITION = { members: [], silent: ['cp1'], quota: 2 ** 31 };

/** One file of documents: a network, an image, a profile, a machine. */
export const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec:
  subnet: 10.77.0.0/24
  dhcp: {mode: server, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}
---
apiVersion: muster/v1
kind: Image
metadata: {name: small}
spec: {os: debian, arch: x86_64, kernel: {sha256: ${HASH}}, configFormat: cloud-init}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: worker}
spec: {image: small}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: node-1, labels: {rack: a}}
spec: {macs: ["52:54:00:aa:00:01"], profile: worker}
`;

/**
 * Opens a world. `documents` become the only file of its configuration directory. The asset store
 * has all files of images, except those whose hashes are in `lacking`.
 */
export async function openWorld(
  documents: string | undefined = DOCUMENTS,
  {
    lacking = new Set(),
    https = false,
    page = [],
    second = false,
    clientAuthority,
    provider,
    name = '127.0.0.1',
    kinds = [],
    routes = ROUTES,
  }: {
    readonly lacking?: ReadonlySet<string>;
    readonly https?: boolean;
    readonly page?: readonly Route<ApiDeps>[];
    readonly second?: boolean;
    readonly clientAuthority?: string;
    readonly provider?: (clock: ManualClock) => ProviderLogins;
    /** The name of the page. */
    readonly name?: string;
    /** More kinds of change, for which `routes` has the operations. */
    readonly kinds?: readonly AnyKind[];
    readonly routes?: readonly Route<OperationDeps>[];
  } = {},
): Promise<World> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-api-'));
  const config = path.join(directory, 'config');
  fs.mkdirSync(config);
  if (documents !== undefined) fs.writeFileSync(path.join(config, 'all.yaml'), documents);
  const clock = new ManualClock();
  const metrics = createMetrics();
  const log = silentLog;
  const store = openMemoryStore();
  const acting = createActing();
  const events = createEventLog({ metrics, clock, log, acting, perSubject: 100, subjects: 100 });
  const vault = vaultFrom(newVaultKey(), 'test');
  const secrets = openSecrets({ store, vault });
  const given = await openGivenSecrets({ store, vault, secrets, clock, log });
  const checkSecrets = secretCheck((name, key) => given.value(name, key) !== undefined);
  const security = await openSecurityLog({
    metrics,
    directory: path.join(directory, 'audit'),
    key: await openAuditKey(secrets),
    head: auditHead(secrets),
    events,
    clock,
    log,
  });
  const releases = await openReleases({ store, log });
  const check = checkWith(releases);
  const catalog = await openCatalog({
    directory: config,
    store,
    events,
    log,
    clock,
    metrics,
    checkConfig: (candidates, changed) => [
      ...check(candidates, changed),
      ...checkSecrets(candidates, changed),
    ],
  });
  const memberships = followMemberships(catalog);
  const secretUsers = followSecretUsers(catalog, memberships);
  const roster = await openRoster({ store, catalog, events, clock, log, metrics });
  const inventories = await openInventories({ store, clock, log, roster });
  const consoles = await openConsoles({ state: directory, roster, clock, log, metrics });
  const leases = await openLeaseBook({ store, clock, events, metrics });
  const file = { path: '/', size: 1, modified: new Date(0) };
  const boot = createBootService({
    catalog,
    memberships,
    roster,
    assets: {
      find: (sha256) => (lacking.has(sha256) ? undefined : file),
      loader: () => file,
    },
    networks: () =>
      joinNetworks({
        documents: catalog.list('Network'),
        addresses: [{ interface: 'eth1', address: ipv4('10.77.0.1') }],
        httpPort: 8080,
      }).networks,
    render,
    // Nobody listens to agents here, so configurations render as `render -f` does.
    agents: previewAgents({ memberships, clock }),
    ...NO_REPORTS,
    events,
    metrics,
    clock,
  });
  const pki = openPki({ store, vault, clock });
  const agents = await openAgents({
    ...ALONE,
    store,
    pki,
    secrets,
    catalog,
    memberships,
    secretUsers,
    roster,
    events,
    clock,
    log,
    metrics,
    witnesses: { heard: () => {} },
  });
  const state = { ready: true };
  const clusters = followClusters(catalog, memberships);
  const founder = createFounder({
    store,
    clock,
    log,
    events,
    gateway: () => {
      throw new Error('no etcd here');
    },
  });
  founder.begin(() => []);
  const founding = foundingOrders(clusters, founder, () => clock.now());
  const kubes = () => () => Promise.reject(new Error('no API server here'));
  const departures = createDepartures({ founder, clusters: clusters, kubes, clock, log });
  const person = { clusters: clusters, pki, events, recorded: founder.recorded };
  const quarantinedMembers = createQuarantinedMembers({ founder, clusters, departures });
  const quarantine = { roster, identities: agents.identities, events, clock };
  const files = await openSnapshotFiles({
    directory: path.join(directory, 'snapshots'),
    vault,
    room: async () => Number.POSITIVE_INFINITY,
  });
  const snapshots = createSnapshots({
    files,
    copies: createCopies(files, path.join(directory, 'backup-commands')),
    nameOfCopy,
    setting: (cluster) => catalog.get('Cluster', cluster)?.document.spec.backup,
    records: founder.records,
    reads: () => false,
    alarm: () => undefined,
    encryption: async () => [],
    clock,
    log,
    events,
  });
  const storedValues = () => Promise.reject(new Error('no etcd here'));
  const settled = () => undefined;
  const { closed, closedForUpgrades } = windowsOf({ catalog, clock });
  const { trustChanged, ticketKeys } = agents;
  const ownMachines = () => agents.identities.list().map(({ machine }) => machine);
  const agent = (machine: string) => roster.get(machine)?.status.agent;
  const { wantedImage: wants } = boot;
  const imageOf = createImageOf({ running: releases, wants, imageName: () => undefined });
  const turns = { clusters, kubes, down: async () => new Map(), hooks: NO_HOOKS, record: () => undefined };
  const look: Health['look'] = (...of) => health.look(...of);
  const common = { catalog, clusters, running: releases, health: { look } };
  const { status } = founding;
  const builds = createBuilds({
    ...{ roster, clusters, bundle: AGENT_BUNDLE },
    get changes() {
      return changes;
    },
  });
  const allKinds = [
    anyKind(agentUpgrade(builds)),
    anyKind({
      ...rotation({ pki, clusters, kubes, storedValues, clock }),
      ...rotationOrders({ pki, clusters, founding: status, clock }),
    }),
    anyKind({
      ...upgrade({ ...turns, releases, snapshots, supplies: () => NO_SUPPLIES, closed: closedForUpgrades }),
      ...upgradeOrders({ ...common, kubes, has: () => true, closed: closedForUpgrades }),
    }),
    anyKind({
      ...ownRotation({ pki, trustChanged, ticketKeys, agents: agents.identities.list }),
      ...ownOrders({ pki, ticketKeys }),
    }),
    anyKind({
      ...roll({
        ...{ ...turns, wants, closed, bootId: () => undefined },
        rollouts: { whyStays: async () => undefined, reboots: async () => true },
      }),
      ...rollOrders({
        ...{ ...common, agent, wants, closed, imageOf, founding: status, stopped: boot.outlook },
      }),
    }),
    ...kinds,
  ];
  const clusterOf = (machine: string) => clusters.clusterOf(machine)?.resolved?.name;
  const life = await openLife({ store, clock, log });
  const laterKeys = await openLaterKeys({ store, pki, clusterOf, events, clock, log, life });
  const { holds } = laterKeys;
  const serves = () => true;
  const engine = {
    ...{ store, clock, log, events, metrics, serves },
    ...{ clusters, kinds: allKinds, settled, holds, ownMachines },
  };
  const changes = await openChanges(engine);
  changes.start();
  const health = createHealth({
    ...QUIET_HEALTH,
    agents: (cluster) => builds.show(cluster),
    running: releases,
    stopped: (machine) => agents.waits(machine) ?? boot.outlook(machine),
    clusters: clusters,
    founding: founding.status,
    condition: async () => CONDITION,
    kubes,
    pki,
    objects: {
      present: openPresentObjects(undefined, () => undefined),
      applied: openAppliedObjects({ store, log, clock }),
    },
    roster,
    certificateState: agents.certificateState,
    clock,
    newId: () => 'probe',
  });
  const known = (cluster: string) => {
    if (clusters.get(cluster)?.resolved === undefined) throw noCluster(cluster);
  };
  const etcdSpace = {
    async space(cluster: string) {
      known(cluster);
      return { cluster, condition: CONDITION, troubles: [] };
    },
    async reclaim(cluster: string) {
      known(cluster);
      beforeChange(`reclaim the space of etcd of ${cluster}`);
    },
  };
  let port: number | undefined;
  const assets = await openAssets({
    directory: path.join(directory, 'assets'),
    loaderDirectories: [],
    log: silentLog,
  });
  const deps: ApiDeps = {
    assets,
    artifacts: await openArtifactBook(store),
    etcdSpace,
    snapshots,
    hostBackup: {
      life,
      archive: async function* () {
        yield Buffer.from('the archive');
      },
    },
    catalog,
    roster,
    accept: (name, options) => acceptMachine({ catalog, roster, events, inventories }, name, options),
    leases,
    inventories,
    consoles,
    preview: boot,
    founding,
    membership: createMembership({
      ...{ catalog, clusters, founder, departures, releases, clock },
      membersWait: () => undefined,
    }),
    running: releases,
    waiting: departures.waiting,
    laterKeys,
    changes: createChangeOrders(changes),
    imageOf,
    health,
    builds,
    addons: openAddons(async () => undefined),
    quarantine: {
      hold: (machine, why, deletePods) => quarantineMachine(quarantine, machine, { why, deletePods }),
      release: (machine) => releaseMachine(quarantine, machine),
      leaveEtcd: quarantinedMembers.leave,
      returnToEtcd: quarantinedMembers.release,
    },
    resolved: (cluster) => clusters.get(cluster)?.resolved,
    secrets: { given, users: secretUsers },
    pki,
    exports: openExports({ store, pki, clock }),
    endings: { warnings: () => [] },
    resealSnapshots: async () => 0,
    kubelets: () => [],
    pageAuthority: () => undefined,
    agents,
    kubeconfig: (cluster, user) => userKubeconfig(person, cluster, user),
    etcdClient: (cluster, user) => userEtcdClient(person, cluster, user),
    userCredential: (cluster, user) => userCredential(person, cluster, user),
    endpoint: (cluster) => clusterEndpoint(person, cluster),
    events,
    security,
    accounts: new Accounts({
      operators: await openOperators({ store, clock, log }),
      passkeys: await openPasskeys({ store, clock, log }),
      passwords: new Passwords({ cost: CHEAP }),
      sessions: await openSessions({ store, clock, log }),
      clock,
      provider: provider?.(clock),
    }),
    get page() {
      return https ? `https://${name}:${port}` : undefined;
    },
    actions: createActions({ acting, events, security, userName: openUserNames(), clock }),
    pending: second ? new PendingOrders(clock) : undefined,
    systemCalls: openSystemCalls({ env: process.env, log }),
    metrics,
    clock,
    log,
    daemon: {
      version: '1.2.3',
      startedAt: clock.now(),
      readiness: () => ({
        ready: state.ready,
        checks: [
          { name: 'store', ok: state.ready, detail: 'open' },
          ...catalog.faults().map(({ code, message }) => ({ name: code, ok: false, detail: message })),
        ],
      }),
      reread() {},
    },
  };
  const socket = path.join(directory, 'run', 'muster.sock');
  const checked = checkedRoutes(routes);
  const pair = https
    ? await serverCertificate({ pki, secrets, clock, listener: 'operators' }, ['127.0.0.1'])
    : undefined;
  const tlsPair = pair && { certificate: pair.certificate + pair.authority, key: pair.key.pem() };
  const api = await startApi({
    listen: {
      socket,
      metrics: { host: '127.0.0.1', port: 0 },
      ...(tlsPair && {
        https: { host: '127.0.0.1', port: 0, pair: tlsPair, clientAuthority },
      }),
    },
    deps,
    page,
    operations: checked.routes,
  });
  port = api.httpsPort;
  return {
    directory,
    socket,
    client: connectApi(socket),
    deps,
    clock,
    roster,
    leases,
    inventories,
    consoles,
    boot,
    pki,
    agents,
    releases,
    changes,
    get ready() {
      return state.ready;
    },
    set ready(value) {
      state.ready = value;
    },
    metricsPort: api.metricsPort!,
    httpsPort: api.httpsPort,
    authority: pair?.authority ?? '',
    store,
    async close() {
      await api.close();
      await agents.close();
      boot.close();
      clusters.close();
      leases.close();
      await roster.close();
      await catalog.close();
      await security.close();
      fs.rmSync(directory, { recursive: true, force: true });
      checked.complain();
    },
  };
}
