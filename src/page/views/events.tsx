/** Events, and the security log: search, follow, export. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { EventView } from '../../api/times.ts';
import { coalesce } from '../base/clock.ts';
import { ask } from '../base/http.ts';
import { gap, onEvent } from '../base/live.ts';
import { place, setQuery } from '../base/place.ts';
import { saveFile } from '../base/save.ts';
import { count } from '../base/times.ts';
import { EventRows, textOf } from '../parts/event-list.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { useResource } from '../parts/use.ts';

/** More are not kept on the page. */
const MOST = 5000;
const DRAW_EVERY_MS = 150;

export function Events() {
  const { events, error } = useEvents(place.value.query.follow !== 'no');
  const { query } = place.value;
  const kinds = useMemo(() => [...new Set(events?.map(({ kind }) => kind.split('.')[0]!))].sort(), [events]);
  const find = (query.find ?? '').toLowerCase();
  const found = useMemo(
    () =>
      (events ?? []).filter(
        (event) =>
          (!query.kind || event.kind.startsWith(`${query.kind}.`)) &&
          (find === '' || `${event.kind} ${event.subject} ${textOf(event)}`.toLowerCase().includes(find)),
      ),
    [events, query.kind, find],
  );
  return (
    <div class="fleet">
      <header class="head">
        <h1>Events</h1>
        <p class="dim" role="status">
          {count(found.length, 'event')}
        </p>
        <span class="push">
          <Export name="events" items={found} />
        </span>
      </header>
      <search class="filters">
        <TextField
          label="Find"
          type="search"
          placeholder="machine, kind, reason …"
          value={query.find ?? ''}
          set={(text) => setQuery({ find: text })}
        />
        <Choice
          label="About"
          value={query.kind ?? ''}
          set={(kind) => setQuery({ kind })}
          choices={[['', 'everything'], ...kinds.map((kind) => [kind, kind] as const)]}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={query.follow !== 'no'}
            onChange={() => setQuery({ follow: query.follow === 'no' ? undefined : 'no' })}
          />
          Follow new events
        </label>
      </search>
      <ProblemNote error={error} />
      {events === undefined && error === undefined ? (
        <Loading what="events" />
      ) : found.length === 0 ? (
        <Empty title="No event fits" />
      ) : (
        <EventRows events={found} />
      )}
    </div>
  );
}

/** The newest events first; new ones are added while `following`. */
function useEvents(following: boolean) {
  const [events, setEvents] = useState<readonly EventView[] | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const missed = gap.value;
  useEffect(() => {
    const load = ask('GET /v1/events', { query: { limit: MOST } });
    load.then(({ items }) => setEvents(items.toReversed()), setError);
  }, [missed, following]);
  useEffect(() => {
    if (!following) return;
    let fresh: EventView[] = [];
    const draw = coalesce(DRAW_EVERY_MS, () => {
      const added = fresh.reverse();
      fresh = [];
      setEvents((known = []) => {
        const last = known[0]?.sequence ?? 0;
        return [...added.filter(({ sequence }) => sequence > last), ...known].slice(0, MOST);
      });
    });
    const unsubscribe = onEvent((event) => {
      fresh.push(event);
      draw();
    });
    return () => {
      unsubscribe();
      draw.cancel();
    };
  }, [following]);
  return { events, error };
}

/** Saves what is listed as JSON lines. */
function Export({ name, items }: { readonly name: string; readonly items: readonly object[] }) {
  const save = (): void => {
    const text = items.map((one) => `${JSON.stringify(one)}\n`).join('');
    saveFile(`muster-${name}.jsonl`, text, 'application/jsonl');
  };
  return (
    <button type="button" disabled={items.length === 0} onClick={save}>
      Save as a file
    </button>
  );
}

export function Audit() {
  const { value, error } = useResource(
    'GET /v1/audit/entries',
    { query: { limit: 2000 } },
    ({ kind }) => kind.startsWith('operator.') || kind.startsWith('agent.'),
  );
  const find = place.value.query.find ?? '';
  const found = (value?.items ?? [])
    .filter((one) => `${one.kind} ${one.subject} ${textOf(one)}`.toLowerCase().includes(find.toLowerCase()))
    .toReversed();
  return (
    <div class="fleet">
      <header class="head">
        <h1>Security log</h1>
        <p class="dim" role="status">
          {count(found.length, 'entry').replace('entrys', 'entries')}
        </p>
        <a class="push" href="/v1/audit/export" download="muster-audit.jsonl">
          Save the whole log
        </a>
      </header>
      <p class="dim">
        Each entry has a hash over the one before it, and the boot host signs the newest:{' '}
        <code>muster audit verify</code> checks a saved log.
      </p>
      <search class="filters">
        <TextField label="Find" type="search" value={find} set={(text) => setQuery({ find: text })} />
      </search>
      <ProblemNote error={error} />
      {value === undefined && error === undefined && <Loading what="the security log" />}
      {value && found.length === 0 && <Empty title="No entry fits" />}
      {found.length > 0 && <EventRows events={found} />}
    </div>
  );
}
