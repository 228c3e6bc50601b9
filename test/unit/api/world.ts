/**
 * The API with the server's own wiring behind it, on a store in memory and a unix socket in a
 * temporary directory.
 */

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type Agents, previewAgents } from '../../../src/agent/serve/agents.ts';
import type { Grant } from '../../../src/api/access.ts';
import { Passwords } from '../../../src/api/accounts/passwords.ts';
import type { ProviderLogins } from '../../../src/api/accounts/provider-logins.ts';
import { type ApiDeps, startApi } from '../../../src/api/api.server.ts';
import type { Route } from '../../../src/api/handler.ts';
import { type OperationDeps, ROUTES } from '../../../src/api/operations.ts';
import type { ManualClock } from '../../../src/base/clock.ts';
import { ipv4 } from '../../../src/base/ipv4.ts';
import { openSystemCalls } from '../../../src/base/system-calls.socket.ts';
import type { Sightings } from '../../../src/bmc/sightings.ts';
import { type ApiClient, connectApi } from '../../../src/cli/client.socket.ts';
import type { Changes } from '../../../src/cluster/change/changes.ts';
import type { AnyKind } from '../../../src/cluster/change/kind.ts';
import type { Kube } from '../../../src/cluster/kube.ts';
import type { Releases } from '../../../src/cluster/resolve/release.ts';
import type { Consoles } from '../../../src/machines/console.files.ts';
import type { Inventories } from '../../../src/machines/inventories.ts';
import type { Roster } from '../../../src/machines/roster.ts';
import type { Pki } from '../../../src/pki/pki.ts';
import { serverCertificate } from '../../../src/pki/server-certificate.ts';
import type { RunningBootService } from '../../../src/pxe/decide/boot-service.ts';
import type { LeaseBook } from '../../../src/pxe/dhcp/leases.ts';
import type { Store } from '../../../src/store/store.ts';
import { createBoot } from '../../../src/wiring/boot.ts';
import { openClusters } from '../../../src/wiring/clusters.ts';
import type { Outside } from '../../../src/wiring/common.ts';
import { neededBy, openAccounts, operatorDeps } from '../../../src/wiring/operators.ts';
import { openPower } from '../../../src/wiring/power.ts';
import { openState } from '../../../src/wiring/state.ts';
import { wired } from '../wired.ts';
import { checkedRoutes } from './contract-check.ts';

export interface World {
  readonly directory: string;
  readonly socket: string;
  readonly client: ApiClient;
  readonly deps: ApiDeps;
  readonly clock: ManualClock;
  readonly roster: Roster;
  readonly leases: LeaseBook;
  readonly sightings: Sightings;
  readonly inventories: Inventories;
  readonly consoles: Consoles;
  readonly boot: RunningBootService;
  readonly pki: Pki;
  readonly agents: Agents;
  readonly releases: Releases;
  readonly changes: Changes;
  /** The API servers of all clusters; nobody answers until a test sets this. */
  readonly servers: { kube: Kube };
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
    bmcs,
    searchRedfish,
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
    readonly bmcs?: Outside['bmcs'];
    readonly searchRedfish?: Outside['searchRedfish'];
    readonly routes?: readonly Route<OperationDeps>[];
  } = {},
): Promise<World> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-api-'));
  const config = path.join(directory, 'config');
  fs.mkdirSync(config);
  if (documents !== undefined) fs.writeFileSync(path.join(config, 'all.yaml'), documents);
  const { options, clock, store, closing, servers, ...parts } = wired({
    ...{ state: directory, config, kinds },
    ...(bmcs && { bmcs }),
    ...(searchRedfish && { searchRedfish }),
    addresses: [{ interface: 'eth1', address: ipv4('10.77.0.1') }],
    requireSecondPerson: second,
  });
  const common = {
    ...parts.common,
    systemCalls: openSystemCalls({ env: process.env, log: parts.common.log }),
  };
  const state = await openState(options, common, closing, () => {});
  const { agents, catalog, memberships, pki } = state;
  const file = { path: '/', size: 1, modified: new Date(0) };
  const boot = createBoot(
    options,
    common,
    {
      ...state,
      assets: {
        ...state.assets,
        find: (sha256) => (lacking.has(sha256) ? undefined : file),
        loader: () => file,
      },
      // Nobody listens to agents here, so configurations render as `render -f` does.
      agents: { ...agents, ...previewAgents({ memberships, clock }) },
    },
    closing,
  );
  const clusters = await openClusters(options, common, state, boot, closing);
  const power = await openPower(common, state, directory, neededBy(state, clusters));
  const lost = clusters.powered(power);
  const daemon = { ready: true };
  let port: number | undefined;
  const wiredDeps = operatorDeps(options, common, state, boot, clusters, {
    page: undefined,
    pageAuthority: () => undefined,
    endings: { warnings: () => [] },
    ...{ power, lost: lost.lost },
    accounts: await openAccounts(common, state, new Passwords({ cost: CHEAP }), provider?.(clock)),
    daemon: {
      version: '1.2.3',
      startedAt: clock.now(),
      readiness: () => ({
        ready: daemon.ready,
        checks: [
          { name: 'store', ok: daemon.ready, detail: 'open' },
          ...catalog.faults().map(({ code, message }) => ({ name: code, ok: false, detail: message })),
        ],
      }),
      reread() {},
    },
  });
  const deps: ApiDeps = {
    ...wiredDeps,
    get page() {
      return https ? `https://${name}:${port}` : undefined;
    },
    hostBackup: {
      ...wiredDeps.hostBackup,
      archive: async function* () {
        yield Buffer.from('the archive');
      },
    },
  };
  const socket = path.join(directory, 'run', 'muster.sock');
  const checked = checkedRoutes(routes);
  const pair = https
    ? await serverCertificate({ pki, secrets: state.secrets, clock, listener: 'operators' }, ['127.0.0.1'])
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
    roster: state.roster,
    leases: state.leases,
    sightings: state.sightings,
    inventories: agents.inventories,
    consoles: state.consoles,
    boot: boot.service,
    pki,
    agents,
    releases: state.releases,
    changes: clusters.engine,
    servers,
    get ready() {
      return daemon.ready;
    },
    set ready(value) {
      daemon.ready = value;
    },
    metricsPort: api.metricsPort!,
    httpsPort: api.httpsPort,
    authority: pair?.authority ?? '',
    store,
    async close() {
      await api.close();
      lost.close();
      await power.close();
      await agents.close();
      await closing.disposeAsync();
      fs.rmSync(directory, { recursive: true, force: true });
      checked.complain();
    },
  };
}

/** Makes an operator with these roles. Resolves with a client that has a token of theirs. */
export async function operatorOf(
  world: World,
  name: string,
  ...grants: readonly Grant[]
): Promise<ApiClient> {
  await world.client.call('PUT', `/v1/operators/${name}`, { body: { json: { grants } } });
  const json = { operator: name, label: 't', grants, expires: '1d' };
  const { token } = await world.client.call<{ token: string }>('POST', '/v1/tokens', { body: { json } });
  const url = `https://127.0.0.1:${world.httpsPort}`;
  return connectApi({ url, authority: world.authority, session: token });
}
