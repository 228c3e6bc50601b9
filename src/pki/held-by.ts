/**
 * What a machine has of a cluster's keys and certificates, by the same tables from which it gets
 * them, and what ends each. Pure.
 */
import type { Millis } from '../base/duration.ts';
import { ENCRYPTION } from './encryption.ts';
import { AUTHORITIES, type Role, SERVICE_ACCOUNT } from './hierarchy.ts';
import { AUTHORITY_NAMES } from './keysets.ts';
import type { IssuedCertificate } from './records.ts';

export interface HeldKey {
  /** For example `private key of ca`, `certificate kubelet`. */
  readonly what: string;
  /** Where it is on the machine, if it is a file of its own. */
  readonly path?: string;
  /** When it ends by itself; absent: never. */
  readonly until?: Millis;
  /**
   * The keyset whose rotation ends it; `revoked`: Muster refuses it as soon as it is in quarantine.
   */
  readonly ends: string;
}

/**
 * Lists what a machine with these roles has. `issued`: certificates of the cluster and of agents,
 * of which those of the machine that are valid `now` count.
 */
export function heldBy(
  machine: string,
  roles: readonly Role[],
  issued: readonly IssuedCertificate[],
  now: number,
): readonly HeldKey[] {
  const pairs = AUTHORITY_NAMES.flatMap((name): HeldKey[] => {
    const { pair } = AUTHORITIES[name];
    return pair?.signsThere && pair.roles.every((role) => roles.includes(role))
      ? [{ what: `private key of ${name}`, path: pair.key, ends: name }]
      : [];
  });
  const shared = (what: string, path: string, of: readonly Role[], ends: string): HeldKey[] =>
    of.some((role) => roles.includes(role)) ? [{ what, path, ends }] : [];
  const certificates = issued
    .filter(({ to, notAfter }) => to === machine && notAfter > now)
    .map(({ leaf, notAfter, issuer }): HeldKey => {
      const ends = leaf === 'agent' ? 'revoked' : issuer.keyset;
      return { what: `certificate ${leaf} with its key`, until: notAfter, ends };
    });
  return [
    ...pairs,
    ...shared('private key of service accounts', SERVICE_ACCOUNT.key, SERVICE_ACCOUNT.roles, 'sa'),
    ...shared('keys that encrypt Secrets in etcd', ENCRYPTION.path, ENCRYPTION.roles, 'encryption'),
    ...certificates,
  ];
}

/** The keysets to rotate, so that nothing of it is worth anything. */
export const rotationsFor = (held: readonly HeldKey[]): readonly string[] =>
  [...new Set(held.map(({ ends }) => ends))].filter((ends) => ends !== 'revoked');
