/** The members of a cluster's etcd as they assemble, its machines, and its health. */

import { useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { spanText } from '../../base/duration.ts';

import { ask } from '../base/http.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { allRows } from '../fleet/machines.ts';
import { Badge, Link } from '../parts/badge.tsx';
import { commands, Loading, ProblemNote } from '../parts/note.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { useOrder, useResource } from '../parts/use.ts';

type FoundingView = Answer<'GET /v1/clusters/:name/founding'>;

const ABOUT_CLUSTER = ['cluster.', 'agent.', 'machine.'];

export function Members({ cluster }: { readonly cluster: string }) {
  const { value, error } = useResource(
    'GET /v1/clusters/:name/founding',
    { params: { name: cluster } },
    ({ kind }) => ABOUT_CLUSTER.some((begin) => kind.startsWith(begin)),
  );
  const machines = allRows.value.filter((row) => row.cluster === cluster);
  const ready = machines.filter(({ condition }) => condition === 'ready').length;
  return (
    <div class="stack">
      <section class="card" aria-label="etcd">
        <h2>etcd</h2>
        <ProblemNote error={error} />
        {value === undefined && error === undefined && <Loading what="members" />}
        {value && <Assembly founding={value} />}
      </section>
      <section class="card" aria-label="Machines">
        <h2>Machines</h2>
        <p>
          {ready} of {machines.length} are ready.{' '}
          <Link to={['fleet']} query={{ cluster }}>
            Show them in the fleet
          </Link>
        </p>
        <progress max={machines.length} value={ready} aria-label="Machines that are ready" />
        <ul class="plain">
          {machines
            .filter(({ condition, trouble }) => condition !== 'ready' || trouble)
            .slice(0, 20)
            .map((row) => (
              <li key={row.name}>
                <Link to={['machines', row.name]}>{row.name}</Link>{' '}
                <Badge tone={row.tone}>{row.condition}</Badge> <span class="dim">{row.trouble?.text}</span>
              </li>
            ))}
        </ul>
      </section>
    </div>
  );
}

function Assembly({
  founding: { record, members, waiting, leaving, view },
}: {
  readonly founding: FoundingView;
}) {
  return (
    <>
      <p>
        {record?.founded ? (
          <Badge tone="calm">founded {moment(record.founded.at)}</Badge>
        ) : record ? (
          <Badge tone="busy">founding since {moment(record.openedAt)}</Badge>
        ) : (
          <Badge tone="calm">waits until all members have asked</Badge>
        )}
      </p>
      {waiting && <p class="note warn">{waiting}</p>}
      <Table
        label={`Members of etcd${view ? '' : ', which is not running yet'}`}
        columns={columnsOf(leaving)}
        rows={members}
        keyOf={({ name }) => name}
      />
    </>
  );
}

const columnsOf = (leaving: FoundingView['leaving']): readonly Cell<FoundingView['members'][number]>[] => [
  { heading: 'Member', cell: ({ name }) => <Link to={['machines', name]}>{name}</Link> },
  {
    heading: 'Heard',
    cell: ({ heardMsAgo, silent }) => (
      <>
        {heardMsAgo === undefined ? 'not yet' : `${spanText(heardMsAgo)} ago`}{' '}
        {silent && <Badge tone="warn">silent</Badge>}
      </>
    ),
  },
  {
    heading: 'Health',
    cell: ({ health }) => health && <Badge tone={health === 'serving' ? 'good' : 'warn'}>{health}</Badge>,
  },
  {
    heading: 'Last decision',
    cell: ({ name, decision }) => leaving[name] ?? (decision && decisionText(decision)),
  },
];

type Finding = Answer<'GET /v1/clusters/:name/status'>['findings'][number];
const FINDINGS: readonly Cell<Finding>[] = [
  { heading: 'Check', cell: ({ ok, check }) => <Badge tone={ok ? 'good' : 'bad'}>{check}</Badge> },
  { heading: 'Of', cell: ({ subject }) => subject },
  {
    heading: 'Result',
    cell: ({ says, fix }) => (
      <>
        {says}
        {fix && <p class="dim">{commands(fix)}</p>}
      </>
    ),
  },
];

type Decision = NonNullable<FoundingView['members'][number]['decision']>;
/** `start`, or `hold: why`. */
const decisionText = (decision: Decision): string =>
  decision.do === 'hold' ? `hold: ${decision.text}` : decision.do;

export function Health({ cluster }: { readonly cluster: string }) {
  const params = { name: cluster };
  const { value, error, reload } = useResource('GET /v1/clusters/:name/status', { params });
  const [verified, setVerified] = useState<Answer<'GET /v1/clusters/:name/status'> | undefined>(undefined);
  const { busy, error: refused, run } = useOrder();
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the health; that may take some seconds" />;
  const shown = verified ?? value;
  const order = (ok: boolean): number => Number(ok);
  const findings = shown.findings.toSorted((a, b) => order(a.ok) - order(b.ok));
  return (
    <div class="stack">
      <div class="line">
        <Badge tone={shown.ok ? 'good' : 'bad'}>
          {shown.ok ? 'healthy' : `${findings.filter(({ ok }) => !ok).length} findings`}
        </Badge>
        <span class="dim">
          checked {moment(shown.at)}; {commands(shown.scope)}
        </span>
        <button
          type="button"
          class="push"
          onClick={() => {
            setVerified(undefined);
            reload();
          }}
        >
          Check again
        </button>
        {may('operate', cluster) && (
          <button
            type="button"
            disabled={busy}
            onClick={() =>
              void run(async () => setVerified(await ask('POST /v1/clusters/:name/verify', { params })))
            }
          >
            {busy ? 'Probing …' : 'Check with probe pods'}
          </button>
        )}
      </div>
      <ProblemNote error={refused} />
      <Table
        label="Findings"
        columns={FINDINGS}
        rows={findings}
        keyOf={(one) => `${one.check} ${one.subject} ${one.says}`}
      />
    </div>
  );
}
