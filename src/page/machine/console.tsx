/** What a machine printed on its console in a boot, as it comes. */
import { useEffect, useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { every } from '../base/clock.ts';
import { askUntil } from '../base/http.ts';
import { place, setQuery } from '../base/place.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { Choice } from '../parts/field.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Scrolled } from '../parts/scrolled.tsx';
import { LiveConsole } from './live-console.tsx';

type View = Answer<'GET /v1/machines/:name/console'>;

/** Lines have no events, so that they cannot crowd out others; they are asked for so often. */
const ASK_EVERY_MS = 3000;
/** More lines than a boot host keeps of most boots. */
const MOST_LINES = 20_000;

/** Follows the console of a boot; without `chosen` of the last one, also when another begins. */
function useConsole(name: string, chosen: string | undefined, bmc: boolean) {
  const [state, setState] = useState<{ readonly value?: View; readonly error?: unknown }>({});
  useEffect(() => {
    const stop = new AbortController();
    let shown: View | undefined;
    let busy = false;
    const ask = (after?: number): Promise<View> =>
      askUntil(stop.signal, 'GET /v1/machines/:name/console', {
        params: { name },
        query: { boot: chosen, after, ...(bmc && { bmc }) },
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
  }, [name, chosen, bmc]);
  return state;
}

interface ConsolesProps {
  readonly name: string;
  readonly cluster: string | undefined;
  readonly hasBmc: boolean;
}

/** The consoles of a machine: what its system sends, and what its BMC carries. */
export function Consoles({ name, cluster, hasBmc }: ConsolesProps) {
  const { source = '' } = place.value.query;
  const isLive = source === 'live' && may('operate', cluster);
  return (
    <>
      {hasBmc && (
        <div class="line">
          <Choice
            label="Console"
            value={source}
            set={(chosen) => setQuery({ source: chosen, console: undefined })}
            choices={[
              ['', 'what its system sends'],
              ['bmc', 'serial console of its BMC, kept'],
              ...(may('operate', cluster) ? ([['live', 'serial console of its BMC, live']] as const) : []),
            ]}
          />
        </div>
      )}
      {isLive ? <LiveConsole name={name} /> : <Console name={name} bmc={hasBmc && source !== ''} />}
    </>
  );
}

function Console({ name, bmc: isBmc }: { readonly name: string; readonly bmc: boolean }) {
  const { value, error } = useConsole(name, place.value.query.console, isBmc);
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the console" />;
  const { boots, boot, lines, waits, bmc } = value;
  const open =
    bmc &&
    (bmc.since ? `It is open since ${moment(bmc.since)}.` : `It is not open: ${bmc.fault ?? 'not yet'}.`);
  if (boot === undefined)
    return isBmc ? (
      <Empty title="The serial console has shown nothing yet">{open}</Empty>
    ) : (
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
        {isBmc ? (
          <p class="dim">Its BMC carries it from the first line of the firmware. {open}</p>
        ) : (
          <p class="dim">
            The machine says this of itself; nobody checked it. Never take an approval code from here
            {waits && ': a key waits, and a line may show the code of another one'}.
          </p>
        )}
      </div>
      <Scrolled
        key={boot}
        label={`Console of ${name}`}
        text={lines.map(({ text: line }) => line).join('\n')}
      />
    </>
  );
}
