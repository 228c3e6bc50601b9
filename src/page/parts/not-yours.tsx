/** Which orders of a view the operator's roles do not allow, and who may give them. */
import type { Access } from '../../api/access.ts';
import { may } from '../base/session.ts';

/** Who has the roles that allow it. */
const GIVERS: Readonly<Partial<Record<Access, string>>> = {
  operate: 'an operator',
  administer: 'an administrator',
  audit: 'an auditor',
};

interface NotYoursProps {
  /** The orders of the view: who may give them, and what their buttons say. */
  readonly orders: readonly (readonly [Access, ...string[]])[];
  readonly cluster?: string | undefined;
}

export function NotYours({ orders, cluster }: NotYoursProps) {
  const others = orders.filter(([access]) => !may(access, cluster));
  if (others.length === 0) return null;
  return (
    <p class="dim">
      Your roles show this.{' '}
      {others.map(([access, ...labels]) => (
        <span key={access}>
          {labels.join(', ')}: {GIVERS[access] ?? 'an administrator'} may.{' '}
        </span>
      ))}
    </p>
  );
}
