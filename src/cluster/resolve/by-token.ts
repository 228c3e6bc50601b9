/**
 * Joining by bootstrap token: which machines do it, and the names that Kubernetes uses for it.
 * Pure.
 */
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';

/**
 * The group of machines' bootstrap tokens. A member of the group may request a certificate
 * (`system:node-bootstrapper`), and only Muster approves the request.
 */
export const MACHINE_TOKENS = 'system:bootstrappers:muster:machines';

const USER = 'system:bootstrap:';

/** The id of the token that authenticated this user; undefined for any other user. */
export const tokenIdOf = (username: string): string | undefined =>
  username.startsWith(USER) ? username.slice(USER.length) : undefined;

/**
 * Whether the machine joins by token. Control planes do not: they have the CA, which signs their
 * certificate.
 */
export const joinsByToken = (
  { joining }: Pick<ResolvedCluster, 'joining'>,
  { roles }: ClusterMachine,
): boolean => joining === 'token' && roles.includes('worker') && !roles.includes('control-plane');
