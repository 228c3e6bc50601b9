/** Gathers what needs an operator, and records regularly what began and what ended. */
import type { EndingWatch } from '../agent/serve/ending-watch.ts';
import type { Clock } from '../base/clock.ts';
import { duration } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import type { Fault } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { LaterKeys } from '../cluster/change/later-keys.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import { type ClusterWord, clusterConditionOf } from '../cluster/health/condition.ts';
import type { HealthWatch } from '../cluster/health/health-watch.ts';
import { endOfSupport } from '../cluster/model/versions.ts';
import type { EventSink, Reason } from '../events/event.ts';
import { conditionOf } from '../machines/condition.ts';
import type { Roster } from '../machines/roster.ts';
import type { Exports } from '../pki/exported.ts';
import type { RunningBootService } from '../pxe/decide/boot-service.ts';
import type { Names } from '../pxe/names/names.ts';
import type { LiveCatalog } from '../resources/catalog.ts';
import { CONCERNS, type Concern, type ConcernCode, type ConcernFacts, concernsOf } from './concerns.ts';
import type { Daemon } from './daemon.ts';
import { incompleteImages } from './outlook.ts';

const EVERY = duration('15s');

export interface ConcernDeps {
  readonly daemon: Pick<Daemon, 'readiness'>;
  readonly catalog: LiveCatalog;
  readonly preview: RunningBootService;
  readonly roster: Pick<Roster, 'list' | 'heartbeats'>;
  /** Why a machine's agent waits for an operator; undefined when it does not. */
  readonly waits: (machine: string) => Reason | undefined;
  readonly exports: Pick<Exports, 'warnings'>;
  readonly endings: Pick<EndingWatch, 'warnings'>;
  readonly laterKeys: Pick<LaterKeys, 'warnings'>;
  readonly founding: Pick<FoundingOrders, 'isComplete' | 'record'>;
  readonly checked: Pick<HealthWatch, 'recent'>;
  /** Why the snapshots of a cluster are late; undefined when they are not. */
  readonly late: (cluster: string) => string | undefined;
  readonly clock: Pick<Clock, 'now'>;
  readonly names: Pick<Names, 'behind'>;
  readonly lost: () => ConcernFacts['lost'];
  /** How many orders wait for a second person. */
  readonly waiting: () => number;
  /** The free octets of the state directory, and what uploads leave free. */
  readonly space: () => Promise<NonNullable<ConcernFacts['space']>>;
}

/** What needs an operator now, and what was looked at to say so. */
export interface Overview {
  readonly concerns: readonly Concern[];
  readonly warnings: readonly Fault[];
  readonly incompleteImages: readonly string[];
  readonly checked: {
    readonly machines: number;
    /** `checks`: 0 for a cluster that was not looked at within three minutes, or is not founded. */
    readonly clusters: readonly {
      readonly name: string;
      readonly condition: ClusterWord;
      readonly checks: number;
      readonly at?: string;
    }[];
  };
}

/** Gathers what is known now; it asks no machine and no cluster. */
export async function overviewOf(deps: ConcernDeps): Promise<Overview> {
  const { catalog, roster, founding, checked, exports, endings, laterKeys } = deps;
  const [exported, space] = await Promise.all([exports.warnings(), deps.space().catch(() => undefined)]);
  const warnings = [...exported, ...endings.warnings(), ...laterKeys.warnings(), ...catalog.warnings()];
  const machines = roster.list().map(({ name, status }) => ({
    name,
    full: status.agent?.full,
    condition: conditionOf(status, { heard: roster.heartbeats.heard(name), waits: deps.waits(name) }),
  }));
  const clusters = catalog
    .list('Cluster')
    .filter(({ document }) => document.spec.kubernetes !== undefined)
    .map(
      ({
        document: {
          metadata: { name },
          spec: { kubernetes },
        },
      }) => {
        const health = checked.recent(name);
        const condition = clusterConditionOf(founding.isComplete(name), founding.record(name), health);
        const ends = endOfSupport(kubernetes!.version, deps.clock.now());
        return { ...{ name, health, condition, ends }, late: deps.late(name) };
      },
    );
  const images = incompleteImages(deps);
  return {
    concerns: concernsOf({
      ...{ machines, clusters, warnings, space, incompleteImages: images },
      checks: deps.daemon.readiness().checks,
      faults: catalog.faults(),
      waiting: deps.waiting(),
      lost: deps.lost(),
      names: deps.names.behind(),
    }),
    warnings,
    incompleteImages: images,
    checked: {
      machines: machines.length,
      clusters: clusters.map(({ name, condition, health }) => ({
        name,
        condition: condition.word,
        checks: health?.findings.length ?? 0,
        ...(health && { at: health.at }),
      })),
    },
  };
}

interface WatchDeps {
  readonly overview: () => Promise<Overview>;
  readonly events: EventSink;
  readonly metrics: Pick<Metrics, 'set'>;
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Log;
}

const CODES = Object.keys(CONCERNS) as ConcernCode[];

/**
 * Starts to look every 15 seconds: counts concerns, and records those that began or ended since the
 * last look. Machines have events of their own. Returns what ends it.
 */
export function watchConcerns({ overview, events, metrics, clock, log }: WatchDeps): () => void {
  let before: ReadonlyMap<string, Concern> | undefined;
  let stopped = false;
  let cancel = (): void => {};
  const record = ({ code, subject, text }: Concern, state: 'began' | 'ended'): void =>
    events.record({ kind: 'site.concern', subject, reason: { code, text }, fields: { state } });
  const look = async (): Promise<void> => {
    try {
      const { concerns } = await overview();
      for (const code of CODES) {
        const count = concerns.filter((one) => one.code === code).length;
        metrics.set('muster_concerns', { concern: code, level: CONCERNS[code].level }, count);
      }
      const own = concerns.filter(({ code }) => !code.startsWith('machine-'));
      // Numbers in its text change while a concern lasts, so kind and subject identify it.
      const now = new Map(own.map((one) => [`${one.code} ${one.subject}`, one]));
      for (const [key, one] of now) if (before && !before.has(key)) record(one, 'began');
      for (const [key, one] of before ?? []) if (!now.has(key)) record(one, 'ended');
      before = now;
    } catch (error) {
      log.debug({ error: messageOf(error) }, 'what needs an operator could not be gathered');
    }
    if (!stopped) cancel = clock.after(EVERY, () => void look());
  };
  void look();
  return () => {
    stopped = true;
    cancel();
  };
}
