/**
 * The table of routes of the operators' API. The server, its index (`GET /v1`) and docs/ports.md
 * are made from it. The first route that matches answers, so literal paths come before paths with
 * parameters that would also match.
 */
import { ACCOUNT_ROUTES } from './accounts/routes.ts';
import { approveMachine, listWaiting } from './approvals.ts';
import { ARTIFACT_ROUTES } from './artifacts.ts';
import { ASSET_ROUTES } from './assets.ts';
import { auditEntries, auditExport, auditStatus } from './audit.ts';
import { AUTHORITY_ROUTES } from './authorities.ts';
import { acceptStore, showLife, writeBackup } from './backup.ts';
import {
  foundCluster,
  showAddons,
  showFounding,
  showHealth,
  showPlan,
  showResolvedCluster,
  verifyCluster,
} from './clusters.ts';
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
import { type Handler, json, type Route } from './handler.ts';
import { HEALTH_ROUTES } from './health.ts';
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
import { incompleteImages } from './outlook.ts';
import { compromised, quarantineMachine, releaseMachine } from './quarantine.ts';
import { ROTATION_ROUTES } from './rotations.ts';
import { showRunning } from './running.ts';
import { listSecrets, putSecret, removeSecret, showSecret } from './secrets.ts';
import { listSnapshots, orderSnapshot, snapshotContent, verifySnapshot } from './snapshots.ts';
import { showTimeline } from './timeline.ts';
import { timestamp } from './times.ts';
import { etcdClient, kubeconfig, pkiExport, pkiExported, pkiStatus, rearmMachine } from './trust.ts';
import { UPGRADE_ROUTES } from './upgrades.ts';

const index: Handler<ApiDeps> = () =>
  json({ routes: OPERATOR_ROUTES.map(({ method, path, summary }) => ({ method, path, summary })) });

const status: Handler<ApiDeps> = async (_request, deps) =>
  json({
    version: deps.daemon.version,
    startedAt: timestamp(deps.daemon.startedAt),
    ...(deps.page !== undefined && { page: { url: deps.page, authority: deps.pageAuthority } }),
    ...deps.daemon.readiness(),
    faults: deps.catalog.faults(),
    warnings: [...(await deps.exports.warnings()), ...deps.endings.warnings(), ...deps.catalog.warnings()],
    incompleteImages: incompleteImages(deps),
  });

