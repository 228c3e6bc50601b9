/** What a cluster's certificates are made of, from its full specification. */
import { urlHost } from '../base/ip.ts';
import type { ClusterNames, Holder, Role } from '../pki/hierarchy.ts';
import { API_PORT, addressOf, type ClusterMachine, type FullCluster } from './full.ts';

export const clusterNames = (full: FullCluster): ClusterNames => ({
  name: full.name,
  dnsDomain: full.dnsDomain,
  serviceAddresses: full.serviceAddresses.kubernetes,
  endpointNames: full.sans,
});

export const holderOf = ({ name, addresses }: ClusterMachine): Holder => ({ name, addresses });

export const pkiRoles = ({ roles }: ClusterMachine): readonly Role[] => roles;

/**
 * URLs of the API: for people, and for the machine itself (a worker's balancer is on its own
 * loopback).
 */
export function apiServers(
  full: FullCluster,
  machine: ClusterMachine,
): { readonly endpoint: string; readonly local: string } {
  const own = machine.roles.includes('control-plane') ? urlHost(addressOf(machine)) : '127.0.0.1';
  return {
    endpoint: `https://${urlHost(full.endpoint.host)}:${full.endpoint.port}`,
    local: `https://${own}:${API_PORT}`,
  };
}
