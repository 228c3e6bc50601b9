/**
 * The handlers of the routes of contract/table.ts. The first route that matches answers, so the
 * paths that begin with a parameter come last.
 */

import { PASSKEY_HANDLERS } from './accounts/passkey-routes.ts';
import { LOG_IN_HANDLERS } from './accounts/provider-routes.ts';
import { ACCOUNT_HANDLERS } from './accounts/routes.ts';
import { AGENT_BUILD_HANDLERS } from './agents.ts';
import { approveMachine, listWaiting } from './approvals.ts';
import { auditEntries, auditExport, auditStatus } from './audit.ts';
import { AUTHORITY_HANDLERS } from './authorities.ts';
import { acceptStore, showLife, writeBackup } from './backup.ts';
import { bind } from './bind.ts';
import {
  foundCluster,
  reclaimSpace,
  showAddons,
  showFounding,
  showHealth,
  showPlan,
  showResolvedCluster,
  showSpace,
  verifyCluster,
} from './clusters.ts';
import { showConsole } from './console.ts';
import { ACCOUNTS } from './contract/accounts.ts';
import { CHANGES } from './contract/changes.ts';
import { CLUSTERS } from './contract/clusters.ts';
import { DOCUMENTS, DOCUMENTS_BY_KIND } from './contract/documents.ts';
import { EVENTS } from './contract/events.ts';
import { INVENTORY } from './contract/inventory.ts';
import { LOG_IN } from './contract/log-in.ts';
import { MACHINES } from './contract/machines.ts';
import { PASSKEYS } from './contract/passkeys.ts';
import { PENDING } from './contract/pending.ts';
import { PKI, SECRETS } from './contract/pki.ts';
import { SERVER } from './contract/server.ts';
import { CONTRACTS } from './contract/table.ts';
import { TIMELINE } from './contract/timeline.ts';
import type { ApiDeps } from './deps.ts';
import {
  applyDocuments,
  deleteDocument,
  deleteDocuments,
  getDocument,
  listDocuments,
  putDocument,
  reloadDocuments,
} from './documents.ts';
import { listEvents } from './events.ts';
import { type Handler, json, type Route, rowsOf } from './handler.ts';
import { HEALTH_ROUTES } from './health.ts';
import { listInventory } from './inventory.ts';
import { acceptMachine, addMachine, explain, listLeases, render } from './machines.ts';
import {
  addNodes,
  adoptKubeadm,
  adoptMember,
  callOff,
  removeNodes,
  resetCluster,
  restoreCluster,
} from './membership.ts';
import { openApiText } from './openapi.ts';
import { incompleteImages } from './outlook.ts';
import { PENDING_HANDLERS } from './pending.ts';
import { compromised, quarantineMachine, releaseMachine } from './quarantine.ts';
import { ROLL_HANDLERS } from './rolls.ts';
import { ROTATION_HANDLERS } from './rotations.ts';
import { showRunning } from './running.ts';
import { listSecrets, putSecret, removeSecret, showSecret } from './secrets.ts';
import { listSnapshots, orderSnapshot, snapshotContent, verifySnapshot } from './snapshots.ts';
import { showTimeline } from './timeline.ts';
import { timestamp } from './times.ts';
import {
  credential,
  endpoint,
  etcdClient,
  kubeconfig,
  pkiExport,
  pkiExported,
  pkiStatus,
  rearmMachine,
} from './trust.ts';
import { UPGRADE_HANDLERS } from './upgrades.ts';

const index: Handler<ApiDeps> = () =>
  json({ routes: OPERATOR_ROUTES.map(({ method, path, summary }) => ({ method, path, summary })) });

const openApi: Handler<ApiDeps> = (_request, { daemon }) => ({
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: pieces(openApiText(CONTRACTS, daemon.version)),
});

async function* pieces(text: Iterable<string>): AsyncGenerator<string> {
  yield* text;
}

const status: Handler<ApiDeps> = async (_request, deps) =>
  json({
    version: deps.daemon.version,
    startedAt: timestamp(deps.daemon.startedAt),
    ...(deps.page !== undefined && { page: { url: deps.page, authority: deps.pageAuthority?.() } }),
    ...deps.daemon.readiness(),
    faults: deps.catalog.faults(),
    warnings: [
      ...(await deps.exports.warnings()),
      ...deps.endings.warnings(),
      ...deps.laterKeys.warnings(),
      ...deps.catalog.warnings(),
    ],
    incompleteImages: incompleteImages(deps),
  });

