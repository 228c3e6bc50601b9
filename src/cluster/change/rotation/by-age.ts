/**
 * Rotates the keys of clusters that have reached the age which their Cluster names
 * (`pki.rotateAfter`), and CAs that would end before it. The rotation is an ordinary one: it takes
 * the same steps on the same evidence, is held for the same reasons, and an operator can pause it
 * or roll it back.
 */
import type { z } from 'zod';
import type { Clock } from '../../../base/clock.ts';
import { duration, type Millis } from '../../../base/duration.ts';
import { type Aged, type Generation, type KeysetOf, primaryOf } from '../../../pki/keyset.ts';
import { ROTATED, type Rotated } from '../../../pki/keysets.ts';
import type { Pki } from '../../../pki/pki.ts';
import { readAuthority } from '../../../pki/x509.ts';
import { type Rounds, type RoundsDeps, startRounds } from '../../joining/rounds.ts';
import type { ResolvedCluster } from '../../model/resolved-cluster.ts';
import type { ChangeOrders } from '../change-orders.ts';
import type { ChangeRecord } from '../record.ts';
import type { rotationRequest } from './order.ts';

interface ByAgeDeps {
  readonly clock: Clock;
  readonly pki: Pick<Pki, 'keysets' | 'encryption'>;
  readonly orders: Pick<ChangeOrders, 'record' | 'begin'>;
  /** Why no rotation may begin by itself now, by the maintenance windows of the cluster. */
  readonly closed: (cluster: string) => string | undefined;
  /** Whether this server may act; a restored one may not, until it is known to be the only one. */
  readonly serves: () => boolean;
}

const EVERY = duration('10s');
/**
 * A CA that ends before `rotateAfter`, for example an imported one, is rotated after this part of
 * its life. No certificate that it signs lives longer than it does, and a rotation may be held
 * until an operator decides.
 */
const OF_LIFE = 0.5;
/**
 * Keysets that will reach the age within this part of it are rotated together with those that have
 * reached it, so that machines restart once. For the same time nothing begins by itself after a
 * rotation was rolled back.
 */
const SOON = 0.1;

/** Looks at the age of all clusters' keys from now on, until it is closed. */
export const startRotationsByAge = (deps: ByAgeDeps & RoundsDeps): Rounds =>
  startRounds<undefined>(
    deps,
    { every: EVERY, what: 'rotation by age', begin: () => undefined },
    ({ resolved }) => rotateIfDue(deps, resolved),
  );

/**
 * Begins a rotation of a cluster's keys if one is due.
 *
 * @throws {MusterError} what {@link ChangeOrders.begin} throws; the next round tries again
 */
export async function rotateIfDue(
  deps: ByAgeDeps,
  { name, pki }: Pick<ResolvedCluster, 'name' | 'pki'>,
): Promise<void> {
  if (pki.rotateAfter === undefined || !deps.serves() || deps.closed(name) !== undefined) return;
  const now = deps.clock.now();
  if (isQuiet(deps.orders.record(name), pki.rotateAfter, now)) return;
  const keysets = keysetsDue(await agesOf(deps.pki, name, pki.rotateAfter), now);
  if (keysets.length === 0) return;
  const request: z.input<typeof rotationRequest> = { kind: 'rotation', keysets: [...keysets] };
  await deps.orders.begin(name, request, 'muster');
}

/** Whether nothing may begin by itself: a change is under way, or was taken back lately. */
const isQuiet = (last: ChangeRecord | undefined, rotateAfter: Millis, now: number): boolean =>
  last !== undefined &&
  (last.ended === undefined || (last.ended.as === 'rolled-back' && now - last.ended.at < rotateAfter * SOON));

/** How long a keyset has had the generation that signs, and how long it may have it. */
export interface Age {
  /** When the generation was made, ms since 1970. */
  readonly born: number;
  /** The age at which it is rotated. */
  readonly due: Millis;
}

/** The ages of a cluster's keysets. */
async function agesOf(
  pki: ByAgeDeps['pki'],
  cluster: string,
  rotateAfter: Millis,
): Promise<ReadonlyMap<Rotated, Age>> {
  const keysets = await pki.keysets(cluster);
  const encryption = await pki.encryption(cluster);
  return new Map(
    ROTATED.flatMap((name) => {
      const keyset: KeysetOf<string, Aged & Partial<Pick<Generation, 'certificate'>>> | undefined =
        name === 'encryption' ? encryption : keysets.get(name);
      return keyset === undefined ? [] : [[name, ageOf(primaryOf(keyset), rotateAfter)] as const];
    }),
  );
}

function ageOf(
  { createdAt, certificate }: Aged & Partial<Pick<Generation, 'certificate'>>,
  rotateAfter: Millis,
): Age {
  const life = certificate === undefined ? undefined : readAuthority(certificate).notAfter - createdAt;
  const endsBefore = life !== undefined && life <= rotateAfter;
  return { born: createdAt, due: endsBefore ? ((life * OF_LIFE) as Millis) : rotateAfter };
}

/**
 * The keysets to rotate now: none while none has reached its age; otherwise all that have reached
 * it or will soon.
 */
export function keysetsDue(ages: ReadonlyMap<Rotated, Age>, now: number): readonly Rotated[] {
  const olderThan = (part: number): readonly Rotated[] =>
    [...ages].filter(([, { born, due }]) => now - born >= due * part).map(([name]) => name);
  return olderThan(1).length === 0 ? [] : olderThan(1 - SOON);
}
