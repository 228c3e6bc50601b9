/** Joining by token: whom it concerns, and the names that Kubernetes knows it by. Pure. */
import type { ClusterMachine, ResolvedCluster } from './resolved-cluster.ts';

/**
 * AddressOwners of machines' tokens: they may ask for a certificate (`system:node-bootstrapper`),
 * and nothing approves it but Muster.
 */
export const MACHINE_TOKENS = 'system:bootstrappers:muster:machines';

const USER = 'system:bootstrap:';

/** The public half of the token by which that user asks; undefined for anybody else. */
export const tokenIdOf = (username: string): string | undefined =>
  username.startsWith(USER) ? username.slice(USER.length) : undefined;

/** Control planes hold the CA, and have their kubelet's certificate by it. */
export const joinsByToken = (
  { joining }: Pick<ResolvedCluster, 'joining'>,
  { roles }: ClusterMachine,
): boolean => joining === 'token' && roles.includes('worker') && !roles.includes('control-plane');
