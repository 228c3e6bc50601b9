/** Operators' orders about Muster's own keys, for example `muster pki rotate transport-ca`. */
import type { TicketKeys } from '../../../agent/identity/ticket-keys.ts';
import { MusterError } from '../../../base/errors.ts';
import { allGenerations } from '../../../pki/keyset.ts';
import { OWN_ROTATED, type OwnRotated } from '../../../pki/keysets.ts';
import type { Pki } from '../../../pki/pki.ts';
import { MUSTER_SCOPE } from '../../../store/keys.ts';
import type { Changes } from '../changes.ts';
import type { AnyKind } from '../kind.ts';
import { previewOf } from '../preview.ts';
import { type ChangeProgress, progressIn } from '../progress.ts';
import type { ChangeRecord } from '../record.ts';
import type { RotateRequest, Rotations } from '../rotation/rotations.ts';
import type { OwnOrder } from './order.ts';
import { transportCa } from './own-rotation.ts';

interface OwnRotationsDeps {
  readonly changes: Changes;
  readonly kind: AnyKind;
  readonly pki: Pick<Pki, 'keysets' | 'transition'>;
  readonly ticketKeys: () => Promise<TicketKeys>;
  /** The machines whose agents have a certificate. */
  readonly machines: () => readonly string[];
}

/**
 * Makes the operators' orders about Muster's own keys. Its functions ignore the cluster's name.
 *
 * @throws {MusterError} its functions: see {@link Rotations}
 */
export function createOwnRotations(deps: OwnRotationsDeps): Rotations {
  const { changes, kind } = deps;
  const progress = (record: ChangeRecord): ChangeProgress => progressIn(changes, record);

  const ordered = async ({ keysets, without, leave, emergency }: RotateRequest): Promise<OwnOrder> => {
    for (const name of without)
      if (!deps.machines().includes(name))
        throw new MusterError('E_USAGE', `${name} is not a machine whose agent has a certificate`);
    if (leave.length > 0)
      throw new MusterError('E_USAGE', "nothing but agents depends on Muster's own keys: use --without");
    const names = namesOf(keysets);
    const keyset = await transportCa(deps);
    const known = allGenerations(keyset).map(({ id }) => id);
    return {
      ...(names.includes('transport-ca') && { ca: { from: keyset.primary, known } }),
      ...(names.includes('ticket-secret') && { tickets: { from: (await deps.ticketKeys()).id() } }),
      ...(emergency && { emergency }),
    };
  };

  return {
    async preview(_, request) {
      const { pauseBefore, without } = request;
      const order = await ordered(request);
      const change = { cluster: MUSTER_SCOPE, id: 'preview', kind: kind.name, order, pauseBefore, without };
      const { record } = kind.begin(change, changes.record(MUSTER_SCOPE), { by: '', now: 0 });
      return previewOf(
        kind.steps(record),
        deps.machines().map((name) => ({ name, roles: [] })),
        without,
      );
    },
    async rotate(_, request, by) {
      const { pauseBefore, without } = request;
      const order = await ordered(request);
      const change = { cluster: MUSTER_SCOPE, kind: kind.name, order, pauseBefore, without };
      return progress(await changes.begin(change, by));
    },
    underWay: () => changes.record(MUSTER_SCOPE),
    show() {
      const record = changes.record(MUSTER_SCOPE);
      if (record) return progress(record);
      throw new MusterError('E_NOT_FOUND', "Muster's own keys were never rotated");
    },
    pause: async (_, by) => progress(await changes.pause(MUSTER_SCOPE, by)),
    resume: async (_, by) => progress(await changes.resume(MUSTER_SCOPE, by)),
    rollBack: async (_, by) => progress(await changes.rollBack(MUSTER_SCOPE, by)),
    async leaveOut(_, { without, leave }, by) {
      if (leave.length > 0)
        throw new MusterError('E_USAGE', "nothing but agents depends on Muster's own keys: use --without");
      return progress(await changes.leaveOut(MUSTER_SCOPE, without, by));
    },
  };
}

/** @throws {MusterError} E_USAGE for a name that is no key of Muster's own */
function namesOf(keysets: readonly string[]): readonly OwnRotated[] {
  if (keysets.length === 1 && keysets[0] === 'all') return OWN_ROTATED;
  const other = keysets.find((name) => !OWN_ROTATED.some((own) => own === name));
  if (other === undefined) return OWN_ROTATED.filter((name) => keysets.includes(name));
  throw new MusterError(
    'E_USAGE',
    `"${other}" is not a key of Muster's own: they are ${OWN_ROTATED.join(', ')}; for a key of a cluster, name the cluster`,
  );
}

/** Rotations of clusters, and under the name `_muster` those of Muster's own keys. */
export function withOwn(clusters: Rotations, own: Rotations): Rotations {
  const of = (cluster: string): Rotations => (cluster === MUSTER_SCOPE ? own : clusters);
  return {
    preview: (cluster, request) => of(cluster).preview(cluster, request),
    rotate: (cluster, request, by) => of(cluster).rotate(cluster, request, by),
    show: (cluster) => of(cluster).show(cluster),
    underWay: (cluster) => of(cluster).underWay(cluster),
    pause: (cluster, by) => of(cluster).pause(cluster, by),
    resume: (cluster, by) => of(cluster).resume(cluster, by),
    rollBack: (cluster, by) => of(cluster).rollBack(cluster, by),
    leaveOut: (cluster, what, by) => of(cluster).leaveOut(cluster, what, by),
  };
}
