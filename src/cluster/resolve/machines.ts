/** The machines of a Cluster: which roles its lists give them, and their addresses. */
import { didYouMean } from '../../base/suggest.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { nodeFaults, nodeSettings } from '../components/nodes.ts';
import { type ClusterFault, clusterError } from '../model/fault.ts';
import type { ClusterMachine, ClusterRole } from '../model/resolved-cluster.ts';

/** The part of a Machine document that a Cluster needs. */
export interface MachineFacts {
  readonly name: string;
  readonly addresses: readonly string[];
}

interface AssignedMachines {
  readonly machines: readonly ClusterMachine[];
  readonly faults: readonly ClusterFault[];
}

/**
 * Gives every machine that the Cluster names its roles, and the labels and taints of its node. A
 * machine without a document or an address is left out, and gets a fault.
 *
 * @param known The Machine documents that exist; documents of machines that the Cluster does not
 *   name are ignored.
 */
export function assignMachines(spec: KubernetesSpec, known: readonly MachineFacts[]): AssignedMachines {
  const { roles, faults } = rolesOf(spec);
  const nodes = [...roles].flatMap(([name, has]) => (has.size === 1 && has.has('etcd') ? [] : [name]));
  const workers = nodes.filter((name) => !roles.get(name)?.has('control-plane'));
  faults.push(...nodeFaults(spec.nodes ?? [], new Set(nodes), new Set(workers)));
  const facts = new Map(known.map((machine) => [machine.name, machine]));
  const machines: ClusterMachine[] = [];
  for (const [name, has] of roles) {
    // A control plane that is also a worker differs only in its taint: its API server listens where
    // a worker has its balancer.
    const schedulable = has.has('control-plane') && has.delete('worker');
    if (has.has('worker') && has.size > 1) faults.push(clusterError('workers', twoRoles(name)));
    const addresses = facts.get(name)?.addresses;
    if (addresses === undefined)
      faults.push(absent(name, has, `there is no Machine "${name}"${didYouMean(name, facts.keys())}`));
    else if (addresses.length === 0)
      faults.push(
        absent(name, has, `Machine "${name}" needs an address in spec.addresses, at which others reach it`),
      );
    else
      machines.push({
        name,
        roles: [...has],
        addresses,
        ...(schedulable && { schedulable }),
        ...nodeSettings(spec.nodes ?? [], name),
      });
  }
  return { machines, faults };
}

/** The roles by machine, in the order of the lists; and the faults of the lists themselves. */
function rolesOf(spec: KubernetesSpec): {
  readonly roles: ReadonlyMap<string, Set<ClusterRole>>;
  readonly faults: ClusterFault[];
} {
  const faults: ClusterFault[] = [];
  const roles = new Map<string, Set<ClusterRole>>();
  const add = (field: string, names: readonly string[], role: ClusterRole): void => {
    for (const [n, name] of names.entries()) {
      const has = roles.get(name) ?? new Set();
      if (has.has(role)) faults.push(clusterError(`${field}[${n}]`, `${name} is listed twice`));
      roles.set(name, has.add(role));
    }
  };
  add('controlPlanes', spec.controlPlanes, 'control-plane');
  add('workers', spec.workers ?? [], 'worker');
  add('etcd.machines', spec.etcd?.machines ?? [], 'etcd');
  const isExternal = spec.etcd?.topology === 'external';
  if (!isExternal && spec.etcd?.machines)
    faults.push(
      clusterError('etcd.machines', 'only with topology external; stacked members are on the control planes'),
    );
  if (isExternal && !spec.etcd?.machines?.length)
    faults.push(clusterError('etcd.machines', 'topology external needs the machines that are members'));
  if (!isExternal) for (const name of spec.controlPlanes) roles.get(name)!.add('etcd');
  return { roles, faults };
}

/** A member of etcd of its own runs no kubelet. */
const twoRoles = (name: string): string =>
  `${name} is a worker and a member of etcd; remove it from one of the lists, or use topology stacked, where a control plane can be named in workers as well`;

/**
 * The fault of a machine that is left out. It is a warning for a worker, which may come later. It
 * is an error for every other machine, because a cluster is not founded before the addresses of its
 * control planes and members of etcd are known.
 */
function absent(name: string, roles: ReadonlySet<ClusterRole>, message: string): ClusterFault {
  const isWorker = roles.size === 1 && roles.has('worker');
  return isWorker
    ? {
        ...clusterError('', `${message}; until then the cluster runs without it`, name),
        severity: 'warning',
      }
    : clusterError('', message, name);
}
