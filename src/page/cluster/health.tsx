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
      <table>
        <caption class="hidden">Members of etcd{view ? '' : ', which is not running yet'}</caption>
        <thead>
          <tr>
            <th scope="col">Member</th>
            <th scope="col">Heard</th>
            <th scope="col">Health</th>
            <th scope="col">Last decision</th>
          </tr>
        </thead>
        <tbody>
          {members.map((member) => (
            <tr key={member.name}>
              <td>
                <Link to={['machines', member.name]}>{member.name}</Link>
              </td>
              <td>
                {member.heardMsAgo === undefined ? 'not yet' : `${spanText(member.heardMsAgo)} ago`}{' '}
                {member.silent && <Badge tone="warn">silent</Badge>}
              </td>
              <td>
                {member.health && (
                  <Badge tone={member.health === 'serving' ? 'good' : 'warn'}>{member.health}</Badge>
                )}
              </td>
              <td class="dim">
                {leaving[member.name] ?? (member.decision && decisionText(member.decision))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

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
      <table>
        <thead>
          <tr>
            <th scope="col">Check</th>
            <th scope="col">Of</th>
            <th scope="col">Result</th>
          </tr>
        </thead>
        <tbody>
          {findings.map((one) => (
            <tr key={`${one.check} ${one.subject} ${one.says}`}>
              <td>
                <Badge tone={one.ok ? 'good' : 'bad'}>{one.check}</Badge>
              </td>
              <td>{one.subject}</td>
              <td>
                {one.says}
                {one.fix && <p class="dim">{commands(one.fix)}</p>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