export const API_ROUTES: readonly Route<ApiDeps>[] = [
  ...bind(ACCOUNTS, ACCOUNT_HANDLERS),
  ...bind(LOG_IN, LOG_IN_HANDLERS),
  ...bind(PASSKEYS, PASSKEY_HANDLERS),
  ...bind(SERVER, {
    'GET /v1': index,
    'GET /v1/status': status,
    'GET /v1/backup': showLife,
    'POST /v1/backup': writeBackup,
    'POST /v1/backup/accept': acceptStore,
    'GET /openapi.json': openApi,
  }),
  ...bind(PENDING, PENDING_HANDLERS),
  ...bind(EVENTS, {
    'GET /v1/events': listEvents,
    'GET /v1/audit': auditStatus,
    'GET /v1/audit/entries': auditEntries,
    'GET /v1/audit/export': auditExport,
  }),
  ...bind(MACHINES, {
    'GET /v1/leases': listLeases,
    'GET /v1/explain': explain,
    'GET /v1/render/:machine': render,
    'POST /v1/machines/add': addMachine,
    'POST /v1/machines/:name/accept': acceptMachine,
    'POST /v1/machines/:name/rearm': rearmMachine,
    'GET /v1/waiting': listWaiting,
    'POST /v1/machines/:name/approve': approveMachine,
    'POST /v1/machines/:name/quarantine': quarantineMachine,
    'POST /v1/machines/:name/release': releaseMachine,
    'GET /v1/machines/:name/plan': showPlan,
  }),
  ...bind(TIMELINE, {
    'GET /v1/machines/:name/timeline': showTimeline,
    'GET /v1/machines/:name/console': showConsole,
  }),
  ...bind(INVENTORY, { 'GET /v1/inventory': listInventory }),
  ...bind(DOCUMENTS, {
    'POST /v1/apply': applyDocuments,
    'POST /v1/delete': deleteDocuments,
    'POST /v1/reload': reloadDocuments,
  }),
  ...bind(SECRETS, {
    'GET /v1/secrets': listSecrets,
    'GET /v1/secrets/:name': showSecret,
    'PUT /v1/secrets/:name/:key': putSecret,
    'DELETE /v1/secrets/:name/:key': removeSecret,
    'DELETE /v1/secrets/:name': removeSecret,
  }),
  ...bind(PKI, {
    ...AUTHORITY_HANDLERS,
    'GET /v1/pki': pkiStatus,
    'POST /v1/pki/export': pkiExport,
    'POST /v1/pki/exported': pkiExported,
    'GET /v1/pki/:cluster': pkiStatus,
  }),
  ...bind(CHANGES, { ...UPGRADE_HANDLERS, ...ROLL_HANDLERS, ...ROTATION_HANDLERS, ...AGENT_BUILD_HANDLERS }),
  ...bind(CLUSTERS, {
    'GET /v1/clusters/:name/compromised/:machine': compromised,
    'POST /v1/clusters/:name/kubeconfig': kubeconfig,
    'POST /v1/clusters/:name/credential': credential,
    'GET /v1/clusters/:name/endpoint': endpoint,
    'POST /v1/clusters/:name/etcd-client': etcdClient,
    'GET /v1/clusters/:name/full': showResolvedCluster,
    'GET /v1/clusters/:name/addons': showAddons,
    'GET /v1/clusters/:name/running': showRunning,
    'GET /v1/clusters/:name/founding': showFounding,
    'POST /v1/clusters/:name/found': foundCluster,
    'GET /v1/clusters/:name/space': showSpace,
    'POST /v1/clusters/:name/reclaim-space': reclaimSpace,
    'GET /v1/clusters/:name/status': showHealth,
    'POST /v1/clusters/:name/verify': verifyCluster,
    'POST /v1/clusters/:name/add-node': addNodes,
    'POST /v1/clusters/:name/remove-node': removeNodes,
    'POST /v1/clusters/:name/reset': resetCluster,
    'GET /v1/clusters/:name/backups': listSnapshots,
    'POST /v1/clusters/:name/backup': orderSnapshot,
    'POST /v1/clusters/:name/backups/:id/verify': verifySnapshot,
    'POST /v1/clusters/:name/backups/:id/content': snapshotContent,
    'POST /v1/clusters/:name/restore': restoreCluster,
    'POST /v1/clusters/:name/adopt-kubeadm': adoptKubeadm,
    'POST /v1/clusters/:name/adopt': adoptMember,
    'POST /v1/clusters/:name/call-off': callOff,
  }),
  ...bind(DOCUMENTS_BY_KIND, {
    'GET /v1/:kind': listDocuments,
    'GET /v1/:kind/:name': getDocument,
    'PUT /v1/:kind/:name': putDocument,
    'DELETE /v1/:kind/:name': deleteDocument,
  }),
  ...HEALTH_ROUTES,
];

/** All routes for operators, with those of assets and artifacts, for the index and the docs. */
export const OPERATOR_ROUTES: readonly Omit<Route<ApiDeps>, 'handler'>[] = rowsOf(CONTRACTS);
