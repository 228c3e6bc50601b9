/** Handlers for quarantine, and for what a machine that was stolen had. */
import { MusterError } from '../base/errors.ts';
import type { MemberLeaves } from '../cluster/change/quarantined-member.ts';
import { pkiRoles } from '../cluster/spec/certificate-names.ts';
import { type HeldKey, heldBy, rotationsFor } from '../pki/held-by.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';
import { fieldsOf, findMachine } from './machines.ts';
import { machineView, type Timestamp, timestamp } from './times.ts';

type H = Handler<ApiDeps>;

/** A machine that was put in quarantine. */
export type QuarantineView = ReturnType<typeof machineView> & {
  /** What becomes of its member of etcd; absent: it has none. */
  readonly etcd?: MemberLeaves;
};

/** What a machine of a cluster had. */
export interface CompromisedView {
  readonly cluster: string;
  readonly machine: string;
  readonly roles: readonly string[];
  readonly had: readonly (Omit<HeldKey, 'until'> & { readonly until?: Timestamp })[];
  /** The keysets of the cluster to rotate. */
  readonly rotations: readonly string[];
  /** Secrets that operators gave, which it got: `NAME/KEY`. */
  readonly secrets: readonly string[];
  /** It is in etcd, or was when it was last heard. */
  readonly etcd: boolean;
}

export const quarantineMachine: H = async (request, deps) => {
  const { reason = '', pods = '' } = await fieldsOf(request, ['reason', 'pods']);
  if (pods !== '' && pods !== 'delete') throw new MusterError('E_USAGE', 'pods is "delete" or absent');
  const { name } = findMachine(request.params.name ?? '', deps);
  const held = await deps.quarantine.hold(name, reason, pods === 'delete');
  // The quarantine counts, whatever becomes of the member.
  const etcd = await deps.quarantine.leaveEtcd(name);
  const view: QuarantineView = { ...machineView(held), ...(etcd && { etcd }) };
  return json(view);
};

export const releaseMachine: H = async (request, deps) => {
  const { name } = findMachine(request.params.name ?? '', deps);
  const freed = await deps.quarantine.release(name);
  await deps.quarantine.returnToEtcd(name);
  return json(machineView(freed));
};

export const compromised: H = async (request, deps) => {
  const { name: cluster = '', machine: asked = '' } = request.params;
  const { name: machine, status } = findMachine(asked, deps);
  const found = deps.resolved(cluster);
  if (found === undefined)
    throw new MusterError('E_NOT_FOUND', `there is no Cluster "${cluster}" with Kubernetes`);
  const member = found.machines.find((one) => one.name === machine);
  if (member === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `${machine} does not belong to ${cluster}; \`muster machine quarantine ${machine}\` works for every machine`,
    );
  const of = async (scope: string) => ((await deps.pki.isFounded(scope)) ? deps.pki.issued(scope) : []);
  const roles = pkiRoles(member);
  const had = heldBy(machine, roles, [...(await of(cluster)), ...(await of(MUSTER_SCOPE))], deps.clock.now());
  const view: CompromisedView = {
    cluster,
    machine,
    roles,
    had: had.map(({ until, ...one }) => ({
      ...one,
      ...(until !== undefined && { until: timestamp(until) }),
    })),
    rotations: rotationsFor(had),
    secrets: Object.keys(status.agent?.secrets ?? {}).map((id) => id.replace(':', '/')),
    etcd: member.roles.includes('etcd'),
  };
  return json(view);
};
