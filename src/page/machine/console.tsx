/** What a machine printed on its console in a boot, as it comes. */
import { useEffect, useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { every } from '../base/clock.ts';
import { askUntil } from '../base/http.ts';
import { place, setQuery } from '../base/place.ts';
import { moment } from '../base/times.ts';
import { Choice } from '../parts/field.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Scrolled } from '../parts/scrolled.tsx';

type View = Answer<'GET /v1/machines/:name/console'>;

/** Lines have no events, so that they cannot crowd out others; they are asked for so often. */
const ASK_EVERY_MS = 3000;
/** More lines than a boot host keeps of most boots. */
const MOST_LINES = 20_000;

/** Follows the console of a boot; without `chosen` of the last one, also when another begins. */
function useConsole(name: string, chosen: string | undefined) {
  const [state, setState] = useState<{ readonly value?: View; readonly error?: unknown }>({});
  useEffect(() => {
    const stop = new AbortController();
    let shown: View | undefined;
    let busy = false;
    const ask = (after?: number): Promise<View> =>
      askUntil(stop.signal, 'GET /v1/machines/:name/console', {
        params: { name },
        query: { boot: chosen, after },
      });
    const next = async (): Promise<View> => {
      const last = shown?.lines.at(-1)?.number;
      const news = await ask(last);
      if (shown === undefined || last === undefined) return news;
      if (news.boot !== shown.boot) return ask();
      return { ...news, lines: [...shown.lines, ...news.lines].slice(-MOST_LINES) };
    };
    const look = async (): Promise<void> => {
      if (busy || document.visibilityState === 'hidden') return;
      busy = true;
      try {
        shown = await next();
        setState({ value: shown });
      } catch (error) {
        // What is there stays on the screen; the next question may succeed.
        if (!stop.signal.aborted && shown === undefined) setState({ error });
      }
      busy = false;
    };
    setState({});
    void look();
    const end = every(ASK_EVERY_MS, () => void look());
    return () => {
      stop.abort();
      end();
    };
  }, [name, chosen]);
  return state;
}

export function Console({ name }: { readonly name: string }) {
  const { value, error } = useConsole(name, place.value.query.console);
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the console" />;
  const { boots, boot, lines, waits } = value;
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
          The machine says this of itself; nobody checked it. Never take an approval code from here
          {waits && ': a key waits, and a line may show the code of another one'}.
        </p>
      </div>
      <Scrolled
        key={boot}
        label={`Console of ${name}`}
        text={lines.map(({ text: line }) => line).join('\n')}
      />
    </>
  );
}
