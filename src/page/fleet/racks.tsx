/** Machines where they are, by their location labels. */
import { useEffect } from 'preact/hooks';
import { count } from '../base/times.ts';
import { Badge, Link } from '../parts/badge.tsx';
import { commands } from '../parts/note.tsx';
import { show } from './machines.ts';
import { type Row, racksOf } from './row.ts';

/** More are not drawn: a filter helps to find the right ones. */
const MOST = 2000;

export function Racks({ rows }: { readonly rows: readonly Row[] }) {
  const drawn = rows.slice(0, MOST);
  const racks = racksOf(drawn);
  const names = drawn.slice(0, 100).map(({ name }) => name);
  useEffect(() => show(names), [names.join(' ')]);
  return (
    <div class="racks">
      {racks.length === 1 && racks[0]!.name === '' && (
        <p class="dim">
          {commands(
            'No machine has a location. Give Machines the labels `site`, `room`, `row`, `rack` and `unit`.',
          )}
        </p>
      )}
      {rows.length > MOST && <p class="dim">The first {MOST} of them are shown; a filter shows fewer.</p>}
      <ul>
        {racks.map((rack) => (
          <li key={rack.name}>
            <h2>{rack.name === '' ? 'no location' : rack.name}</h2>
            <p class="dim">{count(rack.rows.length, 'machine')}</p>
            <ol>
              {rack.rows.map((row) => (
                <li key={row.name} class={`unit ${row.tone}`}>
                  <span class="dim">{row.labels.unit ?? ''}</span>
                  <Link to={['machines', row.name]} title={row.name}>
                    {row.name}
                  </Link>
                  <Badge tone={row.tone}>{row.condition}</Badge>
                </li>
              ))}
            </ol>
          </li>
        ))}
      </ul>
    </div>
  );
}
