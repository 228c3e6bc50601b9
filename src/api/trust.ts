/**
 * Handlers for keys, certificates and what follows from two keys in one machine's name. No private
 * key leaves but a person's own.
 */
import { MusterError } from '../base/errors.ts';
import { leavesFor } from '../pki/hierarchy.ts';
import { type CertificateView, pkiStatusView } from '../pki/views.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import type { ApiDeps } from './deps.ts';
import { type ApiRequest, flag, type Handler, json, text } from './handler.ts';
import { findMachine } from './machines.ts';
import { machineView } from './times.ts';

type H = Handler<ApiDeps>;

/** What Muster's own keys are called where clusters are listed. */
const OWN = 'muster';

/** Keys and certificates of one cluster, or of Muster itself. */
export interface ScopeStatus extends ReturnType<typeof pkiStatusView> {
  readonly scope: string;
  /** Whose: a cluster's, or this boot host's own transport CA. */
  readonly of: 'cluster' | 'muster';
}

/** Leaves that machines of a cluster hold. */
const MACHINE_LEAVES: ReadonlySet<string> = new Set(leavesFor(['control-plane', 'etcd', 'worker']));

async function statusOf(scope: string, { pki, agents, clock }: ApiDeps): Promise<ScopeStatus> {
  const own = scope === MUSTER_SCOPE;
  const view = pkiStatusView(
    (await pki.keysets(scope)).values(),
    await pki.issued(scope),
    clock.now(),
    await pki.encryption(scope),
  );
  const judged = (one: CertificateView): CertificateView => {
    if (one.state === 'expired') return one;
    if (one.leaf === 'agent') {
      const state = agents.certificateState(one.to, one.serial);
      return state === 'valid' ? one : { ...one, state };
    }
    const gone = !own && MACHINE_LEAVES.has(one.leaf) && agents.agentCluster(one.to) !== scope;
    return gone ? { ...one, state: 'removed' } : one;
  };
  return {
    scope: own ? OWN : scope,
    of: own ? 'muster' : 'cluster',
    ...view,
    certificates: view.certificates.map(judged),
  };
}

/** Every scope that has keys; with a cluster in the path only that. */
export const pkiStatus: H = async (request, deps) => {
  const { cluster } = request.params;
  const scopes = await deps.pki.scopes();
  const wanted = cluster === undefined ? scopes : scopes.filter((one) => one === cluster);
  if (cluster !== undefined && wanted.length === 0)
    throw deps.catalog.get('Cluster', cluster)
      ? new MusterError('E_NO_KEYS', `${cluster} has no keys yet`)
      : new MusterError(
          'E_NOT_FOUND',
          `there is no Cluster "${cluster}", and no keys of one; \`muster pki status\` lists all keys`,
        );
  return json({ kind: 'PkiStatus', items: await Promise.all(wanted.map((scope) => statusOf(scope, deps))) });
};

const required = (request: ApiRequest, name: string): string => {
  const value = request.query.get(name);
  if (value === null || value === '') throw new MusterError('E_USAGE', `say ${name}: ?${name}=…`);
  return value;
};

export const kubeconfig: H = async (request, deps) => {
  const config = await deps.kubeconfig(request.params.name ?? '', required(request, 'user'));
  const answer = text(config, 'application/yaml');
  return { ...answer, headers: { ...answer.headers, 'cache-control': 'no-store' } };
};

export const etcdClient: H = async (request, deps) => {
  const client = await deps.etcdClient(request.params.name ?? '', required(request, 'user'));
  const answer = json(client);
  return { ...answer, headers: { ...answer.headers, 'cache-control': 'no-store' } };
};

export const rearmMachine: H = async (request, deps) => {
  const { name } = findMachine(request.params.name ?? '', deps);
  return json(machineView(await deps.agents.rearm(name, { keep: flag(request.query, 'keep') })));
};
