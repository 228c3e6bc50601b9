/** What the operator may do, so that the page does not offer what the server would refuse. Pure. */
import type { Access, Grant, Role } from '../../api/access.ts';

/** As `ROLES` in src/api/access.ts, which a test compares; the server decides. */
export const ALLOWS: Readonly<Record<Role, readonly Access[]>> = {
  viewer: ['open', 'own', 'view'],
  operator: ['open', 'own', 'view', 'operate'],
  admin: ['open', 'own', 'view', 'operate', 'administer'],
  auditor: ['open', 'own', 'audit'],
};

/** Whether grants allow it somewhere: everywhere, or for a cluster. */
export const allowedSomewhere = (grants: readonly Grant[], access: Access): boolean =>
  grants.some(({ role }) => ALLOWS[role].includes(access));

/** Whether grants allow it: everywhere, or, when a cluster is named, for that cluster. */
export const allowed = (grants: readonly Grant[], access: Access, cluster?: string): boolean =>
  grants.some(
    ({ role, clusters, pools }) =>
      ALLOWS[role].includes(access) &&
      (clusters === undefined ? pools === undefined : cluster !== undefined && clusters.includes(cluster)),
  );
