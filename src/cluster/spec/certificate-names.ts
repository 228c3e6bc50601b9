/** What the PKI needs to know of a cluster: names for its certificates, roles, URLs of its API. */

import { urlHost } from '../../base/ip.ts';
import type { ClusterNames, Holder, Role } from '../../pki/hierarchy.ts';
import { API_PORT } from './ports.ts';
import { addressOf, type ClusterMachine, type ResolvedCluster } from './resolved-cluster.ts';

export const clusterNames = (resolved: ResolvedCluster): ClusterNames => ({
  name: resolved.name,
  dnsDomain: resolved.dnsDomain,
  serviceAddresses: resolved.serviceAddresses.kubernetes,
  endpointNames: resolved.sans,
});

export const holderOf = ({ name, addresses }: ClusterMachine): Holder => ({ name, addresses });

export const pkiRoles = ({ roles }: ClusterMachine): readonly Role[] => roles;

/**
 * URLs of the API: the endpoint for users, and `local` for the machine itself, which on workers is
 * the balancer on loopback.
 */
export function apiServers(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
): { readonly endpoint: string; readonly local: string } {
  const own = machine.roles.includes('control-plane') ? urlHost(addressOf(machine)) : '127.0.0.1';
  return {
    endpoint: `https://${urlHost(resolved.endpoint.host)}:${resolved.endpoint.port}`,
    local: `https://${own}:${API_PORT}`,
  };
}
