/**
 * Whether the in-cluster objects are in place: one control plane that has applied the present ones
 * is enough. Pure.
 */
import { ageText } from '../../base/age.ts';
import type { Millis } from '../../base/duration.ts';
import { bad, type Finding, good } from './finding.ts';
import type { ApplierStatus, ObjectsStatus } from './objects-status.ts';

/** Characters of kubectl's words. */
const SHOWN = 240;

const namesOf = (appliers: readonly ApplierStatus[]): string =>
  appliers.map(({ machine }) => machine).join(', ');

export interface Circumstances {
  /** An API server is ready. */
  readonly served: boolean;
  readonly now: Millis;
  /** They may be on their way for so long. */
  readonly patience: Millis;
}

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
      `${namesOf(applied)} applied the present ones${rest.length > 0 ? `; not yet ${namesOf(rest)}` : ''}`,
    );
  if (!served)
    return bad(
      'objects',
      cluster,
      'the present ones are not applied: no API server is ready',
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
  if (given.length === 0) return 'the present ones are not applied: no control plane has asked for them yet';
  const refused = given.find(({ says }) => says !== undefined);
  const why = refused ? `; ${refused.machine} says: ${refused.says!.slice(0, SHOWN)}` : '';
  return `the present ones are not applied: ${namesOf(given)} at it for ${ageText(age)}${why}`;
}

function fixOf(appliers: readonly ApplierStatus[], given: readonly ApplierStatus[]): string {
  const refused = given.find(({ says }) => says !== undefined);
  if (refused)
    return `mend what it names, in the Cluster (add-ons: their files, objects and patches) or in the API; it is tried again by itself; on ${refused.machine}: journalctl -u muster-objects`;
  const [first = appliers[0]] = given;
  if (given.length > 0) return `on ${first!.machine}: journalctl -u muster-objects`;
  return `agents ask twice a minute; muster explain ${first!.machine}`;
}
