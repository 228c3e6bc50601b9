/** Handlers for machines whose keys wait for an operator's approval. */
import type { WaitingView } from '../agent/approve.ts';
import { printable } from '../machines/identity.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json } from './handler.ts';
import { partOf } from './listing.ts';
import { fieldsOf, findMachine, labelsOf } from './machines.ts';
import { type Timestamp, withTimestamps } from './times.ts';

type H = Handler<ApiDeps>;

/** A key that waits, with what is known of its machine. */
export interface Waiting extends Omit<WaitingView, 'since'> {
  readonly since: Timestamp;
  readonly cluster?: string;
  /** The machine's hardware addresses by its document. */
  readonly macs: readonly string[];
  /** The other fields are what the machine said at its boot; nobody checked them. */
  readonly serial?: string;
  readonly manufacturer?: string;
  readonly product?: string;
}

/** Lists the keys that wait for an approval. Query: cluster, codes (what the consoles show). */
export const listWaiting: H = (request, deps) => {
  const cluster = request.query.get('cluster');
  const items = deps.agents
    .waiting({ codes: flag(request.query, 'codes') })
    .map((key): Waiting => {
      const member = deps.roster.get(key.machine);
      const { serial, manufacturer, product } = member?.status.seen ?? {};
      const of = deps.agents.agentCluster(key.machine);
      return {
        ...withTimestamps(key, 'since'),
        ...(of !== undefined && { cluster: of }),
        macs: member?.entry?.document.spec.macs ?? [],
        ...(serial !== undefined && { serial: printable(serial, 64) }),
        ...(manufacturer !== undefined && { manufacturer: printable(manufacturer, 64) }),
        ...(product !== undefined && { product: printable(product, 64) }),
      };
    })
    .filter((one) => cluster === null || one.cluster === cluster)
    .filter((one) => request.within?.has(one.cluster ?? '') ?? true)
    .sort((a, b) => (a.machine < b.machine ? -1 : a.machine > b.machine ? 1 : 0));
  const labels = labelsOf(deps);
  const part = partOf(
    request.query,
    items,
    (one) => `${one.machine}/${one.key}`,
    (one) => labels(one.machine),
  );
  return { ...json({ kind: 'WaitingList', ...part }), headers: HEADERS };
};

const HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' };

/** Approves the key of a machine whose console shows this code. Body: `{code}`. */
export const approveMachine: H = async (request, deps) => {
  const { code = '' } = await fieldsOf(request, ['code']);
  const { name } = findMachine(request.params.name ?? '', deps);
  return json(withTimestamps(await deps.agents.approve(name, code), 'since'));
};
