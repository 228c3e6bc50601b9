/** All machines: filters, a live table, and racks. */
import { useMemo, useRef, useState } from 'preact/hooks';
import { spanText } from '../../base/duration.ts';
import { place, setQuery } from '../base/place.ts';
import { may } from '../base/session.ts';
import { count, moment } from '../base/times.ts';
import { Actions } from '../fleet/actions.tsx';
import { allRows, fault, loading, show } from '../fleet/machines.ts';
import { Racks } from '../fleet/racks.tsx';
import {
  counted,
  type Filter,
  filtered,
  filterOf,
  NONE,
  type Row,
  SORTS,
  type Sort,
  sorted,
} from '../fleet/row.ts';
import { Badge, Link } from '../parts/badge.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { type Column, Rows } from '../parts/rows.tsx';
import { useNow } from '../parts/use.ts';

const columns = (now: number): readonly Column<Row>[] => [
  {
    key: 'name',
    label: 'Name',
    sorts: true,
    class: 'name',
    cell: ({ name }) => (
      <Link class="row" to={['machines', name]} title={name}>
        {name}
      </Link>
    ),
  },
  {
    key: 'condition',
    label: 'Condition',
    sorts: true,
    class: 'condition',
    cell: ({ condition, tone }) => <Badge tone={tone}>{condition}</Badge>,
  },
  {
    key: 'why',
    label: 'Needs attention',
    class: 'why brief',
    cell: ({ trouble }) => trouble && <span title={trouble.text}>{trouble.text}</span>,
  },
  {
    key: 'cluster',
    label: 'Cluster',
    sorts: true,
    class: 'place',
    cell: ({ cluster, role }) =>
      cluster && (
        <>
          <Link to={['clusters', cluster]}>{cluster}</Link> <span class="dim">{role}</span>
        </>
      ),
  },
  { key: 'profile', label: 'Profile', sorts: true, class: 'profile', cell: ({ profile }) => profile },
  { key: 'address', label: 'Address', sorts: true, class: 'address', cell: ({ address }) => address },
  {
    key: 'since',
    label: 'Since',
    sorts: true,
    class: 'number',
    cell: ({ since }) => since && <time title={moment(since)}>{spanText(now - Date.parse(since))}</time>,
  },
];

export function Fleet() {
  const { query } = place.value;
  const filter = filterOf(query);
  const rows = allRows.value;
  const sort = (SORTS as readonly string[]).includes(query.sort ?? '') ? (query.sort as Sort) : 'name';
  const down = query.order === 'down';
  const found = useMemo(
    () => sorted(filtered(rows, filter), sort, down),
    [rows, filter.find, filter.condition, filter.cluster, filter.profile, filter.trouble, sort, down],
  );
  const selection = useSelection(found);
  const now = useNow(5000);
  const list = useMemo(() => columns(now), [now]);
  if (loading.value) return <Loading what="machines" />;
  const racks = query.view === 'racks';
  return (
    <div class="fleet">
      <header class="head">
        <h1>Fleet</h1>
        <p class="dim" role="status">
          {found.length === rows.length
            ? count(rows.length, 'machine')
            : `${found.length} of ${count(rows.length, 'machine')}`}
        </p>
        <fieldset class="switch">
          <legend class="hidden">How machines are shown</legend>
          <button type="button" aria-pressed={!racks} onClick={() => setQuery({ view: undefined })}>
            Table
          </button>
          <button type="button" aria-pressed={racks} onClick={() => setQuery({ view: 'racks' })}>
            Racks
          </button>
        </fieldset>
      </header>
      <ProblemNote error={fault.value} />
      <Filters rows={rows} filter={filter} />
      {selection.names.length > 0 && <Actions names={selection.names} clear={selection.clear} />}
      {found.length === 0 ? (
        <NoRows none={rows.length === 0} />
      ) : racks ? (
        <Racks rows={found} />
      ) : (
        <Rows
          label="Machines"
          rows={found}
          columns={list}
          keyOf={({ name }) => name}
          sort={{
            by: sort,
            down,
            set: (by) => setQuery({ sort: by, order: by === sort && !down ? 'down' : undefined }),
          }}
          {...(may('operate') && { selected: selection.rows })}
          shown={show}
        />
      )}
    </div>
  );
}

const NoRows = ({ none }: { readonly none: boolean }) =>
  none ? (
    <Empty title="There are no machines yet">
      Power one on: it appears under <Link to={['register']}>Register</Link>. Or apply Machine documents.
    </Empty>
  ) : (
    <Empty title="No machine fits the filters">
      <button
        type="button"
        onClick={() =>
          setQuery({
            find: undefined,
            condition: undefined,
            cluster: undefined,
            profile: undefined,
            trouble: undefined,
          })
        }
      >
        Show all machines
      </button>
    </Empty>
  );

function Filters({ rows, filter }: { readonly rows: readonly Row[]; readonly filter: Filter }) {
  const conditions = useMemo(() => counted(rows, ({ condition }) => condition), [rows]);
  return (
    <search class="filters">
      <TextField
        label="Find"
        type="search"
        placeholder="name, address, serial, rack=a …"
        value={filter.find}
        set={(find) => setQuery({ find })}
      />
      <Choice
        label="Condition"
        value={filter.condition}
        set={(condition) => setQuery({ condition })}
        choices={[['', 'all'], ...[...conditions].map(([one, n]) => [one, `${one} (${n})`] as const)]}
      />
      <Values label="Cluster" rows={rows} of="cluster" value={filter.cluster} />
      <Values label="Profile" rows={rows} of="profile" value={filter.profile} />
      <label class="check">
        <input
          type="checkbox"
          checked={filter.trouble}
          onChange={() => setQuery({ trouble: filter.trouble ? undefined : 'yes' })}
        />
        Needs attention
      </label>
    </search>
  );
}

interface ValuesProps {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly of: 'cluster' | 'profile';
  readonly value: string;
}
function Values({ label, rows, of, value }: ValuesProps) {
  const counts = useMemo(() => [...counted(rows, (row) => row[of])].sort(), [rows, of]);
  return (
    <Choice
      label={label}
      value={value}
      set={(chosen) => setQuery({ [of]: chosen })}
      choices={[
        ['', `all ${of}s`],
        ...counts.map(([one, n]) =>
          one === '' ? ([NONE, `none (${n})`] as const) : ([one, `${one} (${n})`] as const),
        ),
      ]}
    />
  );
}

/** The machines that are selected. With Shift, a click selects everything from the last one on. */
function useSelection(found: readonly Row[]) {
  const [names, setNames] = useState<ReadonlySet<string>>(new Set());
  const last = useRef(0);
  const chosen = found.filter(({ name }) => names.has(name));
  const all = found.length > 0 && chosen.length === found.length;
  return {
    names: chosen.map(({ name }) => name),
    clear: () => setNames(new Set()),
    rows: {
      has: (name: string) => names.has(name),
      all,
      toggleAll: () => setNames(all ? new Set() : new Set(found.map(({ name }) => name))),
      toggle(name: string, at: number, range: boolean) {
        const next = new Set(names);
        const on = !names.has(name);
        const [from, to] = range ? [Math.min(at, last.current), Math.max(at, last.current)] : [at, at];
        for (const row of found.slice(from, to + 1)) on ? next.add(row.name) : next.delete(row.name);
        last.current = at;
        setNames(next);
      },
    },
  };
}
