/**
 * `muster pki rotate` and `muster pki rotation`: checks an order and begins the rotation, or says
 * what it would do.
 */

import type { Clock } from '../../../base/clock.ts';
import { MusterError } from '../../../base/errors.ts';
import { noRoomForBridge } from '../../../pki/issue.ts';
import {
  type Aged,
  allGenerations,
  type Generation,
  type Keyset,
  type KeysetOf,
} from '../../../pki/keyset.ts';
import { keysetRow, ROTATED, type Rotated } from '../../../pki/keysets.ts';
import type { Pki } from '../../../pki/pki.ts';
import { readAuthority } from '../../../pki/x509.ts';
import type { FoundingStatus } from '../../etcd/status.ts';
import type { ResolvedCluster } from '../../model/resolved-cluster.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import { type Changes, ordersFor } from '../changes.ts';
import type { AnyKind } from '../kind.ts';
import { type ChangePreview, previewOf } from '../preview.ts';
import { type ChangeProgress, progressIn } from '../progress.ts';
import type { ChangeRecord } from '../record.ts';
import { type RotatedKeyset, type RotationOrder, rotationOrder } from './order.ts';

export interface RotateRequest {
  /** Names of keysets, or `all` alone. */
  readonly keysets: readonly string[];
  readonly pauseBefore: readonly string[];
  readonly without: readonly string[];
  readonly leave: readonly string[];
  /** The old keys end at once: see {@link RotationOrder.emergency}. */
  readonly emergency: boolean;
}

interface RotationsDeps {
  readonly changes: Changes;
  readonly kind: AnyKind;
  readonly pki: Pick<Pki, 'keysets' | 'encryption'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly founding: (cluster: string) => Promise<FoundingStatus>;
  readonly clock: Clock;
}

export interface Rotations {
  /**
   * What a rotation would do; changes nothing.
   *
   * @throws {MusterError} what `rotate` throws
   */
  preview(cluster: string, request: RotateRequest): Promise<ChangePreview>;
  /**
   * Begins a rotation.
   *
   * @throws {MusterError} E_NOT_FOUND for an unknown cluster, E_NO_KEYS when it has no keys yet,
   *   E_USAGE for an unknown keyset, machine or step, E_CHANGE while another change is under way or
   *   while etcd's members change
   */
  rotate(cluster: string, request: RotateRequest, by: string): Promise<ChangeProgress>;
  /** @throws {MusterError} E_NOT_FOUND when the cluster was never rotated */
  show(cluster: string): ChangeProgress;
  /** The change that is under way, or the last one, if there is one. */
  underWay(cluster: string): ChangeRecord | undefined;
  /** @throws {MusterError} E_CHANGE when no change is under way; the same holds for all orders. */
  pause(cluster: string, by: string): Promise<ChangeProgress>;
  resume(cluster: string, by: string): Promise<ChangeProgress>;
  /** @throws {MusterError} E_CHANGE also after the point of no return */
  rollBack(cluster: string, by: string): Promise<ChangeProgress>;
  /** Waits no longer for these machines, and leaves these things behind. */
  leaveOut(
    cluster: string,
    what: Pick<RotateRequest, 'without' | 'leave'>,
    by: string,
  ): Promise<ChangeProgress>;
}

/**
 * Makes the operators' orders about rotations.
 *
 * @throws {MusterError} its methods: see {@link Rotations}
 */
