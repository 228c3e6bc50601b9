/**
 * What operators order of changes, whatever their kind: to see what one would do, to begin, show,
 * pause, resume and roll it back, and to leave machines out.
 */
import { firstOf, MusterError } from '../../base/errors.ts';
import { clusterOfScope, MUSTER_SCOPE } from '../../store/keys.ts';
import { noCluster } from '../resolve/resolved-clusters.ts';
import type { Changes, LeftOut } from './changes.ts';
import type { AnyKind, ChangedMachine, Prepared } from './kind.ts';
import { shownScope, whySecond } from './orders.ts';
import { type ChangePreview, previewOf } from './preview.ts';
import { type ChangeProgress, progressOf } from './progress.ts';
import type { ChangeRecord } from './record.ts';
import type { ChangeRequest } from './request.ts';

/** Who orders something of a change that is under way. */
export interface OrderedBy {
  readonly by: string;
  /** The change that was seen: the order does not reach another one. Absent: any. */
  readonly id?: string | undefined;
}

export interface ChangeOrders {
  /**
   * What a change would do; changes nothing. What prevents it is in its faults.
   *
   * @throws {MusterError} E_NOT_FOUND for an unknown cluster, E_USAGE for an unknown machine or
   *   step and for a kind that is not for this cluster; what the kind's `prepare` throws
   */
  preview(cluster: string, request: ChangeRequest): Promise<ChangePreview>;
  /**
   * Begins a change.
   *
   * @throws {MusterError} what `preview` throws, E_CHANGE while another change is under way, the
   *   code of the first fault with all faults
   */
  begin(cluster: string, request: ChangeRequest, by: string): Promise<ChangeProgress>;
  /** @throws {MusterError} E_NOT_FOUND when the cluster had no change yet */
  show(cluster: string): ChangeProgress;
  /** The change that is under way, or the last one, if there is one. */
  record(cluster: string): ChangeRecord | undefined;
  /** @throws {MusterError} E_CHANGE when no change is under way; the same holds for all orders. */
  pause(cluster: string, by: OrderedBy): Promise<ChangeProgress>;
  resume(cluster: string, by: OrderedBy): Promise<ChangeProgress>;
  /** @throws {MusterError} E_CHANGE also after the point of no return */
  rollBack(cluster: string, by: OrderedBy): Promise<ChangeProgress>;
  /**
   * Waits no longer for machines, and leaves things behind.
   *
   * @throws {MusterError} E_USAGE for a machine that the cluster does not have or that has to stay
   */
  leaveOut(cluster: string, what: LeftOut, by: OrderedBy): Promise<ChangeProgress>;
}

/** What a scope of changes is: Muster itself, the agents of a cluster, or a cluster. */
const changedBy = (scope: string): AnyKind['changes'] =>
  scope === MUSTER_SCOPE ? 'muster' : clusterOfScope(scope) === scope ? 'cluster' : 'agents';
const WHOSE = {
  muster: `Muster itself, which is named ${MUSTER_SCOPE}`,
  agents: 'the agents of a cluster, which are named CLUSTER.agents',
  cluster: 'a cluster',
} as const;

/**
 * Makes the orders for changes of all kinds.
 *
 * @throws {MusterError} its methods: see {@link ChangeOrders}
 */
