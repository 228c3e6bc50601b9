/** What a machine printed on its console in a boot. */
import type { Answer } from '../../api/contract/table.ts';
import { part } from '../base/http.ts';
import { place, setQuery } from '../base/place.ts';
import { moment } from '../base/times.ts';
import { Choice } from '../parts/field.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Scrolled } from '../parts/scrolled.tsx';
import { useResource } from '../parts/use.ts';

export function Console({ name }: { readonly name: string }) {
  const shown = place.value.query.console;
  const path = `/v1/machines/${part(name)}/console${shown ? `?boot=${part(shown)}` : ''}`;
  const { value, error, reload } = useResource<Answer<'GET /v1/machines/:name/console'>>(
    path,
    ({ subject }) => subject === name,
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the console" />;
  const { boots, boot, lines } = value;
  if (boot === undefined)
    return (
      <Empty title="The machine has sent no lines of its console">
        Its initrd sends them when it has an address.
      </Empty>
    );
  return (
    <>
      <div class="line">
        {boots.length > 1 && (
          <Choice
            label="Boot"
            value={boot}
            set={(id) => setQuery({ console: id === boots[0]!.id ? undefined : id })}
            choices={boots.map(({ id, at }) => [id, `until ${moment(at)}`] as const)}
          />
        )}
        <p class="dim">
          The machine says this of itself; nobody checked it. Never take an approval code from here.
        </p>
        <button type="button" onClick={reload}>
          Refresh
        </button>
      </div>
      <Scrolled label={`Console of ${name}`} text={lines.map(({ text }) => text).join('\n')} />
    </>
  );
}
