/** Begins an upgrade when an operator edits the versions in the document of a founded cluster. */
import { errorTexts } from '../../../base/error-text.ts';
import { MusterError } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import type { EventSink } from '../../../events/event.ts';
import type { Catalog } from '../../../resources/catalog.ts';
import { askedFor, sameRelease } from '../../resolve/mixed.ts';
import { type Release, type Running, releaseOf } from '../../resolve/release.ts';
import type { ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { ChangeOrders } from '../change-orders.ts';
import type { ChangeRecord } from '../record.ts';
import type { UpgradeOrder } from './order.ts';

interface FollowDeps {
  readonly catalog: Pick<Catalog, 'list' | 'subscribe'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly running: Running;
  readonly orders: Pick<ChangeOrders, 'begin'>;
  /** The upgrade of a cluster that is under way. */
  readonly underWay: (cluster: string) => ChangeRecord<UpgradeOrder> | undefined;
  readonly events: EventSink;
  readonly log: Log;
}

/**
 * Follows the documents. Only an edit of the versions is an order: a newer Muster with other
 * defaults upgrades nothing by itself. What prevents the upgrade is an event, and `muster cluster
 * upgrade NAME` tries again.
 *
 * @returns A function that ends it.
 */
export function followDocuments(deps: FollowDeps): () => void {
  const { catalog } = deps;
  const textOf = errorTexts(deps.log);
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
      if (before !== undefined && now !== undefined && before !== now) void begin(deps, name, textOf);
    }
  });
}

async function begin(
  deps: FollowDeps,
  cluster: string,
  textOf: ReturnType<typeof errorTexts>,
): Promise<void> {
  const { clusters, running, orders, underWay, log } = deps;
  const known = running.of(cluster);
  const resolved = clusters.get(cluster)?.resolved;
  if (known === undefined || resolved === undefined) return;
  const wanted = releaseOf(resolved);
  const before = underWay(cluster);
  if (before) return warnUnless(deps, before, wanted);
  if (sameRelease(known.release, wanted)) return;
  try {
    await orders.begin(cluster, { kind: 'upgrade' }, 'its document');
  } catch (error) {
    // `muster cluster upgrade --to` edits the document, and begins the upgrade itself.
    const now = underWay(cluster);
    if (error instanceof MusterError && error.code === 'E_CHANGE' && now)
      return warnUnless(deps, now, wanted);
    const text = textOf(error, { cluster });
    log.warn({ cluster, err: error }, 'an upgrade cannot begin');
    refused(deps, cluster, `The upgrade to ${wanted.version} does not begin: ${text}`);
  }
}

/**
 * An upgrade that is under way goes to where it was ordered. When the document asks for something
 * else meanwhile, nothing happens by itself afterwards either: operators have to know.
 */
function warnUnless(deps: FollowDeps, { cluster, order }: ChangeRecord<UpgradeOrder>, wanted: Release): void {
  if (sameRelease(order.to, wanted) || sameRelease(order.from, wanted)) return;
  refused(
    deps,
    cluster,
    `The upgrade to ${order.to.version} continues, although the document asks for ${wanted.version} now. When it has ended, \`muster cluster upgrade ${cluster}\` goes there; \`muster change ${cluster} roll-back\` takes it back first.`,
  );
}

const refused = ({ events }: FollowDeps, cluster: string, text: string): void =>
  events.record({
    kind: 'cluster.change',
    subject: `Cluster/${cluster}`,
    reason: { code: 'upgrade-refused', text },
  });
