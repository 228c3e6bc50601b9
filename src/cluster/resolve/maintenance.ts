/** When the maintenance windows of a Cluster are open. Pure. */
import type { Clock } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import type { Catalog } from '../../resources/catalog.ts';
import { DAYS, type MaintenanceSpec, type MaintenanceWindow } from '../../resources/maintenance-spec.ts';
import type { Upgraded, Windows } from './windows.ts';

const DAY = duration('1d');

export type Opening =
  | { readonly open: true }
  /** `at`: when the next window opens, ms since 1970; `text`: the same in the window's zone. */
  | { readonly open: false; readonly at: number; readonly text: string; readonly window: MaintenanceWindow };

/**
 * Whether one of the windows is open.
 *
 * @param now Ms since 1970.
 * @example
 * opening([{ days: ['sat'], time: '22:00', duration: '4h' }], Date.parse('2026-11-27T12:00:00Z'));
 * // { open: false, at: 1795903200000, text: '2026-11-28T22:00+00:00', window: … }
 */
export function opening(windows: readonly MaintenanceWindow[], now: number): Opening {
  const starts = windows.flatMap((window) =>
    startsOf(window, now).map((start) => ({ at: start.epochMilliseconds, start, window })),
  );
  if (starts.some(({ at, window }) => at <= now && now < at + duration(window.duration)))
    return { open: true };
  const next = starts.filter(({ at }) => at > now).sort((a, b) => a.at - b.at)[0]!;
  const text = next.start.toString({ smallestUnit: 'minute', timeZoneName: 'never' });
  return { open: false, at: next.at, text, window: next.window };
}

/**
 * The times at which a window opens, from the last one that may still be open to the next one. A
 * time that a change of the clocks skips opens it as much later.
 */
function startsOf(
  { days, time, zone = 'UTC', duration: length }: MaintenanceWindow,
  now: number,
): readonly Temporal.ZonedDateTime[] {
  const today = Temporal.Instant.fromEpochMilliseconds(now).toZonedDateTimeISO(zone).toPlainDate();
  const before = Math.ceil(duration(length) / DAY) + 1;
  return Array.from({ length: before + DAYS.length + 2 }, (_, n) => today.add({ days: n - before }))
    .filter(({ dayOfWeek }) => days === undefined || days.includes(DAYS[dayOfWeek - 1]!))
    .map((date) => date.toZonedDateTime({ timeZone: zone, plainTime: time }));
}

/** Why no further machine may go down now; undefined when one may. */
export function whyMaintenanceWaits(
  maintenance: MaintenanceSpec | undefined,
  now: number,
): string | undefined {
  if (maintenance === undefined) return undefined;
  const found = opening(maintenance.windows, now);
  return found.open ? undefined : `the maintenance window ${nameOf(found.window)} opens at ${found.text}`;
}

/** A window as its document describes it, e.g. `sat,sun 22:00 (4h, Europe/Berlin)`. */
const nameOf = ({ days, time, zone = 'UTC', duration: length }: MaintenanceWindow): string =>
  `${days?.join(',') ?? 'daily'} ${time} (${length}, ${zone})`;

/**
 * Why no machine gets its turn while the host's clock is in doubt, whatever the windows are: such a
 * clock cannot judge them, and no certificate of a machine that restarts could be renewed.
 */
function clockWaits(clock: Pick<Clock, 'doubt'>): string | undefined {
  const doubt = clock.doubt();
  return doubt && `the clock of the boot host is in doubt: ${doubt.text}`;
}

/** The windows of all Clusters, by their documents and the wall clock. */
export function windowsOf({
  catalog,
  clock,
}: {
  readonly catalog: Pick<Catalog, 'get'>;
  readonly clock: Pick<Clock, 'now' | 'doubt'>;
}): Windows {
  const settingOf = (cluster: string) => catalog.get('Cluster', cluster)?.document.spec.maintenance;
  const closed = (cluster: string, now = false) =>
    clockWaits(clock) ?? (now ? undefined : whyMaintenanceWaits(settingOf(cluster), clock.now()));
  const heldInUpgrades = (cluster: string, who: Upgraded): boolean | undefined => {
    const { controlPlanes, upgrades = controlPlanes } = settingOf(cluster) ?? {};
    return who === 'workers' ? upgrades : controlPlanes;
  };
  return {
    closed,
    closedForUpgrades: (cluster, who, now) => closed(cluster, now || !heldInUpgrades(cluster, who)),
  };
}
