/** What the health of a cluster has to know of the change that is under way. Pure. */
import { spanText } from '../../base/duration.ts';
import type { UnderWay } from '../health/under-way.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { Release } from '../resolve/release.ts';
import type { Changes } from './changes.ts';
import type { ChangeRecord } from './record.ts';
import { isFor } from './step.ts';
import { upgradeOrder } from './upgrade/order.ts';

/** A view of at most this many machines names what each waits for. */
const NAMED = 3;

/**
 * The change of a cluster that is under way; undefined when there is none.
 *
 * @param now Wall-clock time, ms since 1970.
 */
export function underWayOf(
  changes: Pick<Changes, 'record' | 'kindOf' | 'waiting'>,
  { name: cluster, machines }: Pick<ResolvedCluster, 'name' | 'machines'>,
  now: number,
): UnderWay | undefined {
  const record = changes.record(cluster);
  if (record === undefined || record.ended) return undefined;
  const kind = changes.kindOf(record);
  const { paused, holding } = record;
  const step = kind.steps(record).find((one) => one.name === record.step);
  const releases = releasesOf(record);
  const restarts = (machine: string): readonly string[] => {
    const found = machines.find((one) => one.name === machine);
    if (!found || !step || !record.turns.includes(machine)) return [];
    if (record.evidence[machine] || !isFor(step.scope, found)) return [];
    return step.restarts(found.roles);
  };
  const waits = paused
    ? `paused by ${paused.by}`
    : (holding?.text ?? waitsText(changes.waiting(cluster), record));
  const back = record.route === 'back' ? ', which is being taken back' : '';
  return {
    id: record.id,
    kind: record.kind,
    says: `${titleOf(record, releases)}${back}: step ${record.step} for ${spanText(Math.max(0, now - record.since))}, ${waits}`,
    shows: `muster change ${cluster}`,
    ...(holding && !paused && { remedy: holding.remedy }),
    // What takes too long is a fault again; the engine then holds the change.
    restarts: (machine) => (holding ? [] : restarts(machine)),
    versions: (machine, program) =>
      restarts(machine).length > 0 || record.without.includes(machine)
        ? releases.map(({ versions }) => versions[program])
        : [],
  };
}

const releasesOf = ({ kind, order }: ChangeRecord): readonly Release[] => {
  const read = kind === 'upgrade' ? upgradeOrder.safeParse(order) : undefined;
  return read?.success ? [read.data.from as Release, read.data.to as Release] : [];
};

const titleOf = ({ kind }: ChangeRecord, [from, to]: readonly Release[]): string =>
  from && to ? `${kind} from ${from.version} to ${to.version}` : kind;

function waitsText(waiting: Readonly<Record<string, string>>, { turns, without }: ChangeRecord): string {
  const all = Object.entries(waiting);
  // Machines whose turn it is come first; the others wait for them.
  const first = all.filter(([name]) => turns.includes(name));
  const named = (first.length > 0 ? first : all).slice(0, NAMED);
  const more = all.length - named.length;
  const texts = named.map(([name, text]) => (name === '' ? text : `${name}: ${text}`));
  const out = without.length > 0 ? `; left out: ${without.join(', ')}` : '';
  if (texts.length === 0) return `nothing is waited for${out}`;
  return `waits for ${texts.join('; ')}${more > 0 ? `; and ${more} more` : ''}${out}`;
}
