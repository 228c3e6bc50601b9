/** Machines that nobody knows yet, keys that wait for an operator, and whole racks. */

import { useEffect } from 'preact/hooks';
import type { Shown } from '../../api/shown.ts';
import { may } from '../base/session.ts';
import { allRows, loading, machineNamed, show } from '../fleet/machines.ts';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { useNow, useResource } from '../parts/use.ts';
import { WholeRack } from '../register/rack.tsx';
import { Unknown } from '../register/unknown.tsx';
import { WaitingKey } from '../register/waiting.tsx';

type List<T> = { readonly items: readonly T[] };
const namesOf = (list: List<Shown> | undefined): readonly string[] =>
  (list?.items ?? []).map(({ metadata }) => metadata.name);

export function Register() {
  const now = useNow(5000);
  const profiles = useResource('GET /v1/:kind', { params: { kind: 'profiles' } }, ({ subject }) =>
    subject.startsWith('Profile/'),
  );
  const clusters = useResource('GET /v1/:kind', { params: { kind: 'clusters' } }, ({ subject }) =>
    subject.startsWith('Cluster/'),
  );
  const waiting = useResource('GET /v1/waiting', {}, ({ kind }) =>
    ['agent.waiting', 'machine.approved', 'agent.certificate'].includes(kind),
  );
  const parts = useResource(
    'GET /v1/inventory',
    { query: { fields: 'from=discovery' } },
    ({ kind }) => kind === 'machine.inventory' || kind === 'machine.accepted',
  );
  const unknown = allRows.value.filter((row) => row.unknown).map(({ name }) => name);
  useEffect(() => show(unknown), [unknown.join(' ')]);
  if (loading.value) return <Loading what="machines" />;
  const keys = waiting.value?.items ?? [];
  return (
    <>
      <header class="head">
        <h1>Register</h1>
      </header>
      <section class="block" aria-labelledby="unknown">
        <h2 id="unknown">Unknown machines</h2>
        {unknown.length === 0 ? (
          <Empty title="No unknown machine has asked">
            Power a machine on and let it boot from the network: it appears here within seconds.
          </Empty>
        ) : (
          <ul class="cards">
            {unknown.map((name) => {
              const machine = machineNamed(name);
              if (!machine) return null;
              return (
                <Unknown
                  key={name}
                  machine={machine}
                  parts={parts.value?.items.find((one) => one.machine === name)}
                  profiles={namesOf(profiles.value)}
                  clusters={namesOf(clusters.value)}
                  now={now}
                />
              );
            })}
          </ul>
        )}
      </section>
      <section class="block" aria-labelledby="waiting">
        <h2 id="waiting">Keys that wait for an approval</h2>
        <ProblemNote error={waiting.error} />
        {keys.length === 0 ? (
          <p class="dim">No key waits.</p>
        ) : (
          <ul class="cards">
            {keys.map((key) => (
              <WaitingKey key={key.key} keyOf={key} now={now} done={waiting.reload} />
            ))}
          </ul>
        )}
      </section>
      {may('administer') && (
        <section class="block" aria-labelledby="rack">
          <h2 id="rack">A whole rack</h2>
          <div class="card">
            <WholeRack />
          </div>
        </section>
      )}
    </>
  );
}
