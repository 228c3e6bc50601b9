/** How Muster reaches the BMC of a machine, by its documents. Pure. */
import type { MachineBmc, ProfileBmc } from '../resources/bmc-spec.ts';
import { BmcFault } from './bmc.ts';

/** A BMC as documents describe it. */
export type Reach = Omit<MachineBmc, 'protocol'> & {
  readonly protocol: NonNullable<MachineBmc['protocol']>;
};

/** What a Machine says of its BMC, over what its Profile says; undefined: it names none. */
export function reachOf(
  machine: { readonly bmc?: MachineBmc | undefined } | undefined,
  profile: { readonly bmc?: ProfileBmc | undefined } | undefined,
): Reach | undefined {
  if (machine?.bmc === undefined) return undefined;
  const merged = { ...profile?.bmc, ...machine.bmc };
  return { ...merged, protocol: merged.protocol ?? 'auto' };
}

/** What is locked while one part of Muster asks: a BMC, also where it has several machines. */
export const lockOf = ({ address, port }: Reach): string => `${address}/${port ?? ''}`;

/** The user and the reference of the password. @throws {BmcFault} where the documents name none */
export function loginOf({ credentials }: Reach): NonNullable<Reach['credentials']> {
  if (credentials) return credentials;
  throw new BmcFault('refused', 'no document says how to log in: write spec.bmc.credentials');
}
