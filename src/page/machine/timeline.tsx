/** The timeline of a boot, drawn to scale, with what is wrong and every entry as text. */
import type { TimelineView } from '../../api/operations/timeline.ts';

import { place, setQuery } from '../base/place.ts';
import { moment, span } from '../base/times.ts';
import { Badge } from '../parts/badge.tsx';
import { Choice } from '../parts/field.tsx';
import { commands, Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { useResource } from '../parts/use.ts';
import { mark, ticks } from './scale.ts';

export function BootTimeline({ name }: { readonly name: string }) {
  const boot = place.value.query.boot;
  const { value, error } = useResource(
    'GET /v1/machines/:name/timeline',
    { params: { name }, query: { boot } },
    ({ subject }) => subject === name,
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the timeline" />;
  return (
    <div class="stack">
      <Verdicts verdicts={value.verdicts} over={value.boot?.outcome === 'ready'} />
      {value.boot === undefined ? (
        <Empty title="No boot of this machine was seen">Power it on and let it boot from the network.</Empty>
      ) : (
        <>
          <Boots timeline={value} boot={value.boot} />
          <Drawing timeline={value} start={Date.parse(value.boot.at)} />
          <Entries entries={value.entries} />
        </>
      )}
    </div>
  );
}

interface VerdictsProps extends Pick<TimelineView, 'verdicts'> {
  /** The boot has succeeded, so this is what delayed it. */
  readonly over: boolean;
}
function Verdicts({ verdicts, over }: VerdictsProps) {
  return (
    <>
      {verdicts.map(({ code, title, certainty, evidence, remedy }) => (
        <section key={code} class="card verdict" aria-label={title}>
          <h2>
            <Badge tone={over ? 'calm' : certainty === 'certain' ? 'bad' : 'warn'}>
              {over ? 'was' : certainty}
            </Badge>{' '}
            {title}
          </h2>
          <p>{commands(remedy)}</p>
          <details>
            <summary>Evidence ({evidence.length})</summary>
            <ul>
              {evidence.map((one) => (
                <li key={one.sequence}>
                  <time class="dim">{moment(one.at)}</time> {one.text}
                </li>
              ))}
            </ul>
          </details>
        </section>
      ))}
    </>
  );
}

type Boot = NonNullable<TimelineView['boot']>;
const OUTCOMES: Readonly<Record<string, 'good' | 'bad' | 'busy' | 'calm'>> = {
  ready: 'good',
  failed: 'bad',
  running: 'busy',
};

function Boots({ timeline, boot }: { readonly timeline: TimelineView; readonly boot: Boot }) {
  const length = Date.parse(boot.until) - Date.parse(boot.at);
  return (
    <div class="line">
      {timeline.boots.length > 1 && (
        <Choice
          label="Boot"
          value={boot.id}
          set={(id) => setQuery({ boot: id === timeline.boots[0]!.id ? undefined : id })}
          choices={timeline.boots.map((one) => [one.id, `${moment(one.at)}: ${one.outcome}`] as const)}
        />
      )}
      <p class="facts-line">
        <Badge tone={OUTCOMES[boot.outcome] ?? 'calm'}>{boot.outcome}</Badge> after {span(length)}, from{' '}
        {boot.from === 'network' ? 'the network' : 'its own disk'}, begun <time>{moment(boot.at)}</time>
      </p>
    </div>
  );
}

const WIDTH = 1000;
const LEFT = 130;
const ROW = 26;
/** A bar is never narrower, so that short stages can be seen. */
const LEAST = 3;

/** Bars of stages over time. The list of entries below says the same in words. */
function Drawing({ timeline, start }: { readonly timeline: TimelineView; readonly start: number }) {
  const { stages, entries } = timeline;
  const names = [...new Set(stages.map(({ stage }) => stage))];
  const length = Math.max(1, ...stages.map(({ to }) => Date.parse(to) - start));
  const x = (at: number): number => LEFT + (at / length) * (WIDTH - LEFT - 30);
  const height = names.length * ROW + 24;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the keyboard
    <section class="drawing" tabIndex={0} aria-label="Drawing of the boot">
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={summaryOf(timeline)}>
        {ticks(length, 8, mark).map(({ at, text }) => (
          <g key={at}>
            <line class="grid" x1={x(at)} x2={x(at)} y1={0} y2={height - 20} />
            <text x={x(at)} y={height - 6} text-anchor="middle">
              {text}
            </text>
          </g>
        ))}
        {names.map((name, n) => (
          <text key={name} x={LEFT - 10} y={n * ROW + 17} text-anchor="end">
            {name}
          </text>
        ))}
        {stages.map(({ stage, from, to }) => {
          const [a, b] = [x(Date.parse(from) - start), x(Date.parse(to) - start)];
          return (
            <rect
              key={`${stage} ${from}`}
              class="stage"
              x={a}
              y={names.indexOf(stage) * ROW + 5}
              width={Math.max(LEAST, b - a)}
              height={ROW - 10}
              rx={2}
            />
          );
        })}
        {entries.map(({ sequence, stage, sinceStart }) => (
          <line
            key={sequence}
            class="entry"
            x1={x(sinceStart)}
            x2={x(sinceStart)}
            y1={names.indexOf(stage) * ROW + 3}
            y2={names.indexOf(stage) * ROW + ROW - 3}
          />
        ))}
      </svg>
    </section>
  );
}

const summaryOf = ({ stages }: TimelineView): string =>
  stages.map(({ stage, from, to }) => `${stage} ${span(Date.parse(to) - Date.parse(from))}`).join(', ');

/** A gap of this length is shown between two entries. */
const LONG_GAP_MS = 1000;

const Entries = ({ entries }: Pick<TimelineView, 'entries'>) => (
  <table class="entries">
    <caption class="hidden">Everything that was heard of the machine in this boot</caption>
    <thead>
      <tr>
        <th scope="col" class="number">
          After
        </th>
        <th scope="col" class="wide-only">
          Stage
        </th>
        <th scope="col">What happened</th>
      </tr>
    </thead>
    <tbody>
      {entries.map((entry) => (
        <tr key={entry.sequence}>
          <td class="number">
            <time title={moment(entry.at)}>{span(entry.sinceStart)}</time>
          </td>
          <td class="dim wide-only">{entry.stage}</td>
          <td>
            {entry.gap >= LONG_GAP_MS && (
              <p class="gap-note">
                {span(entry.gap)} without a message{entry.waitedFor && `: ${entry.waitedFor}`}
              </p>
            )}
            {entry.text}
            {entry.duration !== undefined && <span class="dim"> ({span(entry.duration)})</span>}
            {entry.claim && (
              <span class="dim" title="Only the machine says so">
                {' '}
                · said by the machine
              </span>
            )}
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
