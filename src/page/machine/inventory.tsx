/** What a machine is made of, as it reports itself. */
import { moment } from '../base/times.ts';
import { Facts } from '../parts/facts.tsx';
import { ProblemNote } from '../parts/note.tsx';
import { useResource } from '../parts/use.ts';
import { PLAIN_CLAIM, partFacts } from './parts.ts';

export function Inventory({ name }: { readonly name: string }) {
  const { value, error } = useResource(
    'GET /v1/inventory',
    { query: { machine: name } },
    ({ kind, subject }) => subject === name && (kind === 'agent.alive' || kind === 'machine.inventory'),
  );
  const known = value?.items[0];
  return (
    <section class="card">
      <h2>Hardware</h2>
      <ProblemNote error={error} />
      {known === undefined ? (
        <p class="dim">
          The machine has not reported any. Its agent does, once an hour, and the discovery system.
        </p>
      ) : (
        <>
          <p class="dim">As the machine reports itself, unchanged since {moment(known.changedAt)}.</p>
          {known.from === 'discovery' && <p class="dim">{PLAIN_CLAIM}</p>}
          <Facts facts={partFacts(known)} />
        </>
      )}
    </section>
  );
}
