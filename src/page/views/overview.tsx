/** Whether all is well: what needs an operator, the worst first, and what was looked at. */
import type { Answer } from '../../api/operations.ts';
import { CLUSTER_CONDITIONS } from '../../cluster/health/condition.ts';
import { moment } from '../base/times.ts';
import { Badge, Link } from '../parts/badge.tsx';
import { commands, Loading, ProblemNote } from '../parts/note.tsx';
import { useResource } from '../parts/use.ts';
import { BootHost } from '../site/boot-host.tsx';
import { PendingOrders } from '../site/pending.tsx';

type Status = Answer<'GET /v1/status'>;

/** Events after which something may need an operator, or needs one no more. */
const TELLING = ['site.', 'machine.', 'cluster.', 'agent.ended', 'document'];

export function Overview() {
  const { value, error } = useResource('GET /v1/status', undefined, ({ kind }) =>
    TELLING.some((begin) => kind.startsWith(begin)),
  );
  return (
    <div class="stack">
      <header class="head">
        <h1>Overview</h1>
        {value && <Verdict status={value} />}
      </header>
      <ProblemNote error={error} />
      {value === undefined && error === undefined && <Loading what="what needs you" />}
      {value && value.concerns.length > 0 && (
        <ul class="plain stack" aria-label="What needs an operator">
          {value.concerns.map((concern) => (
            <ConcernCard key={`${concern.code} ${concern.subject} ${concern.text}`} concern={concern} />
          ))}
        </ul>
      )}
      <PendingOrders />
      {value && <Looked checked={value.checked} />}
      {value && <BootHost version={value.version} />}
    </div>
  );
}

function Verdict({ status: { concerns } }: { readonly status: Status }) {
  const urgent = concerns.filter(({ level }) => level === 'urgent').length;
  if (concerns.length === 0) return <Badge tone="good">all is well</Badge>;
  return (
    <>
      {urgent > 0 && <Badge tone="bad">{urgent} urgent</Badge>}{' '}
      {concerns.length > urgent && <Badge tone="warn">{concerns.length - urgent} can wait</Badge>}
    </>
  );
}

function ConcernCard({
  concern: { level, subject, text, fix },
}: {
  readonly concern: Status['concerns'][0];
}) {
  return (
    <li class="card">
      <p>
        <Badge tone={level === 'urgent' ? 'bad' : 'warn'}>{level}</Badge> <Subject name={subject} />:{' '}
        {commands(text)}
      </p>
      <p class="dim">{commands(quoted(fix))}</p>
    </li>
  );
}

/** The text with its commands between backquotes. */
const quoted = (fix: string): string =>
  fix.includes('`') ? fix : fix.replace(/\bmuster [^;,]+/g, (command) => `\`${command}\``);

/** What a concern is about, as a link to its view. */
function Subject({ name }: { readonly name: string }) {
  const [kind, of] = name.split('/');
  if (kind === 'Cluster' && of !== undefined) return <Link to={['clusters', of]}>{of}</Link>;
  if (of !== undefined) return <Link to={['documents', kind!, of]}>{name}</Link>;
  if (/^\d+ machines$/.test(name)) return <Link to={['fleet']}>{name}</Link>;
  return name === 'boot host' ? <b>{name}</b> : <Link to={['machines', name]}>{name}</Link>;
}

function Looked({ checked: { machines, clusters } }: { readonly checked: Status['checked'] }) {
  return (
    <section class="card" aria-label="What was looked at">
      <h2>Looked at</h2>
      <ul class="plain">
        <li>the boot host, its documents, keys and disk</li>
        <li>
          <Link to={['fleet']}>{machines === 1 ? '1 machine' : `${machines} machines`}</Link>
        </li>
        {clusters.map(({ name, condition, checks, at }) => (
          <li key={name}>
            <Link to={['clusters', name]}>{name}</Link>{' '}
            <Badge tone={CLUSTER_CONDITIONS[condition].tone}>{condition}</Badge>{' '}
            {at !== undefined && <span class="dim">{`${checks} checks, ${moment(at)}`}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
