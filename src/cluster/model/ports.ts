/** TCP ports of a cluster's programs, and the URLs of etcd. No other file repeats these numbers. */
import { urlHost } from '../../base/ip.ts';

/** kube-apiserver listens here on control planes, and the balancer on the loopback of workers. */
export const API_PORT = 6443;

export const ETCD_CLIENT_PORT = 2379;
export const ETCD_PEER_PORT = 2380;
/** etcd's health and metrics, plain HTTP on loopback. */
export const ETCD_METRICS_PORT = 2381;

export const CONTROLLER_MANAGER_PORT = 10257;
export const SCHEDULER_PORT = 10259;

export const KUBELET_PORT = 10250;
/** kubelet's /healthz, plain HTTP on loopback. */
export const KUBELET_HEALTH_PORT = 10248;

const KUBE_PROXY_METRICS_PORT = 10249;
const KUBE_PROXY_HEALTH_PORT = 10256;

/**
 * The URL at which other members reach a member of etcd. `address`: an IP address, IPv6 without
 * brackets.
 */
export const etcdPeerUrl = (address: string): string => `https://${urlHost(address)}:${ETCD_PEER_PORT}`;

/**
 * The URL at which clients reach a member of etcd. `address`: an IP address, IPv6 without brackets.
 */
export const etcdClientUrl = (address: string): string => `https://${urlHost(address)}:${ETCD_CLIENT_PORT}`;

/**
 * The ports that must be free on a machine with a role, each with the program of the cluster that
 * may listen there already. The kernel cuts names of programs off after 15 octets.
 */
export const ROLE_PORTS: Readonly<
  Record<'control-plane' | 'etcd' | 'worker' | 'kubelet', readonly (readonly [number, string])[]>
> = {
  'control-plane': [
    [API_PORT, 'kube-apiserver'],
    [CONTROLLER_MANAGER_PORT, 'kube-controller'],
    [SCHEDULER_PORT, 'kube-scheduler'],
  ],
  etcd: [
    [ETCD_CLIENT_PORT, 'etcd'],
    [ETCD_PEER_PORT, 'etcd'],
    [ETCD_METRICS_PORT, 'etcd'],
  ],
  worker: [[API_PORT, 'haproxy']],
  kubelet: [
    [KUBELET_HEALTH_PORT, 'kubelet'],
    [KUBELET_PORT, 'kubelet'],
  ],
};

/** Every port that a program of the cluster may use on a control plane, with the program. */
export const CONTROL_PLANE_PORTS: ReadonlyMap<number, string> = new Map([
  ...Object.values(ROLE_PORTS).flat(),
  // The kernel's name of a program is cut off in ROLE_PORTS.
  [API_PORT, 'kube-apiserver'],
  [CONTROLLER_MANAGER_PORT, 'kube-controller-manager'],
  [SCHEDULER_PORT, 'kube-scheduler'],
  [KUBE_PROXY_METRICS_PORT, 'kube-proxy'],
  [KUBE_PROXY_HEALTH_PORT, 'kube-proxy'],
]);
