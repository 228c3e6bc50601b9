/**
 * What the signer knows by itself about the site. A server that was taken over cannot change it, so
 * the rules of the signer's requests ask it and nothing else.
 */
import type { Millis } from '../../base/duration.ts';
import type { Role } from '../hierarchy.ts';

/** What a person at the host allows for a few minutes. */
export const PROOFS = {
  export: 'the private keys may be given out in the clear, for `muster pki export`',
  import: 'keys that were made elsewhere may be taken, for `muster pki import` and adoptions',
} as const;
export type Proof = keyof typeof PROOFS;

export interface Site {
  /**
   * The roles of a machine of the inventory, in the named cluster or in any; undefined when the
   * inventory does not have it.
   */
  roles(machine: string, cluster?: string): readonly Role[] | undefined;
  /** Whether somebody proved within the last minutes that this is wished. */
  proved(proof: Proof): boolean;
  /** Takes one of what `who` may have; how long `who` waits for the next, or undefined. */
  take(who: string): Millis | undefined;
  /** How far `now` is from the signer's own clock, in milliseconds. */
  apart(now: Millis): number;
}

const ALL_ROLES: readonly Role[] = ['control-plane', 'etcd', 'worker'];

/**
 * The site of a server that has the vault's key in its own process: it has inventory, approvals and
 * log-ins itself, and has asked them before it asks the vault.
 */
export const IN_PROCESS: Site = {
  roles: () => ALL_ROLES,
  proved: () => true,
  take: () => undefined,
  apart: () => 0,
};
