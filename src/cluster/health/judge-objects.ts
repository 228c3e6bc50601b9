/**
 * Judges whether the in-cluster objects are applied: it is enough that one control plane has
 * applied the current bundle. Pure.
 */

import { type Millis, spanText } from '../../base/duration.ts';
import { bad, type Finding, good } from './finding.ts';
import type { ApplierStatus, ObjectsStatus } from './objects-status.ts';

/** The number of characters of kubectl's message that are shown at most. */
const SHOWN = 240;

const namesOf = (appliers: readonly ApplierStatus[]): string =>
  appliers.map(({ machine }) => machine).join(', ');

interface Circumstances {
  /** Whether an API server is ready. */
  readonly served: boolean;
  readonly now: Millis;
  /** How long applying the objects may take, in milliseconds, before it is a fault. */
  readonly patience: Millis;
}

/** The finding about the in-cluster objects and add-ons of a cluster. */
export function judgeObjects(
  cluster: string,
  { appliers, lacking }: ObjectsStatus,
  { served, now, patience }: Circumstances,
): Finding {
  if (lacking !== undefined)
    return bad('objects', cluster, lacking.replace(/\.$/, ''), `muster addon ls ${cluster}`);
  const applied = appliers.filter(({ state }) => state === 'applied');
  const rest = appliers.filter(({ state }) => state !== 'applied');
  if (applied.length > 0)
    return good(
      'objects',
      cluster,
      `${namesOf(applied)} applied the current objects${rest.length > 0 ? `; not yet ${namesOf(rest)}` : ''}`,
    );
  if (!served)
    return bad(
      'objects',
      cluster,
      'the current objects are not applied: no API server is ready',
      'see the lines of the API servers',
    );
  const given = appliers.filter(({ state }) => state === 'given');
  const age = Math.max(0, ...given.map(({ since = now }) => now - since));
  const says = saysOf(given, age);
  return age < patience
    ? good('objects', cluster, says)
    : bad('objects', cluster, says, fixOf(appliers, given));
}

function saysOf(given: readonly ApplierStatus[], age: number): string {
  if (given.length === 0)
    return 'the current objects are not applied: no control plane has asked for them yet';
  const refused = given.find(({ says }) => says !== undefined);
  const why = refused ? `; ${refused.machine} says: ${refused.says!.slice(0, SHOWN)}` : '';
  return `the current objects are not applied: ${namesOf(given)} applying for ${spanText(age)}${why}`;
}

function fixOf(appliers: readonly ApplierStatus[], given: readonly ApplierStatus[]): string {
  const refused = given.find(({ says }) => says !== undefined);
  if (refused)
    return `correct what it names, in the Cluster (add-ons: their files, objects and patches) or in the API; it is retried automatically; on ${refused.machine}: journalctl -u muster-objects`;
  const [first = appliers[0]] = given;
  if (given.length > 0) return `on ${first!.machine}: journalctl -u muster-objects`;
  return `wait a minute: a settled agent polls every 30 seconds; if nothing changes: muster explain ${first!.machine}`;
}