export function createChangeOrders(changes: Changes): ChangeOrders {
  const progress = (record: ChangeRecord): ChangeProgress =>
    progressOf(record, changes.kindOf(record), changes.waiting(record.cluster));

  const prepared = async (
    cluster: string,
    request: ChangeRequest,
  ): Promise<Prepared<unknown> & { readonly kind: AnyKind }> => {
    const kind = changes.kindOf(request);
    if (kind.changes !== changedBy(cluster))
      throw new MusterError(
        'E_USAGE',
        `a change of the kind ${kind.name} is not one of ${cluster}, but of ${WHOSE[kind.changes]}`,
      );
    refuseMachines(kind, cluster, changes.machinesOf(cluster), request.without ?? []);
    return { kind, ...(await kind.prepare(cluster, request)) };
  };

  const secondOf = (cluster: string, request: ChangeRequest): string | undefined =>
    changes.kindOf(request).replaces ? undefined : whySecond(cluster, changes.record(cluster));

  const seen = (cluster: string, { id }: OrderedBy): void => {
    const record = changes.record(cluster);
    if (id !== undefined && record?.id !== id)
      throw new MusterError(
        'E_CHANGE',
        `${shownScope(cluster)}: the change ${id} is not under way any more; the last one is ${record?.id}`,
      );
  };

  const ordered =
    (order: 'pause' | 'resume'): ChangeOrders['pause'] =>
    async (cluster, by) => {
      seen(cluster, by);
      return progress(await changes[order](cluster, by.by));
    };

  return {
    async preview(cluster, request) {
      const {
        kind,
        order,
        faults,
        machines,
        without,
        about = {},
        waits,
        hooks = [],
      } = await prepared(cluster, request);
      const { pauseBefore = [] } = request;
      const out = without ?? request.without ?? [];
      const change = { cluster, id: 'preview', kind: kind.name, order, pauseBefore, without: out };
      const { record } = kind.begin(change, undefined, { by: '', now: 0 });
      const second = secondOf(cluster, request);
      return {
        kind: kind.name,
        ...previewOf(kind.steps(record), machines ?? changes.machinesOf(cluster) ?? [], out),
        faults: second === undefined ? faults : [{ code: 'E_CHANGE', message: second }, ...faults],
        ...{ about, hooks },
        ...(waits !== undefined && { waits }),
      };
    },

    async begin(cluster, request, by) {
      const second = secondOf(cluster, request);
      if (second !== undefined) throw new MusterError('E_CHANGE', second);
      const { kind, order, faults, without, commit } = await prepared(cluster, request);
      const [first] = faults;
      if (first) throw new MusterError(first.code, `${shownScope(cluster)}: ${firstOf(faults)}`, { faults });
      await commit?.();
      const { pauseBefore = [] } = request;
      const out = without ?? request.without ?? [];
      return progress(
        await changes.begin({ cluster, kind: kind.name, order, pauseBefore, without: out }, by),
      );
    },

    record: (cluster) => changes.record(cluster),
    show(cluster) {
      const record = changes.record(cluster);
      if (record) return progress(record);
      throw new MusterError(
        'E_NOT_FOUND',
        `${shownScope(cluster)} had no change yet; \`muster cluster upgrade\`, \`muster cluster roll\` and \`muster pki rotate\` begin one`,
      );
    },
    pause: ordered('pause'),
    resume: ordered('resume'),
    async rollBack(cluster, by) {
      seen(cluster, by);
      const record = await changes.rollBack(cluster, by.by);
      await changes.kindOf(record).tookBack(record);
      return progress(record);
    },
    async leaveOut(cluster, what, by) {
      seen(cluster, by);
      const record = changes.record(cluster);
      if (record && !record.ended)
        refuseMachines(changes.kindOf(record), cluster, changes.machinesOf(cluster), what.without);
      return progress(await changes.leaveOut(cluster, what, by.by));
    },
  };
}

/** @throws {MusterError} E_USAGE, and E_NOT_FOUND for a cluster that is not known */
function refuseMachines(
  kind: AnyKind,
  cluster: string,
  machines: readonly ChangedMachine[] | undefined,
  names: readonly string[],
): void {
  for (const name of names) {
    if (machines === undefined) throw noCluster(cluster);
    const found = machines.find((one) => one.name === name);
    const why = found
      ? kind.mustStay(cluster, found)
      : kind.changes === 'muster'
        ? `${name} is not a machine whose agent has a certificate`
        : `${name} is not a machine of ${cluster}`;
    if (why !== undefined) throw new MusterError('E_USAGE', why);
  }
}
