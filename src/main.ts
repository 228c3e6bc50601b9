/**
 * The daemon, wired: state → cores → listeners → ready. Nothing is decided here.
 */
import { join } from 'node:path';
import { startApi } from './api/api.server.ts';
import { assetRoutes } from './api/assets.ts';
import type { Readiness } from './api/deps.ts';
import { systemClock } from './base/clock.ts';
import { type InheritedSocket, inheritedSockets } from './base/inherited.ts';
import { createMetrics } from './base/metrics.ts';
import { connectServiceManager } from './base/notify.files.ts';
import { createLog } from './base/pino.files.ts';
import { VERSION } from './base/version.ts';
import type { ServeOptions } from './cli/serve-options.ts';
import { attachEventJournal } from './events/journal.files.ts';
import { createEventLog } from './events/log.ts';
import { checkConfigurations } from './ignition/check.ts';
import { render } from './ignition/render.ts';
import { acceptMachine } from './machines/accept.ts';
import { openRoster } from './machines/roster.ts';
import { openAssets } from './pxe/assets/assets.files.ts';
import { createBootService } from './pxe/decide/boot-service.ts';
import { startDhcp } from './pxe/dhcp/dhcp.socket.ts';
import { openLeaseBook } from './pxe/dhcp/leases.ts';
import { createHolders } from './pxe/holders.ts';
import { startMachineHttp } from './pxe/http/machines.server.ts';
import { hostAddresses } from './pxe/interfaces.files.ts';
import { followNetworks, type LiveNetworks } from './pxe/live-networks.ts';
import { startTftp } from './pxe/tftp/tftp.socket.ts';
import { openCatalog } from './resources/catalog.files.ts';
import type { LiveCatalog } from './resources/catalog.ts';
import { openSqliteStore } from './store/sqlite.files.ts';

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

/** Ready when every network can be served; what is not does not keep the others waiting. */
function readiness(networks: LiveNetworks, catalog: LiveCatalog): Readiness {
  const faults = [...networks.faults(), ...catalog.faults()];
  const served = networks.served();
  const checks = [
    {
      name: 'networks',
      ok: served.length > 0,
      detail: served.map(({ name }) => name).join(', ') || 'none is served',
    },
    ...faults.map(({ code, message }) => ({ name: code, ok: false, detail: message })),
  ];
  return { ready: served.length > 0 || catalog.list('Network').length === 0, checks };
}

/** Runs until SIGTERM or SIGINT; SIGHUP reads the documents again. Throws MusterError when it cannot start. */
export async function serve(options: ServeOptions): Promise<void> {
  const clock = systemClock;
  const log = createLog({ level: options.logLevel, pretty: process.stdout.isTTY === true });
  const metrics = createMetrics();
  const manager = connectServiceManager({ env: process.env, clock, log });
  const sockets = inheritedSockets(process.env, process.pid);
  const stopping = new AbortController();
  const { signal } = stopping;
  const common = { clock, log, metrics };

  // What is known.
  const events = createEventLog({ ...common, perSubject: 200, subjects: 20_000 });
  const journal = await attachEventJournal({ ...common, events, directory: join(options.state, 'events') });
  const store = await openSqliteStore({ path: join(options.state, 'muster.db'), log, metrics });
  const catalog = await openCatalog({
    ...common,
    ...(options.config === undefined ? {} : { directory: options.config }),
    store,
    events,
    signal,
    checkConfig: checkConfigurations,
  });
  const assets = await openAssets({
    directory: join(options.state, 'assets'),
    loaderDirectories: options.loaders,
    log,
  });
  const leases = await openLeaseBook({ store, clock, events, metrics });
  const roster = await openRoster({ ...common, store, catalog, events });

  // Who listens. HTTP comes first: its port is part of what DHCP says.
  const listen = httpListener(sockets, options.httpPort);
  const networks = followNetworks({
    ...common,
    catalog,
    addresses: hostAddresses,
    interfaces: interfacesOf(sockets),
    httpPort: options.httpPort,
    signal,
  });
  const holders = createHolders({ networks: networks.served, leases, roster });
  const boot = createBootService({
    leasedAddresses: holders.leasedAddresses,
    ...common,
    catalog,
    roster,
    assets,
    networks: networks.served,
    render,
    store,
    events,
  });
  const machines = {
    ...common,
    networks: networks.served,
    boot,
    assets,
    events,
    subjectOf: holders.subjectOf,
  };
  const http = await startMachineHttp({ ...machines, listen });
  const tftp = await startTftp({ ...machines, sockets: tftpSockets(sockets), signal });
  const dhcp = await startDhcp({ ...machines, sockets, leases, store, signal });

  const startedAt = clock.now();
  const api = await startApi({
    listen: { socket: options.socket, ...(options.metricsListen ? { metrics: options.metricsListen } : {}) },
    routes: assetRoutes(assets),
    deps: {
      ...common,
      catalog,
      roster,
      leases,
      events,
      accept: (name, choices) => acceptMachine({ catalog, roster, events }, name, choices),
      preview: boot,
      daemon: { version: VERSION, startedAt, readiness: () => readiness(networks, catalog) },
    },
  });
  const status = `${networks.served().length} networks, ${catalog.list('Machine').length} machines`;
  log.info(
    { http: http.port, socket: options.socket, sockets: sockets.map(({ name }) => name) },
    `ready: ${status}`,
  );
  await manager.ready(status);

  const reload = async (): Promise<void> => {
    await manager.reloading();
    await catalog.reload().catch((error: unknown) => log.error({ err: error }, 'reload'));
    networks.refresh();
    assets.rescanLoaders();
    await manager.ready(`${networks.served().length} networks, ${catalog.list('Machine').length} machines`);
  };
  process.on('SIGHUP', () => void reload());
  await new Promise<void>((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => resolve());
  });

  // Nobody is cut off: listeners end first, then what they wrote to.
  log.info({}, 'stopping');
  await manager.stopping();
  stopping.abort();
  await Promise.all([dhcp.close(), tftp.stopped, http.close(), api.close()]);
  boot.close();
  await roster.close();
  await catalog.close();
  await journal.close();
  await store.close();
  manager.close();
  log.flush();
}
