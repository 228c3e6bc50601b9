/**
 * Handlers for keys, certificates and alarms. The only private keys that leave the server are those
 * of the certificates that operators request, and all of them in the export that they request.
 */
import { pkiStandings } from '../agent/pki-standings.ts';
import { duration, type Millis, parseDuration } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { beforeChange } from '../base/rehearsal.ts';
import { type ExportedScope, exportScope } from '../pki/exported.ts';
import { isOfMachines, isProbe } from '../pki/hierarchy.ts';
import { type PkiStatusView, pkiStatusView, type TicketSecrets } from '../pki/views.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import { PKI } from './contract/pki.ts';
import type { ApiDeps } from './deps.ts';
import { type ApiRequest, flag, type Handler, json, readText, text } from './handler.ts';
import { partOf } from './listing.ts';
import { findMachine } from './machines.ts';
import { machineView, timestamp } from './times.ts';

type H = Handler<ApiDeps>;

/** The name of Muster's own keys in lists of clusters. */
const OWN = 'muster';

/** Keys and certificates of one cluster, or of Muster itself. */
export interface ScopeStatus extends PkiStatusView {
  readonly scope: string;
  /** Whether the keys belong to a cluster, or are Muster's own transport CA. */
  readonly of: 'cluster' | 'muster';
  /** The rotation that is under way. */
  readonly rotation?: { readonly step: string; readonly state: 'running' | 'paused' | 'held' };
}

/** How far `muster pki status` looks ahead by default. */
const WITHIN = duration('90d');

async function statusOf(scope: string, within: Millis, deps: ApiDeps): Promise<ScopeStatus> {
  const { pki, agents, clock } = deps;
  const own = scope === MUSTER_SCOPE;
  const issued = await pki.issued(scope);
  const rotation = rotationOf(scope, deps);
  return {
    scope: own ? OWN : scope,
    of: own ? 'muster' : 'cluster',
    ...(rotation && { rotation }),
    ...pkiStatusView(
      {
        keysets: (await pki.keysets(scope)).values(),
        encryption: await pki.encryption(scope),
        tickets: own ? await ticketSecrets(agents) : undefined,
        issued,
        standing: pkiStandings(agents, scope, issued),
        ofCluster: !own,
      },
      clock.now(),
      within,
    ),
  };
}

async function ticketSecrets(agents: ApiDeps['agents']): Promise<TicketSecrets> {
  const keys = await agents.ticketKeys();
  return { id: keys.id(), before: keys.before() };
}

function rotationOf(scope: string, { rotations }: ApiDeps): ScopeStatus['rotation'] {
  const { kind, ended, step, paused, holding } = rotations.underWay(scope) ?? {};
  if (step === undefined || ended || !kind?.endsWith('rotation')) return undefined;
  return { step, state: paused ? 'paused' : holding ? 'held' : 'running' };
}

/**
 * All scopes that have keys, or the one of `cluster`.
 *
 * @throws {MusterError} E_NO_KEYS or E_NOT_FOUND when the cluster has no keys
 */
async function scopesOf(cluster: string | undefined, deps: ApiDeps): Promise<readonly string[]> {
  const scopes = await deps.pki.scopes();
  if (cluster === undefined) return scopes;
  if (cluster !== MUSTER_SCOPE && scopes.includes(cluster)) return [cluster];
  throw deps.catalog.get('Cluster', cluster)
    ? new MusterError('E_NO_KEYS', `${cluster} has no keys yet`)
    : new MusterError(
        'E_NOT_FOUND',
        `there is no Cluster "${cluster}", and it has no keys; \`muster pki status\` lists all keys`,
      );
}

/** What `POST /v1/pki/export` answers with: every key in the clear. */
export interface PkiExport {
  readonly kind: 'PkiExport';
  readonly version: string;
  readonly scopes: readonly ExportedScope[];
}

/** Answers with all keys of all scopes, or of one cluster, in the clear. */
export const pkiExport: H = async (request, deps) => {
  const scopes = await scopesOf(request.query.get('cluster') ?? undefined, deps);
  beforeChange(...scopes.map((scope) => `give out the keys of ${scope}`));
  const exported: PkiExport = {
    kind: 'PkiExport',
    version: deps.daemon.version,
    scopes: await Promise.all(scopes.map((scope) => exportScope(deps.pki, scope))),
  };
  return json(exported, 200, { 'cache-control': 'no-store' });
};

