/** The fields for roles: each with the clusters and pools that it is limited to. */
import type { Role } from '../../api/access.ts';
import type { GrantFields } from '../base/grants.ts';
import { Choice, TextField } from '../parts/field.tsx';

/** What each role may do, as its choice says it. */
const ROLES: readonly (readonly [Role, string])[] = [
  ['viewer', 'viewer: sees everything but secrets'],
  ['operator', 'operator: also accepts and changes machines'],
  ['admin', 'admin: also credentials, removing, operators'],
  ['auditor', 'auditor: reads the security log only'],
];

export const NO_GRANTS: readonly GrantFields[] = [{ role: 'viewer', clusters: '', pools: '' }];

interface GrantsProps {
  readonly grants: readonly GrantFields[];
  readonly set: (grants: readonly GrantFields[]) => void;
}

export function Grants({ grants, set }: GrantsProps) {
  const change = (at: number, fields: Partial<GrantFields>): void =>
    set(grants.map((one, n) => (n === at ? { ...one, ...fields } : one)));
  return (
    <>
      {grants.map((grant, n) => (
        // Rows have no name of their own.
        <fieldset key={n} class="plain line">
          <Choice
            label="Role"
            value={grant.role}
            set={(role) => change(n, { role: role as Role })}
            choices={ROLES}
          />
          <TextField
            label="Only for clusters"
            value={grant.clusters}
            set={(clusters) => change(n, { clusters })}
            placeholder="everywhere"
            autocomplete="off"
          />
          <TextField
            label="Only for pools"
            value={grant.pools}
            set={(pools) => change(n, { pools })}
            placeholder="everywhere"
            autocomplete="off"
          />
          {grants.length > 1 && (
            <button type="button" onClick={() => set(grants.filter((_, at) => at !== n))}>
              Take away
            </button>
          )}
        </fieldset>
      ))}
      <p>
        <button type="button" class="quiet" onClick={() => set([...grants, ...NO_GRANTS])}>
          Another role
        </button>
      </p>
    </>
  );
}