export function createRotations(deps: RotationsDeps): Rotations {
  const { changes, clusters } = deps;
  const orders = ordersFor(changes, 'rotation');
  const progress = (record: ChangeRecord): ChangeProgress => progressIn(changes, record);

  const resolvedOf = (cluster: string): ResolvedCluster => {
    const found = clusters.get(cluster)?.resolved;
    if (found === undefined) throw noCluster(cluster);
    return found;
  };

  /** The order, after everything was checked that must hold when a rotation begins. */
  const ordered = async (cluster: string, { keysets, without, leave, emergency }: RotateRequest) => {
    const resolved = resolvedOf(cluster);
    for (const name of without)
      if (!resolved.machines.some((machine) => machine.name === name))
        throw new MusterError('E_USAGE', `${name} is not a machine of ${cluster}`);
    const order: RotationOrder = {
      keysets: await keysetsOf(deps, cluster, keysets, emergency),
      leave: [...leave],
      ...(emergency && { emergency }),
    };
    if (emergency && order.keysets.some(({ name }) => name === 'encryption'))
      throw new MusterError(
        'E_USAGE',
        'a key that encrypts Secrets cannot end at once, because nothing could read them; rotate it with `muster pki rotate`',
      );
    const why = whyEtcdChanges(await deps.founding(cluster));
    if (why !== undefined)
      throw new MusterError('E_CHANGE', `${cluster}: ${why}; a rotation begins after that`);
    return { resolved, order };
  };

  return {
    async preview(cluster, request) {
      const { resolved, order } = await ordered(cluster, request);
      const { pauseBefore, without } = request;
      const change = { cluster, id: 'preview', kind: 'rotation', order, pauseBefore, without };
      const { record } = deps.kind.begin(change, changes.record(cluster), { by: '', now: 0 });
      return previewOf(deps.kind.steps(record), resolved.machines, without);
    },
    async rotate(cluster, request, by) {
      const { order } = await ordered(cluster, request);
      const { pauseBefore, without } = request;
      const record = await changes.begin({ cluster, kind: 'rotation', order, pauseBefore, without }, by);
      return progress(record);
    },
    underWay: (cluster) => changes.record(cluster),
    show(cluster) {
      const record = changes.record(cluster);
      if (record?.kind === 'rotation') return progress(record);
      throw new MusterError('E_NOT_FOUND', `the keys of "${cluster}" were never rotated`);
    },
    pause: async (cluster, by) => progress(await orders.pause(cluster, by)),
    resume: async (cluster, by) => progress(await orders.resume(cluster, by)),
    rollBack: async (cluster, by) => progress(await orders.rollBack(cluster, by)),
    async leaveOut(cluster, { without, leave }, by) {
      let record = changes.record(cluster);
      if (leave.length > 0) record = await orders.amend(cluster, (order) => leavingBehind(order, leave), by);
      if (without.length > 0 || record === undefined) record = await orders.leaveOut(cluster, without, by);
      return progress(record);
    },
  };
}

function leavingBehind(stored: unknown, leave: readonly string[]): RotationOrder {
  const order = rotationOrder.parse(stored);
  return { ...order, leave: [...new Set([...order.leave, ...leave])] };
}

async function keysetsOf(
  { pki, clock }: RotationsDeps,
  cluster: string,
  names: readonly string[],
  emergency: boolean,
): Promise<RotatedKeyset[]> {
  const keysets = await pki.keysets(cluster);
  const encryption = await pki.encryption(cluster);
  const known = new Map<string, KeysetOf<string, Aged>>(keysets);
  if (encryption) known.set('encryption', encryption);
  const all = ROTATED.filter((name) => known.has(name));
  // A key that encrypts Secrets cannot end at once.
  const every = emergency ? all.filter((name) => name !== 'encryption') : all;
  const wanted = names.length === 1 && names[0] === 'all' ? every : names;
  if (wanted.length === 0)
    throw new MusterError('E_USAGE', `name the keysets to rotate: all, or some of ${all.join(', ')}`);
  for (const name of wanted)
    if (!all.includes(name as Rotated))
      throw new MusterError('E_USAGE', `"${name}" is not a keyset of ${cluster}; they are ${all.join(', ')}`);
  return all
    .filter((name) => wanted.includes(name))
    .map((name): RotatedKeyset => {
      const keyset = known.get(name)!;
      return {
        name,
        from: keyset.primary,
        // A CA that an operator brought was made already, and waits to be the new one.
        known: allGenerations(keyset)
          .filter((one) => one.id === keyset.primary || !keyset.made.includes(one) || hasEnded(one, clock))
          .map(({ id }) => id),
        bridged: keysetRow(name).bridged === true && hasRoom(keysets.get(name as 'ca')!, clock),
      };
    });
}

/** Whether a CA has ended since it was brought. */
const hasEnded = ({ certificate }: Aged & Partial<Pick<Generation, 'certificate'>>, clock: Clock): boolean =>
  certificate !== undefined && readAuthority(certificate).notAfter <= clock.now();

/** Whether each trusted generation of a CA can sign a bridge. */
const hasRoom = ({ trusted }: Keyset, clock: Clock): boolean =>
  trusted.every(
    ({ certificate }) => certificate !== undefined && noRoomForBridge(certificate, clock.now()) === undefined,
  );

/** Why the members of etcd are not settled; undefined when they are. */
export function whyEtcdChanges({ record, view }: FoundingStatus): string | undefined {
  if (!record?.founded) return 'its etcd is not founded yet';
  if (record.reset) return 'it is being reset';
  if (record.restoring) return `the data of ${record.restoring.member} are being restored`;
  if (record.replacing) return `the member ${record.replacing.member} is being replaced`;
  const [leaving] = Object.keys(record.leaving ?? {});
  if (leaving !== undefined) return `${leaving} is being taken out`;
  const learner = view?.members.find((member) => member.learner);
  return learner && `${learner.name || 'a new member'} is a learner of etcd and does not vote yet`;
}