/** Notes which keys an operator has a copy of. */
export const pkiExported: H = async (request, deps) => {
  const read = PKI['POST /v1/pki/exported'].body.safeParse(parsed(await readText(request)));
  if (!read.success) throw new MusterError('E_USAGE', 'the body is {"scopes": [{"scope", "generations"}]}');
  await deps.exports.copied(read.data.scopes);
  return json({ warnings: await deps.exports.warnings() });
};

/**
 * Lists the keys and certificates of all scopes, or of the cluster that the path names, and what
 * happens to them within a time.
 */
export const pkiStatus: H = async (request, deps) => {
  const asked = request.query.get('within');
  const within = asked === null ? WITHIN : parseDuration(asked);
  if (within === undefined) throw new MusterError('E_USAGE', `within=${asked} is no duration, e.g. 90d`);
  const all = await scopesOf(request.params.cluster, deps);
  const wanted = all.filter((scope) => request.within?.has(scope) ?? true);
  const items = await Promise.all(wanted.map((scope) => statusOf(scope, within, deps)));
  return json({ kind: 'PkiStatus', ...partOf(request.query, items, ({ scope }) => scope) });
};

/**
 * Orders that certificates of a cluster's machines are replaced at their next polls.
 *
 * @throws {MusterError} E_USAGE for a body of another form, or a certificate that no machine gets
 *   with its plan; E_NOT_FOUND when the machine is not of the cluster; E_NO_KEYS
 */
export const renewCertificates: H = async (request, deps) => {
  const read = PKI['POST /v1/pki/:cluster/renew'].body.safeParse(parsed(await readText(request)));
  if (!read.success) throw new MusterError('E_USAGE', 'the body is {"machine", "leaf", "newKeys"}');
  const { machine, leaf, newKeys = false } = read.data;
  const [cluster] = (await scopesOf(request.params.cluster, deps)) as [string];
  const ofPlans = leaf === undefined || (isOfMachines(leaf) && !isProbe(leaf) && leaf !== 'agent');
  if (!ofPlans)
    throw new MusterError('E_USAGE', `"${leaf}" is no certificate that machines get by their plan`);
  if (machine !== undefined && deps.agents.agentCluster(machine) !== cluster)
    throw new MusterError('E_NOT_FOUND', `${machine} is no machine of cluster ${cluster}`);
  await deps.pki.renew(cluster, { machine, leaf, newKeys });
  deps.events.record({
    kind: 'pki.renewal',
    subject: machine ?? `Cluster/${cluster}`,
    fields: { cluster, ...(leaf && { leaf }), newKeys },
  });
  return json({ cluster, machine, leaf, newKeys });
};

/**
 * The user of a certificate. Operators who are logged in get it for themselves only, so that the
 * logs of a cluster name the person; on the socket the caller says whom it is for.
 *
 * @throws {MusterError} E_USAGE on the socket without `user`; E_FORBIDDEN for somebody else's name
 */
function userOf({ query, principal }: ApiRequest): string {
  const asked = query.get('user') || undefined;
  if (principal === undefined || principal.by === 'socket') {
    if (asked === undefined) throw new MusterError('E_USAGE', 'the query needs user: ?user=…');
    return asked;
  }
  if (asked !== undefined && asked !== principal.name)
    throw new MusterError(
      'E_FORBIDDEN',
      `you are ${principal.name}, and certificates for "${asked}" are not yours`,
    );
  return principal.name;
}

export const credential: H = async (request, deps) => {
  const { until, ...made } = await deps.userCredential(request.params.name ?? '', userOf(request));
  return json({ ...made, until: timestamp(until) }, 200, { 'cache-control': 'no-store' });
};

export const endpoint: H = async ({ params }, deps) => json(await deps.endpoint(params.name ?? ''));

export const kubeconfig: H = async (request, deps) => {
  const config = await deps.kubeconfig(request.params.name ?? '', userOf(request));
  const answer = text(config, 'application/yaml');
  return { ...answer, headers: { ...answer.headers, 'cache-control': 'no-store' } };
};

export const etcdClient: H = async (request, deps) => {
  const client = await deps.etcdClient(request.params.name ?? '', userOf(request));
  const answer = json(client);
  return { ...answer, headers: { ...answer.headers, 'cache-control': 'no-store' } };
};

export const rearmMachine: H = async (request, deps) => {
  const { name, status } = findMachine(request.params.name ?? '', deps);
  const alarm = status.alarm?.code;
  const view = machineView(await deps.agents.rearm(name, { keep: flag(request.query, 'keep') }));
  return json({ ...view, ...(alarm !== undefined && { endedAlarm: alarm }) });
};
