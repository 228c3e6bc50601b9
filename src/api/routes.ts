/**
 * The operators' API as a table: the server, its index (`GET /v1`) and docs/ports.md come from it.
 * Literal paths stand before those with parameters that would also fit; the first that fits
 * answers.
 */
import { ARTIFACT_ROUTES } from './artifacts.ts';
import { ASSET_ROUTES } from './assets.ts';
import {
  foundCluster,
  showAddons,
  showFounding,
  showFull,
  showHealth,
  showPlan,
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
import { addNodes, adoptMember, callOff, removeNodes, resetCluster, restoreCluster } from './membership.ts';
import { incompleteImages } from './outlook.ts';
import { timestamp } from './times.ts';
import { etcdClient, kubeconfig, pkiStatus, rearmMachine } from './trust.ts';

const index: Handler<ApiDeps> = () =>
  json({ routes: OPERATOR_ROUTES.map(({ method, path, summary }) => ({ method, path, summary })) });

const status: Handler<ApiDeps> = (_request, deps) =>
  json({
    version: deps.daemon.version,
    startedAt: timestamp(deps.daemon.startedAt),
    ...deps.daemon.readiness(),
    faults: deps.catalog.faults(),
    warnings: deps.catalog.warnings(),
    incompleteImages: incompleteImages(deps),
  });

export const API_ROUTES: readonly Route<ApiDeps>[] = [
  { method: 'GET', path: '/v1', summary: 'This list.', handler: index },
  {
    method: 'GET',
    path: '/v1/status',
    summary: 'Version, readiness, and faults of the configuration directory.',
    handler: status,
  },
  {
    method: 'GET',
    path: '/v1/events',
    summary: 'Events, newest last. Query: subject, after, limit; follow streams them (server-sent events).',
    handler: listEvents,
  },
  { method: 'GET', path: '/v1/leases', summary: 'Leases. Query: network.', handler: listLeases },
  {
    method: 'GET',
    path: '/v1/explain',
    summary: 'What a machine would get now and why. Query: machine or mac; network, arch, firmware.',
    handler: explain,
  },
  {
    method: 'GET',
    path: '/v1/render/:machine',
    summary: "A machine's first-boot configuration, with where each value came from.",
    handler: render,
  },
  {
    method: 'POST',
    path: '/v1/apply',
    summary:
      'Applies documents, all or nothing: YAML or JSON, or {"sources": [{"file", "text"}]}. Query: dryRun.',
    handler: applyDocuments,
  },
  {
    method: 'POST',
    path: '/v1/delete',
    summary:
      'Deletes documents as one change: {"documents": [{"kind", "name"}]}. Query: dryRun, ignoreNotFound.',
    handler: deleteDocuments,
  },
  {
    method: 'POST',
    path: '/v1/reload',
    summary:
      'Reads the configuration directory again, and the loader directories; answers with the faults of the first.',
    handler: reloadDocuments,
  },
  {
    method: 'POST',
    path: '/v1/machines/add',
    summary: 'Makes a Machine: {"mac", "profile", "name", "address"}.',
    handler: addMachine,
  },
  {
    method: 'POST',
    path: '/v1/machines/:name/accept',
    summary: 'Accepts a machine that was seen, or lets a held one try again: {"profile", "name"}.',
    handler: acceptMachine,
  },
  {
    method: 'POST',
    path: '/v1/machines/:name/rearm',
    summary: "Ends a machine's alarm. Query: keep, or the next key that comes has a certificate.",
    handler: rearmMachine,
  },
  {
    method: 'GET',
    path: '/v1/pki',
    summary: 'Keysets, and every certificate handed out: to whom, until when.',
    handler: pkiStatus,
  },
  { method: 'GET', path: '/v1/pki/:cluster', summary: 'The same of one cluster.', handler: pkiStatus },
  {
    method: 'POST',
    path: '/v1/clusters/:name/kubeconfig',
    summary: 'A kubeconfig with a fresh admin certificate for a working day; secret. Query: user.',
    handler: kubeconfig,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/etcd-client',
    summary: "A client of a cluster's etcd with a fresh certificate for a working day; secret. Query: user.",
    handler: etcdClient,
  },
  {
    method: 'GET',
    path: '/v1/machines/:name/plan',
    summary: 'What a machine of a cluster is told to do once it has its certificates.',
    handler: showPlan,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/full',
    summary: "A cluster's full specification, with where each value came from.",
    handler: showFull,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/addons',
    summary: 'The add-ons of a cluster: what is here of them, and which images they need.',
    handler: showAddons,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/founding',
    summary: "How far the founding of a cluster's etcd is, and what each member was told.",
    handler: showFounding,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/found',
    summary: 'Opens the founding with the members that have asked: {"confirm": the name once more}.',
    handler: foundCluster,
  },
  {
    method: 'GET',
    path: '/v1/clusters/:name/status',
    summary:
      'Whether a cluster is well: etcd, API servers, nodes, leases, certificates, machines. Query: etcd.',
    handler: showHealth,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/verify',
    summary: 'The same, with probe pods for DNS and Services. Query: etcd; image of the probes.',
    handler: verifyCluster,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/add-node',
    summary: 'Adds machines to a Cluster: {"machines": "NAME,NAME", "role": worker, control-plane or etcd}.',
    handler: addNodes,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/remove-node',
    summary: 'Takes machines out: {"machines", "replacements", "clear", "drain": a duration or no}.',
    handler: removeNodes,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/reset',
    summary: 'Clears all machines of a cluster: {"confirm": the name once more}.',
    handler: resetCluster,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/restore',
    summary:
      'Goes on from one member when the quorum is lost for good: {"confirm", "member", "without": members that are given up}.',
    handler: restoreCluster,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/adopt',
    summary:
      'Takes the present disk of a member for its own, after a store was rolled back: {"confirm", "member"}.',
    handler: adoptMember,
  },
  {
    method: 'POST',
    path: '/v1/clusters/:name/call-off',
    summary: 'Ends the replacement of a member, or a restore from its data: {"member"}.',
    handler: callOff,
  },
  {
    method: 'GET',
    path: '/v1/:kind',
    summary: 'All documents of a kind: networks, images, clusters, profiles, machines (with their status).',
    handler: listDocuments,
  },
  { method: 'GET', path: '/v1/:kind/:name', summary: 'A document; ETag.', handler: getDocument },
  {
    method: 'PUT',
    path: '/v1/:kind/:name',
    summary: 'Applies one document. If-Match, If-None-Match; query: dryRun.',
    handler: putDocument,
  },
  {
    method: 'DELETE',
    path: '/v1/:kind/:name',
    summary: 'Deletes a document, or forgets a machine that was only seen. If-Match; query: dryRun.',
    handler: deleteDocument,
  },
  ...HEALTH_ROUTES,
];

/**
 * Everything that operators can ask for: what is made of documents and what is made of files. For
 * the index and the docs.
 */
export const OPERATOR_ROUTES: readonly Omit<Route<ApiDeps>, 'handler'>[] = [
  ...API_ROUTES,
  ...ASSET_ROUTES,
  ...ARTIFACT_ROUTES,
];
