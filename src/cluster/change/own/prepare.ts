/** How a rotation of Muster's own keys is ordered, for example `muster pki rotate transport-ca`. */
import type { TicketKeys } from '../../../agent/identity/ticket-keys.ts';
import { MusterError } from '../../../base/errors.ts';
import { allGenerations } from '../../../pki/keyset.ts';
import { OWN_ROTATED, type OwnRotated } from '../../../pki/keysets.ts';
import type { Pki } from '../../../pki/pki.ts';
import type { ChangeOrdered } from '../kind.ts';
import { isEmergency } from '../request.ts';
import { type OwnOrder, type OwnRequest, ownRequest } from './order.ts';
import { transportCa } from './own-rotation.ts';

interface OwnOrdersDeps {
  readonly pki: Pick<Pki, 'keysets' | 'transition'>;
  readonly ticketKeys: () => Promise<TicketKeys>;
}

/**
 * How rotations of Muster's own keys are ordered.
 *
 * @throws {MusterError} `prepare`: E_USAGE for a name that is no key of Muster's own, E_NO_KEYS
 *   while there is no transport CA
 */
export const ownOrders = (deps: OwnOrdersDeps): ChangeOrdered<OwnOrder, OwnRequest> => ({
  request: ownRequest,
  changes: 'muster',
  async prepare(cluster, { keysets, emergency: confirmed }) {
    const emergency = isEmergency(cluster, confirmed);
    const names = namesOf(keysets);
    const keyset = await transportCa(deps);
    const known = allGenerations(keyset).map(({ id }) => id);
    return {
      order: {
        ...(names.includes('transport-ca') && { ca: { from: keyset.primary, known } }),
        ...(names.includes('ticket-secret') && { tickets: { from: (await deps.ticketKeys()).id() } }),
        ...(emergency && { emergency }),
      },
      faults: [],
    };
  },
});

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
