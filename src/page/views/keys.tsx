/** Keys and certificates: what ends when, the generations of each keyset, and their rotation. */
import type { ScopeStatus } from '../../api/operations/pki.ts';

import { place } from '../base/place.ts';
import { may } from '../base/session.ts';
import { count, moment } from '../base/times.ts';
import type { Tone } from '../fleet/row.ts';
import { AHEAD_DAYS, Endings } from '../keys/forecast.tsx';
import { Rotate } from '../keys/rotate.tsx';
import { Badge, Link } from '../parts/badge.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { type Column, Rows } from '../parts/rows.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { useResource } from '../parts/use.ts';

export function Keys() {
  const [, scope] = place.value.path;
  const all = scope === undefined || scope === 'muster';
  const query = { within: `${AHEAD_DAYS}d` };
  const { value, error } = useResource<'GET /v1/pki' | 'GET /v1/pki/:cluster'>(
    all ? 'GET /v1/pki' : 'GET /v1/pki/:cluster',
    { params: { cluster: scope ?? '' }, query },
    ({ kind }) => kind.startsWith('pki.') || kind === 'cluster.change' || kind === 'agent.certificate',
  );
  const items = value?.items.filter((one) => scope === undefined || one.scope === scope) ?? [];
  return (
    <>
      <header class="head">
        <h1>{scope === undefined ? 'Keys' : `Keys of ${scope}`}</h1>
        {scope !== undefined && <Link to={['keys']}>all keys</Link>}
      </header>
      <ProblemNote error={error} />
      {value === undefined && error === undefined && <Loading what="keys" />}
      {value && items.length === 0 && (
        <Empty title="There are no keys yet">
          A cluster gets its keys when its first machine asks for them.
        </Empty>
      )}
      {items.map((one) => (
        <Scope key={one.scope} status={one} whole={scope !== undefined} />
      ))}
    </>
  );
}

function Scope({ status, whole }: { readonly status: ScopeStatus; readonly whole: boolean }) {
  const { scope, of, keysets, certificates, forecast, withoutBootHost } = status;
  return (
    <section class="block card" aria-label={scope}>
      <header class="head">
        <h2>
          <Link to={['keys', scope]}>{of === 'muster' ? "Muster's own" : scope}</Link>
        </h2>
        {withoutBootHost && (
          <span class="dim">
            does without the boot host for {count(Math.floor(withoutBootHost.leftSeconds / 86_400), 'day')},
            then {withoutBootHost.what} of {withoutBootHost.of} ends
          </span>
        )}
        {of === 'cluster' && may('administer', scope) && (
          <span class="push">
            <Rotate cluster={scope} keysets={keysets} />
          </span>
        )}
      </header>
      <div class="stack">
        <Endings forecast={forecast} />
        <Keysets keysets={keysets} />
        {whole ? (
          <>
            <h3>{count(certificates.length, 'certificate')}</h3>
            <div class="tall">
              <Rows
                label="Certificates"
                rows={certificates}
                columns={CERTIFICATES}
                keyOf={({ serial }) => serial}
              />
            </div>
          </>
        ) : (
          <p>
            <Link to={['keys', scope]}>Show its {count(certificates.length, 'certificate')}</Link>
          </p>
        )}
      </div>
    </section>
  );
}

type Generation = ScopeStatus['keysets'][number]['generations'][number];
const GENERATIONS: Readonly<Record<Generation['state'], Tone>> = {
  primary: 'good',
  made: 'busy',
  trusted: 'calm',
  distrusted: 'bad',
};

interface KeysetLine {
  readonly name: string;
  readonly one: Generation;
}

const KEYSETS: readonly Cell<KeysetLine>[] = [
  { heading: 'Keyset', cell: ({ name }) => name },
  {
    heading: 'Generation',
    cell: ({ one: { id, state } }) => (
      <>
        <Badge tone={GENERATIONS[state]}>{state}</Badge> <span class="mono dim">{id}</span>
      </>
    ),
  },
  { heading: 'Since', cell: ({ one }) => one.createdAt && moment(one.createdAt) },
  { heading: 'Ends', cell: ({ one }) => one.notAfter && moment(one.notAfter) },
  { heading: 'Signed certificates of', cell: ({ one }) => dependentsOf(one) },
];

const Keysets = ({ keysets }: Pick<ScopeStatus, 'keysets'>) => (
  <Table
    label="Keysets"
    columns={KEYSETS}
    rows={keysets.flatMap(({ name, generations }) => generations.map((one) => ({ name, one })))}
    keyOf={({ name, one }) => `${name} ${one.id}`}
  />
);

const dependentsOf = ({ dependents = {} }: Generation): string =>
  Object.entries(dependents)
    .map(([leaf, holders]) => `${leaf}: ${holders.length}`)
    .join(', ');

type Certificate = ScopeStatus['certificates'][number];
const STATES: Readonly<Record<Certificate['state'], Tone>> = {
  'not yet valid': 'bad',
  valid: 'good',
  expiring: 'warn',
  expired: 'bad',
  superseded: 'calm',
  revoked: 'bad',
  removed: 'calm',
};
const CERTIFICATES: readonly Column<Certificate>[] = [
  { key: 'leaf', label: 'Certificate', cell: ({ leaf }) => leaf },
  { key: 'to', label: 'Of', cell: ({ to }) => to },
  { key: 'state', label: 'State', cell: ({ state }) => <Badge tone={STATES[state]}>{state}</Badge> },
  { key: 'notAfter', label: 'Ends', cell: ({ notAfter }) => moment(notAfter) },
  {
    key: 'renewed',
    label: 'Renewed',
    cell: ({ renewsAt, renewedBy }) => (renewsAt ? `by ${renewedBy}, ${moment(renewsAt)}` : renewedBy),
  },
  { key: 'issuer', label: 'Signed by', cell: ({ issuer }) => issuer },
];
