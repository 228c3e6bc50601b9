/** Roles as a form has them, as people read them, and as options of the command line. Pure. */
import type { Grant, Role } from '../../api/access.ts';

/** A role of a form: its limits are names with commas or spaces between them. */
export interface GrantFields {
  readonly role: Role;
  readonly clusters: string;
  readonly pools: string;
}

/** Names with commas or spaces between them. */
export const namesIn = (text: string): readonly string[] =>
  text.split(/[\s,]+/).filter((name) => name !== '');

export function grantOf({ role, clusters, pools }: GrantFields): Grant {
  const [inClusters, inPools] = [namesIn(clusters), namesIn(pools)];
  return {
    role,
    ...(inClusters.length > 0 && { clusters: inClusters }),
    ...(inPools.length > 0 && { pools: inPools }),
  };
}

export const fieldsOf = ({ role, clusters = [], pools = [] }: Grant): GrantFields => ({
  role,
  clusters: clusters.join(', '),
  pools: pools.join(', '),
});

/** `operator of blue, pool spare; viewer` */
export const grantsText = (grants: readonly Grant[]): string =>
  grants
    .map(({ role, clusters = [], pools = [] }) =>
      [role, [...clusters, ...pools.map((pool) => `pool ${pool}`)].join(', ')].filter(Boolean).join(' of '),
    )
    .join('; ');

/**
 * The options of `muster operator add` and `muster token add`; undefined where the roles have
 * different limits, which those commands cannot say.
 */
export function grantWords(grants: readonly Grant[]): readonly string[] | undefined {
  const limits = ({ clusters = [], pools = [] }: Grant): readonly string[] => [
    ...clusters.flatMap((name) => ['--cluster', name]),
    ...pools.flatMap((name) => ['--pool', name]),
  ];
  const [first] = grants;
  if (first === undefined || grants.some((one) => limits(one).join() !== limits(first).join()))
    return undefined;
  return [...grants.flatMap(({ role }) => ['--role', role]), ...limits(first)];
}
