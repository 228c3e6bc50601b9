/** How a rotation of a cluster's keys is ordered: `muster pki rotate` and `muster pki distrust`. */
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
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { ChangeOrdered } from '../kind.ts';
import { isEmergency } from '../request.ts';
import { etcdFaults } from '../settled.ts';
import { type RotatedKeyset, type RotationOrder, type RotationRequest, rotationRequest } from './order.ts';

interface RotationOrdersDeps {
  readonly pki: Pick<Pki, 'keysets' | 'encryption'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly founding: (cluster: string) => Promise<FoundingStatus>;
  readonly clock: Clock;
}

/**
 * How rotations are ordered.
 *
 * @throws {MusterError} `prepare`: E_NOT_FOUND for an unknown cluster, E_NO_KEYS when it has no
 *   keys yet, E_USAGE for an unknown keyset
 */
export const rotationOrders = (deps: RotationOrdersDeps): ChangeOrdered<RotationOrder, RotationRequest> => ({
  request: rotationRequest,
  async prepare(cluster, request) {
    if (deps.clusters.get(cluster)?.resolved === undefined) throw noCluster(cluster);
    const emergency = isEmergency(cluster, request.emergency);
    const order: RotationOrder = {
      keysets: await keysetsOf(deps, cluster, request.keysets, emergency),
      leave: [...request.leave],
      ...(emergency && { emergency }),
    };
    if (emergency && order.keysets.some(({ name }) => name === 'encryption'))
      throw new MusterError(
        'E_USAGE',
        'a key that encrypts Secrets cannot end at once, because nothing could read them; rotate it with `muster pki rotate`',
      );
    return { order, faults: etcdFaults(await deps.founding(cluster), 'rotation') };
  },
  leave: (order, things) => ({ ...order, leave: [...new Set([...order.leave, ...things])] }),
});

async function keysetsOf(
  { pki, clock }: RotationOrdersDeps,
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
