/**
 * The checks that a machine makes before it starts anything: those of kubeadm's preflight, and what
 * etcd requires of its disk.
 */

import { AGENT_PATHS, type CheckName, type PlanLine } from '../../agent/wire/plan.ts';
import { takesSwap } from '../components/kubelet-flags.ts';
import { API_PORT, ROLE_PORTS } from '../model/ports.ts';
import {
  addressOf,
  balancedPort,
  type ClusterMachine,
  type ResolvedCluster,
  withRole,
} from '../model/resolved-cluster.ts';
import { MODULES } from './system.ts';

const check = (name: CheckName, ...of: readonly (string | number)[]): PlanLine => ({
  do: 'check',
  check: name,
  of: of.map(String),
});

/** Ethernet's usual MTU. A path that loses packets of this size hangs TLS handshakes. */
const MTU = 1500;

/** The checks of a machine. `data`: the lines that mount its filesystems. */
export function checkLines(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  data: readonly PlanLine[],
): readonly PlanLine[] {
  const { memoryMiB, cpus, fsyncMs } = resolved.checks;
  const isMember = machine.roles.includes('etcd');
  const kubernetes = runsKubelet(machine);
  const balanced = machine.roles.includes('control-plane') ? balancedPort(resolved) : undefined;
  const ports = [
    ...machine.roles.flatMap((role) => ROLE_PORTS[role]),
    ...(kubernetes ? ROLE_PORTS.kubelet : []),
    ...(balanced === undefined ? [] : [[balanced, 'haproxy'] as const]),
  ];
  const needed = resolved.machines.filter(
    ({ name, roles }) => name !== machine.name && !(roles.length === 1 && roles[0] === 'worker'),
  );
  return [
    check('machine-id'),
    check('memory', Math.max(...machine.roles.map((role) => memoryMiB[role]))),
    check('cpus', cpus),
    ...(kubernetes
      ? [
          check('cgroup2'),
          ...(takesSwap(resolved, machine) ? [] : [check('swapless')]),
          ...MODULES.map((name) => check('module', name)),
        ]
      : []),
    ...ports.map(([port, own]) => check('port', port, own)),
    ...needed.map((other) => check('mtu', addressOf(other), MTU)),
    ...(isMember && data.length > 0 ? [check('fsync', etcdDirectory(data), fsyncMs)] : []),
  ];
}

/** Where etcd's directory is on the filesystem that has it. */
const etcdDirectory = (data: readonly PlanLine[]): string =>
  data.some((line) => line.do === 'bind-etcd') ? `${AGENT_PATHS.etcdDisk}/etcd` : AGENT_PATHS.etcd;

/**
 * Holds a control plane whose API server must not run next to the others. The boot host never plans
 * such a version; a plan that a machine kept can be that old. Needs the machine's certificates.
 */
export function skewLines(resolved: ResolvedCluster, machine: ClusterMachine): readonly PlanLine[] {
  const others = withRole(resolved, 'control-plane').filter(({ name }) => name !== machine.name);
  return machine.roles.includes('control-plane') && others.length > 0
    ? [check('skew', resolved.versions['kube-apiserver'], API_PORT, ...others.map(addressOf))]
    : [];
}

/** Whether the machine runs a kubelet. A machine that is only a member of etcd does not. */
export const runsKubelet = ({ roles }: ClusterMachine): boolean =>
  roles.includes('control-plane') || roles.includes('worker');