export const API_ROUTES: readonly Route<ApiDeps>[] = [
  ...ACCOUNT_ROUTES,
  ...UPGRADE_ROUTES,
  ...AUTHORITY_ROUTES,
  { method: 'GET', path: '/v1', access: 'view', summary: 'Lists the routes.', handler: index },
  {
    method: 'GET',
    path: '/v1/status',
    access: 'view',
    summary: 'Shows version, readiness, and the faults of the configuration directory.',
    handler: status,
  },
  {
    method: 'GET',
    path: '/v1/events',
    access: 'view',
    summary:
      'Lists events, newest last. Query: subject, after, limit; follow streams them (server-sent events).',
    handler: listEvents,
  },
  {
    method: 'GET',
    path: '/v1/audit',
    access: 'audit',
    summary: 'Shows the security log: public key, newest entry, newest checkpoint, size.',
    handler: auditStatus,
  },
  {
    method: 'GET',
    path: '/v1/audit/entries',
    access: 'audit',
    summary: 'Lists its newest entries, newest last. Query: subject, after, limit, follow (a stream).',
    handler: auditEntries,
  },
  {
    method: 'GET',
    path: '/v1/audit/export',
    access: 'audit',
    summary: 'Exports all of its lines (JSON Lines), oldest first; the last is a checkpoint.',
    handler: auditExport,
  },
  {
    method: 'GET',
    path: '/v1/backup',
    access: 'view',
    summary: 'Shows whether the store serves as usual, was restored, or continues elsewhere.',
    handler: showLife,
  },
  {
    method: 'POST',
    path: '/v1/backup',
    access: 'administer',
    summary:
      'Answers with a backup of the boot host in the clear, for `muster backup create`; secret. Query: assets.',
    handler: writeBackup,
  },
  {
    method: 'POST',
    path: '/v1/backup/accept',
    access: 'administer',
    summary: 'Accepts the store that was restored here as the right one.',
    handler: acceptStore,
  },
  {
    method: 'GET',
    path: '/v1/leases',
    access: 'view',
    summary: 'Lists leases. Query: network.',
    handler: listLeases,
  },
  {
    method: 'GET',
    path: '/v1/explain',
    access: 'view',
    summary: 'Explains what a machine would get now and why. Query: machine or mac; network, arch, firmware.',
    handler: explain,
  },
  {
    method: 'GET',
    path: '/v1/render/:machine',
    access: 'view',
    summary: "Shows a machine's first-boot configuration, with the origin of each value.",
    handler: render,
  },
  {
    method: 'POST',
    path: '/v1/apply',
    access: 'administer',
    summary:
      'Applies documents, all or nothing: YAML or JSON, or {"sources": [{"file", "text"}]}. Query: dryRun.',
    handler: applyDocuments,
  },
  {
    method: 'POST',
    path: '/v1/delete',
    access: 'administer',
    summary:
      'Deletes documents as one change: {"documents": [{"kind", "name"}]}. Query: dryRun, force, ignoreNotFound.',
    handler: deleteDocuments,
  },
  {
    method: 'POST',
    path: '/v1/reload',
    access: 'operate',
    summary:
      'Reads the configuration directory, the loader directories and the host’s addresses again; answers with the faults of the configuration directory.',
    handler: reloadDocuments,
  },
  {
    method: 'GET',
    path: '/v1/machines/:name/timeline',
    access: 'view',
    summary:
      'Shows what happened in a boot of a machine, with durations, what was waited for, and verdicts. Query: boot (an id; 0 the last one, -1 the one before).',
    handler: showTimeline,
  },
  {
    method: 'POST',
    path: '/v1/machines/add',
    access: 'operate',
    summary: 'Makes a Machine: {"mac", "profile", "name", "address", "cluster"}.',
    handler: addMachine,
  },
  {
    method: 'POST',
    path: '/v1/machines/:name/accept',
    access: 'operate',
    summary:
      'Accepts a machine that was seen, or lets a held one try again: {"profile", "name", "cluster", "macs"}.',
    handler: acceptMachine,
  },
  {
    method: 'POST',
    path: '/v1/machines/:name/rearm',
    access: 'operate',
    summary: "Ends a machine's alarm. Query: keep (its certificate stays; else the next key gets a new one).",
    handler: rearmMachine,
  },
  {
    method: 'GET',
    path: '/v1/waiting',
    access: 'view',
    summary:
      'Lists machines whose keys wait for an approval. Query: cluster; codes shows what their consoles show.',
    handler: listWaiting,
  },
  {
    method: 'POST',
    path: '/v1/machines/:name/approve',
    access: 'operate',
    summary: 'Approves the waiting key of a machine: {"code"}, as its console shows it.',
    handler: approveMachine,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/compromised/:machine',
    access: 'view',
    summary: 'Lists the keys and certificates that a machine had, until when, and which rotation ends them.',
    handler: compromised,
  },
  {
    method: 'POST',
    path: '/v1/machines/:name/quarantine',
    access: 'administer',
    summary:
      'Puts a machine in quarantine: {"reason", "pods": delete}. It gets nothing until it is released.',
    handler: quarantineMachine,
  },
  {
    method: 'POST',
    path: '/v1/machines/:name/release',
    access: 'administer',
    summary: 'Ends the quarantine of a machine; its certificate stays revoked.',
    handler: releaseMachine,
  },
  {
    method: 'GET',
    path: '/v1/secrets',
    access: 'view',
    summary: 'Lists Secrets: keys, sizes, times, who uses them, which machines have which. No values.',
    handler: listSecrets,
  },
  {
    method: 'GET',
    path: '/v1/secrets/:name',
    access: 'view',
    summary: 'The same for one Secret.',
    handler: showSecret,
  },
  {
    method: 'PUT',
    path: '/v1/secrets/:name/:key',
    access: 'administer',
    summary: 'Writes the value of a key: the body, as it is. No route returns it.',
    handler: putSecret,
  },
  {
    method: 'DELETE',
    path: '/v1/secrets/:name/:key',
    access: 'administer',
    summary: 'Removes a key of a Secret; refused while a document refers to it.',
    handler: removeSecret,
  },
  {
    method: 'DELETE',
    path: '/v1/secrets/:name',
    access: 'administer',
    summary: 'Removes a Secret; refused while a document refers to it.',
    handler: removeSecret,
  },
  {
    method: 'GET',
    path: '/v1/pki',
    access: 'view',
    summary:
      'Lists keysets and issued certificates with their holders, ends and renewals. Query: within, a duration to look ahead.',
    handler: pkiStatus,
  },
  {
    method: 'POST',
    path: '/v1/pki/export',
    access: 'administer',
    summary: 'Answers with all private keys in the clear, for `muster pki export`; secret. Query: cluster.',
    handler: pkiExport,
  },
  {
    method: 'POST',
    path: '/v1/pki/exported',
    access: 'administer',
    summary: 'Notes which keys an operator has a copy of: {"scopes": [{"scope", "generations"}]}.',
    handler: pkiExported,
  },
  {
    method: 'GET',
    path: '/v1/pki/:cluster',
    access: 'view',
    summary: 'The same for one cluster.',
    handler: pkiStatus,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/kubeconfig',
    access: 'administer',
    summary: 'Makes a kubeconfig with a new admin certificate for a working day; it is secret. Query: user.',
    handler: kubeconfig,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/etcd-client',
    access: 'administer',
    summary: "Makes a client certificate for a cluster's etcd for a working day; it is secret. Query: user.",
    handler: etcdClient,
  },
  {
    method: 'GET',
    path: '/v1/machines/:name/plan',
    access: 'view',
    summary: 'Shows the plan that a machine of a cluster gets once it has its certificates.',
    handler: showPlan,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/full',
    access: 'view',
    summary: "Shows a cluster's resolved specification, with the origin of each value.",
    handler: showResolvedCluster,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/addons',
    access: 'view',
    summary: 'Lists the add-ons of a cluster: whether their files are complete, and which images they need.',
    handler: showAddons,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/running',
    access: 'view',
    summary: 'Shows the versions that a founded cluster may run, and those that its machines report.',
    handler: showRunning,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/founding',
    access: 'view',
    summary: "Shows the state of the founding of a cluster's etcd, and the last decision for each member.",
    handler: showFounding,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/found',
    access: 'administer',
    summary: 'Opens the founding with the members that have polled: {"confirm": the cluster’s name}.',
    handler: foundCluster,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/status',
    access: 'view',
    summary:
      'Shows the health of a cluster: etcd, API servers, nodes, leases, certificates, machines. Query: etcd (only etcd).',
    handler: showHealth,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/verify',
    access: 'operate',
    summary:
      'The same, and runs probe pods for DNS and Services. Query: etcd (only etcd), image (of the probes).',
    handler: verifyCluster,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/add-node',
    access: 'operate',
    summary: 'Adds machines to a Cluster: {"machines": "NAME,NAME", "role": worker, control-plane or etcd}.',
    handler: addNodes,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/remove-node',
    access: 'administer',
    summary:
      'Removes machines from a Cluster: {"machines", "replacements", "clear", "drain": a duration or no}.',
    handler: removeNodes,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/reset',
    access: 'administer',
    summary: 'Clears all machines of a cluster: {"confirm": the cluster’s name}.',
    handler: resetCluster,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/backups',
    access: 'view',
    summary: "Lists the snapshots of a cluster's etcd, the one that is being taken, and the last failure.",
    handler: listSnapshots,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/backup',
    access: 'operate',
    summary: 'Orders a snapshot of etcd, which a healthy member takes with its next poll. 202: {"id"}.',
    handler: orderSnapshot,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/backups/:id/verify',
    access: 'operate',
    summary: 'Reads a snapshot to its end and checks it.',
    handler: verifySnapshot,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/backups/:id/content',
    access: 'administer',
    summary: 'Answers with a snapshot in the clear, for `muster cluster backup get`; secret.',
    handler: snapshotContent,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/restore',
    access: 'administer',
    summary:
      'Restores etcd when the quorum is lost for good, from one member or from a snapshot: {"confirm", "member", "backup", "without": abandoned members}.',
    handler: restoreCluster,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/adopt-kubeadm',
    access: 'administer',
    summary:
      'Takes over the keys of a cluster that kubeadm made, which counts as founded then: {"confirm", "ca", "etcd-ca", "front-proxy-ca", "sa"}.',
    handler: adoptKubeadm,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/adopt',
    access: 'administer',
    summary:
      'Accepts the present disk of a member as its own, after a store was rolled back: {"confirm", "member"}.',
    handler: adoptMember,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/call-off',
    access: 'operate',
    summary: 'Cancels the replacement of a member, or a restore from its data: {"member"}.',
    handler: callOff,
  },
  ...ROTATION_ROUTES,
  {
    method: 'GET',
    path: '/v1/:kind',
    access: 'view',
    summary:
      'Lists all documents of a kind: networks, images, clusters, profiles, machines (with their status).',
    handler: listDocuments,
  },
  {
    method: 'GET',
    path: '/v1/:kind/:name',
    access: 'view',
    summary: 'Shows a document, with its ETag.',
    handler: getDocument,
  },
  {
    method: 'PUT',
    path: '/v1/:kind/:name',
    access: 'administer',
    summary: 'Applies one document. Headers: If-Match, If-None-Match. Query: dryRun.',
    handler: putDocument,
  },
  {
    method: 'DELETE',
    path: '/v1/:kind/:name',
    access: 'administer',
    summary:
      'Deletes a document, or forgets a machine that was only seen. Header: If-Match. Query: dryRun, force.',
    handler: deleteDocument,
  },
  ...HEALTH_ROUTES,
];

/** All routes for operators, with those of assets and artifacts, for the index and the docs. */
export const OPERATOR_ROUTES: readonly Omit<Route<ApiDeps>, 'handler'>[] = [
  ...API_ROUTES,
  ...ASSET_ROUTES,
  ...ARTIFACT_ROUTES,
];
