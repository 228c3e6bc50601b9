/** Joining by bootstrap token: which machines do, and the names that Kubernetes uses. Pure. */
import type { ClusterMachine, ResolvedCluster } from './resolved-cluster.ts';

/**
 * AddressOwners of machines' tokens: they may ask for a certificate (`system:node-bootstrapper`),
 * and nothing approves it but Muster.
 */
export const MACHINE_TOKENS = 'system:bootstrappers:muster:machines';

const USER = 'system:bootstrap:';

/** The id of the token that authenticated this user; undefined for any other user. */
export const tokenIdOf = (username: string): string | undefined =>
  username.startsWith(USER) ? username.slice(USER.length) : undefined;

/** Whether the machine joins by token. Control planes have the CA and get a certificate by it. */
export const joinsByToken = (
  { joining }: Pick<ResolvedCluster, 'joining'>,
  { roles }: ClusterMachine,
): boolean => joining === 'token' && roles.includes('worker') && !roles.includes('control-plane');
