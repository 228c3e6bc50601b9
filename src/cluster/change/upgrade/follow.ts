/** Begins an upgrade when an operator edits the versions in the document of a founded cluster. */
import { MusterError } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import type { EventSink } from '../../../events/event.ts';
import type { Catalog } from '../../../resources/catalog.ts';
import { askedFor, sameRelease } from '../../spec/mixed.ts';
import { type Running, releaseOf } from '../../spec/release.ts';
import type { ResolvedClusters } from '../../spec/resolved-clusters.ts';
import type { Upgrades } from './upgrades.ts';

interface FollowDeps {
  readonly catalog: Pick<Catalog, 'list' | 'subscribe'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly running: Running;
  readonly upgrades: Pick<Upgrades, 'begin'>;
  /** Whether an upgrade of the cluster is under way. */
  readonly isUnderWay: (cluster: string) => boolean;
  readonly events: EventSink;
  readonly log: Log;
}

/**
 * Follows the documents. Only an edit of the versions is an order: a newer Muster with other
 * defaults upgrades nothing by itself. What prevents the upgrade is an event, and `muster cluster
 * upgrade NAME start` tries again.
 *
 * @returns A function that ends it.
 */
export function followDocuments(deps: FollowDeps): () => void {
  const { catalog } = deps;
  /** Cluster → what its document asked for. */
  const asked = new Map<string, string>();
  for (const { document } of catalog.list('Cluster'))
    if (document.spec.kubernetes) asked.set(document.metadata.name, askedFor(document.spec.kubernetes));
  return catalog.subscribe((changes) => {
    for (const { kind, name, entry } of changes) {
      if (kind !== 'Cluster') continue;
      const spec = (entry as ReturnType<typeof catalog.list<'Cluster'>>[number] | undefined)?.document.spec;
      const now = spec?.kubernetes && askedFor(spec.kubernetes);
      const before = asked.get(name);
      if (now === undefined) asked.delete(name);
      else asked.set(name, now);
      if (before !== undefined && now !== undefined && before !== now) void begin(deps, name);
    }
  });
}

async function begin(
  { clusters, running, upgrades, isUnderWay, events, log }: FollowDeps,
  cluster: string,
): Promise<void> {
  const known = running.of(cluster);
  const resolved = clusters.get(cluster)?.resolved;
  if (known === undefined || resolved === undefined || sameRelease(known.release, releaseOf(resolved)))
    return;
  try {
    await upgrades.begin(cluster, { pauseBefore: [], without: [], maxUnavailable: 1 }, 'its document');
  } catch (error) {
    // `muster cluster upgrade --to` edits the document, and begins the upgrade itself.
    if (error instanceof MusterError && error.code === 'E_CHANGE' && isUnderWay(cluster)) return;
    const text = error instanceof Error ? error.message : String(error);
    log.warn({ cluster, err: error }, 'an upgrade cannot begin');
    events.record({
      kind: 'cluster.change',
      subject: `Cluster/${cluster}`,
      reason: {
        code: 'upgrade-refused',
        text: `The upgrade to ${resolved.kubernetes.version} does not begin: ${text}`,
      },
    });
  }
}
