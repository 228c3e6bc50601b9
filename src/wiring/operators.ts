/** Wires the operators' API. */
import { startEndingWatch } from '../agent/ending-watch.ts';
import { quarantineMachine, releaseMachine } from '../agent/quarantine.ts';
import { createActions } from '../api/actions.ts';
import { startApi } from '../api/api.server.ts';
import { artifactRoutes } from '../api/artifacts.ts';
import { assetRoutes } from '../api/assets.ts';
import type { Daemon } from '../api/deps.ts';
import { openSystemCalls } from '../base/system-calls.socket.ts';
import { openUserNames } from '../base/user-names.files.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { acceptMachine } from '../machines/accept.ts';
import { openExports } from '../pki/exported.ts';
import type { Boot, CloseListener } from './boot.ts';
import type { Clusters } from './clusters.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

/**
 * Opens the operators' socket and, if the options ask for it, the TCP listener for monitoring.
 * `opened` gets the function that closes each listener.
 */
export async function listenToOperators(
  options: ServeOptions,
  { clock, log, metrics }: Common,
  {
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
  }: State,
  boot: Boot,
  clusters: Clusters,
  daemon: Daemon,
  opened: (close: CloseListener) => void,
): Promise<void> {
  const { socket, metricsListen } = options;
  const endings = startEndingWatch({ pki, agents, events, metrics, clock, log });
  opened(() => endings.close());
  const quarantine = { roster, identities: agents.identities, events, clock };
  const api = await startApi({
    listen: { socket, ...(metricsListen ? { metrics: metricsListen } : {}) },
    routes: [...assetRoutes(assets, artifacts), ...artifactRoutes(artifacts, assets)],
    deps: {
      systemCalls: openSystemCalls({ env: process.env, log }),
      catalog,
      roster,
      leases,
      events,
      security,
      actions: createActions({ acting, events, security, userName: openUserNames(), clock }),
      accept: (name, choices) => acceptMachine({ catalog, roster, events }, name, choices),
      preview: boot.service,
      addons,
      founding: clusters.founding,
      running: releases,
      snapshots: clusters.snapshots,
      health: clusters.health,
      membership: clusters.membership,
      waiting: clusters.waiting,
      kubeconfig: clusters.kubeconfig,
      etcdClient: clusters.etcdClient,
      quarantine: {
        hold: (machine, why, deletePods) => quarantineMachine(quarantine, machine, { why, deletePods }),
        release: (machine) => releaseMachine(quarantine, machine),
        leaveEtcd: clusters.quarantinedMembers.leave,
        returnToEtcd: clusters.quarantinedMembers.release,
      },
      resolved: clusters.resolved,
      secrets: { given, users: secretUsers },
      pki,
      exports: openExports({ store, pki, clock }),
      endings,
      agents,
      daemon,
      metrics,
      clock,
      log,
    },
  });
  opened(() => api.close());
}
