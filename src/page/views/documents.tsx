/** All documents by kind, and one document with its editor. */
import { useEffect, useState } from 'preact/hooks';
import type { Shown } from '../../api/shown.ts';
import type { Kind } from '../../resources/kinds.ts';
import { Problem, part, request } from '../base/http.ts';
import { go, place, setQuery } from '../base/place.ts';
import { may } from '../base/session.ts';
import { count } from '../base/times.ts';
import { Editor } from '../documents/editor.tsx';
import { Link } from '../parts/badge.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { type Column, Rows } from '../parts/rows.tsx';
import { useResource } from '../parts/use.ts';

const PLURAL: Readonly<Record<Kind, string>> = {
  Network: 'networks',
  Image: 'images',
  Cluster: 'clusters',
  Profile: 'profiles',
  Machine: 'machines',
  Webhook: 'webhooks',
};
const KINDS = Object.keys(PLURAL) as Kind[];
const kindOf = (text: string | undefined): Kind | undefined => KINDS.find((one) => one === text);

/** What a new document of each kind begins with. */
const BEGINNINGS: Readonly<Record<Kind, object>> = {
  Network: {
    subnet: '10.77.0.0/24',
    dhcp: { mode: 'server', pools: [{ start: '10.77.0.100', end: '10.77.0.199' }] },
  },
  Image: { os: 'debian', version: '13', arch: 'x86_64', kernel: { sha256: '' }, configFormat: 'cloud-init' },
  Cluster: {
    trust: 'approved',
    kubernetes: { version: '1.36', endpoint: '', controlPlanes: [], workers: [] },
  },
  Profile: { image: '' },
  Machine: { macs: [''], profile: '' },
  Webhook: { url: '', secret: { valueFrom: { secret: '', key: '' } }, events: ['machine.held'] },
};

export function Documents() {
  const [, kind, name] = place.value.path;
  const known = kindOf(kind);
  if (known !== undefined && name !== undefined) return <OneDocument kind={known} name={name} />;
  if (known !== undefined && place.value.query.new === 'yes') return <NewDocument kind={known} />;
  return <AllDocuments kind={known ?? 'Profile'} />;
}

const originText = ({ origin }: Shown['status']): string =>
  origin === undefined
    ? 'only seen'
    : origin.from === 'file'
      ? `${origin.at.file}:${origin.at.line}`
      : 'store';

function AllDocuments({ kind }: { readonly kind: Kind }) {
  const { value, error } = useResource('GET /v1/:kind', { params: { kind: PLURAL[kind] } }, ({ subject }) =>
    subject.startsWith(`${kind}/`),
  );
  const find = place.value.query.find ?? '';
  const written = (value?.items ?? []).filter(({ spec }) => spec !== undefined);
  const found = written.filter(({ metadata }) => metadata.name.includes(find));
  return (
    <div class="fleet">
      <header class="head">
        <h1>Documents</h1>
        <p class="dim" role="status">
          {value && count(found.length, 'document')}
        </p>
        {may('administer') && (
          <button type="button" class="push" onClick={() => go(['documents', kind], { new: 'yes' })}>
            New {kind}
          </button>
        )}
      </header>
      <search class="filters">
        <TextField label="Find" type="search" value={find} set={(text) => setQuery({ find: text })} />
        <Choice
          label="Kind"
          value={kind}
          set={(one) => go(['documents', one])}
          choices={KINDS.map((one) => [one, one] as const)}
        />
      </search>
      <ProblemNote error={error} />
      {value === undefined && error === undefined && <Loading what="documents" />}
      {value && found.length === 0 && (
        <Empty title={`There is no ${kind} ${find === '' ? 'yet' : 'with that name'}`} />
      )}
      {found.length > 0 && (
        <Rows
          label={`${kind} documents`}
          rows={found}
          columns={COLUMNS}
          keyOf={({ metadata }) => metadata.name}
        />
      )}
    </div>
  );
}

const COLUMNS: readonly Column<Shown>[] = [
  {
    key: 'name',
    label: 'Name',
    class: 'name',
    cell: ({ kind, metadata: { name } }) => (
      <Link class="row" to={['documents', kind, name]}>
        {name}
      </Link>
    ),
  },
  {
    key: 'labels',
    label: 'Labels',
    class: 'brief',
    cell: ({ metadata }) =>
      Object.entries(metadata.labels ?? {})
        .map(([key, value]) => `${key}=${value}`)
        .join(', '),
  },
  { key: 'origin', label: 'Kept in', cell: ({ status }) => originText(status) },
];

interface Read {
  readonly shown?: Shown;
  readonly etag?: string;
  readonly error?: unknown;
}

function OneDocument({ kind, name }: { readonly kind: Kind; readonly name: string }) {
  const path = `/v1/${PLURAL[kind]}/${part(name)}`;
  const [read, setRead] = useState<Read>({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    readOne(path, stop.signal).then(setRead, (error: unknown) => {
      if (!stop.signal.aborted) setRead({ error });
    });
    return () => stop.abort();
  }, [path, round]);
  const { shown, etag, error } = read;
  const { origin } = shown?.status ?? {};
  return (
    <>
      <header class="head">
        <h1>
          {kind} {name}
        </h1>
        <Link to={['documents', kind]}>all of this kind</Link>
        {shown?.spec && origin?.from === 'api' && may('administer') && (
          <span class="push">
            <Order
              label="Delete"
              title={`Delete ${kind} ${name}`}
              danger
              give={async () => {
                await request('DELETE', path, { headers: { 'if-match': etag! } });
                go(['documents', kind]);
              }}
            >
              <p>The document is removed from the store. It is refused while another document needs it.</p>
            </Order>
          </span>
        )}
      </header>
      <ProblemNote error={error} />
      {shown === undefined && error === undefined && <Loading what={name} />}
      {shown && shown.spec === undefined && (
        <Empty title="This machine has no document">
          <Link to={['register']}>Register it</Link>
        </Empty>
      )}
      {shown?.spec && (
        <Editor
          key={etag}
          plural={PLURAL[kind]}
          document={plainOf(shown)}
          etag={etag}
          file={origin?.from === 'file' ? originText(shown.status) : undefined}
          done={(applied) => {
            if (applied === name) setRound(round + 1);
            else go(['documents', kind, applied]);
          }}
        />
      )}
    </>
  );
}

async function readOne(path: string, signal: AbortSignal): Promise<Read> {
  const response = await request('GET', path, { signal });
  const etag = response.headers.get('etag') ?? undefined;
  return { shown: (await response.json()) as Shown, ...(etag !== undefined && { etag }) };
}

const plainOf = ({ apiVersion, kind, metadata, spec }: Shown) => ({
  apiVersion,
  kind,
  metadata,
  ...(spec && { spec }),
});

function NewDocument({ kind }: { readonly kind: Kind }) {
  if (!may('administer'))
    return (
      <ProblemNote
        error={new Problem({ status: 403, code: '', detail: 'Only administrators write documents.' })}
      />
    );
  const document = {
    apiVersion: 'muster/v1' as const,
    kind,
    metadata: { name: 'new' },
    spec: BEGINNINGS[kind] as NonNullable<Shown['spec']>,
  };
  return (
    <>
      <header class="head">
        <h1>New {kind}</h1>
      </header>
      <Editor
        plural={PLURAL[kind]}
        document={document}
        etag={undefined}
        file={undefined}
        done={(name) => go(['documents', kind, name])}
      />
    </>
  );
}
