/**
 * Looks every hour for CAs and certificates that end soon and were not renewed: events, metrics,
 * and warnings of `muster status`.
 */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis, spanText } from '../../base/duration.ts';
import type { Fault } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventSink } from '../../events/event.ts';
import { ALARMS, type AlarmLevel, alarmOf, type Ending, endingsOf } from '../../pki/outlook.ts';
import type { Pki } from '../../pki/pki.ts';
import { BMC_SCOPE, MUSTER_SCOPE } from '../../store/keys.ts';
import { pkiStandings } from './pki-standings.ts';
import { createRounds } from './rounds.ts';

const LOOK_EVERY = duration('1h');

interface EndingWatchDeps {
  readonly pki: Pick<Pki, 'scopes' | 'keysets' | 'issued'>;
  readonly agents: Parameters<typeof pkiStandings>[0];
  readonly events: EventSink;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
}

export interface EndingWatch {
  /** Looks now instead of at the next interval. */
  look(): Promise<void>;
  /** What ends soon, as of the last look. */
  warnings(): readonly Fault[];
  close(): Promise<void>;
}

interface Alarm {
  readonly scope: string;
  readonly level: AlarmLevel;
  readonly ending: Ending;
}

/** Starts to look. */
export function startEndingWatch(deps: EndingWatchDeps): EndingWatch {
  const { pki, agents, events, metrics, clock, log } = deps;
  let alarms: readonly Alarm[] = [];
  /** What events were recorded of, so that each end is one event for each level. */
  let recorded: ReadonlySet<string> = new Set();
  /** The series that were set, so that a kind that is gone does not keep its old time. */
  let shown: ReadonlyMap<string, { scope: string; what: string }> = new Map();

  const endings = async (scope: string): Promise<readonly Ending[]> => {
    const issued = await pki.issued(scope);
    const keysets = (await pki.keysets(scope)).values();
    return endingsOf({ keysets, issued, standing: pkiStandings(agents, scope, issued) });
  };

  const measure = (all: readonly { scope: string; endings: readonly Ending[] }[]): void => {
    const first = new Map<string, { scope: string; what: string; ends: number }>();
    for (const { scope, endings: ordered } of all)
      for (const { what, ends, renewedBy } of ordered)
        if (renewedBy !== 'demand' && renewedBy !== 'person' && !first.has(`${scope} ${what}`))
          first.set(`${scope} ${what}`, { scope, what, ends });
    for (const [key, labels] of shown)
      if (!first.has(key)) metrics.set('muster_pki_next_end_timestamp_seconds', labels, 0);
    for (const { scope, what, ends } of first.values())
      metrics.set('muster_pki_next_end_timestamp_seconds', { scope, what }, Math.floor(ends / 1000));
    shown = new Map([...first].map(([key, { scope, what }]) => [key, { scope, what }]));
    for (const { scope } of all)
      for (const { level } of ALARMS) {
        const count = alarms.filter((one) => one.scope === scope && one.level === level).length;
        metrics.set('muster_pki_alarms', { scope, level }, count);
      }
  };

  const round = async (): Promise<void> => {
    const all = await Promise.all(
      (await pki.scopes()).map(async (scope) => ({
        scope: nameOf(scope),
        endings: await endings(scope),
      })),
    );
    const now = clock.now();
    alarms = all.flatMap(({ scope, endings: some }) =>
      some.flatMap((ending) => {
        const level = alarmOf(ending, now);
        return level ? [{ scope, level, ending }] : [];
      }),
    );
    measure(all);
    const keyOf = ({ scope, level, ending }: Alarm): string =>
      `${scope} ${ending.what} ${ending.of} ${ending.ends} ${level}`;
    for (const alarm of alarms) if (!recorded.has(keyOf(alarm))) record(alarm, now);
    recorded = new Set(alarms.map(keyOf));
  };

  const record = (alarm: Alarm, now: number): void => {
    const { scope, level, ending } = alarm;
    const { what, of, ends, renewedBy } = ending;
    const ofBmc = scope === BMCS && renewedBy === 'muster';
    const ofMachine = renewedBy === 'agent' || renewedBy === 'kubelet' || ofBmc;
    events.record({
      kind: 'pki.ends-soon',
      subject: ofMachine ? of : scope === OWN || scope === BMCS ? OWN : `Cluster/${scope}`,
      reason: { code: level, text: textOf(alarm, now) },
      fields: { scope, what, of, until: new Date(ends).toISOString() },
    });
  };

  const failed = (error: string): void => log.error({ error }, 'cannot look for certificates that end soon');
  const rounds = createRounds({ clock, every: LOOK_EVERY, round, failed });
  rounds.soon();
  rounds.start();
  return {
    look: rounds.now,
    warnings: () => alarms.map((alarm) => ({ code: 'E_ENDS_SOON', message: textOf(alarm, clock.now()) })),
    close: rounds.close,
  };
}

/** The name of Muster's own scope in lists of clusters. */
const OWN = 'muster';
const BMCS = 'bmcs';
const nameOf = (scope: string): string => (scope === MUSTER_SCOPE ? OWN : scope === BMC_SCOPE ? BMCS : scope);

function textOf({ scope, ending }: Alarm, now: number): string {
  const { what, of, ends, renewedBy } = ending;
  const left = ends - now;
  const when = left <= 0 ? 'has ended' : `ends in ${spanText(left as Millis)}`;
  const todo =
    renewedBy === 'rotation'
      ? 'it has to be rotated'
      : scope === BMCS && renewedBy === 'muster'
        ? 'it should have been renewed: `muster bmc ls` says why not'
        : 'it should have been renewed: is its machine heard, and is its clock right?';
  return `${what} of ${of} (${scope}) ${when}; ${todo}`;
}
