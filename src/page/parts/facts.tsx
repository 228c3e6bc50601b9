/** A list of facts with names. Facts that are not known are left out. */
import type { ComponentChildren } from 'preact';

interface FactsProps {
  readonly facts: readonly (readonly [string, ComponentChildren])[];
}
export function Facts({ facts }: FactsProps) {
  const known = facts.filter(([, value]) => value !== undefined && value !== '' && value !== false);
  if (known.length === 0) return <p class="dim">Nothing is known yet.</p>;
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
