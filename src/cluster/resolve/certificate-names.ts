/**
 * What the PKI needs to know about a cluster: names for its certificates, roles, URLs of its API.
 */

import { urlHost } from '../../base/ip.ts';
import type { ClusterNames, Holder, Role } from '../../pki/hierarchy.ts';
import { API_PORT } from '../model/ports.ts';
import { addressOf, type ClusterMachine, type ResolvedCluster } from '../model/resolved-cluster.ts';

/** The names and addresses that the certificates of a cluster's API servers contain. */
export const clusterNames = (resolved: ResolvedCluster): ClusterNames => ({
  name: resolved.name,
  dnsDomain: resolved.dnsDomain,
  serviceAddresses: resolved.serviceAddresses.kubernetes,
  endpointNames: resolved.sans,
});

/** The machine as the holder of certificates: its name and its addresses. */
export const holderOf = ({ name, addresses }: ClusterMachine): Holder => ({ name, addresses });

/** The machine's roles, as the PKI's hierarchy uses them. */
export const pkiRoles = ({ roles }: ClusterMachine): readonly Role[] => roles;

/**
 * The URLs of the API: `endpoint` for users, and `local` for the machine itself. On control planes
 * `local` is the machine's own address, on workers the balancer on loopback.
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
