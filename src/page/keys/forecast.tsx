/** What ends when, as a line of time. */
import type { ScopeStatus } from '../../api/operations/pki.ts';
import { now } from '../base/clock.ts';
import { moment } from '../base/times.ts';
import { ticks } from '../machine/scale.ts';
import { Badge } from '../parts/badge.tsx';
import { type Cell, Table } from '../parts/table.tsx';

const WIDTH = 1000;
const SIDE = 40;
const DAY_MS = 86_400_000;
/** As far as the server is asked to look ahead. */
export const AHEAD_DAYS = 400;

type Forecast = ScopeStatus['forecast'];

const ENDS: readonly Cell<Forecast[number]>[] = [
  {
    heading: 'What',
    cell: ({ alarm, what }) =>
      alarm ? <Badge tone={alarm === 'urgent' ? 'bad' : 'warn'}>{what}</Badge> : what,
  },
  { heading: 'Of', cell: ({ of }) => of },
  { heading: 'Ends', cell: ({ ends }) => moment(ends) },
  { heading: 'Renewed by', cell: ({ by }) => by },
];

/** Certificates that are renewed by themselves are small; what ends without that is large. */
export function Endings({ forecast }: { readonly forecast: Forecast }) {
  const start = now();
  const length = AHEAD_DAYS * DAY_MS;
  const x = (at: number): number => SIDE + (Math.max(0, at - start) / length) * (WIDTH - 2 * SIDE);
  const loud = forecast.filter((one) => one.does === 'ends' || one.alarm);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so it takes the keyboard */}
      <section class="drawing" tabIndex={0} aria-label="What ends when">
        <svg
          viewBox={`0 0 ${WIDTH} 74`}
          role="img"
          aria-label={`${forecast.length} renewals and ends in ${AHEAD_DAYS} days`}
        >
          {ticks(length, 14, (ms) => (ms === 0 ? 'now' : `${Math.round(ms / DAY_MS)} d`)).map(
            ({ at, text }) => (
              <g key={at}>
                <line class="grid" x1={x(start + at)} x2={x(start + at)} y1={4} y2={50} />
                <text x={x(start + at)} y={66} text-anchor="middle">
                  {text}
                </text>
              </g>
            ),
          )}
          {forecast.map((one) => (
            <circle
              key={`${one.what} ${one.of} ${one.at} ${one.does}`}
              class={one.alarm ? 'alarm' : one.does}
              cx={x(Date.parse(one.at))}
              cy={one.does === 'ends' ? 18 : 38}
              r={one.does === 'ends' ? 6 : 4}
            >
              <title>
                {one.what} of {one.of} {one.does === 'ends' ? 'ends' : 'is renewed'} {moment(one.at)}
              </title>
            </circle>
          ))}
        </svg>
      </section>
      <p class="dim">
        Upper row: ends, and nothing renews it by itself. Lower row: is renewed by itself. The table says the
        same.
      </p>
      {loud.length > 0 && (
        <>
          <h3>What ends without being renewed by itself</h3>
          <Table
            label="What ends"
            columns={ENDS}
            rows={loud}
            keyOf={(one) => `${one.what} ${one.of} ${one.at}`}
          />
        </>
      )}
    </>
  );
}
